"""Files that a path of LOAD DATA matches (``LoadSemanticAnalyzer.matchFilesOrDir``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.wildcards import compile_wildcards
from hiveacid.errors import InvalidPathError, MissingDirectoryError
from hiveacid.ports.file_system import FileSystem

_PATTERN = re.compile(r"[*?\[{]")
_PART = re.compile(r"\[(?P<negated>[\^!]?)(?P<members>[^\]]{1,255})\]|.", re.DOTALL)
_SPECIAL = re.compile(r"[\\\[&~|^]")  # in brackets; not the range sign


@dataclass(frozen=True)
class SourceFile:
    """A file to be loaded: absolute path, size in bytes and time of its last change (ms)."""

    path: str
    size: int
    modified: int

    @property
    def name(self) -> str:
        """Return the last component of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Sources:
    """Files that a path matches, ordered by name; ``nested``: some lie in sub-directories."""

    files: tuple[SourceFile, ...]
    nested: bool


def find_sources(fs: FileSystem, path: str) -> Sources:
    """Find the files that a path matches: a file, a directory, or a pattern in its last part (``*``, ``?``, ``[…]``).

    Hidden files (``_x``, ``.x``), pipes, sockets and devices are ignored. Raises InvalidPathError if no file is left.
    """
    folder, _, last = path.rstrip("/").rpartition("/")
    if _PATTERN.search(folder):
        raise InvalidPathError(f"{path}: only the last part of the path may be a pattern")
    try:
        entries = fs.list_tree(path)
        root = path.rstrip("/")
    except MissingDirectoryError:
        entries = tuple(_matching(fs, folder, last, path))
        root = folder
    files = [
        entry for entry in entries if not entry.is_dir and not entry.is_special and not _is_hidden(entry.path)
    ]
    if not files:
        raise InvalidPathError(f"no files matching path {path}")
    found = tuple(SourceFile(f"{root}/{entry.path}", entry.size, entry.modified) for entry in files)
    return Sources(found, any("/" in entry.path for entry in files))


def _matching(fs: FileSystem, folder: str, last: str, path: str) -> list[FileEntry]:
    try:
        entries = fs.list_directory(folder or "/")
    except MissingDirectoryError:
        raise InvalidPathError(f"no files matching path {path}") from None
    try:
        pattern = _expression(last)
    except re.error as error:  # [z-a]
        raise InvalidPathError(f"{path}: {last} is not a pattern ({error})") from None
    return [entry for entry in entries if pattern.fullmatch(entry.path.partition("/")[0])]


def _expression(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern of a file name, as Hadoop's ``GlobPattern`` reads it, without ``{a,b}``."""
    pieces = [""]
    for part in _PART.finditer(pattern):
        if part[0] == "*":
            pieces.append("")
        else:
            pieces[-1] += _letter(part)
    return compile_wildcards(pieces, "[^/]")


def _letter(part: re.Match[str]) -> str:
    """Return the expression of one letter."""
    if part["members"] is not None:
        members = _SPECIAL.sub(r"\\\g<0>", part["members"])
        return f"[{'^/' if part['negated'] else ''}{members}]"
    return "[^/]" if part[0] == "?" else re.escape(part[0])


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))

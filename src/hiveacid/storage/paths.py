# ruff: noqa: PTH100, PTH111, PTH114, PTH116 - texts, as in storage/local_file_system.py
"""Local paths and URIs, each in one normal form; patterns of paths and names.

Patterns of paths are those of Hive's ``LoadSemanticAnalyzer.matchFilesOrDir``.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hiveacid.core.format.names import has_hidden_prefix
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import InvalidPathError, MissingDirectoryError, StorageError, UnsupportedFeatureError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.local_file_system import local_path

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_FILE = re.compile(r"file:", re.IGNORECASE)
S3 = frozenset({"s3", "s3a", "s3n"})
"""Three schemes of one store; Hadoop's current connector is s3a."""
OBJECT_STORES = S3 | {"gs", "abfs", "abfss"}
KNOWN = OBJECT_STORES | {"hdfs", "viewfs", "webhdfs", "swebhdfs", "o3fs", "ofs"}
_HDFS_PORT = ":8020"  # that of a URI without one (``HdfsClientConfigKeys``)
_MOUNTS = Path("/proc/self/mountinfo")
_LOCAL_TYPES = frozenset({"ext4", "xfs", "btrfs", "tmpfs", "zfs", "f2fs", "overlay"})


@dataclass(frozen=True)
class StorageUri:
    """Parts of a URI: ``s3a://bucket/wh/t`` is s3a, bucket, ``/wh/t`` (without a trailing slash)."""

    scheme: str
    authority: str
    path: str

    def __str__(self) -> str:
        """Return the URI."""
        return f"{self.scheme}://{self.authority}{self.path}"


def is_local(path: str) -> bool:
    """Tell whether a path or URI is in this machine's file tree; it may still be on a network mount."""
    return path.startswith("/") or bool(_FILE.match(path)) or not _SCHEME.match(path)


def parse_uri(path: str) -> StorageUri:
    """Return the parts of a URI, normalised but not decoded. Raises StorageError if a part is missing."""
    found = _SCHEME.match(path)
    if found is None:
        raise StorageError(f"not a URI: {path}")
    authority, _, rest = path[found.end() :].partition("/")
    scheme = found[1].lower()
    if not authority and scheme not in ("hdfs", "viewfs"):
        raise StorageError(
            f"{path} has no {'bucket' if scheme in S3 | {'gs'} else 'host'}: write {scheme}://NAME/…"
        )
    return StorageUri(scheme, authority, posixpath.normpath(f"/{rest}").replace("//", "/").rstrip("/"))


def absolute(path: str) -> str:
    """Return a user's path (relative to the working directory, or a URI) in its normal form.

    Local paths become plain absolute paths. Raises UnsupportedFeatureError for unknown schemes, StorageError for hosts in
    ``file:`` URIs.
    """
    if is_local(path):
        return local_path(path if _FILE.match(path) else os.path.abspath(os.path.expanduser(path)))
    uri = parse_uri(path)
    if uri.scheme not in KNOWN:
        raise UnsupportedFeatureError(
            f"{path}: the file system {uri.scheme}:// is not supported; use a local path or "
            + ", ".join(f"{scheme}://" for scheme in sorted(KNOWN))
        )
    return str(uri)


def real_path(path: str) -> str:
    """Return a path with every symbolic link resolved, so that a directory has only one path, for comparisons.

    ``hdfs://Name:8020/x`` is ``hdfs://name/x``, and ``abfs`` is another name of ``abfss``.
    """
    if is_local(path):
        return os.path.realpath(local_path(path))
    uri = parse_uri(_with_s3a(path))
    if uri.scheme == "hdfs":
        return str(replace(uri, authority=uri.authority.lower().removesuffix(_HDFS_PORT)))
    return str(replace(uri, scheme="abfss") if uri.scheme == "abfs" else uri)


def _with_s3a(path: str) -> str:
    uri = parse_uri(path)
    return str(replace(uri, scheme="s3a") if uri.scheme in S3 else uri)


def real_paths() -> Callable[[str], str]:
    """Return `real_path` for many paths at one moment: each directory above them is resolved once."""
    folders: dict[str, str] = {}

    def resolve(path: str) -> str:
        folder, _, name = local_path(path).rstrip("/").rpartition("/") if is_local(path) else ("", "", "")
        if not folder or not name:
            return real_path(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        plain = f"{folders[folder].rstrip('/')}/{name}"
        return os.path.realpath(plain) if os.path.islink(plain) else plain

    return resolve


def spark_path(path: str) -> str:
    """Return a path as Hadoop's ``Path`` takes it: with its scheme, nothing URL-encoded; S3 is always ``s3a``.

    Spark reads ``*?[]{}`` in it as patterns.
    """
    return f"file://{local_path(path)}" if is_local(path) else _with_s3a(path)


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
        entry
        for entry in entries
        if not entry.is_dir
        and not entry.is_special
        and not any(has_hidden_prefix(part) for part in entry.path.split("/"))
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


LONGEST_PATTERN = 4096
"""Characters of a pattern that a client may send."""


def compile_wildcards(pieces: Sequence[str], any_letter: str = ".", flags: int = 0) -> re.Pattern[str]:
    """Return the expression, for ``fullmatch``, of a text that consists of pieces with any text between them.

    ``pieces``: regular expressions of a fixed length, at least one. ``any_letter``: the letters that may lie between them.
    Each piece between two wildcards is matched at its first occurrence (an atomic group), so that nothing is tried again.
    A plain ``.*`` for each wildcard would take a time that is exponential in their number.
    """
    first, *rest = pieces
    middle = "".join(f"(?>{any_letter}*?{piece})" for piece in rest[:-1])
    end = f"{any_letter}*{rest[-1]}" if rest else ""
    return re.compile(f"{first}{middle}{end}", flags | re.DOTALL)


def is_on_local_disk(path: str) -> bool:
    """Tell whether a path lies on a file system of this machine, and not on one of a network."""
    try:
        return is_local(path) and os.stat(local_path(path)).st_dev in local_devices()
    except OSError:
        return False


def local_devices() -> frozenset[int]:
    """Return the device numbers of mounted local file systems; empty if the mounts cannot be read."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return frozenset()
    found = set()
    for line in lines:
        mount, _, source = line.partition(" - ")
        if source.split(" ")[0] in _LOCAL_TYPES:
            major, _, minor = mount.split(" ")[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)

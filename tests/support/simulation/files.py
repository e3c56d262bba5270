"""A file system of dictionaries, as the ports want it: a local disk, or an object store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from hiveacid.core.snapshot.directory_listing import FileEntry, is_as_listed
from hiveacid.errors import MissingDirectoryError, StorageError
from hiveacid.ports.clock import Clock
from hiveacid.ports.file_system import FileVersion


class MemoryFileSystem:
    """Implements :class:`hiveacid.ports.file_system.FileSystem`. Paths are absolute and plain.

    ``local``: files are moved and grow, and directories are renamed in one step.
    """

    def __init__(self, clock: Clock, *, local: bool = False) -> None:
        self.local = local
        self._clock = clock
        self._last = 0
        self.files: dict[str, bytes] = {}
        self._versions: dict[str, FileVersion] = {}
        self._numbers = count(1)
        self._directories: dict[str, None] = {"": None}

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        if root not in self._directories:
            raise MissingDirectoryError("the directory is not there", path=root)
        start, cut = root + "/", len(root) + 1
        found = [FileEntry(path[cut:], is_dir=True) for path in self._directories if path.startswith(start)]
        found += [self._entry(path, cut) for path in self.files if path.startswith(start)]
        found.sort(key=lambda entry: entry.path)
        return tuple(found)

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return tuple(entry for entry in self.list_tree(root) if "/" not in entry.path)

    def exists(self, path: str) -> bool:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return path in self.files or path in self._directories

    def make_directory(self, path: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        while path not in self._directories:
            self._directories[path] = None
            path = path.rpartition("/")[0]

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        data = self._file(path)
        first = max(0, len(data) + start) if start < 0 else start
        return data[first:] if length is None else data[first : first + length]

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        self.make_directory(path.rpartition("/")[0])
        self.files[path] = data
        self._versions[path] = (next(self._numbers), self._time())

    def file_version(self, path: str) -> FileVersion | None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return self._versions[path] if path in self.files else None

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        self.files[path] = self._file(path)[:start] + tail
        self._versions[path] = (self._versions[path][0], self._time())

    def move_file(self, source: str, target: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        data, version = self._file(source), self._versions[source]
        if target in self.files:
            raise StorageError(f"cannot move {source} to {target}: there is a file of that name")
        self.write_bytes(target, data)
        self._versions[target] = version
        del self.files[source]

    def link_file(self, source: str, target: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        data, version = self._file(source), self._versions[source]
        if target in self.files:
            raise StorageError(f"cannot link {source} to {target}: there is a file of that name")
        self.write_bytes(target, data)
        self._versions[target] = version

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        self.write_bytes(target, self._file(source)[:start] + tail)
        return start + len(tail)

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        if staging is not None and staging not in self._directories:
            raise StorageError(f"cannot create the directory {path}: {staging} is gone")
        if path in self._directories:
            return False
        if self.local:
            self.make_directory(path)
        return True

    def replaces_tail_in_place(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return self.local

    def renames_directories(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return self.local

    def move_directory(self, source: str, target: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        if source not in self._directories or self.exists(target):
            raise StorageError(f"cannot move {source} to {target}: one is missing, or the other one there")
        for one in [one for one in self._directories if one == source or one.startswith(f"{source}/")]:
            del self._directories[one]
            self.make_directory(target + one.removeprefix(source))
        for one in [one for one in self.files if one.startswith(f"{source}/")]:
            self.move_file(one, target + one.removeprefix(source))

    def delete_tree(self, path: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        below = path + "/"
        for one in [one for one in self.files if one == path or one.startswith(below)]:
            del self.files[one]
        for one in [one for one in self._directories if one == path or one.startswith(below)]:
            del self._directories[one]

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        kept = []
        for entry in sorted(entries, key=lambda entry: entry.path, reverse=True):
            path = f"{root}/{entry.path}".rstrip("/")
            if entry.is_dir and not any(
                one.startswith(f"{path}/") for one in (*self.files, *self._directories)
            ):
                self._directories.pop(path, None)
            elif path in self.files and is_as_listed(self._entry(path, len(root) + 1), entry):
                del self.files[path]
            elif self.exists(path):
                kept.append(entry.path)
        return tuple(sorted(kept))

    def _entry(self, path: str, cut: int) -> FileEntry:
        return FileEntry(
            path[cut:], is_dir=False, size=len(self.files[path]), modified=self._versions[path][1]
        )

    def _time(self) -> int:
        """Return the time of a change; no two have the same one, as pauses that matter are longer than a clock's step."""
        self._last = max(self._clock.now(), self._last + 1)
        return self._last

    def _file(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise StorageError(f"cannot read {path}: there is no such file") from None

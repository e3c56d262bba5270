"""A file system of dictionaries, as the ports want it."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import MissingDirectoryError, StorageError, UnsupportedFeatureError


class MemoryFileSystem:
    """Implements :class:`hiveacid.ports.file_system.FileSystem`. Paths are absolute and plain."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._directories: dict[str, None] = {"": None}

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        if root not in self._directories:
            raise MissingDirectoryError("the directory is not there", path=root)
        start, cut = root + "/", len(root) + 1
        found = [FileEntry(path[cut:], is_dir=True) for path in self._directories if path.startswith(start)]
        found += [
            FileEntry(path[cut:], is_dir=False, size=len(data))
            for path, data in self.files.items()
            if path.startswith(start)
        ]
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

    def write_bytes(self, path: str, data: bytes) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        self.make_directory(path.rpartition("/")[0])
        self.files[path] = data

    def replace_tail(self, path: str, start: int, tail: bytes, version: object = None) -> None:  # noqa: ARG002
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        self.files[path] = self._file(path)[:start] + tail

    def move_file(self, source: str, target: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        if target in self.files:
            raise StorageError(f"cannot move {source} to {target}: there is a file of that name")
        self.write_bytes(target, self._file(source))
        del self.files[source]

    def replaces_tail_in_place(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        return True

    def renames_directories(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """As in an object store: a compaction moves its files one by one."""
        return False

    def move_directory(self, source: str, target: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        raise UnsupportedFeatureError(f"cannot move {source} to {target}: there are no directories here")

    def delete_tree(self, path: str) -> None:
        """See :class:`hiveacid.ports.file_system.FileSystem`."""
        below = path + "/"
        for one in [one for one in self.files if one == path or one.startswith(below)]:
            del self.files[one]
        for one in [one for one in self._directories if one == path or one.startswith(below)]:
            del self._directories[one]

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.file_system.FileSystem`. A file without a time is told by its size."""
        kept = []
        for entry in sorted(entries, key=lambda entry: entry.path, reverse=True):
            path = f"{root}/{entry.path}".rstrip("/")
            if entry.is_dir and not any(
                one.startswith(f"{path}/") for one in (*self.files, *self._directories)
            ):
                self._directories.pop(path, None)
            elif not entry.is_dir and len(self.files.get(path, b"")) == entry.size:
                self.files.pop(path, None)
            elif self.exists(path):
                kept.append(entry.path)
        return tuple(sorted(kept))

    def _file(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise StorageError(f"cannot read {path}: there is no such file") from None

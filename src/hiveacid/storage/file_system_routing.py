"""One file system for all locations: a path's scheme and host (or bucket) choose the file system behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import StorageError
from hiveacid.ports.file_system import FileSystem, FileVersion
from hiveacid.storage.arrow_file_system import blocks
from hiveacid.storage.local_file_system import LocalFileSystem, require_version
from hiveacid.storage.open_arrow_file_system import from_environment, open_arrow
from hiveacid.storage.paths import StorageUri, is_local, parse_uri

Opener = Callable[[StorageUri], FileSystem]


@dataclass(frozen=True)
class AnyFileSystem:
    """``ports.FileSystem`` for every path: local disks, and remote file systems that ``opener`` opens once each."""

    opener: Opener = field(default_factory=lambda: partial(open_arrow, lookup=from_environment))
    local: FileSystem = field(default_factory=LocalFileSystem)
    _opened: dict[tuple[str, str], FileSystem] = field(default_factory=dict, compare=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def at(self, path: str) -> FileSystem:
        """Return the file system of a path. Raises UnsupportedFeatureError, StorageError."""
        if is_local(path):
            return self.local
        uri = parse_uri(path)
        key = uri.scheme, uri.authority
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self.opener(uri)
            return self._opened[key]

    def renames_directories(self, path: str) -> bool:
        """See `ports.FileSystem`."""
        return self.at(path).renames_directories(path)

    def replaces_tail_in_place(self, path: str) -> bool:
        """See `ports.FileSystem`."""
        return self.at(path).replaces_tail_in_place(path)

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """See `ports.FileSystem`."""
        return self.at(root).list_tree(root)

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """See `ports.FileSystem`."""
        return self.at(root).list_directory(root)

    def exists(self, path: str) -> bool:
        """See `ports.FileSystem`."""
        return self.at(path).exists(path)

    def make_directory(self, path: str) -> None:
        """See `ports.FileSystem`."""
        self.at(path).make_directory(path)

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        """See `ports.FileSystem`; from another file system nothing is moved."""
        fs = self.at(path)
        return fs.claim_directory(path, staging if staging is not None and self.at(staging) is fs else None)

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `ports.FileSystem`."""
        return self.at(path).read_bytes(path, start, length)

    def write_bytes(self, path: str, data: bytes) -> None:
        """See `ports.FileSystem`."""
        self.at(path).write_bytes(path, data)

    def write_pieces(self, path: str, pieces: Iterable[bytes]) -> None:
        """See `ports.FileSystem`."""
        self.at(path).write_pieces(path, pieces)

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """See `ports.FileSystem`."""
        self.at(path).replace_tail(path, start, tail)

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> None:
        """See `ports.FileSystem`; between two file systems the file is copied through this process."""
        fs, other = self.at(target), self.at(source)
        if other is fs:
            fs.finish_file(source, target, start, tail)
        else:
            fs.write_pieces(target, chain(blocks(other, source, 0, start), [tail]))

    def move_file(self, source: str, target: str) -> None:
        """See `ports.FileSystem`; between two file systems the file is copied through this process."""
        fs = self.at(target)
        if self.at(source) is fs:
            fs.move_file(source, target)
            return
        self.copy_file(source, target)
        self.delete_tree(source)

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """See `ports.FileSystem`."""
        fs, other = self.at(target), self.at(source)
        if other is fs:
            fs.copy_file(source, target, length)
            return
        if fs.exists(target):
            raise StorageError(f"cannot copy {source} to {target}: the target exists")
        size = length if length is not None else size_of(other, source)
        fs.write_pieces(target, blocks(other, source, 0, size))

    def link_file(self, source: str, target: str, version: FileVersion | None = None) -> FileVersion:
        """See `ports.FileSystem`."""
        fs = self.at(target)
        if self.at(source) is fs:
            return fs.link_file(source, target, version)
        found = require_version(source, self.file_version(source) or (), version)
        self.copy_file(source, target)
        return found

    def file_version(self, path: str) -> FileVersion | None:
        """See `ports.FileSystem`."""
        return self.at(path).file_version(path)

    def move_directory(self, source: str, target: str) -> None:
        """See `ports.FileSystem`; both paths are in one file system."""
        self.at(target).move_directory(source, target)

    def delete_tree(self, path: str) -> None:
        """See `ports.FileSystem`."""
        self.at(path).delete_tree(path)

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """See `ports.FileSystem`."""
        return self.at(root).delete_listed(root, entries)


def size_of(fs: FileSystem, path: str) -> int:
    """Return a file's length in bytes. Raises StorageError if it does not exist."""
    folder, _, name = path.rpartition("/")
    found = next((one.size for one in fs.list_directory(folder) if one.path == name and not one.is_dir), None)
    if found is None:
        raise StorageError(f"cannot read {path}: no such file")
    return found

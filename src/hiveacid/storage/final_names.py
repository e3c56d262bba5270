"""Final names of staged files, and the version file of their directory, on every file system."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from hiveacid.core.format.names import ACID_VERSION_FILE
from hiveacid.errors import MissingDirectoryError, StorageError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.arrow_file_system import blocks


@dataclass(frozen=True)
class FinalNames:
    """Gives files their final names, which no reader sees before the commit. Several threads may share it.

    On local disks a file gets its new tail and is moved. Elsewhere (object stores, HDFS) the file system finishes it, and
    the staged file is deleted with its directory. No name is used twice, because an object store would replace the first
    file.
    """

    fs: FileSystem
    _taken: dict[str, set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def finish(self, source: str, target: str, start: int, tail: bytes) -> None:
        """Give a file a new tail and its final name. Old bytes after ``start`` may remain before it. Raises StorageError."""
        if self.fs.replaces_tail_in_place(target):
            self.fs.replace_tail(source, start, tail)
            self.fs.move_file(source, target)
            return
        self._take(target)
        self.fs.finish_file(source, target, start, tail)

    def join(self, parts: Sequence[tuple[str, int]], tail: bytes, target: str) -> int:
        """Make one file of parts (paths and lengths) and a tail; return its size. Raises StorageError.

        Several parts are copied, block by block. Old bytes of a single one may remain before the tail, as in `finish`.
        """
        if len(parts) == 1:
            ((source, size),) = parts
            self.finish(source, target, size, tail)
        else:
            self._take(target)
            data = chain.from_iterable(blocks(self.fs, source, 0, size) for source, size in parts)
            self.fs.write_pieces(target, chain(data, [tail]))
        return sum(size for _, size in parts) + len(tail)

    def _take(self, target: str) -> None:
        folder, _, name = target.rpartition("/")
        with self._lock:
            if folder not in self._taken:
                self._taken[folder] = _paths_in(self.fs, folder)
            if name in self._taken[folder]:
                raise StorageError(f"cannot write {target}: the file exists")
            self._taken[folder].add(name)


def _paths_in(fs: FileSystem, folder: str) -> set[str]:
    try:
        return {entry.path for entry in fs.list_directory(folder)}
    except MissingDirectoryError:
        return set()


def stage_version_file(fs: FileSystem, staging: str) -> None:
    """Write the version file for `mark_directory` into a staging directory, which DROP TABLE deletes.

    Call it before `Transaction.open_check`: a file that is written later could lie in a table dropped and made again.
    """
    fs.write_bytes(f"{staging}/{ACID_VERSION_FILE}", b"2")


def mark_directory(fs: FileSystem, directory: str, staging: str) -> None:
    """Put the staged version file into a directory of a full ACID table."""
    fs.link_file(f"{staging}/{ACID_VERSION_FILE}", f"{directory}/{ACID_VERSION_FILE}")

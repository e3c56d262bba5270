"""File systems of ``pyarrow.fs`` behind the storage port: S3, Google Cloud Storage, Azure, HDFS.

A file appears under its name after its last byte, and readers ignore a directory until its write id commits. Object
stores have no renames, and need none: a process that dies while it writes leaves no file. On S3 such a process leaves
the parts of an unfinished upload, which a lifecycle rule of the bucket can delete. On HDFS a file gets its name by a
rename, and the process leaves a hidden file.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from hiveacid.core.snapshot.directory_listing import FileEntry, ancestors, is_as_listed
from hiveacid.errors import MissingDirectoryError, StorageError, UnsupportedFeatureError
from hiveacid.ports.file_system import FileSystem, FileVersion
from hiveacid.storage.local_file_system import require_version

if TYPE_CHECKING:
    import pyarrow.fs

BLOCK = 16 << 20
"""Bytes read at a time where a file is copied through this process."""
Copier = Callable[[str, str, int, bytes], bool]
"""Tries `finish_file` inside an object store: source, target, length of the copied part, tail. False: not done."""
_LARGEST_COPY = 5 << 30  # bytes; S3 copies larger objects only in parts


@dataclass(frozen=True)
class ArrowFileSystem:
    """``ports.file_system.FileSystem`` on one of Arrow's file systems.

    ``inner``: turns a URI into a path of ``fs``. ``renames``: True on HDFS, where a
    rename is one step, for directories too, and unfinished files are visible. False on object stores, where a file
    appears with its last byte. ``copier``: builds a file inside an object store (`finish_file`). OSError becomes
    StorageError with the path.
    """

    fs: pyarrow.fs.FileSystem
    inner: Callable[[str], str]
    renames: bool = False
    copier: Copier | None = None

    def renames_directories(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """See `ports.file_system.FileSystem`."""
        return self.renames

    def replaces_tail_in_place(self, path: str) -> bool:  # noqa: ARG002 - the same everywhere
        """Return False: neither HDFS nor object stores overwrite a part of a file."""
        return False

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """List everything below ``root``, sorted by path, with one request per 1,000 objects at any depth.

        Raises MissingDirectoryError if nothing is there.
        """
        return self._list(root, recursive=True)

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """List one directory, sorted by path. Raises MissingDirectoryError if nothing is there."""
        return self._list(root, recursive=False)

    def _list(self, root: str, *, recursive: bool) -> tuple[FileEntry, ...]:
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - Arrow only when it is needed

        base = self.inner(root)
        with _storage_errors("list", root):
            try:
                found = self.fs.get_file_info(FileSelector(base, recursive=recursive))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingDirectoryError("the directory is not there", path=root) from error
        cut = len(base.rstrip("/")) + 1
        return tuple(
            sorted(
                (
                    FileEntry(
                        info.path[cut:],
                        info.type == FileType.Directory,
                        info.size or 0,
                        int(info.mtime_ns or 0) // 1_000_000,
                    )
                    for info in found
                ),
                key=lambda entry: entry.path,
            )
        )

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""
        return self._type(path) is not None

    def _type(self, path: str) -> str | None:
        from pyarrow.fs import FileType  # noqa: PLC0415 - Arrow only when it is needed

        with _storage_errors("look at", path):
            found = self.fs.get_file_info(self.inner(path)).type
        return None if found == FileType.NotFound else "directory" if found == FileType.Directory else "file"

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is not an error."""
        with _storage_errors("create the directory", path):
            self.fs.create_dir(self.inner(path), recursive=True)

    def claim_directory(self, path: str, staging: str | None = None) -> bool:  # noqa: ARG002 - nothing is moved
        """Tell whether nothing is in a directory; the first file makes it."""
        try:
            return not self.list_directory(path)
        except MissingDirectoryError:
            return True

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a range of a file, fewer bytes if it ends earlier (negative ``start``: counted from its end)."""
        with _storage_errors("read", path), self.fs.open_input_file(self.inner(path)) as file:
            size = file.size()
            start = min(size, max(0, size + start) if start < 0 else start)
            file.seek(start)
            data: bytes = file.read(size - start if length is None else min(length, size - start))
            return data

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - always is
        """Create or replace a small file."""
        self.write_pieces(path, (data,))

    def write_pieces(self, path: str, pieces: Iterable[bytes]) -> None:
        """Create or replace a file from successive pieces; it appears after the last one."""
        pieces = iter(pieces)
        first = next(pieces, b"")  # before a directory is made or a file replaced: its source may be gone
        target = self.inner(path)
        folder, _, name = target.rpartition("/")
        written = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp" if self.renames else target
        with _storage_errors("write", path):
            self._make_parent(path)
            try:
                with self.fs.open_output_stream(written) as file:
                    file.write(first)
                    for piece in pieces:
                        file.write(piece)
            except BaseException:
                # closing the stream has completed the file with the pieces written so far
                with suppress(OSError):
                    self.fs.delete_file(written)
                raise
            if written != target:
                with suppress(FileNotFoundError):
                    self.fs.delete_file(target)
                self.fs.move(written, target)

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """Write the whole file again with ``tail`` from ``start`` on; its bytes pass through this process."""
        size = self._size(path)
        if start > size:
            raise StorageError(f"cannot rewrite {path}: it ends before byte {start}")
        self.write_pieces(path, (*blocks(self, path, 0, start), tail))

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """See `ports.file_system.FileSystem`. Only the tail passes through this process, where the store offers a way."""
        if self.renames:
            try:
                with (
                    _storage_errors("append to", source),
                    self.fs.open_append_stream(self.inner(source)) as file,
                ):
                    file.write(tail)
                size = self._size(source)
            except StorageError:  # erasure-coded files, Ozone and others cannot grow
                pass
            else:
                self._rename(source, target)
                return size
        elif self.copier is not None and self.copier(source, target, start, tail):
            return start + len(tail)
        self.write_pieces(target, chain(blocks(self, source, 0, start), [tail]))
        return start + len(tail)

    def _rename(self, source: str, target: str) -> None:
        """Rename a file or directory. Parents are made only for one that is there, as on local disks."""
        with _storage_errors(f"move {source} to", target):
            try:
                self.fs.move(self.inner(source), self.inner(target))
            except OSError:
                if not self.exists(source):
                    raise
                self._make_parent(target)
                self.fs.move(self.inner(source), self.inner(target))

    def move_file(self, source: str, target: str) -> None:
        """Move a file to its final name. An existing target is a StorageError."""
        self._require_free(source, target)
        if self.renames:
            self._rename(source, target)
            return
        self._copy(source, target)
        with _storage_errors("delete", source):
            self.fs.delete_file(self.inner(source))

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """Copy a file, or its first ``length`` bytes, inside the store if possible. An existing target is a StorageError."""
        self._require_free(source, target)
        self._copy(source, target, length)

    def _copy(self, source: str, target: str, length: int | None = None) -> None:
        size = self._size(source)
        if self.renames or size > _LARGEST_COPY or (length is not None and length < size):
            self.write_pieces(target, blocks(self, source, 0, size if length is None else min(length, size)))
            return
        with _storage_errors(f"copy {source} to", target):
            self.fs.copy_file(self.inner(source), self.inner(target))

    def link_file(self, source: str, target: str, version: FileVersion | None = None) -> FileVersion:
        """Copy a file: these file systems have no links."""
        # before the copy, so that a later change differs from it
        found = require_version(source, self.file_version(source) or (), version)
        self.copy_file(source, target)
        return found

    def file_version(self, path: str) -> FileVersion | None:
        """Return size and time of change of a file; None if there is no file."""
        from pyarrow.fs import FileType  # noqa: PLC0415 - Arrow only when it is needed

        with _storage_errors("look at", path):
            info = self.fs.get_file_info(self.inner(path))
        return (int(info.size), info.mtime_ns or 0) if info.type == FileType.File else None

    def move_directory(self, source: str, target: str) -> None:
        """Rename a directory; its parents are made. An existing target is a StorageError."""
        if not self.renames:
            raise UnsupportedFeatureError(
                f"cannot move {source} to {target}: an object store has no directories"
            )
        self._require_free(source, target)
        self._rename(source, target)

    def delete_tree(self, path: str) -> None:
        """Delete a file or directory with its contents; a missing one is not an error."""
        found = self._type(path)
        with _storage_errors("delete", path), suppress(FileNotFoundError):
            if found == "file":
                self.fs.delete_file(self.inner(path))
            elif found == "directory":
                self.fs.delete_dir(self.inner(path))

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """See `ports.file_system.FileSystem`. Whole directories are deleted at once, after one more listing."""
        wanted = {entry.path: entry for entry in entries}
        try:
            now = self._list_again(root, {path.partition("/")[0] for path in wanted})
        except MissingDirectoryError:
            return ()
        kept = {entry.path for entry in now if not is_as_listed(entry, wanted.get(entry.path))}
        kept.update([directory for path in kept for directory in ancestors(path)], [""] if kept else [])
        deleted: set[str] = set()
        for path in sorted(wanted.keys() - kept):
            if not deleted.intersection(("", *ancestors(path))):
                self.delete_tree(f"{root}/{path}".rstrip("/"))
                deleted.add(path)
        return tuple(sorted(kept & wanted.keys()))

    def _list_again(self, root: str, tops: set[str]) -> Sequence[FileEntry]:
        """List a location, or only the one entry of it that is asked for."""
        top = next(iter(tops), "")
        if not top or len(tops) > 1:
            return self.list_tree(root)
        version = self.file_version(f"{root}/{top}")
        if version is not None:
            return [FileEntry(top, is_dir=False, size=version[0], modified=version[1] // 1_000_000)]
        below = self.list_tree(f"{root}/{top}")
        return [FileEntry(top, is_dir=True), *(entry._replace(path=f"{top}/{entry.path}") for entry in below)]

    def _size(self, path: str) -> int:
        from pyarrow.fs import FileType  # noqa: PLC0415 - Arrow only when it is needed

        with _storage_errors("look at", path):
            info = self.fs.get_file_info(self.inner(path))
        if info.type != FileType.File:
            raise StorageError(f"cannot read {path}: no such file")
        return int(info.size)

    def _require_free(self, source: str, target: str) -> None:
        if self.exists(target):
            raise StorageError(f"cannot bring {source} to {target}: the target exists")

    def _make_parent(self, target: str) -> None:
        if self.renames:
            self.fs.create_dir(self.inner(target).rpartition("/")[0], recursive=True)


def blocks(fs: FileSystem, path: str, start: int, stop: int) -> Iterator[bytes]:
    """Read a range of a file, block by block. Raises StorageError if the file ends before ``stop``."""
    for at in range(start, stop, BLOCK):
        wanted = min(BLOCK, stop - at)
        data = fs.read_bytes(path, at, wanted)
        if len(data) != wanted:
            raise StorageError(f"cannot copy {path}: it ends before byte {stop}")
        yield data


@contextmanager
def _storage_errors(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        told = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot {verb} {path}: {told}") from error

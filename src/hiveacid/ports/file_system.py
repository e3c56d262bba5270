"""Port for storage: listing, reading, publishing and deleting files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Protocol

from hiveacid.core.snapshot.directory_listing import FileEntry

FileVersion = tuple[int, ...]
"""Numbers that differ between two files, and between two contents of one file, as far as the storage tells."""


class FileSystem(Protocol):
    """Storage of tables: listing, reading, writing, publishing and deleting. Paths are absolute paths or URIs."""

    def renames_directories(self, path: str) -> bool:
        """Tell whether `move_directory` is one atomic step at ``path``."""

    def replaces_tail_in_place(self, path: str) -> bool:
        """Tell whether `replace_tail` at ``path`` writes the tail only; otherwise it writes the whole file again."""

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """List everything below ``root``, hidden names and directories included, sorted by path.

        Raises MissingDirectoryError where ``root`` does not exist.
        """

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """List the entries of ``root`` itself, sorted by path. Raises MissingDirectoryError."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        """Tell whether a directory is new, so that its files are the caller's. Other storage than local disks only looks.

        On local disks it is created in one step, so that of two callers only one gets True. ``staging``: a directory of the
        caller from which the new one is moved. Raises StorageError if that is gone: the caller's table was dropped.
        """

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a range of a file (negative ``start``: from its end)."""

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace a small file; ``durable`` is False for a staged file, which `move_file` makes durable."""

    def write_pieces(self, path: str, pieces: Iterable[bytes]) -> None:
        """Create or replace a file from successive pieces, durably. It appears under its name after the last piece."""

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """Replace everything from byte ``start`` of a staged file on by ``tail``; `move_file` makes it durable."""

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """Give a staged file its final name and its end, durably (parents are made; the caller knows that none is there).

        The result begins with the first ``start`` bytes of ``source`` and ends with ``tail``. More bytes of ``source`` may
        lie between. ``source`` may be gone afterwards. Returns the size of the result.
        """

    def move_file(self, source: str, target: str) -> None:
        """Move a file to its final name, durably (parents are made; an existing target is an error)."""

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """Copy a file, or its first ``length`` bytes, durably (parents are made; an existing target is an error)."""

    def link_file(self, source: str, target: str, version: FileVersion | None = None) -> FileVersion:
        """Give a file a second name; storage without links copies it. Callers never change either file afterwards.

        ``version``: raise StorageError, and leave no second name, if the file has another version (`file_version`). Returns
        the version of the file that was linked or copied.
        """

    def file_version(self, path: str) -> FileVersion | None:
        """Return the version of a file, which changes when the file is replaced or rewritten; None if there is none."""

    def move_directory(self, source: str, target: str) -> None:
        """Move a directory to its final name, all at once (parents are made; an existing target is an error).

        Raises UnsupportedFeatureError where `renames_directories` is False.
        """

    def delete_tree(self, path: str) -> None:
        """Delete a file or directory with its contents; a missing one is not an error."""

    def delete_listed(self, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        """Delete the unchanged files of a listing, then its directories that are empty; return the paths that stay.

        ``entries``: of `list_tree`, or a part of it; path ``""`` is ``root`` itself. A file that has another size or time by
        now is another writer's and stays, as does every entry that was not listed. A caller that was paused after its last
        question to the store therefore deletes nothing of a table that others have made at the same place since. Of a
        symbolic link only the link is deleted.
        """


class FileRange:
    """The first ``size`` bytes of a file of a file system port, as a file object.

    A writer may append to the file meanwhile. Reads never go beyond ``size``.
    """

    closed = False

    def __init__(self, fs: FileSystem, path: str, size: int) -> None:
        """Start at the first byte; nothing is opened."""
        self._fs, self._path, self._size, self._at = fs, path, size, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: any offset can be read."""
        return True

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset; SEEK_END is the end of the range."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, length: int = -1) -> bytes:
        """Read at most ``length`` bytes, up to the end of the range."""
        left = max(0, self._size - self._at)
        data = self._fs.read_bytes(self._path, self._at, left if length < 0 else min(length, left))
        self._at += len(data)
        return data

    def close(self) -> None:
        """Do nothing: no file is open between two reads."""

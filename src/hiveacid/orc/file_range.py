"""Part of a file as a file object for Arrow's readers, read through a file system port."""

from __future__ import annotations

import io

from hiveacid.ports.file_system import FileSystem


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

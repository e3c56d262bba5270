"""Current lengths of files that a streaming writer may still extend.

Between the listing and the reading of the side file ``_flush_length``, the writer may have committed more rows, or closed
the file and removed the side file.
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.core.snapshot.listing import last_flush_length
from hiveacid.errors import StorageError
from hiveacid.ports.file_system import FileSystem


@dataclass(frozen=True)
class FlushLength:
    """Committed bytes of a file, its size in bytes, and the content of its side file (None: removed)."""

    length: int
    size: int
    side: bytes | None


def read_flush_length(fs: FileSystem, path: str, side: str, listed: int) -> FlushLength:
    """Read the committed length of a file that a listing showed with ``listed`` bytes and a side file.

    Raises StorageError.
    """
    try:
        data = fs.read_bytes(side)
    except StorageError:
        if fs.exists(side):
            raise
        size = _size(fs, path)
        return FlushLength(size, size, None)
    length = last_flush_length(data)
    return FlushLength(length, listed if length <= listed else _size(fs, path), data)


def _size(fs: FileSystem, path: str) -> int:
    folder, _, name = path.rpartition("/")
    return next((one.size for one in fs.list_directory(folder) if one.path == name), 0)

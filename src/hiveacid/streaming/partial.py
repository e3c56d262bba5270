"""A file as far as it may be read: its writer may be adding to it."""

from __future__ import annotations

import io
from pathlib import Path


class PartOfFile(io.RawIOBase):
    """The first ``length`` bytes of a local file."""

    def __init__(self, path: str, length: int) -> None:
        """Open the file."""
        self._file = Path(path.removeprefix("file://").removeprefix("file:")).open("rb")  # noqa: SIM115 - closed by `close`
        self._length = length

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be read anywhere."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; the end is that of the part."""
        return self._file.seek(*((self._length + offset,) if whence == io.SEEK_END else (offset, whence)))

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """Read what is left of the part, ``size`` bytes at most."""
        left = max(0, self._length - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))

    def size(self) -> int:
        """Return the length of the part."""
        return self._length

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

"""Ranges of a remote file that are fetched before Arrow asks for them.

Arrow's ORC reader asks for 128 KiB at a time, stream by stream. A remote file system takes some 20 ms to answer each request, so
that a stripe of 64 MB would take many seconds. The footer of the stripe tells which bytes Arrow needs for some columns. These are
fetched in few large pieces, several at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hiveacid.orc.tail import OrcTail, OrcType, data_streams
from hiveacid.ports.file_system import FileRange, FileSystem

_WHOLE = 1 << 20  # bytes that arrive in less time than the answer to a second request takes
_GAP = 1 << 20  # bytes between two ranges, likewise
_PIECE = 8 << 20
_AT_ONCE = 4


class FetchedRanges(FileRange):
    """A remote ORC file as a file object for one thread. What was not fetched is read when it is asked for."""

    def __init__(self, fs: FileSystem, path: str, size: int) -> None:
        """Fetch a small file as a whole, of others nothing."""
        super().__init__(fs, path, size)
        self._footers: dict[int, bytes] = {}
        self._kept: dict[int, bytes] = {}
        if size <= _WHOLE:
            self._fetch([(0, size)])

    def fetch(self, tail: OrcTail, stripe: int, columns: Iterable[str] | None) -> None:
        """Fetch what Arrow reads of some columns of a stripe (``row.a``: a field); None for all. Earlier ranges are forgotten.

        Raises BadFileError, StorageError.
        """
        if self._size <= _WHOLE:
            if not self._kept:
                self._fetch([(0, self._size)])
            return
        info = tail.stripes[stripe]
        stop = info.offset + info.length
        start = stop - info.footer_length
        footer = self._footers.get(start)
        if footer is None:
            self._footers[start] = footer = self._fs.read_bytes(self._path, start, info.footer_length)
        ids = column_ids(tail.types, columns)
        streams = [
            (first, last)
            for column, first, last in data_streams(tail, info, footer)
            if column in ids and last <= start
        ]
        self._fetch(pieces(streams))
        self._kept[start] = footer

    def forget(self) -> None:
        """Give the memory of fetched ranges back."""
        self._kept = {}

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._kept = {}

        def read(part: tuple[int, int]) -> bytes:
            return self._fs.read_bytes(self._path, part[0], part[1] - part[0])

        if len(ranges) > 1:
            with ThreadPoolExecutor(min(_AT_ONCE, len(ranges)), thread_name_prefix="hiveacid-fetch") as pool:
                found = [*pool.map(read, ranges)]
        else:
            found = [*map(read, ranges)]
        for (start, stop), data in zip(ranges, found, strict=True):
            if len(data) == stop - start:
                self._kept[start] = data

    def read(self, length: int = -1) -> bytes:
        """Read at most ``length`` bytes, up to the end of the range."""
        left = max(0, self._size - self._at)
        length = left if length < 0 else min(length, left)
        data = self._fetched(self._at, self._at + length)
        if data is None:
            return super().read(length)
        self._at += length
        return data

    def _fetched(self, start: int, stop: int) -> bytes | None:
        """Return bytes of one fetched range, or of several that follow each other; None if some were not fetched."""
        parts, at = [], start
        while at < stop:
            found = next(((f, kept) for f, kept in self._kept.items() if f <= at < f + len(kept)), None)
            if found is None:
                return None
            first, kept = found
            parts.append(kept[at - first : stop - first])
            at += len(parts[-1])
        return b"".join(parts)


def column_ids(types: Sequence[OrcType], columns: Iterable[str] | None) -> Collection[int]:
    """Return the ids of columns (``row.a``: a field), of all that they are in, and of all in them; None for all columns."""
    if columns is None:
        return range(len(types))
    found = {0}
    for column in columns:
        node = 0
        for name in column.split("."):
            if name not in types[node].names:
                return ()
            node = types[node].children[types[node].names.index(name)]
            found.add(node)
        inside = [*types[node].children]
        while inside:
            node = inside.pop()
            found.add(node)
            inside += types[node].children
    return found


def pieces(streams: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges that cover streams, in order and without overlaps: with small gaps between them, and none too large."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(streams):
        if joined and start - joined[-1][1] <= _GAP:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        elif stop > start:
            joined.append((start, stop))
    return [(at, min(at + _PIECE, stop)) for start, stop in joined for at in range(start, stop, _PIECE)]

"""One ORC file out of the stripes of several, as a writer goes on after an intermediate footer.

A stripe does not know where it lies: only the footer does. So whole ORC files of one schema, codec and block
size, made in memory, give their stripes to a growing file, and a footer over all of them is put behind the
last (Hive's ``OrcFile`` writer does the same in ``writeIntermediateFooter``). What lies between stripes,
such as earlier footers, is passed over by every reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hiveacid.errors import BadFileError
from hiveacid.orc.compression import compress
from hiveacid.orc.merging import merge_statistics
from hiveacid.orc.protobuf import Message, encode_field
from hiveacid.orc.tail import OrcTail, parse_tail

HEADER = b"ORC"
"""What every ORC file begins with."""

_CONTENT_LENGTH, _STRIPES, _NUMBER_OF_ROWS, _STATISTICS, _CALENDAR = 2, 3, 6, 7, 11  # of the footer
_PROLEPTIC_GREGORIAN = 2  # how Arrow and pyorc count days; files without a mark are read so by Hive 3.1 only
_FOOTER_LENGTH, _METADATA_LENGTH = 1, 5  # of the postscript
_OFFSET = 1  # of a stripe's entry in the footer


@dataclass(frozen=True)
class Piece:
    """The stripes of one ORC file, bytes and description.

    ``body``: the file from its first stripe to the end of its last one; ``start`` is where that was in it.
    """

    body: bytes = field(repr=False)
    start: int
    tail: OrcTail = field(repr=False)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.tail.number_of_rows


@dataclass(frozen=True)
class Placed:
    """A piece whose bytes have their place in the growing file: what the footer has to say of it."""

    offset: int
    start: int
    tail: OrcTail = field(repr=False)


def cut(data: bytes, name: str = "an ORC file in memory") -> Piece:
    """Take the stripes of a whole ORC file. Raises BadFileError."""
    tail = parse_tail(data, len(data), name)
    start, end = extent(tail)
    return Piece(data[start:end], start, tail)


def extent(tail: OrcTail) -> tuple[int, int]:
    """Return where in its file the first stripe begins and the last one ends."""
    start = min((stripe.offset for stripe in tail.stripes), default=len(HEADER))
    return start, max((stripe.offset + stripe.length for stripe in tail.stripes), default=start)


def place(piece: Piece, offset: int) -> Placed:
    """Say that the piece's bytes lie at ``offset`` of the file."""
    return Placed(offset, piece.start, piece.tail)


def spliced_tail(pieces: Sequence[Placed], end: int, path: str) -> tuple[OrcTail, bytes]:
    """Return what follows the stripes of a file: metadata, footer and postscript over all pieces.

    ``end``: the offset it will be written at. Also returns it parsed, for `nest`. Raises BadFileError where the
    pieces differ in types, codec or block size.
    """
    first = _alike(pieces, path)
    source = first.source
    assert source is not None  # noqa: S101 - _alike
    metadata = b"".join(
        encode_field(1, b"".join(encode_field(1, raw) for raw in stripe.statistics.raw))
        for piece in pieces
        for stripe in piece.tail.stripes
    )
    metadata = compress(metadata, first.compression, source.block_size)
    footer = compress(_footer(pieces, end), first.compression, source.block_size)
    changed = {_FOOTER_LENGTH: len(footer), _METADATA_LENGTH: len(metadata)}
    postscript = b"".join(
        encode_field(item.number, changed.get(item.number, item.value), item.wire)
        for item in source.postscript.fields
    )
    data = metadata + footer + postscript + bytes([len(postscript)])
    return parse_tail(data, end + len(data), path), data


def _alike(pieces: Sequence[Placed], path: str) -> OrcTail:
    if not pieces:
        raise BadFileError("a file without any stripe has no footer to give it", path=path)
    first = pieces[0].tail
    for piece in pieces:
        tail = piece.tail
        if tail.source is None or first.source is None:
            raise BadFileError("an empty file has no stripes to give", path=path)
        same = (tail.types, tail.compression, tail.row_index_stride, tail.source.block_size)
        if same != (first.types, first.compression, first.row_index_stride, first.source.block_size):
            raise BadFileError("stripes of different schemas or codecs can't share a file", path=path)
    return first


def _footer(pieces: Sequence[Placed], end: int) -> bytes:
    footers = [piece.tail.source.footer for piece in pieces if piece.tail.source is not None]
    fresh = {
        _CONTENT_LENGTH: [encode_field(_CONTENT_LENGTH, end)],
        _STRIPES: list(_moved(pieces)),
        _NUMBER_OF_ROWS: [encode_field(_NUMBER_OF_ROWS, sum(piece.tail.number_of_rows for piece in pieces))],
        _STATISTICS: list(_statistics(pieces)),
    }
    out = []
    for item in footers[0].fields:
        if item.number in fresh:
            out.extend(fresh[item.number])
            fresh[item.number] = []
        else:
            out.append(encode_field(item.number, item.value, item.wire))
    if footers[0].integer(_CALENDAR) is None:
        out.append(encode_field(_CALENDAR, _PROLEPTIC_GREGORIAN))
    return b"".join(out)


def _moved(pieces: Sequence[Placed]) -> Iterable[bytes]:
    for piece in pieces:
        assert piece.tail.source is not None  # noqa: S101 - _alike
        for raw in piece.tail.source.footer.all_data(_STRIPES):
            yield encode_field(
                _STRIPES,
                b"".join(
                    encode_field(
                        item.number,
                        item.value - piece.start + piece.offset
                        if item.number == _OFFSET and isinstance(item.value, int)
                        else item.value,
                        item.wire,
                    )
                    for item in Message.parse(raw).fields
                ),
            )


def _statistics(pieces: Sequence[Placed]) -> Iterable[bytes]:
    columns = [piece.tail.column_statistics.raw for piece in pieces]
    if not all(columns):
        return
    for parts in zip(*columns, strict=True):
        yield encode_field(_STATISTICS, merge_statistics(parts))

"""Splice the stripes of several ORC files into one file.

Only the footer holds the offset of a stripe. The stripes of ORC files of one schema, codec and block size can therefore
follow one another in one file, before a footer over all of them. Readers ignore bytes between stripes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import merge_statistics, shorten_texts
from hiveacid.orc.tail import OrcTail, parse_tail
from hiveacid.orc.wire_format import ProtobufMessage, compress, encode_field

_OWN_SECTION = 1 << 31  # bytes of a section that Arrow wrote just now


HEADER = b"ORC"
"""First bytes of every ORC file."""

_CONTENT_LENGTH, _STRIPES, _NUMBER_OF_ROWS, _STATISTICS, _CALENDAR = 2, 3, 6, 7, 11  # of the footer
# Arrow and pyorc use this calendar. If a file lacks the mark, all readers but Hive 3.1 assume another one.
_PROLEPTIC_GREGORIAN = 2
_OFFSET = 1  # of a stripe's entry in the footer


@dataclass(frozen=True)
class StripeBlock:
    """Stripes of one ORC file: their bytes and the file's tail.

    ``body``: the file's bytes from its first stripe to the end of its last one; ``start``: offset of the first stripe.
    """

    body: bytes = field(repr=False)
    start: int
    tail: OrcTail = field(repr=False)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.tail.number_of_rows


@dataclass(frozen=True)
class PlacedStripes:
    """Stripes with their offset in the common file, for the merged footer."""

    offset: int
    start: int
    tail: OrcTail = field(repr=False)


def read_stripes(data: bytes, name: str = "an ORC file in memory") -> StripeBlock:
    """Return the stripes of an ORC file in memory, which Arrow or pyorc has just written. Raises BadFileError."""
    tail = parse_tail(data, len(data), name, _OWN_SECTION)
    start, end = stripe_extent(tail)
    return StripeBlock(data[start:end], start, tail)


def stripe_extent(tail: OrcTail) -> tuple[int, int]:
    """Return the offsets at which the first stripe begins and the last one ends."""
    start = min((stripe.offset for stripe in tail.stripes), default=len(HEADER))
    return start, max((stripe.offset + stripe.length for stripe in tail.stripes), default=start)


def place_stripes(piece: StripeBlock, offset: int) -> PlacedStripes:
    """Return the stripes placed at ``offset`` of the common file."""
    return PlacedStripes(offset, piece.start, piece.tail)


def orc_file_bytes(piece: StripeBlock) -> bytes:
    """Return the bytes of an ORC file with the stripes of one piece; its footer names the calendar."""
    body = HEADER + piece.body
    _, tail = merged_tail([place_stripes(piece, len(HEADER))], len(body), "an ORC file in memory")
    return body + tail


def merged_tail(pieces: Sequence[PlacedStripes], end: int, path: str) -> tuple[OrcTail, bytes]:
    """Return the tail of a file whose stripes are those of all pieces, parsed (for `nest_row_columns`) and as bytes.

    ``end``: the offset at which the tail will be written. Raises BadFileError if the pieces differ in types, codec or
    block size.
    """
    first = _require_same_format(pieces, path)
    source = first.source
    assert source is not None  # noqa: S101 - checked by _require_same_format
    metadata = b"".join(
        encode_field(1, b"".join(encode_field(1, shorten_texts(raw)) for raw in stripe.statistics.raw))
        for piece in pieces
        for stripe in piece.tail.stripes
    )
    metadata = compress(metadata, first.compression, source.block_size)
    footer = compress(_footer(pieces, end), first.compression, source.block_size)
    data = metadata + source.with_postscript(footer, metadata)
    return parse_tail(data, end + len(data), path), data


def _require_same_format(pieces: Sequence[PlacedStripes], path: str) -> OrcTail:
    if not pieces:
        raise BadFileError("files without any stripe have no footer to merge", path=path)
    first = pieces[0].tail
    for piece in pieces:
        tail = piece.tail
        if tail.source is None or first.source is None:
            raise BadFileError("an empty file has no stripes", path=path)
        file_format = (tail.types, tail.compression, tail.row_index_stride, tail.source.block_size)
        if file_format != (first.types, first.compression, first.row_index_stride, first.source.block_size):
            raise BadFileError("stripes of different schemas or codecs can't share a file", path=path)
    return first


def _footer(pieces: Sequence[PlacedStripes], end: int) -> bytes:
    footers = [piece.tail.source.footer for piece in pieces if piece.tail.source is not None]
    fresh = {
        _CONTENT_LENGTH: [encode_field(_CONTENT_LENGTH, end)],
        _STRIPES: list(_moved_stripes(pieces)),
        _NUMBER_OF_ROWS: [encode_field(_NUMBER_OF_ROWS, sum(piece.tail.number_of_rows for piece in pieces))],
        _STATISTICS: list(_statistics(pieces)),
    }
    out = []
    for number, wire, value in footers[0].fields:
        if number in fresh:
            out.extend(fresh[number])
            fresh[number] = []
        else:
            out.append(encode_field(number, value, wire))
    if footers[0].integer(_CALENDAR) is None:
        out.append(encode_field(_CALENDAR, _PROLEPTIC_GREGORIAN))
    return b"".join(out)


def _moved_stripes(pieces: Sequence[PlacedStripes]) -> Iterable[bytes]:
    for piece in pieces:
        assert piece.tail.source is not None  # noqa: S101 - checked by _require_same_format
        for raw in piece.tail.source.footer.all_data(_STRIPES):
            yield encode_field(
                _STRIPES,
                b"".join(
                    encode_field(
                        number,
                        value - piece.start + piece.offset
                        if number == _OFFSET and isinstance(value, int)
                        else value,
                        wire,
                    )
                    for number, wire, value in ProtobufMessage.parse(raw).fields
                ),
            )


def _statistics(pieces: Sequence[PlacedStripes]) -> Iterable[bytes]:
    columns = [piece.tail.column_statistics.raw for piece in pieces]
    if not all(columns):
        return
    for parts in zip(*columns, strict=True):
        yield encode_field(_STATISTICS, shorten_texts(merge_statistics(parts)))

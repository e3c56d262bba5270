"""Arrow batches as ORC stripes, and stripes of several files spliced into one.

Arrow writes most batches. It stores some values wrongly (`stored_values.is_beyond_arrow`): timestamps before 1970 with a
fraction of a second, and structs with a NULL struct in them. A batch with such values is written by pyorc, row by row,
which is slower but correct.

Only the footer holds the offset of a stripe. The stripes of ORC files of one schema, codec and block size can therefore
follow one another in one file, before a footer over all of them. Readers ignore bytes between stripes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc

from hiveacid.core.format.acid_columns import DELETE_EVENT, INSERT_EVENT, AcidColumn
from hiveacid.core.format.names import staged_column
from hiveacid.core.model import Column
from hiveacid.core.schema.types import Array, HiveType, Map, Primitive, Struct, parse_type
from hiveacid.errors import BadFileError, ConfigError, UnsupportedFeatureError
from hiveacid.orc.column_statistics import merge_statistics, shorten_texts
from hiveacid.orc.stored_values import arrow_type, is_beyond_arrow, to_stored_values, without_offset
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


def read_stripes(data: bytes) -> StripeBlock:
    """Return the stripes of an ORC file in memory, which Arrow or pyorc has just written. Raises BadFileError."""
    tail = parse_tail(data, len(data), "an ORC file in memory", _OWN_SECTION)
    start, end = stripe_extent(tail)
    return StripeBlock(data[start:end], start, tail)


def stripe_extent(tail: OrcTail) -> tuple[int, int]:
    """Return the offsets at which the first stripe begins and the last one ends."""
    start = min((stripe.offset for stripe in tail.stripes), default=len(HEADER))
    return start, max((stripe.offset + stripe.length for stripe in tail.stripes), default=start)


def place_stripes(piece: StripeBlock, offset: int) -> PlacedStripes:
    """Return the stripes placed at ``offset`` of the common file."""
    return PlacedStripes(offset, piece.start, piece.tail)


def merged_tail(pieces: Sequence[PlacedStripes], end: int, path: str) -> tuple[OrcTail, bytes]:
    """Return the tail of a file whose stripes are those of all pieces, parsed (for `nest_row_columns`) and as bytes.

    ``end``: the offset at which the tail will be written. Raises BadFileError if the pieces differ in types, codec or
    block size.
    """
    first = _require_same_format(pieces, path)
    block_size = first.source.block_size
    metadata = b"".join(
        encode_field(1, b"".join(encode_field(1, shorten_texts(raw)) for raw in stripe.statistics.raw))
        for piece in pieces
        for stripe in piece.tail.stripes
    )
    metadata = compress(metadata, first.compression, block_size)
    footer = compress(_footer(pieces, end), first.compression, block_size)
    data = metadata + first.source.with_postscript(footer, metadata)
    return parse_tail(data, end + len(data), path), data


def _require_same_format(pieces: Sequence[PlacedStripes], path: str) -> OrcTail:
    if not pieces:
        raise BadFileError("files without any stripe have no footer to merge", path=path)
    first = pieces[0].tail
    for piece in pieces:
        tail = piece.tail
        if not tail.types:
            raise BadFileError("an empty file has no stripes", path=path)
        file_format = (tail.types, tail.compression, tail.row_index_stride, tail.source.block_size)
        if file_format != (first.types, first.compression, first.row_index_stride, first.source.block_size):
            raise BadFileError("stripes of different schemas or codecs can't share a file", path=path)
    return first


def _footer(pieces: Sequence[PlacedStripes], end: int) -> bytes:
    columns = [piece.tail.column_statistics.raw for piece in pieces]
    fresh = {
        _CONTENT_LENGTH: [encode_field(_CONTENT_LENGTH, end)],
        _STRIPES: list(_moved_stripes(pieces)),
        _NUMBER_OF_ROWS: [encode_field(_NUMBER_OF_ROWS, sum(piece.tail.number_of_rows for piece in pieces))],
        _STATISTICS: [
            encode_field(_STATISTICS, shorten_texts(merge_statistics(parts)))
            for parts in (zip(*columns, strict=True) if all(columns) else ())
        ],
    }
    out = []
    for number, wire, value in pieces[0].tail.source.footer.fields:
        if number in fresh:
            out.extend(fresh[number])
            fresh[number] = []
        else:
            out.append(encode_field(number, value, wire))
    if pieces[0].tail.source.footer.integer(_CALENDAR) is None:
        out.append(encode_field(_CALENDAR, _PROLEPTIC_GREGORIAN))
    return b"".join(out)


def _moved_stripes(pieces: Sequence[PlacedStripes]) -> Iterable[bytes]:
    for piece in pieces:
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


_Values: TypeAlias = pa.Array | pa.ChunkedArray
_BLOCK = 65536  # bytes of a compressed block
_STRIDE = 10_000  # rows of a row group
_BATCH = 8192  # rows that Arrow writes at a time
# Largest share of distinct texts for which each is stored once, in a dictionary: the default of Java's writer.
_DICTIONARY = 0.8


@dataclass(frozen=True)
class RecordKeys:
    """Record keys of consecutive new rows: one write id and bucket property, row ids from ``first`` on."""

    write_id: int
    bucket: int
    first: int


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table's rows as one batch. Raises ConfigError for more text than one array can hold."""
    arrays = [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns
    ]
    if any(isinstance(array, pa.ChunkedArray) for array in arrays):
        raise ConfigError("too many bytes of one column at once: write smaller batches")
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def encode_rows(
    batch: pa.RecordBatch, columns: Sequence[Column], keys: RecordKeys | None, codec: str = "snappy"
) -> StripeBlock:
    """Encode a batch (of `stored_values.arrow_schema`) as a flat file and return its stripes.

    ``keys``: record keys of the rows of an ACID file; None for a file without ACID columns. Raises
    UnsupportedFeatureError for values that only pyorc can write, if it is not installed.
    """
    fixed: list[_Values] = []
    if keys is not None:
        rows = batch.num_rows
        write_ids = pa.repeat(pa.scalar(keys.write_id, pa.int64()), rows)
        buckets = pa.repeat(pa.scalar(keys.bucket, pa.int32()), rows)
        row_ids = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=keys.first - 1)
        fixed = _insert_fields([write_ids, buckets, row_ids, write_ids], rows)
    return _write_values(batch, columns, fixed, codec)


def encode_rows_with_ids(
    batch: pa.RecordBatch, columns: Sequence[Column], ids: pa.Table, codec: str
) -> StripeBlock:
    """Encode rows that keep their ids, as `encode_rows` does.

    ``ids``: write id, bucket property, row id and current write id, as a table in key order.
    """
    return _write_values(batch, columns, _insert_fields(ids.columns, batch.num_rows), codec)


def _write_values(
    batch: pa.RecordBatch, columns: Sequence[Column], fixed: Sequence[_Values], codec: str
) -> StripeBlock:
    types = [parse_type(column.type) for column in columns]
    values = [
        to_stored_values(array, hive_type) for array, hive_type in zip(batch.columns, types, strict=True)
    ]
    # Arrow's writer takes structs of other rows from a nested array with an offset
    values = [
        array if isinstance(hive_type, Primitive) else without_offset(array)
        for array, hive_type in zip(values, types, strict=True)
    ]
    table = _flat_table(fixed, values)
    odd = any(is_beyond_arrow(array, hive_type) for array, hive_type in zip(values, types, strict=True))
    return read_stripes(_by_pyorc(table, types, codec) if odd else _by_arrow(table, codec))


def write_delete_events(ids: pa.Table, columns: Sequence[Column], codec: str) -> StripeBlock:
    """Write delete events as a flat file and return its stripes.

    ``ids``: write id, bucket property and row id of the deleted rows, and the deleting write id, as a table in key order.
    """
    rows = ids.num_rows
    of_event = [
        pa.repeat(pa.scalar(DELETE_EVENT, pa.int32()), rows),
        *ids.columns,
        pa.nulls(rows, pa.bool_()),
    ]
    values = [pa.nulls(rows, arrow_type(parse_type(column.type))) for column in columns]
    return read_stripes(_by_arrow(_flat_table(of_event, values), codec))


def _flat_table(fixed: Sequence[_Values], values: Sequence[_Values]) -> pa.Table:
    names = [*list(AcidColumn)[: len(fixed)], *map(staged_column, range(len(values)))]
    return pa.table([*fixed, *values], names=names)


def _insert_fields(ids: Sequence[_Values], rows: int) -> list[_Values]:
    """Return the ACID columns of rows, from their write ids, bucket properties, row ids and current write ids."""
    operation = pa.repeat(pa.scalar(INSERT_EVENT, pa.int32()), rows)
    return [operation, *ids, pa.repeat(pa.scalar(True), rows)]  # noqa: FBT003 - the value itself


def _by_arrow(table: pa.Table, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pyarrow.orc.ORCWriter(
        sink,
        batch_size=_BATCH,
        compression="uncompressed" if codec == "none" else codec,
        compression_block_size=_BLOCK,
        row_index_stride=_STRIDE,
        dictionary_key_size_threshold=_DICTIONARY,
    ) as writer:
        writer.write(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _by_pyorc(table: pa.Table, types: Sequence[HiveType], codec: str) -> bytes:
    from io import BytesIO  # noqa: PLC0415 - with pyorc

    try:
        pyorc = import_module("pyorc")
    except ImportError:
        raise UnsupportedFeatureError(
            "Arrow cannot write times before 1970 with a fraction of a second, nor structs with a struct in them that is "
            "NULL, but pyorc can: pip install 'hiveacid[streaming]'"
        ) from None
    kinds = pyorc.TypeKind
    sink = BytesIO()
    fixed = table.num_columns - len(types)
    key_types = ("int", "bigint", "int", "bigint", "bigint", "boolean")[:fixed]
    texts = [*key_types, *map(_pyorc_type, types)]
    schema = ",".join(f"{name}:{text}" for name, text in zip(table.column_names, texts, strict=True))
    getters: list[Callable[[Any], Any]] = [*[lambda value: value] * fixed, *map(_value_converter, types)]
    with pyorc.Writer(
        sink,
        f"struct<{schema}>",
        row_index_stride=_STRIDE,
        compression=pyorc.CompressionKind[codec.upper()],
        compression_block_size=_BLOCK,
        converters={
            kinds.TIMESTAMP: MicrosConverter,
            kinds.TIMESTAMP_INSTANT: MicrosConverter,
            kinds.DATE: _DateConverter,
        },
    ) as writer:
        lists = [
            [get(value) for value in column.cast(_number_type(column.type)).to_pylist()]
            for get, column in zip(getters, table.columns, strict=True)
        ]
        for row in zip(*lists, strict=True):
            writer.write(row)
    return sink.getvalue()


class MicrosConverter:
    """Converter of pyorc between microseconds since 1970 and ORC's seconds and nanoseconds."""

    @staticmethod
    def to_orc(micros: int, _zone: object) -> tuple[int, int]:
        """Return seconds and nanoseconds."""
        seconds, rest = divmod(micros, 1_000_000)
        return seconds, rest * 1000

    @staticmethod
    def from_orc(seconds: int, nanos: int, _zone: object) -> int:
        """Return microseconds, rounded down."""
        return seconds * 1_000_000 + nanos // 1000


class _DateConverter:
    """Converter of pyorc for days since 1970, which ORC stores unchanged."""

    @staticmethod
    def to_orc(days: int) -> int:
        return days

    @staticmethod
    def from_orc(days: int) -> int:
        return days


def _pyorc_type(hive: HiveType) -> str:
    match hive:
        case Primitive("char" | "varchar"):
            return "string"
        case Array(element):
            return f"array<{_pyorc_type(element)}>"
        case Map(key, value):
            return f"map<{_pyorc_type(key)},{_pyorc_type(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{member.name}:{_pyorc_type(member.type)}' for member in fields)}>"
    return str(hive)


def _number_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return a type with numbers for dates and timestamps: Python's own types lack some years and the calendar."""
    if pa.types.is_timestamp(arrow_type):
        return pa.int64()
    if pa.types.is_date(arrow_type):
        return pa.int32()
    if pa.types.is_map(arrow_type):
        return pa.map_(_number_type(arrow_type.key_type), _number_type(arrow_type.item_type))
    if pa.types.is_list(arrow_type):
        return pa.list_(_number_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(member.name, _number_type(member.type)) for member in arrow_type])
    return arrow_type


def _value_converter(hive: HiveType) -> Callable[[Any], Any]:
    """Return the function that converts a Python value of Arrow to the one that pyorc expects."""
    match hive:
        case Array(element):
            inner = _value_converter(element)
            return lambda value: None if value is None else [inner(entry) for entry in value]
        case Map(key, item):
            first, second = _value_converter(key), _value_converter(item)
            return lambda value: None if value is None else {first(k): second(v) for k, v in value}
        case Struct(fields):
            members = [(member.name, _value_converter(member.type)) for member in fields]
            return lambda value: None if value is None else tuple(get(value[name]) for name, get in members)
    return lambda value: value

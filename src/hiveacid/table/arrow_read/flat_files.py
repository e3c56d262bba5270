"""Parquet, text and Avro files of insert-only and plain tables, in batches of the table's columns."""

from __future__ import annotations

import codecs
import io
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    LOCAL_TIMESTAMP,
    Array,
    HiveType,
    Map,
    Primitive,
    Struct,
    has_primitive,
    parse_type,
)
from hiveacid.errors import BadFileError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.orc.file_range import FileRange
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.formats.text_layout import BYTES, TextLayout, accepted_text_pattern, text_layout
from hiveacid.storage.local_file_system import local_path
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.files_to_open import RowFile
from hiveacid.table.cast_python_values import array_of_python_values
from hiveacid.table.cast_to_table_columns import cast, require_castable

_ROWS = 65_536
_BLOCK = 8 << 20  # bytes of text that are parsed at a time
_WRITER_ZONE = b"writer.time.zone"  # key of Hive's metadata in a Parquet footer
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = 100  # more than a decimal has
_UNMARKED_TEXTS = frozenset({("bytes", "text")})  # of old writers of Parquet
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".deflate", ".snappy")


def read_flat_file(
    fs: FileSystem, file: RowFile, table: TableDefinition, names: Sequence[str]
) -> Iterator[Any]:
    """Yield batches of the columns ``names``, in their order, of a file that is not ORC.

    Raises BadFileError, UnsupportedFeatureError with the column's name, StorageError.
    """
    by_name = {column.name: column for column in table.columns}
    columns = [by_name[name] for name in names]
    try:
        match file_kind(table.storage):
            case FileKind.PARQUET:
                yield from _read_parquet(fs, file, columns)
            case FileKind.AVRO:
                yield from _read_avro(fs, file, columns)
            case _:
                yield from _read_text(fs, file, table, columns)
    except (pa.ArrowException, OSError) as error:
        raise BadFileError(f"can't be read ({error})", path=file.path) from error


def _batch(columns: Sequence[Column], arrays: Sequence[Any], count: int) -> Any:
    if not arrays:
        return batch_without_columns(count)
    return pa.RecordBatch.from_arrays([*arrays], schema=arrow_schema(tuple(columns)))


def batch_without_columns(count: int) -> Any:
    """Return a batch that has only a number of rows."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))


def _require_no_nested_times(file: RowFile, column: Column, hive: HiveType) -> None:
    if not isinstance(hive, Primitive) and has_primitive(hive, {"timestamp"}):
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} is {column.type}: times inside the column can't be read without Spark"
        )


# Parquet -------------------------------------------------------------------------------------------


def _read_parquet(fs: FileSystem, file: RowFile, columns: Sequence[Column]) -> Iterator[Any]:
    local = is_local(file.path)
    source = (
        local_path(file.path) if local else pa.PythonFile(FileRange(fs, file.path, file.length), mode="r")
    )
    with parquet.ParquetFile(source, coerce_int96_timestamp_unit="us") as reader:
        schema = reader.schema_arrow
        stored = {name.lower(): name for name in schema.names}
        names = [stored[column.name] for column in columns if column.name in stored]
        zone = (reader.metadata.metadata or {}).get(_WRITER_ZONE, b"").decode()
        physical = {
            name.lower(): reader.schema.column(index).physical_type
            for index in range(len(reader.schema))
            for name in [reader.schema.column(index).path]
        }
        for batch in reader.iter_batches(_ROWS, columns=names):
            arrays = []
            for column in columns:
                if column.name not in stored:
                    arrays.append(pa.nulls(batch.num_rows, arrow_type(parse_type(column.type))))
                    continue
                values = batch.column(batch.schema.get_field_index(stored[column.name]))
                instants = (
                    physical.get(column.name) == "INT96" or getattr(values.type, "tz", None) is not None
                )
                arrays.append(_parquet_values(file, column, values, zone if instants else None))
            yield _batch(columns, arrays, batch.num_rows)


def _parquet_values(file: RowFile, column: Column, values: Any, zone: str | None) -> Any:
    """Convert a column's values. ``zone``: for instants, the writer's time zone ('' if unknown); None for other values."""
    hive = parse_type(column.type)
    _require_no_nested_times(file, column, hive)
    if isinstance(hive, Primitive) and hive.name == "timestamp" and zone is not None:
        values = _wall_clock(values, zone)
    try:
        require_castable(column.name, values.type, arrow_type(hive), _UNMARKED_TEXTS)
        return to_stored_values(cast(values, arrow_type(hive)), hive)
    except (pa.ArrowException, SchemaMismatchError) as error:
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} is {column.type}, stored as {values.type}, which can't be read without Spark"
        ) from error


def _wall_clock(values: Any, zone: str) -> Any:
    """Convert instants to wall-clock times of a time zone; '' is the zone of this process."""
    instants = values.cast(pa.timestamp("us", "UTC"))
    name = zone or _local_zone()
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UnsupportedFeatureError(f"unknown time zone {name!r} of a Parquet file") from error
    return pc.local_timestamp(instants.cast(pa.timestamp("us", name)))


def _local_zone() -> str:
    """Return the name of this process's time zone, as Java finds it: ``TZ``, or the machine's zone."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        link = os.path.realpath("/etc/localtime")
        name = link.rpartition("zoneinfo/")[2] if "zoneinfo/" in link else ""
    return name or (time.tzname[0] if time.tzname[0] in ("UTC", "GMT") else "UTC")


# Avro ----------------------------------------------------------------------------------------------


def _read_avro(fs: FileSystem, file: RowFile, columns: Sequence[Column]) -> Iterator[Any]:
    try:
        import fastavro  # noqa: PLC0415 - for Avro only
    except ImportError as error:
        raise UnsupportedFeatureError(
            "Avro files are read by fastavro: pip install 'hiveacid[arrow]'"
        ) from error
    data = io.BytesIO(fs.read_bytes(file.path, 0, file.length))
    rows: list[dict[str, Any]] = []
    try:
        reader = fastavro.reader(data)
        kinds = _avro_kinds(reader.writer_schema)
        for record in reader:
            rows.append({str(name).lower(): value for name, value in record.items()})
            if len(rows) == _ROWS:
                yield _avro_batch(file, columns, rows, kinds)
                rows = []
    except (ValueError, EOFError, KeyError, IndexError) as error:
        raise BadFileError(f"can't be read ({error})", path=file.path) from error
    yield _avro_batch(file, columns, rows, kinds)


def _avro_kinds(schema: Any) -> dict[str, set[str]]:
    """Return the types of each field in a writer's schema, without null; a logical type by its own name."""
    kinds = {}
    for field in schema["fields"]:
        members = field["type"] if isinstance(field["type"], list) else [field["type"]]
        names = {m if isinstance(m, str) else str(m.get("logicalType", m["type"])) for m in members}
        kinds[str(field["name"]).lower()] = names - {"null"}
    return kinds


def _avro_batch(
    file: RowFile, columns: Sequence[Column], rows: Sequence[dict[str, Any]], kinds: Mapping[str, set[str]]
) -> Any:
    arrays = []
    for column in columns:
        hive = parse_type(column.type)
        _require_no_nested_times(file, column, hive)
        values = [_with_lower_names(row.get(column.name), hive) for row in rows]
        try:
            arrays.append(_avro_values(values, hive, kinds.get(column.name, set())))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UnsupportedFeatureError(
                f"{file.path}: column {column.name} is {column.type}: its values can't be read without Spark ({error})"
            ) from error
    return _batch(columns, arrays, len(rows))


def _avro_values(values: Sequence[Any], hive: HiveType, stored: set[str]) -> Any:
    """Convert a column's values. ``stored``: its types in the file. Raises as `array_of_python_values` does."""
    name = hive.name if isinstance(hive, Primitive) else ""
    if name in INTEGER_TYPES and not {"float", "double"}.isdisjoint(stored):
        raise TypeError("the file holds fractions")
    if name != "timestamp":
        return to_stored_values(array_of_python_values(values, hive), hive)
    if stored == {"long"}:  # milliseconds, as for Hive and Spark
        return _wall_clock(pa.array(values, pa.timestamp("ms", "UTC")), "")
    return _wall_clock(array_of_python_values(values, Primitive(LOCAL_TIMESTAMP)), "")


def _with_lower_names(value: Any, hive: HiveType) -> Any:
    """Return an Avro value whose struct fields have lower-case names, as in the table's type."""
    if value is None or isinstance(hive, Primitive):
        return value
    match hive:
        case Struct(fields):
            members = {str(name).lower(): member for name, member in value.items()}
            return {field.name: _with_lower_names(members.get(field.name), field.type) for field in fields}
        case Array(element):
            return [_with_lower_names(item, element) for item in value]
        case Map(_, item_type):
            return [(key, _with_lower_names(item, item_type)) for key, item in value.items()]
    return value


# text ----------------------------------------------------------------------------------------------


def _read_text(
    fs: FileSystem, file: RowFile, table: TableDefinition, columns: Sequence[Column]
) -> Iterator[Any]:
    layout = text_layout(table)
    if layout.escape is not None:
        raise UnsupportedFeatureError(f"{table.name} has ESCAPED BY: its files can't be read without Spark")
    for column in columns:
        if "<" in column.type or column.type in ("binary", LOCAL_TIMESTAMP):
            raise UnsupportedFeatureError(
                f"{table.name}: column {column.name} is {column.type}, which can't be read from text without Spark"
            )
    numbers = {column.name: number for number, column in enumerate(table.columns)}
    for index, block in enumerate(_blocks(fs, file)):
        if index == 0:  # a byte order mark is no part of the first value, as in Hadoop's reader of lines
            block = block.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901
        lines = pc.split_pattern(pa.array([block], pa.binary()), b"\n").flatten()
        max_splits = len(table.columns) - 1 if layout.takes_rest else None
        fields = pc.split_pattern(lines, layout.separators[0].encode(BYTES), max_splits=max_splits)
        arrays = [
            _text_values(file, column, _field(fields, numbers[column.name]), layout) for column in columns
        ]
        yield _batch(columns, arrays, len(lines))


def _blocks(fs: FileSystem, file: RowFile) -> Iterator[bytes]:
    r"""Yield blocks of whole lines, separated by ``\n``, without a line break after the last one."""
    if file.path.endswith(_COMPRESSED[2:]):
        raise UnsupportedFeatureError(
            f"{file.path}: text compressed in this way can't be read without Spark (.gz and .bz2 can)"
        )
    source = pa.PythonFile(FileRange(fs, file.path, file.length), mode="r")
    if file.path.endswith(_COMPRESSED):
        source = pa.CompressedInputStream(source, "gzip" if file.path.endswith(".gz") else "bz2")
    rest = b""
    while data := source.read(_BLOCK):
        rest += data
        end = max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, len(rest) - 1)) + 1  # a last \r may be half of \r\n
        if end:
            yield _with_line_feeds(rest[:end])
            rest = rest[end:]
    if rest:
        yield _with_line_feeds(rest)


def _with_line_feeds(data: bytes) -> bytes:
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data[:-1] if data.endswith(b"\n") else data


def _field(fields: Any, number: int) -> Any:
    """Return a field of each line, NULL where the line has fewer fields."""
    offsets = fields.offsets.to_numpy()
    exists = np.diff(offsets) > number
    return fields.values.take(pa.array(np.where(exists, offsets[:-1] + number, 0), mask=~exists))


def _text_values(file: RowFile, column: Column, texts: Any, layout: TextLayout) -> Any:
    """Parse the texts of a column; a text that is not a value of the type becomes NULL, as in Hive."""
    hive = parse_type(column.type)
    assert isinstance(hive, Primitive)  # noqa: S101 - the caller has refused others
    null = pa.scalar(None, pa.string())
    try:
        texts = texts.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} holds text that is not UTF-8"
        ) from error
    texts = pc.if_else(pc.equal(texts, layout.null.encode(BYTES).decode()), null, texts)
    if hive.name in ("string", "varchar", "char"):
        return to_stored_values(texts, hive)
    if hive.name == "boolean":
        words = pc.utf8_lower(texts)
        return pc.if_else(pc.is_in(words, pa.array(["true", "false"])), pc.equal(words, "true"), None)
    texts = pc.if_else(pc.match_substring_regex(texts, accepted_text_pattern(hive)), texts, null)
    return _parse_texts(texts, hive)


def _parse_texts(texts: Any, hive: Primitive) -> Any:
    data_type = arrow_type(hive)
    if hive.name in INTEGER_TYPES:
        texts = pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\..*$", ""), r"^[+]", "")
        texts = pc.if_else(pc.is_in(texts, pa.array(["", "-"])), "0", texts)
    try:
        return _cast_text(pc.utf8_trim_whitespace(texts), data_type)
    except pa.ArrowInvalid:  # some text is no value of the type, or Arrow does not know how it is written
        coded = texts.dictionary_encode(null_encoding="encode")
        values = [_parse_text(text, hive, data_type) for text in coded.dictionary.to_pylist()]
        return pa.array(values, data_type).take(coded.indices)


def _cast_text(texts: Any, data_type: Any) -> Any:
    """Cast texts; a number beyond the range of FLOAT or DOUBLE is infinite, as in Java."""
    return texts.cast(data_type) if pa.types.is_floating(data_type) else cast(texts, data_type)


def _parse_text(text: str | None, hive: Primitive, data_type: Any) -> Any:
    """Return the value that Spark's cast gives a text, None if there is none."""
    if text is None:
        return None
    text = text.strip()
    try:
        if hive.name == "decimal":
            return _parse_decimal(text, data_type)
        if hive.name in ("date", "timestamp"):
            text = _canonical_time(text, with_time=hive.name == "timestamp")
        elif hive.name in ("float", "double"):
            text = re.sub("[dDfF]$", "", text)  # Java accepts one letter
        return _cast_text(pa.array([text], pa.string()), data_type)[0].as_py()
    except (pa.ArrowInvalid, ArithmeticError):
        return None


def _parse_decimal(text: str, data_type: Any) -> Decimal | None:
    """Return a number rounded to the type's scale, None if it has too many digits."""
    if not _DECIMAL.fullmatch(text):
        return None
    value = Decimal(text).quantize(Decimal(1).scaleb(-data_type.scale), ROUND_HALF_UP, Context(prec=_DIGITS))
    return value if len(value.as_tuple().digits) <= data_type.precision else None


def _canonical_time(text: str, *, with_time: bool) -> str:
    """Return a date or time with all zeros, and at most six digits after the second."""
    day, _, time_of_day = text.replace("T", " ").partition(" ")
    padded = "-".join(part.zfill(2) for part in day.split("-"))
    if not with_time:
        return padded
    whole, _, fraction = time_of_day.partition(".")
    clock = ":".join(part.zfill(2) for part in whole.split(":"))
    return f"{padded} {clock}.{fraction[:6]:0<6}"

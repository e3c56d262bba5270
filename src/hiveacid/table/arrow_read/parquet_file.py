"""Parquet files of insert-only and plain tables, in batches of the table's columns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, Primitive, has_primitive, parse_type
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import BadFileError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.ports.file_system import FileRange, FileSystem
from hiveacid.storage.local_file_system import local_path
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.stored_to_table_types import YEAR_1900, hybrid_days
from hiveacid.table.cast_to_table_columns import cast, require_castable

_ROWS = 65_536
_WRITER_ZONE = b"writer.time.zone"  # key of Hive's metadata in a Parquet footer
_SPARK_VERSION = b"org.apache.spark.version"  # key of Spark's metadata
# Key of Spark's mark of the hybrid calendar, and the first version that sets it: before, all files are of that calendar.
_HYBRID_INT96, _HYBRID = (
    (b"org.apache.spark.legacyINT96", "3.1.0"),
    (b"org.apache.spark.legacyDateTime", "3.0.0"),
)
_UNMARKED_TEXTS = frozenset({("bytes", "text")})  # of old writers of Parquet


def read_parquet_file(
    fs: FileSystem, file: ScanFile, table: TableDefinition, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the columns ``names``, in their order, of a Parquet file.

    Raises BadFileError, UnsupportedFeatureError with the column's name, StorageError.
    """
    by_name = {column.name: column for column in table.columns}
    columns = [by_name[name] for name in names]
    try:
        yield from _read_parquet(fs, file, columns)
    except (pa.ArrowException, OSError) as error:
        raise BadFileError(f"can't be read ({error})", path=file.path) from error


def batch_without_columns(count: int) -> pa.RecordBatch:
    """Return a batch that has only a number of rows."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))


def _read_parquet(fs: FileSystem, file: ScanFile, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    local = is_local(file.path)
    source = (
        local_path(file.path) if local else pa.PythonFile(FileRange(fs, file.path, file.length), mode="r")
    )
    with parquet.ParquetFile(source, coerce_int96_timestamp_unit="us") as reader:
        schema = reader.schema_arrow
        stored = {name.lower(): name for name in schema.names}
        names = [stored[column.name] for column in columns if column.name in stored]
        facts = reader.metadata.metadata or {}
        zone = facts.get(_WRITER_ZONE, b"").decode()
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
                is_int96 = physical.get(column.name) == "INT96"
                instants = is_int96 or getattr(values.type, "tz", None) is not None
                if _is_hybrid(facts, *(_HYBRID_INT96 if is_int96 else _HYBRID)):
                    values = _gregorian(file, column, values)
                arrays.append(_parquet_values(file, column, values, zone if instants else None))
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(tuple(columns)))
            else:
                yield batch_without_columns(batch.num_rows)


def _parquet_values(file: ScanFile, column: Column, values: pa.Array, zone: str | None) -> pa.Array:
    """Convert a column's values. ``zone``: for instants, the writer's time zone ('' if unknown); None for other values."""
    hive = parse_type(column.type)
    if not isinstance(hive, Primitive) and has_primitive(hive, {"timestamp"}):
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} is {column.type}: times inside the column can't be read without Spark"
        )
    if isinstance(hive, Primitive) and hive.name == "timestamp" and zone is not None:
        values = _wall_clock(values, zone)
    try:
        require_castable(column.name, values.type, arrow_type(hive), _UNMARKED_TEXTS)
        return to_stored_values(cast(values, arrow_type(hive)), hive)
    except (pa.ArrowException, SchemaMismatchError) as error:
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} is {column.type}, stored as {values.type}, which can't be read without Spark"
        ) from error


def _is_hybrid(facts: Mapping[bytes, bytes], mark: bytes, version: str) -> bool:
    """Tell whether Spark wrote a file's times in the hybrid calendar (``DataSourceUtils.getRebaseSpec``)."""
    writer = facts.get(_SPARK_VERSION)
    return writer is not None and (mark in facts or writer.decode() < version)


def _gregorian(file: ScanFile, column: Column, values: pa.Array) -> pa.Array:
    """Convert a column of the hybrid calendar. Raises UnsupportedFeatureError for what only Spark converts.

    Until 1900 Spark also moves times by the difference of two tables of time zones.
    """
    kind = parse_type(column.type)
    if pa.types.is_date32(values.type):
        return hybrid_days(values)
    if isinstance(kind, Primitive):
        is_time = pa.types.is_timestamp(values.type)
        low = (
            pc.min(values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())).as_py() if is_time else 0
        )
        is_old = low is not None and low < YEAR_1900
    else:
        is_old = has_primitive(kind, {"date", LOCAL_TIMESTAMP})  # other times are refused later
    if is_old:
        raise UnsupportedFeatureError(
            f"{file.path}: column {column.name} is {column.type}, with days or times of Spark's LEGACY calendar, which can't be read "
            "without Spark"
        )
    return values


def _wall_clock(values: pa.TimestampArray, zone: str) -> pa.TimestampArray:
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

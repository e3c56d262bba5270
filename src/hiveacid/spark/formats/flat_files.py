"""Files without ACID columns: insert-only and plain tables, and what Hive calls original files.

A column mapping (``core.schema.evolution``) relates the columns of an ORC file to the table's; Parquet columns are
matched by name.

Timestamps are wall-clock times to Hive. ORC and Parquet files keep them in the time zone of the JVM that wrote them.
Readers assume their own zone (``spark.formats.file_columns``). Text files keep them as they are shown.

Parquet dates and timestamps before 1582-10-15 are read as proleptic Gregorian, as Hive 3.1 and Trino write them. Hive
4's default is the hybrid calendar, which Spark's reader cannot distinguish by file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import staged_column
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema import types as hive_types
from hiveacid.core.schema.evolution import ColumnMapping, identity_mapping
from hiveacid.core.schema.storage_formats import FileKind, supported_file_kind
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats import file_columns, text
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named, selected
from hiveacid.spark.formats.file_columns import from_file, to_file
from hiveacid.spark.formats.text import text_layout
from hiveacid.spark.formats.types import column_type, cut_to_length
from hiveacid.spark.session.classic_session import in_session
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write.staged_files import TaskReport
from hiveacid.spark.write.write_tasks import save_frame

_SOURCES = "org.apache.spark.sql.execution.datasources"
# Names of classes, as of ORC's: ``spark.sql.sources.useV1SourceList`` would turn the short ones into sources without
# ``_metadata``.
PARQUET, TEXT = f"{_SOURCES}.parquet.ParquetFileFormat", f"{_SOURCES}.text.TextFileFormat"
_COMPARED = (hive_types.Primitive, hive_types.Struct)  # types of which Spark pushes comparisons down
_FLOATING = frozenset({"float", "double"})
_CALENDAR = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
# Hive 3.1 reads timestamps as INT96 only and decimals as bytes only; its lists and maps are Spark's legacy ones.
_PARQUET = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}


def read_schema(table: TableDefinition) -> T.StructType:
    """Return the schema for reading files: tinyint and smallint are int, since Avro has no smaller integers."""
    return T.StructType([T.StructField(c.name, _read_type(column_type(c))) for c in table.columns])


def _read_type(kind: T.DataType) -> T.DataType:
    match kind:
        case T.ByteType() | T.ShortType():
            return T.IntegerType()
        case T.ArrayType():
            return T.ArrayType(_read_type(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, _read_type(kind.valueType))
        case T.StructType():
            return T.StructType([T.StructField(f.name, _read_type(f.dataType)) for f in kind.fields])
    return kind


def read(
    env: SparkEnvironment,
    table: TableDefinition,
    files: Sequence[str],
    strict: Mapping[str, str],
    mapping: ColumnMapping | None = None,
) -> DataFrame:
    """Return the table's data columns from files (Spark URIs); ``_metadata`` can still be selected.

    ``strict``: reader options. ``mapping``: for ORC files (default: their columns are exactly those of the table).
    Raises UnsupportedFeatureError for unsupported kinds of files, SerDe properties and types, and for Avro without
    Spark's Avro package.
    """
    kind = supported_file_kind(table)
    reader = env.spark.read.options(**strict)
    if kind is FileKind.TEXTFILE:
        lines = reader.format(TEXT).load(list(files))
        layout = text_layout(table)
        return lines.select(*text.parse_line(env, layout, F.col("value"), table.columns))
    if kind is FileKind.AVRO:
        reader = reader.schema(read_schema(table))
        return selected(_load_avro(env, reader, files), _values(env, table))
    if kind is FileKind.ORC:
        return _read_orc(env, table, files, reader, mapping or identity_mapping(table.columns))
    types = [T.StructField(c.name, column_type(c)) for c in table.columns]
    rows = reader.schema(T.StructType(types)).options(**_CALENDAR).format(PARQUET).load(list(files))
    return selected(rows, _values(env, table))


def _load_avro(env: SparkEnvironment, reader: DataFrameReader, files: Sequence[str]) -> DataFrame:
    try:
        return reader.format("avro").load(list(files))
    except AnalysisException as error:
        if "data source" not in str(error) or "avro" not in str(error).lower():
            raise
        scala = "2.12" if env.version < (4, 0) else "2.13"
        raise UnsupportedFeatureError(
            "this Spark session cannot read Avro files: start it with the package "
            f"org.apache.spark:spark-avro_{scala}:{env.spark.version} (spark.jars.packages)"
        ) from error


def require_names_in_any_case(env: SparkEnvironment, table: TableDefinition) -> None:
    """Refuse to read Parquet and Avro files in a session that compares names with case.

    Hive's names are lower-case. Spark would read NULL for a column whose name has a capital in the file. Raises
    UnsupportedFeatureError.
    """
    kind = supported_file_kind(table)
    if kind in (FileKind.PARQUET, FileKind.AVRO) and env.case_sensitive:
        raise UnsupportedFeatureError(
            f"spark.sql.caseSensitive=true makes NULL of columns of {kind.upper()} files whose names have capitals: "
            f"SET spark.sql.caseSensitive=false to read table {table.name}"
        )


def _read_orc(
    env: SparkEnvironment,
    table: TableDefinition,
    files: Sequence[str],
    reader: DataFrameReader,
    mapping: ColumnMapping,
) -> DataFrame:
    wanted = file_columns.requested_fields(mapping, files[0])
    if not wanted.fields:  # a reader without any requested column returns no rows
        wanted = wanted.add("__hiveacid_absent", T.IntegerType())
    rows = (
        reader.schema(wanted)
        .options(**file_columns.reader_options(mapping))
        .format(file_columns.ORC)
        .load(list(files))
    )
    return selected(rows, file_columns.table_columns(env, mapping, table.columns, "", files[0]))


def _values(env: SparkEnvironment, table: TableDefinition) -> list[Expression]:
    env = replace(env, files_in_driver_zone=True)
    return [named(_value(env, c), c.name) for c in table.columns]


def _value(env: SparkEnvironment, column: Column) -> Expression:
    kind = hive_types.parse_type(column.type)
    name = hive_types.quote_name(column.name)
    if isinstance(kind, _COMPARED) and hive_types.has_primitive(kind, _FLOATING):
        name = f"coalesce({name}, {name})"  # Parquet's dictionaries tell 0.0 and -0.0 apart: Spark must not push 0.0 down
    value = cast(name, column_type(column))
    if hive_types.has_primitive(kind, {"varchar"}):  # other programs store longer texts, which Hive cuts
        return from_file(env, cut_to_length(as_column(value), kind), column.type)
    return from_file(env, value, column.type)


def file_values(env: SparkEnvironment, table: TableDefinition) -> list[Expression]:
    """Return the columns for `write`, from a frame that has the table's columns.

    Raises UnsupportedFeatureError for a table in Avro, and for a type that Hive does not support in Parquet files.
    """
    kind = supported_file_kind(table)
    if kind is FileKind.AVRO:
        raise UnsupportedFeatureError(
            f"{table.name} is stored as Avro, which is read but not written: copy its rows into a table in ORC or Parquet"
        )
    refused = [c.name for c in table.columns if hive_types.LOCAL_TIMESTAMP in c.type]
    if refused and kind is FileKind.PARQUET:
        raise UnsupportedFeatureError(
            f"column {refused[0]}: Hive keeps no {hive_types.LOCAL_TIMESTAMP} in {kind.upper()} files: use ORC"
        )
    env = replace(env, files_in_driver_zone=kind is not FileKind.ORC)
    values: list[Expression] = [hive_types.quote_name(c.name) for c in table.columns]
    if kind is not FileKind.TEXTFILE:
        values = [to_file(env, value, c.type) for value, c in zip(values, table.columns, strict=True)]
    names = [staged_column(i) if kind is FileKind.ORC else c.name for i, c in enumerate(table.columns)]
    return [named(value, name) for value, name in zip(values, names, strict=True)]


def write(
    env: SparkEnvironment,
    table: TableDefinition,
    frame: DataFrame,
    directory: str,
    keys: Sequence[str],
    options: Mapping[str, str],
) -> TaskReport:
    """Write files of the table's kind into ``directory``, with one directory level for each key; return the report.

    ``directory`` must not exist. ``frame``: the columns of `file_values` and the key columns. ``options``: of Spark's
    ORC writer; for Parquet only their ``compression`` is used. Some of Spark's settings for Parquet exist only in the
    session, so such files are written in a session of their own.
    """
    kind = supported_file_kind(table)
    match kind:
        case FileKind.ORC:
            return save_frame(env, frame, file_columns.ORC, options, keys, directory)
        case FileKind.PARQUET:
            codec = {"compression": options["compression"]}
            env = env.with_settings(_PARQUET)
            return save_frame(env, in_session(env, frame), PARQUET, codec, keys, directory)
        case FileKind.TEXTFILE:
            line = text.format_line(text_layout(table), table.columns)
            lines = frame.select(line.alias("value"), *keys)
            return save_frame(env, lines, TEXT, {"compression": "none"}, keys, directory)
        case FileKind.AVRO:
            raise AssertionError("`file_values` refuses Avro")

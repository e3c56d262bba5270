"""Files without ACID columns: insert-only and plain tables, and what Hive calls original files.

Which columns of an ORC file are the table's says its recipe (``core.evolution``); Parquet is matched by column
names. Timestamps are wall-clock times to Hive: in ORC and Parquet files they are kept in the zone
of the JVM that wrote them, which is taken to be this one's (`timezone`); in text they stand as they read.
Dates and timestamps before 1582-10-15 in Parquet are proleptic Gregorian, as Hive 3.1 and Trino write them;
Hive 4's default is the hybrid calendar, which no Parquet reader here can tell per file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.evolution import plain_recipe
from hiveacid.core.storage_formats import FileKind, file_kind
from hiveacid.core.types import LOCAL_TIMESTAMP, quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark import avro, recipes, text
from hiveacid.spark.checksums import without_checksums
from hiveacid.spark.expressions import Expression, as_column, cast, named, selected
from hiveacid.spark.timezone import from_file, is_moved, moves, to_file
from hiveacid.spark.types import column_type
from hiveacid.spark.views import analysed
from hiveacid.storage.paths import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

    from hiveacid.core.evolution import Recipe
    from hiveacid.core.model import TableDefinition
    from hiveacid.spark.session import SparkFacts

_CALENDAR = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
# Hive 3.1 reads timestamps as INT96 only and decimals as bytes only; its lists and maps are Spark's legacy ones.
_PARQUET = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_AVRO = {"spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED"}
# Held by who has these made. One for all: sessions of ours may share one of Spark's.
_ALONE = threading.Lock()


def writer_format(table: TableDefinition) -> FileKind:
    """Return what kind of files the table has. Raises UnsupportedFeatureError for kinds not known here."""
    kind = file_kind(table.storage)
    if kind is None:
        raise UnsupportedFeatureError(
            f"table {table.name}: files of {table.storage.input_format} with SerDe {table.storage.serde} "
            "can be neither read nor written: use ORC, PARQUET, TEXTFILE or AVRO"
        )
    return kind


def read(
    facts: SparkFacts,
    table: TableDefinition,
    files: Sequence[str],
    strict: Mapping[str, str],
    recipe: Recipe | None = None,
) -> DataFrame:
    """Return the table's data columns out of files (Spark URIs); ``_metadata`` can still be selected.

    ``strict``: reader options. ``recipe``: of ORC files (default: they are exactly like the table).
    Raises UnsupportedFeatureError for kinds of file, SerDe properties or types that are not known, and for Avro
    without Spark's Avro package.
    """
    kind = writer_format(table)
    reader = facts.spark.read.options(**strict)
    if kind is FileKind.TEXTFILE:
        lines = reader.text(list(files))
        layout = text.text_layout(table)
        return lines.select(*text.parse_line(facts, layout, F.col("value"), table.columns))
    if kind is FileKind.AVRO:
        reader = reader.schema(avro.read_schema(table))
        rows = avro.loaded(facts, lambda: analysed(facts, reader.format("avro").load(list(files))))
        return selected(rows, _values(facts, table, [column.name for column in table.columns]))
    if kind is FileKind.ORC:
        return _read_orc(facts, table, files, reader, recipe or plain_recipe(table.columns))
    types = [T.StructField(c.name, column_type(c)) for c in table.columns]
    found = reader.schema(T.StructType(types)).options(**_CALENDAR).parquet(*files)
    return selected(found, _values(facts, table, [column.name for column in table.columns]))


def _read_orc(
    facts: SparkFacts, table: TableDefinition, files: Sequence[str], reader: DataFrameReader, recipe: Recipe
) -> DataFrame:
    wanted = recipes.fields(recipe, files[0])
    if not wanted.fields:  # a reader that is asked for nothing gives no rows
        wanted = wanted.add("__hiveacid_absent", T.IntegerType())
    found = reader.schema(wanted).options(**recipes.options(recipe)).format(recipes.ORC).load(list(files))
    return selected(found, recipes.values(facts, recipe, table.columns, "", files[0]))


def _values(facts: SparkFacts, table: TableDefinition, names: Sequence[str]) -> list[Expression]:
    found = [cast(quote_name(name), column_type(c)) for name, c in zip(names, table.columns, strict=True)]
    return [
        named(from_file(facts, as_column(value), c.type) if moves(facts, c.type) else value, c.name)
        for value, c in zip(found, table.columns, strict=True)
    ]


def file_values(facts: SparkFacts, table: TableDefinition) -> list[Expression]:
    """Return the columns that `write` wants out of a frame that has the table's columns.

    Raises UnsupportedFeatureError where Hive keeps no such type in the table's kind of file.
    """
    kind = writer_format(table)
    refused = [c.name for c in table.columns if LOCAL_TIMESTAMP in c.type]
    if refused and kind in (FileKind.PARQUET, FileKind.AVRO):
        raise UnsupportedFeatureError(
            f"column {refused[0]}: Hive keeps no {LOCAL_TIMESTAMP} in {kind.upper()} files: use ORC"
        )
    values: list[Expression] = [
        to_file(facts, F.col(quote_name(c.name)), c.type)
        if kind is not FileKind.TEXTFILE and is_moved(facts, c.type)
        else quote_name(c.name)
        for c in table.columns
    ]
    names = [f"c{i}" if kind is FileKind.ORC else c.name for i, c in enumerate(table.columns)]
    return [named(value, name) for value, name in zip(values, names, strict=True)]


def write(
    facts: SparkFacts,
    table: TableDefinition,
    frame: DataFrame,
    directory: str,
    keys: Sequence[str],
    codec: str,
) -> None:
    """Write files of the table's kind into ``directory``, which must not exist; one level of it for each key.

    ``frame``: what `file_values` makes, and the key columns. ``codec``: of ORC and Parquet, as Spark calls it.
    Of Parquet and Avro one is written at a time: some of Spark's settings for them can only be made on the session.
    """
    kind = writer_format(table)
    if kind is FileKind.TEXTFILE:
        line = text.format_line(facts, text.text_layout(table), table.columns)
        frame = frame.select(line.alias("value"), *keys)
    writer = frame.write.mode("error").option("maxRecordsPerFile", 0)
    if keys:
        writer = writer.partitionBy(*keys)
    with without_checksums(frame, directory):
        _save(facts, table, writer, kind, spark_path(directory), codec)


def _save(
    facts: SparkFacts,
    table: TableDefinition,
    writer: DataFrameWriter,
    kind: FileKind,
    directory: str,
    codec: str,
) -> None:
    match kind:
        case FileKind.ORC:
            writer.option("compression", codec).format(recipes.ORC).save(directory)
        case FileKind.PARQUET:
            with _settings(facts.spark, _PARQUET):
                writer.option("compression", codec).parquet(directory)
        case FileKind.AVRO:
            chosen = writer.option("avroSchema", avro.write_schema(table)).format("avro")
            with _settings(facts.spark, _AVRO):
                avro.loaded(facts, lambda: chosen.save(directory))
        case FileKind.TEXTFILE:
            writer.option("compression", "none").text(directory)


@contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Make settings for a block, in which nobody else is: another one's end would take them away."""
    with _ALONE:
        before = {key: spark.conf.get(key) for key in wanted}
        changed = {key: value for key, value in wanted.items() if before[key] != value}
        for key, value in changed.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in changed:
                spark.conf.set(key, str(before[key]))

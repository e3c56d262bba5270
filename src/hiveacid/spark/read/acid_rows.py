"""Rows and delete events of ACID files as native Spark scans, and rows of original files beside them.

ORC's Java reader recognises ACID files by their six root columns, and resolves predicates on root columns inside
``row`` (``docs/format.md``). Three rules follow from that:

- All six root columns stay alive in every scan (`_keep_columns`).
- No bare root column is ever compared, so that Spark pushes no such comparison down.
- Nothing is added to the root: partition columns are expressions over ``_metadata.file_path``
  (``spark.read.partition_lookup``).

Spark merges the scan's filter with a condition of the user. From a condition with a correlated subquery it takes the plan
below, without the filter, to compute the keys of the subquery. Where that may happen (`ScanSource.subqueries`), each
column of ``row`` keeps the root columns by itself. Partition columns do not: Spark could skip no partitions by them.

Spark's own reader takes paths one by one (one Py4J round trip each), asks whether each exists, and lists each in a job: 0.5 ms
of CPU a file. `load_orc` passes many files as one file of JSON lines, which gives names and sizes in one call. Spark reads it
as the log of a streaming sink (``MetadataLogFileIndex``). This is Spark's only index that takes a list of files, and it never
lists again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from py4j.java_gateway import JavaClass, JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.acid_columns import DELETE_EVENT, ROW_ID_PARTS, UPDATE_EVENT, AcidColumn
from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.spark.formats import file_columns
from hiveacid.spark.formats.expressions import Expression, named, selected
from hiveacid.spark.formats.file_columns import ORC
from hiveacid.spark.read.delete_events import KEY_EXPRESSIONS
from hiveacid.spark.read.originals import PARTITION_KEY, original_column, original_frames
from hiveacid.spark.read.partition_lookup import (
    PartitionKey,
    PartitionLookup,
    decoded_path,
    row_file_name,
    statement_id_from_path,
)
from hiveacid.spark.read.scan_source import (
    CURRENT_WRITE_ID_COLUMN,
    PROLEPTIC_CALENDAR,
    STRICT_READ,
    FileGroup,
    FilesOf,
    ScanSource,
    escape_globs,
    group_files,
)
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_class, java_sequence, java_value, session_of
from hiveacid.storage.snapshot_locations import Location

CURRENT_WRITE_ID_EXPRESSION = f"coalesce({AcidColumn.CURRENT_WRITE_ID}, -1L) AS {CURRENT_WRITE_ID_COLUMN}"
ABSENT_FIELD = "__hiveacid_absent"
INSERTS, UPDATES_AND_DELETES, DELETES = f"< {DELETE_EVENT}", f">= {UPDATE_EVENT}", f"= {DELETE_EVENT}"
"""Comparisons of the column ``operation``, for `read_acid_files`."""
_ROW_ID_FIELDS = ", ".join(
    f"{value} AS {part}" for value, part in zip(KEY_EXPRESSIONS, ROW_ID_PARTS, strict=True)
)
_ROW_ID_COLUMN = f"struct({_ROW_ID_FIELDS}) AS {ROW_ID}"
# The bucket second: in a damaged file without an operation its bits are no event, whereas a write id of 1 would be one.
_IDS = (AcidColumn.BUCKET, AcidColumn.ORIGINAL_WRITE_ID, AcidColumn.ROW_ID, AcidColumn.CURRENT_WRITE_ID)
EVENT_COLUMNS = ", ".join((AcidColumn.OPERATION, *_IDS))
"""The root columns beside ``row``, as a list in SQL."""
_KEEP_COLUMNS = f"coalesce({EVENT_COLUMNS}, {AcidColumn.ROW}.`{ABSENT_FIELD}`)"
# Where columns are read by position, Spark must not leave out any field of ``row``. This expression needs all of
# them, and is never computed, because no operation is NULL.
_KEEP_WHOLE_ROW = f"coalesce({EVENT_COLUMNS}, length(cast({AcidColumn.ROW} as string)))"


class KeyColumns(Protocol):
    """Columns that a lookup of delete events needs."""

    def columns(self, partition: PartitionKey, statement: str, /) -> Sequence[Expression]:
        """Return them for the partition key and the statement id of a row."""


MIN_FILES = 100
"""Files from which the index costs less than Spark's own listing."""
_PACKAGES = ("streaming.runtime", "streaming.sinks", "streaming")
"""Packages below ``org.apache.spark.sql.execution`` that held the class: those of Spark 4.1 and newer, then 3.5 and 4.0."""
_WITHOUT_LOCALITY = ("file:", "s3a:", "gs:", "abfs:", "abfss:")
"""File systems whose blocks have no hosts. Elsewhere (HDFS) Spark lists, to run tasks where the blocks lie."""
_ILLEGAL = re.compile(
    r'[\x00-\x20"%<>\[\]{}|\\^`#?\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
)
"""Characters that ``java.net.URI`` escapes in a path: the texts must be those that Spark's own listing makes."""
_LINE = '{"path":"%s","size":%d,"isDir":false,"modificationTime":%d,"blockReplication":1,"blockSize":134217728,"action":"add"}'


def all_rows(
    source: ScanSource, locations: Sequence[Location], key: KeyColumns | None
) -> Iterable[tuple[DataFrame, FileGroup]]:
    """Yield all rows, deleted ones too, with their current write ids (`CURRENT_WRITE_ID_COLUMN`) and the columns of ``key``."""
    yield from acid_rows(source, locations, source.data_files, key)
    yield from original_rows(source, locations, source.original_files, key)


def acid_rows(
    source: ScanSource,
    locations: Sequence[Location],
    files_of: FilesOf,
    key: KeyColumns | None,
    part: Hashable = None,
) -> Iterable[tuple[DataFrame, FileGroup]]:
    """Yield all rows of ACID files, as `all_rows` does.

    ``part``: tells these files from others of the source, so that their groups are kept; None: they are not.
    """

    def grouped() -> list[FileGroup]:
        return group_files(source.table, locations, files_of)

    for group in grouped() if part is None else source.memo.get(("groups", part), grouped):
        frame = read_acid_files(source, group, INSERTS, values=True)
        partition = PartitionLookup(source.env, source.table, group, frame)
        more = key.columns(partition, statement_id_from_path(group.depth)) if key else ()
        yield _row_columns(source, frame, partition, more), group


def original_rows(
    source: ScanSource, locations: Sequence[Location], files_of: FilesOf, key: KeyColumns | None
) -> Iterable[tuple[DataFrame, FileGroup]]:
    """Yield all rows of original files, as `all_rows` does."""
    values = [named(original_column(i), column.name) for i, column in enumerate(source.table.all_columns)]
    file = named(decoded_path("__hiveacid_file"), FILE_NAME)
    write_id = named(AcidColumn.ORIGINAL_WRITE_ID, CURRENT_WRITE_ID_COLUMN)
    for group, rows in original_frames(source, locations, files_of, with_partition_key=key is not None):
        frame: DataFrame = rows
        more: Sequence[Expression] = ()
        if key is not None:
            frame = rows.withColumn(AcidColumn.CURRENT_WRITE_ID, F.col(AcidColumn.ORIGINAL_WRITE_ID))
            more = key.columns(PARTITION_KEY, "0")
        yield selected(frame, [*values, _ROW_ID_COLUMN, file, write_id, *more]), group


def read_acid_files(
    source: ScanSource, group: FileGroup, operations: str, *, values: bool = False
) -> DataFrame:
    """Return the valid events of a group of files; ``values``: the user's columns can be selected.

    ``operations``: `INSERTS`, `UPDATES_AND_DELETES` or `DELETES`.
    """
    mapping = group.options.mapping
    assert mapping is not None  # noqa: S101 - the footer of every ACID file was read
    by_position = mapping.positional is not None
    row = file_columns.requested_fields(mapping, group.files[0]) if values or by_position else T.StructType()
    options = {**STRICT_READ, **PROLEPTIC_CALENDAR, **file_columns.reader_options(mapping), **group.identity}
    if values:
        options |= source.arguments(mapping)
    frame = load_orc(source, root_type(row), options, group)
    condition = f"{_keep_columns(mapping)} {operations}"
    if group.options.check:
        valid = (
            row_validity(source.write_ids, column)
            for column in (AcidColumn.CURRENT_WRITE_ID, AcidColumn.ORIGINAL_WRITE_ID)
        )
        condition = " AND ".join([condition, *valid])
    return frame.where(condition)


def _keep_columns(mapping: ColumnMapping) -> str:
    return _KEEP_COLUMNS if mapping.positional is None else _KEEP_WHOLE_ROW


def root_type(row: T.StructType) -> T.StructType:
    """Return the columns to ask an ACID file for: all six of its root; ``row``: the fields to ask for inside ``row``.

    A field that no file has is added to ``row``: a reader that is asked for no field leaves out the whole struct.
    """
    row = row.add(ABSENT_FIELD, T.IntegerType())
    kinds = (T.IntegerType(), T.LongType(), T.IntegerType(), T.LongType(), T.LongType(), row)
    return T.StructType([T.StructField(name, kind) for name, kind in zip(AcidColumn, kinds, strict=True)])


def row_validity(write_ids: ValidWriteIdList, column: str) -> str:
    """Return the condition that a root column's write id is valid; never pushed down (see the module)."""
    value = f"coalesce({column}, -1L)"
    valid = f"{value} <= {int(write_ids.high_watermark)}L"
    invalid = sorted({int(i) for i in (*write_ids.open, *write_ids.aborted)})
    if invalid:
        valid += f" AND {value} NOT IN ({', '.join(f'{i}L' for i in invalid)})"
    return valid


def _row_columns(
    source: ScanSource, frame: DataFrame, partition: PartitionLookup, more: Sequence[Expression]
) -> DataFrame:
    group, mapping = partition.group, partition.group.options.mapping
    assert mapping is not None  # noqa: S101 - the footer of every ACID file was read
    keep = _keep_columns(mapping) if source.subqueries else None
    values = file_columns.table_columns(
        source.env, mapping, source.table.columns, f"{AcidColumn.ROW}.", group.files[0], keep
    )
    identity = [_ROW_ID_COLUMN, named(row_file_name(group), FILE_NAME), CURRENT_WRITE_ID_EXPRESSION]
    return selected(frame, [*values, *partition.columns, *identity, *more])


def delete_event_columns(source: ScanSource, group: FileGroup) -> DataFrame:
    """Return the valid delete events of a group: partition columns, row id, deleting write id."""
    frame = read_acid_files(source, group, DELETES)
    partition = PartitionLookup(source.env, source.table, group, frame)
    return selected(frame, [*partition.columns, _ROW_ID_COLUMN, CURRENT_WRITE_ID_EXPRESSION])


def load_orc(
    source: ScanSource, schema: T.StructType, options: Mapping[str, str], group: FileGroup
) -> DataFrame:
    """Return the scan of a group of ORC files; ``schema``: the columns to request, ``options``: of the reader.

    The memo of the source keeps the index.
    """
    env = source.env
    index = None
    if is_indexed(group):
        index = source.memo.get(
            ("index", group.files), lambda: source.index_ahead(group) or make_index(env, group)
        )
    types = java_class(env, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    java_options, session = java_value(env, dict(options)), session_of(env)
    if index is not None:
        made = session.baseRelationToDataFrame(_relation(env, index, types, java_options))
    else:
        files = java_sequence(env, escape_globs(group.files))
        made = session.read().format(ORC).schema(types).options(java_options).load(files)
    return DataFrame(made, env.spark)


def is_indexed(group: FileGroup) -> bool:
    """Tell whether the files of a group are passed as an index: many, not copies, on a file system without locality."""
    return (
        len(group.files) >= MIN_FILES
        and group.options.original is None
        and all(file.startswith(_WITHOUT_LOCALITY) for file in group.files)
    )


def make_index(env: SparkEnvironment, group: FileGroup) -> JavaObject | None:
    """Return Spark's index of exactly these files; None if this Spark has no such class."""
    files = (_ILLEGAL.sub(lambda match: quote(match[0]), file) for file in group.files)
    lines = (_LINE % (file, *size) for file, size in zip(files, group.sizes, strict=True))
    index_class = _index_class(env)
    if index_class is None:
        return None
    with tempfile.TemporaryDirectory(prefix="hiveacid-files-") as folder:
        log = Path(folder) / "_spark_metadata"
        log.mkdir()
        (log / "0").write_text("\n".join(("v1", *lines)), "utf-8")
        path = java_class(env, "org.apache.hadoop.fs.Path")(Path(folder).as_uri())
        # otherwise it would take p=1 in the paths for a partition column, and add that column
        options = _scala_map(env, java_value(env, {"recursiveFileLookup": "true"}))
        return index_class(session_of(env), path, options, java_class(env, "scala.Option").empty())


def _index_class(env: SparkEnvironment) -> JavaClass | None:
    java: JavaObject = env.spark._jvm.java.lang  # type: ignore[union-attr] # noqa: SLF001
    for package in _PACKAGES:
        name = f"org.apache.spark.sql.execution.{package}.MetadataLogFileIndex"
        try:
            java.Class.forName(name, False, java.Thread.currentThread().getContextClassLoader())  # noqa: FBT003
        except Py4JError:
            continue
        return java_class(env, name)
    return None


def _relation(env: SparkEnvironment, index: JavaObject, types: JavaObject, options: JavaObject) -> JavaObject:
    """Return the relation that ``DataFrameReader.load`` would make of the files (``DataSource.resolveRelation``)."""
    # the companion object: the class of the same name has a method ``apply`` of its own
    companion = java_class(env, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$")
    case_insensitive = getattr(companion, "MODULE$")
    return java_class(env, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
        index,
        java_class(env, "org.apache.spark.sql.types.StructType")(),
        types.asNullable(),
        java_class(env, "scala.Option").empty(),
        java_class(env, ORC)(),
        case_insensitive.apply(_scala_map(env, options)),
        session_of(env),
    )


def _scala_map(env: SparkEnvironment, values: JavaObject) -> JavaObject:
    return java_class(env, "org.apache.spark.api.python.PythonUtils").toScalaMap(values)

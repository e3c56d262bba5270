"""Original files (without ACID columns), with the row ids that Hive gives to their rows.

``_metadata`` has no row index for ORC. Each file is one task, and a row's number in the task is its number in the file.

Write id, bucket property and first row id are the same for all rows of a file. The scan looks them up by the path of
the file, or joins them (very many files). If neither row ids nor delete events need number and lookup, Spark drops
both. It then reads the file as fast as a file of a plain table.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.spark.formats import flat_files as flat
from hiveacid.spark.formats.expressions import Expression, named, selected
from hiveacid.spark.read.partition_lookup import (
    FILE_PATH,
    PartitionKeyColumns,
    PartitionLookup,
    can_look_up,
    index_by_spark_path,
    path_depth,
)
from hiveacid.spark.read.scan_source import (
    STRICT_READ,
    FileGroup,
    FilesOf,
    ScanSource,
    escape_globs,
    group_files,
)
from hiveacid.spark.session.classic_session import frame_of_plan, plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import long_array, map_lookup
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location

_UNESCAPED_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NOT_THE_LISTED_FILE = (
    "[HIVEACID_FORMAT] a file without row ids is not the one that was listed, or was not read as a whole"
)

PARTITION_KEY = PartitionKeyColumns("__hiveacid_partition", "__hiveacid_partition_number")
"""Partition key of a row in the columns that `original_frames` adds."""


_FileFacts = tuple[int, int, int, int]
"""Write id, bucket property, first row id and number of rows of an original file."""


def _facts_of(file: ScanFile) -> _FileFacts:
    ids = file.original
    assert ids is not None  # noqa: S101 - only original files are read here
    return int(ids.write_id), ids.bucket_property, ids.first_row_id, file.rows


def original_column(index: int) -> str:
    """Return the name of a column of the table in `original_frames`."""
    return f"__hiveacid_c{index}"


def original_frames(
    source: ScanSource, locations: Sequence[Location], files_of: FilesOf, *, with_partition_key: bool
) -> Iterable[tuple[FileGroup, DataFrame]]:
    """Yield scans: `KEY_COLUMNS`, ``__hiveacid_file``; `PARTITION_KEY` if asked for.

    User and partition columns are renamed by `original_column`, in the table's order, so that none has such a name.
    """
    groups = group_files(source.table, locations, files_of)
    if not groups:
        return
    files = {spark_path(file.path): file for location in locations for file in files_of(location)}
    per_file = source.env.session_with_task_per_file(None)
    for group in groups:
        file_facts = [_facts_of(files[path]) for path in group.files]
        looked_up = can_look_up(group)
        looked_up_facts = file_facts if looked_up else None
        rows = _read_group(source, per_file, group, looked_up_facts, with_partition_key=with_partition_key)
        # Each file is read by one task as a whole, so that a row's number in the task is that in the file.
        in_task = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # the task is in the bits above
        rows = rows.selectExpr("*", f"if(__hiveacid_block = 0, {in_task}, NULL) AS __hiveacid_number")
        numbered = frame_of_plan(source.env, plan_of(rows))
        if not looked_up:
            numbered = _join_file_facts(source, numbered, group, file_facts)
        yield group, _with_row_ids(numbered)


def _read_group(
    source: ScanSource,
    env: SparkEnvironment,
    group: FileGroup,
    file_facts: Sequence[_FileFacts] | None = None,
    *,
    with_partition_key: bool,
) -> DataFrame:
    """Return the rows with the columns that their numbers come from, and with ``file_facts`` or the tail of the file's path."""
    table = source.table
    frame = flat.read(
        env, table, escape_globs(group.files), STRICT_READ | group.identity, group.options.mapping
    )
    partition = PartitionLookup(env, table, group, frame)
    partition_key = [named(partition.name, PARTITION_KEY.name)] if with_partition_key else []
    if with_partition_key:
        partition_key.append(named(partition.number, PARTITION_KEY.number))
    file_key: list[Expression] = [f"{_path_tail(table, group)} AS __hiveacid_tail"]
    if file_facts is not None:
        file_key = []
        if len(group.files) > 1:
            indexes = index_by_spark_path(env, table, group, frame)
            file_key = [named(map_lookup(env, indexes, F.col(FILE_PATH), "int"), "__hiveacid_file_index")]
    rows = selected(
        frame,
        [
            *[quote_name(c.name) for c in table.columns],
            *partition.columns,
            *partition_key,
            "_metadata.file_path AS __hiveacid_file",
            *file_key,
            "_metadata.file_block_start AS __hiveacid_block",
        ],
    )
    count = len(table.columns) + len(table.partition_columns)
    rows = rows.toDF(*map(original_column, range(count)), *rows.columns[count:])
    return rows if file_facts is None else _add_file_facts(env, rows, file_facts)


def _add_file_facts(env: SparkEnvironment, rows: DataFrame, file_facts: Sequence[_FileFacts]) -> DataFrame:
    """Add the facts of each row's file, by the index of that file."""

    def by_file(values: Sequence[int]) -> Column:
        if len(set(values)) == 1:
            return F.lit(values[0]).cast("bigint")
        return F.get(
            long_array(env, struct.pack(f"<{len(values)}q", *values)), F.col("__hiveacid_file_index")
        )

    write_id, bucket, first, count = (by_file(values) for values in zip(*file_facts, strict=True))
    return rows.select(
        "*",
        write_id.alias(AcidColumn.ORIGINAL_WRITE_ID),
        bucket.cast("int").alias(AcidColumn.BUCKET),
        first.alias("__hiveacid_first"),
        count.alias("__hiveacid_rows"),
    )


def _path_tail(table: TableDefinition, group: FileGroup) -> str:
    """Return the last path components of a row's file, which tell the files of a group apart.

    Spark spells scheme and authority in several ways. The expression runs for each row: the plain name costs least.
    """
    depth = path_depth(table, group)
    if depth == 1 and all(_UNESCAPED_NAME.fullmatch(file.rpartition("/")[2]) for file in group.files):
        return "_metadata.file_name"
    return f"substring_index(url_decode(replace(_metadata.file_path, '+', '%2B')), '/', -{depth})"


def _join_file_facts(
    source: ScanSource, numbered: DataFrame, group: FileGroup, file_facts: Sequence[_FileFacts]
) -> DataFrame:
    """Add the facts of each row's file by a join."""
    depth = path_depth(source.table, group)
    paths = ("/".join(file.split("/")[-depth:]) for file in group.files)
    values = [(path, *facts) for path, facts in zip(paths, file_facts, strict=True)]
    by_file = source.env.spark.createDataFrame(
        values,
        f"__hiveacid_path string, {AcidColumn.ORIGINAL_WRITE_ID} bigint, {AcidColumn.BUCKET} int, "
        "__hiveacid_first bigint, __hiveacid_rows bigint",
    )
    # Spark drops an unused join only if it knows that the keys are unique
    by_file = by_file.coalesce(1).dropDuplicates(["__hiveacid_path"])
    return numbered.join(F.broadcast(by_file), F.expr("__hiveacid_tail = __hiveacid_path"), "left")


def _with_row_ids(numbered: DataFrame) -> DataFrame:
    """Return rows with their row ids, without the columns that these are computed from."""
    # a number beyond the file's rows: a task read more than one file
    row_id = (
        f"CASE WHEN __hiveacid_number < __hiveacid_rows THEN __hiveacid_first + __hiveacid_number "
        f"ELSE CAST(raise_error('{_NOT_THE_LISTED_FILE}') AS BIGINT) END"
    )
    return numbered.withColumn(AcidColumn.ROW_ID, F.expr(row_id)).drop(
        "__hiveacid_tail",
        "__hiveacid_file_index",
        "__hiveacid_block",
        "__hiveacid_number",
        "__hiveacid_first",
        "__hiveacid_rows",
        "__hiveacid_path",
    )

"""Scans of files without ACID columns, with the row ids that Hive gives their rows.

A row's number in its file comes from a window over the file: exact however Spark cuts files into tasks
(``_metadata`` has no row index for ORC). Spark drops the window, and the join that brings the ids, where neither
row ids nor a delete event ask for them, and the file is then read at plain speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.spark import flat
from hiveacid.spark.paths import FileFacts, FileGroup, Reading, group_files, names, partition_columns, place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.listing import DataFile
    from hiveacid.core.model import TableDefinition
    from hiveacid.core.originals import OriginalRows
    from hiveacid.ports import FileSystem
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location

Numbered = dict[str, tuple["OriginalRows", ...]]
"""Original files by the root of the location that they lie in."""


@dataclass(frozen=True)
class RawSource:
    """Where raw files are read from; ``files`` by absolute path."""

    facts: SparkFacts
    fs: FileSystem
    table: TableDefinition
    files: Mapping[str, FileFacts]
    strict: dict[str, str]


def raw_frames(
    source: RawSource, locations: Sequence[Location], numbered: Numbered
) -> Iterable[tuple[FileGroup, DataFrame]]:
    """Yield scans: user and partition columns, ``originalTransaction``, ``bucket``, ``rowId``, ``__hiveacid_place``, ``__hiveacid_file``."""

    def files_of(location: Location) -> Iterable[tuple[DataFile, Reading, None]]:
        for one in numbered.get(location.root, ()):
            known = source.files[f"{location.root}/{one.file.path}"]
            yield one.file, Reading(recipe=known.recipe), None

    ids = {
        source.fs.spark_path(f"{root}/{one.file.path}"): one
        for root, many in numbered.items()
        for one in many
    }
    for group in group_files(source.fs, source.table, locations, files_of):
        files, recipe = names(group.files), group.reading.recipe
        frame = flat.read(source.facts, source.table, files, source.strict, recipe)
        yield group, _with_row_ids(source, frame, group, [ids[file] for file in group.files])


def _with_row_ids(
    source: RawSource, frame: DataFrame, group: FileGroup, rows: Sequence[OriginalRows]
) -> DataFrame:
    table = source.table
    named = frame.select(
        *[F.col(quote_name(c.name)) for c in table.columns],
        *partition_columns(table, group),
        place(table, group).alias("__hiveacid_place"),
        F.col("_metadata.file_path").alias("__hiveacid_file"),
        F.col("_metadata.file_block_start").alias("__hiveacid_block"),
        F.monotonically_increasing_id().alias("__hiveacid_order"),
    )
    number = (
        F.row_number().over(
            Window.partitionBy("__hiveacid_file").orderBy("__hiveacid_block", "__hiveacid_order")
        )
        - 1
    )
    # how Spark spells scheme and authority differs; the last components tell the files of a group apart
    depth = group.depth + (len(table.partition_columns) if group.location is None else 0)
    decoded = F.url_decode(F.replace(F.col("__hiveacid_file"), F.lit("+"), F.lit("%2B")))
    tail = F.substring_index(decoded, "/", -depth)
    ids = source.facts.spark.createDataFrame(
        [
            ("/".join(file.split("/")[-depth:]), int(one.write_id), one.bucket_property, one.first_row_id)
            for file, one in zip(group.files, rows, strict=True)
        ],
        "__hiveacid_path string, originalTransaction bigint, bucket int, __hiveacid_first bigint",
    )
    # Spark drops a join that nothing is asked of only where it knows its keys to be unique
    ids = ids.coalesce(1).dropDuplicates(["__hiveacid_path"])
    joined = named.withColumn("__hiveacid_number", number).join(
        F.broadcast(ids), tail == F.col("__hiveacid_path"), "left"
    )
    lost = F.raise_error(F.lit("[HIVEACID_FORMAT] a file without row ids is not the one that was listed"))
    row_id = F.when(
        F.col("__hiveacid_path").isNotNull(), F.col("__hiveacid_first") + F.col("__hiveacid_number")
    )
    return joined.withColumn("rowId", F.coalesce(row_id, lost.cast("bigint"))).drop(
        "__hiveacid_block", "__hiveacid_order", "__hiveacid_number", "__hiveacid_first", "__hiveacid_path"
    )

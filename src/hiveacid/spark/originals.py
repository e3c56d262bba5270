"""Scans of files without ACID columns, with the row ids that Hive gives their rows.

``_metadata`` has no row index for ORC. On a classic session each file is a task of its own, so that a row's number in
the task is its number in the file; on Connect, where a file may be cut, it comes from a window over the file. Spark
drops the number, and the join that brings the ids, where neither row ids nor a delete event ask for them, and the
file is then read at plain speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.spark import flat
from hiveacid.spark.expressions import named, selected
from hiveacid.spark.inside import frame_of_plan, plan_of
from hiveacid.spark.located import Counted, place_of
from hiveacid.spark.paths import FileFacts, FileGroup, Reading, group_files, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.listing import DataFile
    from hiveacid.core.model import TableDefinition
    from hiveacid.core.originals import OriginalRows
    from hiveacid.ports import FileSystem
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_LOST = "[HIVEACID_FORMAT] a file without row ids is not the one that was listed, or was not read as a whole"

PLACED = Counted("__hiveacid_place", "__hiveacid_at")
"""Where a row lies, as columns that `raw_frames` gives if they are wanted; the number on a classic session only."""

Numbered = dict[str, tuple["OriginalRows", ...]]
"""Original files by the root of the location that they lie in."""


@dataclass(frozen=True)
class RawSource:
    """Where raw files are read from; ``files`` by absolute path; ``placed``: columns say where rows lie."""

    facts: SparkFacts
    fs: FileSystem
    table: TableDefinition
    files: Mapping[str, FileFacts]
    strict: dict[str, str]
    placed: bool = False


def raw_frames(
    source: RawSource, locations: Sequence[Location], numbered: Numbered
) -> Iterable[tuple[FileGroup, DataFrame]]:
    """Yield scans: user and partition columns, ``originalTransaction``, ``bucket``, ``rowId``, ``__hiveacid_file``; `PLACED` if wanted."""

    def files_of(location: Location) -> Iterable[tuple[DataFile, Reading, None]]:
        for one in numbered.get(location.root, ()):
            known = source.files[f"{location.root}/{one.file.path}"]
            yield one.file, Reading(recipe=known.recipe), None

    groups = group_files(source.fs, source.table, locations, files_of)
    if not groups:
        return
    ids = {
        source.fs.spark_path(f"{root}/{one.file.path}"): (one, source.files[f"{root}/{one.file.path}"].rows)
        for root, many in numbered.items()
        for one in many
    }
    apart = source.facts.apart(None)
    for group in groups:
        if apart is None:
            counted = _counted_by_window(_found(source, source.facts, group))
        else:
            counted = _counted_by_task(_found(source, apart, group))
            counted = frame_of_plan(source.facts, plan_of(counted))
        yield group, _with_row_ids(source, counted, group, [ids[file] for file in group.files])


def _found(source: RawSource, facts: SparkFacts, group: FileGroup) -> DataFrame:
    """Return the rows with what tells their file and their place in it."""
    table = source.table
    frame = flat.read(facts, table, names(group.files), source.strict, group.reading.recipe)
    at = place_of(facts, table, group, frame)
    placed = [named(at.name, PLACED.name)] if source.placed else []
    if source.placed and facts.classic:
        placed.append(named(at.number, PLACED.number))
    return selected(
        frame,
        [
            *[quote_name(c.name) for c in table.columns],
            *at.columns,
            *placed,
            "_metadata.file_path AS __hiveacid_file",
            f"{_tail(table, group)} AS __hiveacid_tail",
            "_metadata.file_block_start AS __hiveacid_block",
            "monotonically_increasing_id() AS __hiveacid_order",
        ],
    )


def _tail(table: TableDefinition, group: FileGroup) -> str:
    """Return the last components of a row's file, which tell the files of a group apart.

    How Spark spells scheme and authority differs. This is computed for each row: the plain name costs least.
    """
    depth = _depth(table, group)
    if depth == 1 and all(_PLAIN.fullmatch(file.rpartition("/")[2]) for file in group.files):
        return "_metadata.file_name"
    return f"substring_index(url_decode(replace(_metadata.file_path, '+', '%2B')), '/', -{depth})"


def _depth(table: TableDefinition, group: FileGroup) -> int:
    return group.depth + (len(table.partition_columns) if group.location is None else 0)


def _counted_by_task(found: DataFrame) -> DataFrame:
    """Give rows their numbers in files of which each is read by one task, and all of it (`SparkFacts.apart`)."""
    in_task = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # the task is in the bits above
    return found.selectExpr("*", f"if(__hiveacid_block = 0, {in_task}, NULL) AS __hiveacid_number")


def _counted_by_window(found: DataFrame) -> DataFrame:
    order = Window.partitionBy("__hiveacid_file").orderBy("__hiveacid_block", "__hiveacid_order")
    return found.withColumn("__hiveacid_number", F.row_number().over(order) - 1)


def _with_row_ids(
    source: RawSource, counted: DataFrame, group: FileGroup, rows: Sequence[tuple[OriginalRows, int]]
) -> DataFrame:
    depth = _depth(source.table, group)
    ids = source.facts.spark.createDataFrame(
        [
            (
                "/".join(file.split("/")[-depth:]),
                int(one.write_id),
                one.bucket_property,
                one.first_row_id,
                count,
            )
            for file, (one, count) in zip(group.files, rows, strict=True)
        ],
        "__hiveacid_path string, originalTransaction bigint, bucket int, __hiveacid_first bigint, __hiveacid_rows bigint",
    )
    # Spark drops a join that nothing is asked of only where it knows its keys to be unique
    ids = ids.coalesce(1).dropDuplicates(["__hiveacid_path"])
    joined = counted.join(F.broadcast(ids), F.expr("__hiveacid_tail = __hiveacid_path"), "left")
    # a number beyond the file's rows: a task read more than one file
    row_id = (
        f"CASE WHEN __hiveacid_number < __hiveacid_rows THEN __hiveacid_first + __hiveacid_number "
        f"ELSE CAST(raise_error('{_LOST}') AS BIGINT) END"
    )
    return joined.withColumn("rowId", F.expr(row_id)).drop(
        "__hiveacid_tail",
        "__hiveacid_block",
        "__hiveacid_order",
        "__hiveacid_number",
        "__hiveacid_first",
        "__hiveacid_rows",
        "__hiveacid_path",
    )

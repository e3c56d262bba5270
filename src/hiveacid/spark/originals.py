"""Scans of files without ACID columns, with the row ids that Hive gives their rows.

``_metadata`` has no row index for ORC. On a classic session each file is a task of its own, so that a row's number in
the task is its number in the file; on Connect, where a file may be cut, it comes from a window over the file. What a
file's rows have in common is looked up by its path, or joined (Connect, very many files). Spark drops the number, and
what brings the ids, where neither row ids nor a delete event ask for them, and the file is then read at plain speed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.spark import flat
from hiveacid.spark.expressions import Expression, named, selected
from hiveacid.spark.inside import frame_of_plan, plan_of
from hiveacid.spark.jvm import longs, lookup
from hiveacid.spark.located import Counted, can_look_up, depth_of, place_of, spelled
from hiveacid.spark.paths import PATH, FileFacts, FileGroup, Reading, group_files, names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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


@dataclass(frozen=True)
class _Files:
    """Facts of a group's files, in its order: write id, bucket property, first row id, number of rows."""

    write_ids: tuple[int, ...]
    buckets: tuple[int, ...]
    firsts: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, known: Sequence[tuple[OriginalRows, int]]) -> _Files:
        return cls(
            tuple(int(one.write_id) for one, _ in known),
            tuple(one.bucket_property for one, _ in known),
            tuple(one.first_row_id for one, _ in known),
            tuple(rows for _, rows in known),
        )


def raw_name(index: int) -> str:
    """Return what a column of the table is called in `raw_frames`."""
    return f"__hiveacid_c{index}"


def raw_frames(
    source: RawSource, locations: Sequence[Location], numbered: Numbered
) -> Iterable[tuple[FileGroup, DataFrame]]:
    """Yield scans: ``originalTransaction``, ``bucket``, ``rowId``, ``__hiveacid_file``; `PLACED` if wanted.

    User and partition columns are called `raw_name`, in the table's order: their own names may be those.
    """

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
        files = _Files.of([ids[file] for file in group.files])
        if apart is None:
            yield (
                group,
                _joined(source, _counted_by_window(_found(source, source.facts, group)), group, files),
            )
            continue
        known = files if can_look_up(apart, group) else None
        counted = _counted_by_task(_found(source, apart, group, known))
        counted = frame_of_plan(source.facts, plan_of(counted))
        yield group, _joined(source, counted, group, files) if known is None else _with_row_ids(counted)


def _found(source: RawSource, facts: SparkFacts, group: FileGroup, files: _Files | None = None) -> DataFrame:
    """Return the rows with what tells their file and their place in it, or what its rows have in common."""
    table = source.table
    frame = flat.read(facts, table, names(group.files), source.strict, group.reading.recipe)
    at = place_of(facts, table, group, frame)
    placed = [named(at.name, PLACED.name)] if source.placed else []
    if source.placed and facts.classic:
        placed.append(named(at.number, PLACED.number))
    which: list[Expression] = [f"{_tail(table, group)} AS __hiveacid_tail"]
    if files is not None:
        which = [] if len(group.files) == 1 else [named(_which(facts, table, group, frame), "__hiveacid_nth")]
    rows = selected(
        frame,
        [
            *[quote_name(c.name) for c in table.columns],
            *at.columns,
            *placed,
            "_metadata.file_path AS __hiveacid_file",
            *which,
            "_metadata.file_block_start AS __hiveacid_block",
            "monotonically_increasing_id() AS __hiveacid_order",
        ],
    )
    own = len(table.columns) + len(table.partition_columns)
    rows = rows.toDF(*map(raw_name, range(own)), *rows.columns[own:])
    return rows if files is None else _with_facts(facts, rows, files)


def _which(facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame) -> Column:
    return lookup(facts, spelled(facts, table, group, frame), F.col(PATH), "int")


def _with_facts(facts: SparkFacts, rows: DataFrame, files: _Files) -> DataFrame:
    """Add what the rows of each file have in common."""

    def common(values: Sequence[int]) -> Column:
        if len(set(values)) == 1:
            return F.lit(values[0]).cast("bigint")
        return F.get(longs(facts, struct.pack(f"<{len(values)}q", *values)), F.col("__hiveacid_nth"))

    return rows.select(
        "*",
        common(files.write_ids).alias("originalTransaction"),
        common(files.buckets).cast("int").alias("bucket"),
        common(files.firsts).alias("__hiveacid_first"),
        common(files.counts).alias("__hiveacid_rows"),
    )


def _tail(table: TableDefinition, group: FileGroup) -> str:
    """Return the last components of a row's file, which tell the files of a group apart.

    How Spark spells scheme and authority differs. This is computed for each row: the plain name costs least.
    """
    depth = depth_of(table, group)
    if depth == 1 and all(_PLAIN.fullmatch(file.rpartition("/")[2]) for file in group.files):
        return "_metadata.file_name"
    return f"substring_index(url_decode(replace(_metadata.file_path, '+', '%2B')), '/', -{depth})"


def _counted_by_task(found: DataFrame) -> DataFrame:
    """Give rows their numbers in files of which each is read by one task, and all of it (`SparkFacts.apart`)."""
    in_task = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # the task is in the bits above
    return found.selectExpr("*", f"if(__hiveacid_block = 0, {in_task}, NULL) AS __hiveacid_number")


def _counted_by_window(found: DataFrame) -> DataFrame:
    order = Window.partitionBy("__hiveacid_file").orderBy("__hiveacid_block", "__hiveacid_order")
    return found.withColumn("__hiveacid_number", F.row_number().over(order) - 1)


def _joined(source: RawSource, counted: DataFrame, group: FileGroup, files: _Files) -> DataFrame:
    """Add what the rows of each file have in common by a join, and their row ids."""
    depth = depth_of(source.table, group)
    paths = ("/".join(file.split("/")[-depth:]) for file in group.files)
    facts = source.facts.spark.createDataFrame(
        list(zip(paths, files.write_ids, files.buckets, files.firsts, files.counts, strict=True)),
        "__hiveacid_path string, originalTransaction bigint, bucket int, __hiveacid_first bigint, __hiveacid_rows bigint",
    )
    # Spark drops a join that nothing is asked of only where it knows its keys to be unique
    facts = facts.coalesce(1).dropDuplicates(["__hiveacid_path"])
    return _with_row_ids(
        counted.join(F.broadcast(facts), F.expr("__hiveacid_tail = __hiveacid_path"), "left")
    )


def _with_row_ids(counted: DataFrame) -> DataFrame:
    """Return rows with their row ids, and without what these are made of."""
    # a number beyond the file's rows: a task read more than one file
    row_id = (
        f"CASE WHEN __hiveacid_number < __hiveacid_rows THEN __hiveacid_first + __hiveacid_number "
        f"ELSE CAST(raise_error('{_LOST}') AS BIGINT) END"
    )
    return counted.withColumn("rowId", F.expr(row_id)).drop(
        "__hiveacid_tail",
        "__hiveacid_nth",
        "__hiveacid_block",
        "__hiveacid_order",
        "__hiveacid_number",
        "__hiveacid_first",
        "__hiveacid_rows",
        "__hiveacid_path",
    )

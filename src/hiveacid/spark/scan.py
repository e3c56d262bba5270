"""One snapshot of one table as a native Spark plan.

The traps are in ``docs/format.md`` (ORC-Java recognises ACID files by their six root columns; predicates on
root columns are resolved inside ``row``). Three rules keep clear of them, and only this module knows them:
all six root columns stay alive in every scan (`_GUARD`), no bare root column is ever compared, and nothing
is added to the root: partition columns are expressions over ``_metadata.file_path``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.listing import DataFile
from hiveacid.core.model import Column, TableDefinition, TableKind
from hiveacid.core.types import quote_name
from hiveacid.core.write_ids import RangeResponse, ValidWriteIdList
from hiveacid.spark import flat
from hiveacid.spark.deletes import ROOT_KEY, DeleteBounds, delete_key
from hiveacid.spark.originals import Numbered, RawSource, raw_frames
from hiveacid.spark.paths import FileGroup, group_files, names, partition_columns, place
from hiveacid.spark.timezone import from_file
from hiveacid.spark.types import column_type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from hiveacid.ports import FileSystem
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location

ROW_ID = "ROW__ID"
FILE_NAME = "INPUT__FILE__NAME"
ABSENT = "__hiveacid_absent"
CURRENT = "__hiveacid_current"
_GUARD = f"coalesce(operation, bucket, originalTransaction, rowId, currentTransaction, row.`{ABSENT}`)"
# A reader that skips what it can't read loses rows silently, whatever the session says.
STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


ROW_ID_TYPE = T.StructType(
    [
        T.StructField("writeid", T.LongType()),
        T.StructField("bucketid", T.IntegerType()),
        T.StructField("rowid", T.LongType()),
    ]
)

# Of the writers of ACID files without a calendar mark Hive 3.1 is the one: it counts days by the proleptic calendar.
_CALENDAR = {"orc.proleptic.gregorian.default": "true"}


@dataclass(frozen=True)
class Source:
    """Where a scan reads: facts of the session, file system, table, its write-id list."""

    facts: SparkFacts
    fs: FileSystem
    table: TableDefinition
    write_ids: ValidWriteIdList


def scan(
    source: Source,
    locations: Sequence[Location],
    bounds: DeleteBounds | None,
    *,
    arguments: dict[str, str] | None = None,
    numbered: Numbered | None = None,
    current: bool = False,
) -> DataFrame:
    """Return user columns, partition columns, ``ROW__ID`` and ``INPUT__FILE__NAME`` of the live rows.

    ``bounds`` are the delete events' (None: there are none). ``arguments`` are ORC search-argument options.
    ``numbered``: files without ACID columns. ``current`` adds the current write id of each row (compaction
    keeps it). Unused columns cost nothing: Spark prunes them. Columns keep the table's order.
    """
    if source.table.kind is not TableKind.FULL_ACID:
        return _flat_scan(source, locations)
    touched = [at for at in locations if any(d.files for d in at.state.delete_deltas)] if bounds else []
    roots = {at.root for at in touched}
    untouched = [at for at in locations if at.root not in roots]
    frames = [frame for frame, _ in _rows(source, untouched, arguments, numbered or {}, None)]
    if bounds is not None and touched:
        frames += _live(source, touched, bounds, arguments, numbered or {})
    if not frames:
        return _empty(source, current=current)
    live = reduce(lambda left, right: left.unionByName(right), frames)
    return live if current else live.drop(CURRENT)


def scan_deletes(source: Source, locations: Sequence[Location]) -> DataFrame:
    """Return valid delete events: ``ROW__ID``, the deleting write id, partition columns.

    Duplicates stay (the same row deleted twice). Used by joins and by minor compaction.
    """
    groups = group_files(source.fs, source.table, locations, deletes_of)
    frames = [_select_events(source, _read_acid(source, group, (), 2, None), group) for group in groups]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _live(
    source: Source,
    locations: Sequence[Location],
    bounds: DeleteBounds,
    arguments: dict[str, str] | None,
    numbered: Numbered,
) -> list[DataFrame]:
    many = len(locations) > 1
    events = [
        frame.select(
            delete_key(bounds, place(source.table, group) if many else None, strict=True).alias(
                "__hiveacid_dk"
            )
        )
        for group in group_files(source.fs, source.table, locations, deletes_of)
        for frame in [_read_acid(source, group, (), 2, None)]
    ]
    deletes = reduce(lambda left, right: left.union(right), events)
    deletes = F.broadcast(deletes) if bounds.fits_memory else deletes.hint("merge")
    return [
        frame.join(deletes, F.col("__hiveacid_k") == F.col("__hiveacid_dk"), "left_anti").drop("__hiveacid_k")
        for frame, _ in _rows(source, locations, arguments, numbered, (bounds, many))
    ]


def _rows(
    source: Source,
    locations: Sequence[Location],
    arguments: dict[str, str] | None,
    numbered: Numbered,
    key: tuple[DeleteBounds, bool] | None,
) -> Iterable[tuple[DataFrame, FileGroup]]:
    """Yield all rows, deleted ones too; with ``key`` (bounds, several partitions) their join key as ``__hiveacid_k``."""
    for group in group_files(source.fs, source.table, locations, data_of):
        frame = _read_acid(source, group, source.table.columns, 0, arguments)
        at = place(source.table, group) if key and key[1] else None
        more = [delete_key(key[0], at, strict=False).alias("__hiveacid_k")] if key else []
        yield _select(source, frame, group, *more), group
    raw = RawSource(source.facts, source.fs, source.table, STRICT)
    for group, frame in raw_frames(raw, locations, numbered):
        at = F.col("__hiveacid_place") if key and key[1] else None
        more = [delete_key(key[0], at, strict=False).alias("__hiveacid_k")] if key else []
        yield _select_raw(source, frame, *more), group


def _read_acid(
    source: Source,
    group: FileGroup,
    columns: Sequence[Column],
    operation: int,
    arguments: dict[str, str] | None,
) -> DataFrame:
    row = T.StructType([T.StructField(c.name, column_type(c)) for c in columns])
    six = T.StructType(
        [
            T.StructField("operation", T.IntegerType()),
            T.StructField("originalTransaction", T.LongType()),
            T.StructField("bucket", T.IntegerType()),
            T.StructField("rowId", T.LongType()),
            T.StructField("currentTransaction", T.LongType()),
            T.StructField("row", row.add(ABSENT, T.IntegerType())),
        ]
    )
    reader = source.facts.spark.read.schema(six).options(**STRICT, **_CALENDAR, **(arguments or {}))
    frame = reader.orc(names(group.files)).where(F.expr(f"{_GUARD} = {operation}"))
    if group.check:
        frame = frame.where(row_validity(source.write_ids, "currentTransaction"))
        frame = frame.where(row_validity(source.write_ids, "originalTransaction"))
    return frame


def row_validity(write_ids: ValidWriteIdList, column: str) -> SparkColumn:
    """Return a condition that a root column's write id is valid (never pushed down: see the module)."""
    value = f"coalesce({column}, -1L)"
    valid = f"{value} <= {int(write_ids.high_watermark)}L"
    invalid = sorted({int(i) for i in (*write_ids.open, *write_ids.aborted)})
    if invalid:
        valid += f" AND {value} NOT IN ({', '.join(f'{i}L' for i in invalid)})"
    return F.expr(valid)


def _select(source: Source, frame: DataFrame, group: FileGroup, *more: SparkColumn) -> DataFrame:
    users = [
        from_file(source.facts, F.expr(f"row.{quote_name(c.name)}"), c.type).alias(c.name)
        for c in source.table.columns
    ]
    identity = [_row_id().alias(ROW_ID), F.col("_metadata.file_path").alias(FILE_NAME)]
    current = _current()
    return frame.select(*users, *partition_columns(source.table, group), *identity, current, *more)


def _select_raw(source: Source, frame: DataFrame, *more: SparkColumn) -> DataFrame:
    names = [c.name for c in (*source.table.columns, *source.table.partition_columns)]
    identity = [_row_id().alias(ROW_ID), F.col("__hiveacid_file").alias(FILE_NAME)]
    current = F.col("originalTransaction").alias(CURRENT)
    return frame.select(*[F.col(quote_name(name)) for name in names], *identity, current, *more)


def _select_events(source: Source, frame: DataFrame, group: FileGroup) -> DataFrame:
    current = _current()
    return frame.select(*partition_columns(source.table, group), _row_id().alias(ROW_ID), current)


def _row_id() -> SparkColumn:
    write_id, bucket, row_id = ROOT_KEY
    return F.expr(f"struct({write_id} AS writeid, {bucket} AS bucketid, {row_id} AS rowid)")


def _current() -> SparkColumn:
    return F.expr(f"coalesce(currentTransaction, -1L) AS {CURRENT}")


def data_of(location: Location) -> Iterable[tuple[DataFile, bool]]:
    """Yield the insert files of a location and whether their rows' write ids must be checked."""
    state = location.state
    for directory in (*((state.base,) if state.base is not None else ()), *state.deltas):
        if not directory.raw:
            yield from ((file, directory.validity is not RangeResponse.ALL) for file in directory.acid_files)


def deletes_of(location: Location) -> Iterable[tuple[DataFile, bool]]:
    """Yield the delete event files of a location and whether their write ids must be checked."""
    for directory in location.state.delete_deltas:
        yield from ((file, directory.validity is not RangeResponse.ALL) for file in directory.acid_files)


def _empty(source: Source, *, current: bool) -> DataFrame:
    """Return no rows, made in the JVM: no Python worker is needed."""
    table = source.table
    columns = [(c.name, column_type(c)) for c in (*table.columns, *table.partition_columns)]
    if table.kind is TableKind.FULL_ACID:
        columns.append((ROW_ID, ROW_ID_TYPE))
    columns.append((FILE_NAME, T.StringType()))
    if current:
        columns.append((CURRENT, T.LongType()))
    return source.facts.spark.range(0).select(*[F.lit(None).cast(kind).alias(name) for name, kind in columns])


def _flat_scan(source: Source, locations: Sequence[Location]) -> DataFrame:
    table = source.table
    frames = []
    options = STRICT if table.kind is TableKind.PLAIN else STRICT | _CALENDAR
    for group in group_files(source.fs, table, locations, flat_of):
        frame = flat.read(source.facts, table, names(group.files), options)
        users = [F.col(quote_name(c.name)) for c in table.columns]
        name = F.col("_metadata.file_path").alias(FILE_NAME)
        frames.append(frame.select(*users, *partition_columns(table, group), name))
    return (
        reduce(lambda left, right: left.unionByName(right), frames)
        if frames
        else _empty(source, current=False)
    )


def flat_of(location: Location) -> Iterable[tuple[DataFile, bool]]:
    """Yield all data files of an insert-only or plain location."""
    state = location.state
    for directory in (*((state.base,) if state.base is not None else ()), *state.deltas):
        yield from ((file, False) for file in directory.files)
    yield from ((file, False) for file in state.originals)

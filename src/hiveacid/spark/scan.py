"""One snapshot of one table as a native Spark plan.

The traps are in ``docs/format.md`` (ORC-Java recognises ACID files by their six root columns; predicates on
root columns are resolved inside ``row``). Three rules keep clear of them, and only this module knows them:
all six root columns stay alive in every scan (`_GUARD`), no bare root column is ever compared, and nothing
is added to the root: partition columns are expressions over ``_metadata.file_path`` (``spark.located``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.evolution import Recipe
from hiveacid.core.listing import DataFile
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.types import quote_name
from hiveacid.core.write_ids import RangeResponse, ValidWriteIdList
from hiveacid.spark import flat, recipes
from hiveacid.spark.dead import DeadRows
from hiveacid.spark.deletes import ROOT_KEY, DeleteBounds, delete_key
from hiveacid.spark.expressions import Expression, cast, named, selected
from hiveacid.spark.located import Located, Place, place_of
from hiveacid.spark.originals import PLACED, Numbered, RawSource, raw_frames, raw_name
from hiveacid.spark.paths import (
    FileFacts,
    FileGroup,
    FilesOf,
    Reading,
    file_name,
    group_files,
    names,
)
from hiveacid.spark.reach import WORTH, Box, spans, unreached
from hiveacid.spark.types import column_type
from hiveacid.spark.versions import is_older, row_version, statement_of, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.snapshot import AcidDirectory
    from hiveacid.ports import FileSystem
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location

ROW_ID = "ROW__ID"
FILE_NAME = "INPUT__FILE__NAME"
ABSENT = "__hiveacid_absent"
CURRENT = "__hiveacid_current"
_ROW_ID = f"struct({ROOT_KEY[0]} AS writeid, {ROOT_KEY[1]} AS bucketid, {ROOT_KEY[2]} AS rowid) AS {ROW_ID}"
_CURRENT = f"coalesce(currentTransaction, -1L) AS {CURRENT}"
_FIVE = "operation, bucket, originalTransaction, rowId, currentTransaction"
_GUARD = f"coalesce({_FIVE}, row.`{ABSENT}`)"
# Where columns are found by position Spark must not leave out any of them: this needs the whole of ``row``, and is
# never computed, because no operation is NULL.
_WHOLE = f"coalesce({_FIVE}, length(cast(row as string)))"
_ROWS, _CHANGES, _DELETES = "< 2", ">= 1", "= 2"
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
    """Where a scan reads: facts of the session, file system, table, its write-id list.

    ``files``: what is known of ORC files, by absolute path. ``arguments`` gives ORC search-argument options for
    files of a recipe. ``dead`` gives the delete events of locations as bits, None where they are joined.
    """

    facts: SparkFacts
    fs: FileSystem
    table: TableDefinition
    write_ids: ValidWriteIdList
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    arguments: Callable[[Recipe], Mapping[str, str]] = lambda _: {}
    dead: Callable[[Sequence[Location]], DeadRows | None] = lambda _: None


def scan(
    source: Source,
    locations: Sequence[Location],
    bounds: DeleteBounds | None,
    *,
    numbered: Numbered | None = None,
    current: bool = False,
    counted: bool = False,
) -> DataFrame:
    """Return user columns, partition columns, ``ROW__ID`` and ``INPUT__FILE__NAME`` of the live rows.

    ``bounds`` are the delete events' (None: there are none). ``numbered``: files without ACID columns.
    ``current`` adds the current write id of each row (compaction keeps it). Unused columns cost nothing: Spark
    prunes them. Columns keep the table's order. ``counted``: only the number of rows is right, asking for a value
    fails; files that no delete event can reach are not read for it.
    """
    if source.table.kind is not TableKind.FULL_ACID:
        return _flat_scan(source, locations)
    old, touched, untouched = _sorted_out(source, locations)
    free: Collection[str] = ()
    if bounds is not None and not current:  # a compaction keeps together what one task is to read
        free = _free(source, touched, bounds, least=0 if counted else WORTH)
    roots = {at.root for at in untouched}
    plain = only(data_of(source), lambda at, file: at.root in roots or f"{at.root}/{file.path}" in free)
    frames = None
    if counted:
        hidden = _hidden(source, touched, free, numbered or {})
        frames = _counted(
            source, [*untouched, *touched], plain if hidden is None else data_of(source), hidden or 0
        )
        touched = touched if hidden is None or frames is None else []
    if frames is None:
        frames = [frame for frame, _ in _acid_rows(source, [*untouched, *touched], plain, None)]
    frames += [frame for frame, _ in _raw_rows(source, untouched, numbered or {}, None)]
    if bounds is not None and touched:
        frames += _live(source, touched, bounds, numbered or {}, free)
    if old:
        frames += _newest(source, old, numbered or {})
    if not frames:
        return empty_scan(source, current=current)
    live = reduce(lambda left, right: left.unionByName(right), frames)
    return live if current else live.drop(CURRENT)


def _sorted_out(
    source: Source, locations: Sequence[Location]
) -> tuple[list[Location], list[Location], list[Location]]:
    """Return locations with events of ACID v1, those with delete events only, and those with neither."""
    old: list[Location] = []
    touched: list[Location] = []
    untouched: list[Location] = []
    for at in locations:
        if any(True for _ in changes_of(source)(at)):
            old.append(at)
        elif any(True for _ in deletes_of(source)(at)):
            touched.append(at)
        else:
            untouched.append(at)
    return old, touched, untouched


def scan_deletes(source: Source, locations: Sequence[Location]) -> DataFrame:
    """Return valid delete events: ``ROW__ID``, the deleting write id, partition columns.

    Duplicates stay (the same row deleted twice). Used by joins and by minor compaction.
    """
    groups = group_files(source.fs, source.table, locations, deletes_of(source))
    frames = [_select_events(source, group) for group in groups]
    if not frames:
        places = [c.name for c in source.table.partition_columns]
        return empty_scan(source, current=True).select(*places, ROW_ID, CURRENT)
    return reduce(lambda left, right: left.unionByName(right), frames)


Keys = Callable[[Located, str], Sequence[Expression]]
"""Returns what a frame needs besides its columns to be joined with events: of the rows' place and statement."""


def row_key(locations: Sequence[Location], bounds: DeleteBounds) -> Keys:
    """Return what gives rows the column ``__hiveacid_k``, which `delete_keys` are joined with."""
    many = len(locations) > 1
    return lambda at, _: [named(delete_key(bounds, at.name if many else None, strict=False), "__hiveacid_k")]


def delete_keys(
    source: Source, locations: Sequence[Location], bounds: DeleteBounds, *, current: bool = False
) -> DataFrame:
    """Return the keys of delete events as ``__hiveacid_dk``; ``current`` adds their own write ids."""
    many = len(locations) > 1
    more = [_CURRENT] if current else []

    def keyed(group: FileGroup) -> DataFrame:
        frame = _read_acid(source, group, _DELETES)
        at = place_of(source.facts, source.table, group, frame).name if many else None
        return selected(frame, [named(delete_key(bounds, at, strict=True), "__hiveacid_dk"), *more])

    events = [keyed(group) for group in group_files(source.fs, source.table, locations, deletes_of(source))]
    return reduce(lambda left, right: left.union(right), events)


def _free(
    source: Source, locations: Sequence[Location], bounds: DeleteBounds, *, least: int
) -> Collection[str]:
    """Return the files of touched locations whose rows need no lookup."""
    if not bounds.packs:
        return ()
    paths = [f"{at.root}/{file.path}" for at in locations for file, _, _ in data_of(source)(at)]
    known = {path: source.files[path] for path in paths}
    boxes = {path: one.keys and Box.between(one.keys) for path, one in known.items()}
    return unreached(bounds.boxes, {path: (one.rows, boxes[path]) for path, one in known.items()}, least)


def _hidden(
    source: Source, locations: Sequence[Location], free: Collection[str], numbered: Numbered
) -> int | None:
    """Return how many rows delete events hide, None where that takes a look at the rows.

    An event hides a row if the row is there, and one row, however often it was deleted.
    """
    if not locations or any(numbered.get(at.root) for at in locations):
        return None
    found = [
        (nth, source.files[path].rows, None if reading.check else source.files[path].keys)
        for nth, at in enumerate(locations)
        for file, reading, _ in data_of(source)(at)
        if (path := f"{at.root}/{file.path}") not in free
    ]
    rows = spans(found)
    dead = None if rows is None else source.dead(locations)
    return None if rows is None or dead is None else sum(dead.rows.count(*one) for one in rows)


def _counted(
    source: Source, locations: Sequence[Location], files_of: FilesOf, hidden: int
) -> list[DataFrame] | None:
    """Return as many rows as some files have, less those ``hidden``; None where that takes a look at the rows."""
    rows = -hidden
    for at in locations:
        for file, reading, _ in files_of(at):
            if reading.check:
                return None
            rows += source.files[f"{at.root}/{file.path}"].rows
    unread = "raise_error('[HIVEACID_INTERNAL] a value is asked for where rows are only counted')"
    values = [named(cast(unread, kind), name) for name, kind in _columns(source, current=True)]
    return [selected(source.facts.spark.range(rows), values)] if rows else []


def _live(
    source: Source,
    locations: Sequence[Location],
    bounds: DeleteBounds,
    numbered: Numbered,
    free: Collection[str],
) -> list[DataFrame]:
    within, beyond = _reachable(source, bounds, numbered)
    if not free and not any(beyond.values()):
        bounds = bounds.as_one
    dead = source.dead(locations)
    key = (
        row_key(locations, bounds)
        if dead is None
        else lambda at, _: [named(dead.flag(at.number), "__hiveacid_dead")]
    )
    looked_up = only(data_of(source), lambda at, file: f"{at.root}/{file.path}" not in free)
    frames = [frame for frame, _ in _acid_rows(source, locations, looked_up, key)]
    frames += [frame for frame, _ in _raw_rows(source, locations, within, key)]
    live = [frame for frame, _ in _raw_rows(source, locations, beyond, None)]
    if not frames:
        return live
    if dead is not None:
        return [frame.where("NOT __hiveacid_dead").drop("__hiveacid_dead") for frame in frames] + live
    deletes = delete_keys(source, locations, bounds)
    deletes = F.broadcast(deletes) if bounds.fits_memory else deletes.hint("merge")
    matches = F.expr("__hiveacid_k = __hiveacid_dk")
    return [frame.join(deletes, matches, "left_anti").drop("__hiveacid_k") for frame in frames] + live


def _reachable(source: Source, bounds: DeleteBounds, numbered: Numbered) -> tuple[Numbered, Numbered]:
    """Part files without ACID columns into those that an event may touch, and those that are read as plain files."""
    within: Numbered = {}
    beyond: Numbered = {}
    for root, files in numbered.items():
        touched = [bounds.can_touch(one, source.files[f"{root}/{one.file.path}"].rows) for one in files]
        within[root] = tuple(one for one, is_touched in zip(files, touched, strict=True) if is_touched)
        beyond[root] = tuple(one for one, is_touched in zip(files, touched, strict=True) if not is_touched)
    return within, beyond


def _newest(source: Source, locations: Sequence[Location], numbered: Numbered) -> list[DataFrame]:
    """Return the rows of ACID v1: of each key the event of the latest transaction, unless it is a delete."""
    groups = [
        (group, operations)
        for files_of, operations in ((changes_of(source), _CHANGES), (deletes_of(source), _DELETES))
        for group in group_files(source.fs, source.table, locations, files_of)
    ]
    events = []
    for group, operations in groups:
        frame = _read_acid(source, group, operations)
        at = place_of(source.facts, source.table, group, frame)
        events.append(versions(frame, at.name, group.depth))
    latest = reduce(lambda left, right: left.union(right), events)
    latest = latest.groupBy("__hiveacid_dk").agg(F.max("__hiveacid_dv").alias("__hiveacid_dv"))
    rows = all_rows(source, locations, numbered, lambda at, statement: row_version(at.name, statement))
    return [
        frame.join(latest, is_older(), "left_anti").drop("__hiveacid_k", "__hiveacid_v") for frame, _ in rows
    ]


def all_rows(
    source: Source, locations: Sequence[Location], numbered: Numbered, key: Keys | None
) -> Iterable[tuple[DataFrame, FileGroup]]:
    """Yield all rows, those that events hide too, with their own write ids (`CURRENT`) and what ``key`` adds."""
    yield from _acid_rows(source, locations, data_of(source), key)
    yield from _raw_rows(source, locations, numbered, key)


def _acid_rows(
    source: Source, locations: Sequence[Location], files_of: FilesOf, key: Keys | None
) -> Iterable[tuple[DataFrame, FileGroup]]:
    for group in group_files(source.fs, source.table, locations, files_of):
        frame = _read_acid(source, group, _ROWS, values=True)
        at = place_of(source.facts, source.table, group, frame)
        more = key(at, statement_of(group.depth)) if key else ()
        yield _select(source, frame, at, more), group


def _raw_rows(
    source: Source, locations: Sequence[Location], numbered: Numbered, key: Keys | None
) -> Iterable[tuple[DataFrame, FileGroup]]:
    raw = RawSource(source.facts, source.fs, source.table, source.files, STRICT, placed=key is not None)
    for group, found in raw_frames(raw, locations, numbered):
        frame = found.withColumn("currentTransaction", F.col("originalTransaction")) if key else found
        yield _select_raw(source, frame, key(PLACED, "0") if key else ()), group


def _read_acid(source: Source, group: FileGroup, operations: str, *, values: bool = False) -> DataFrame:
    """Return the events of these operations; with ``values`` the user's columns can be asked for."""
    recipe = group.reading.recipe
    assert recipe is not None  # noqa: S101 - every ACID file is surveyed
    by_position = recipe.positional is not None
    row = recipes.fields(recipe, group.files[0]) if values or by_position else T.StructType()
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
    options = {**STRICT, **_CALENDAR, **recipes.options(recipe)}
    if values:
        options |= source.arguments(recipe)
    reader = source.facts.spark.read.schema(six).options(**options)
    frame = reader.format(recipes.ORC).load(names(group.files))
    wanted = f"{_WHOLE if by_position else _GUARD} {operations}"
    if group.reading.check:
        valid = (
            row_validity(source.write_ids, name) for name in ("currentTransaction", "originalTransaction")
        )
        wanted = " AND ".join([wanted, *valid])
    return frame.where(wanted)


def row_validity(write_ids: ValidWriteIdList, column: str) -> str:
    """Return a condition that a root column's write id is valid (never pushed down: see the module)."""
    value = f"coalesce({column}, -1L)"
    valid = f"{value} <= {int(write_ids.high_watermark)}L"
    invalid = sorted({int(i) for i in (*write_ids.open, *write_ids.aborted)})
    if invalid:
        valid += f" AND {value} NOT IN ({', '.join(f'{i}L' for i in invalid)})"
    return valid


def _select(source: Source, frame: DataFrame, at: Place, more: Sequence[Expression]) -> DataFrame:
    group, recipe = at.group, at.group.reading.recipe
    assert recipe is not None  # noqa: S101 - every ACID file is surveyed
    columns = source.table.columns
    users = recipes.values(source.facts, recipe, columns, "row.", group.files[0])
    identity = [_ROW_ID, named(file_name(group), FILE_NAME), _CURRENT]
    return selected(frame, [*users, *at.columns, *identity, *more])


def _select_raw(source: Source, frame: DataFrame, more: Sequence[Expression]) -> DataFrame:
    columns = (*source.table.columns, *source.table.partition_columns)
    names = [named(raw_name(nth), column.name) for nth, column in enumerate(columns)]
    identity = [_ROW_ID, named("__hiveacid_file", FILE_NAME), named("originalTransaction", CURRENT)]
    return selected(frame, [*names, *identity, *more])


def _select_events(source: Source, group: FileGroup) -> DataFrame:
    frame = _read_acid(source, group, _DELETES)
    at = place_of(source.facts, source.table, group, frame)
    return selected(frame, [*at.columns, _ROW_ID, _CURRENT])


def only(files_of: FilesOf, wanted: Callable[[Location, DataFile], bool]) -> FilesOf:
    """Return what yields some of the files."""
    return lambda at: (one for one in files_of(at) if wanted(at, one[0]))


def data_of(source: Source) -> FilesOf:
    """Return what yields the files with rows of a location."""
    return lambda location: _surveyed(source, location, data_directories(location))


def changes_of(source: Source) -> FilesOf:
    """Return what yields the files with rows that may hold update and delete events as well (ACID v1)."""
    return lambda location: (
        (file, reading, copy)
        for file, reading, copy in _surveyed(source, location, data_directories(location))
        if source.files[f"{location.root}/{file.path}"].has_events
    )


def deletes_of(source: Source) -> FilesOf:
    """Return what yields the delete event files of a location."""
    return lambda location: _surveyed(source, location, location.state.delete_deltas)


def data_directories(location: Location) -> Sequence[AcidDirectory]:
    """Return the base and the deltas that hold ACID files."""
    return [directory for directory in location.state.row_directories if not directory.raw]


def _surveyed(
    source: Source, location: Location, directories: Iterable[AcidDirectory]
) -> Iterable[tuple[DataFile, Reading, str | None]]:
    """Yield files with rows and whether the write ids of these must be checked."""
    for directory in directories:
        check = directory.validity is not RangeResponse.ALL
        for file in directory.acid_files:
            known = source.files[f"{location.root}/{file.path}"]
            if known.rows:
                original = (
                    None if known.copy is None else source.fs.spark_path(f"{location.root}/{file.path}")
                )
                yield file, Reading(check, known.recipe, original), known.copy


def empty_scan(source: Source, *, current: bool) -> DataFrame:
    """Return no rows, made in the JVM: no Python worker is needed."""
    columns = _columns(source, current=current)
    return source.facts.spark.range(0).select(*[F.lit(None).cast(kind).alias(name) for name, kind in columns])


def _columns(source: Source, *, current: bool) -> list[tuple[str, T.DataType]]:
    """Return the columns of a scan."""
    table = source.table
    columns: list[tuple[str, T.DataType]] = [
        (c.name, column_type(c)) for c in (*table.columns, *table.partition_columns)
    ]
    if table.kind is TableKind.FULL_ACID:
        columns.append((ROW_ID, ROW_ID_TYPE))
    columns.append((FILE_NAME, T.StringType()))
    if current:
        columns.append((CURRENT, T.LongType()))
    return columns


def _flat_scan(source: Source, locations: Sequence[Location]) -> DataFrame:
    frames = flat_frames(source, locations, lambda _: [named("_metadata.file_path", FILE_NAME)])
    return (
        reduce(lambda left, right: left.unionByName(right), frames)
        if frames
        else empty_scan(source, current=False)
    )


def flat_frames(
    source: Source, locations: Sequence[Location], more: Callable[[FileGroup], Sequence[Expression]]
) -> list[DataFrame]:
    """Return scans of an insert-only or plain table's columns, and what ``more`` adds."""
    table = source.table
    frames = []
    options = STRICT if table.kind is TableKind.PLAIN else STRICT | _CALENDAR
    for group in group_files(source.fs, table, locations, flat_of(source)):
        frame = flat.read(source.facts, table, names(group.files), options, group.reading.recipe)
        users = [quote_name(c.name) for c in table.columns]
        at = place_of(source.facts, table, group, frame)
        frames.append(selected(frame, [*users, *at.columns, *more(group)]))
    return frames


def flat_of(source: Source) -> FilesOf:
    """Return what yields all data files of an insert-only or plain location."""

    def files_of(location: Location) -> Iterable[tuple[DataFile, Reading, None]]:
        for file in flat_files(location):
            known = source.files.get(f"{location.root}/{file.path}")
            if known is None or known.rows:
                yield file, Reading(recipe=None if known is None else known.recipe), None

    return files_of


def flat_files(location: Location) -> Iterable[DataFile]:
    """Yield all data files of an insert-only or plain location."""
    for directory in location.state.row_directories:
        yield from directory.files
    yield from location.state.originals

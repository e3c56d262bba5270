"""Footers of a snapshot's ORC files, and the files that a scan need not read by their statistics.

Each footer is read once, several at a time. It holds facts that a listing lacks:

- whether a file has row ids
- the columns of the file, which may differ from the table's
- the number of rows, from which original files get their row ids
- the range of keys of delete events
- whether ACID v1 left update events in the file
- bounds of each column's values (``orc.column_statistics``), by which `files_to_skip` leaves files out. ORC's reader makes a
  similar comparison, but only after a task has opened the file. A table with many small deltas has many files, and a key
  is in few of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.config import setting_definitions
from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.predicates import ANY_VALUE, Bounds, Predicate, bounds_test, columns_of
from hiveacid.core.schema.evolution import ColumnMapping, map_columns, matching
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    Array,
    HiveType,
    Map,
    Primitive,
    Struct,
    Union,
    parse_type,
)
from hiveacid.core.snapshot.directory_listing import DataFile, FooterFacts
from hiveacid.core.snapshot.scan_plan import AskFile, LocationPlan, ScanFile, plan_location
from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import StatisticsList, column_bounds
from hiveacid.orc.footer_summary import FileKey, FileSummary, read_summary, schema_of, summary_of
from hiveacid.spark.read.delete_events import DeleteBounds, measure_delete_bounds
from hiveacid.spark.read.scan_source import Plans
from hiveacid.storage.snapshot_locations import Location, PlanMemo, map_in_threads, memo_of
from hiveacid.table.context import Context
from hiveacid.table.read.flush_length_files import prepare_readable_part
from hiveacid.transactions.transaction import Transaction

_MIN_SKIPPED_SHARE = 4  # with fewer than one file in four skipped, the memo of the whole scan is worth more
_TEXT = frozenset({"string", "varchar"})


@dataclass(frozen=True)
class Footers:
    """Plan of the locations of a scan, by partition (None: of the table), with facts of the footers of ORC files.

    ``bounds``: key bounds of the delete events. ``has_acid_v1_events``: a file with rows may also hold update and delete
    events (ACID v1). ``memo``: results that follow from these facts alone.
    """

    plans: Plans = field(default_factory=dict)
    bounds: DeleteBounds | None = None
    has_acid_v1_events: bool = False
    memo: PlanMemo = field(default_factory=PlanMemo, compare=False, repr=False)


def read_footers(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Footers:
    """Read the footers of all files of listed locations. Raises BadFileError, with the path."""
    key = _memo_key(context, table)
    return memo_of(locations).get(key, lambda: _read_footers(context, table, locations, txn))


def footers_are_known(context: Context, table: TableDefinition, locations: Sequence[Location]) -> bool:
    """Tell whether `read_footers` has read the footers of these locations before."""
    return _memo_key(context, table) in memo_of(locations)


def _memo_key(context: Context, table: TableDefinition) -> Hashable:
    broadcast = context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS)
    return table, context.layout_level(table), broadcast


def _read_footers(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Footers:
    readable: dict[str, tuple[int, str | None]] = {}  # what was flushed grows

    def length_of(path: str, file: DataFile) -> int:
        if file.flush_length_path is None:
            return file.size
        if path not in readable:
            readable[path] = prepare_readable_part(context, table.name, txn, path, file)
        return readable[path][0]

    def plan(location: Location, rows_of: AskFile) -> LocationPlan:
        return plan_location(location.root, location.state, table.kind, length_of, rows_of)

    plans = {location.partition: plan(location, lambda *_: 1) for location in locations}
    if table.kind is not TableKind.FULL_ACID and file_kind(table.storage) is not FileKind.ORC:
        return Footers(plans)
    footers = read_summaries(
        context,
        [file for files in plans.values() for part in files for file in part if file.listed.facts is None],
    )
    for location in locations:
        if any(file.original is not None for file in plans[location.partition].rows):
            plans[location.partition] = plan(location, lambda path, file: (file.facts or footers[path]).rows)
    copies = {path: copy for path, (_, copy) in readable.items()}
    known = _with_facts(context, table, plans, footers, copies)
    bounds = measure_delete_bounds(
        [file for files in known.values() for file in files.events],
        context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS),
    )
    has_acid_v1_events = any(file.acid and file.has_events for files in known.values() for file in files.rows)
    return Footers(known, bounds, has_acid_v1_events)


def _with_facts(
    context: Context,
    table: TableDefinition,
    plans: Plans,
    footers: Mapping[str, FileSummary],
    copies: Mapping[str, str | None],
) -> Plans:
    """Add the facts of the footers to the files of plans, and leave out those without rows. Raises BadFileError for a file that is not what its name says.

    ``footers``: summaries of the files whose facts no commit has recorded.
    """
    rule = matching(table, context.layout_level(table))
    mappings: dict[Hashable, ColumnMapping] = {}  # by text, or by identity (`SummaryCache`): it is faster
    has_row_ids = table.kind is TableKind.FULL_ACID

    def mapping_of(key: Hashable, schema: Struct) -> ColumnMapping:
        found = mappings[key] = map_columns(table.columns, schema, rule)
        return found

    def with_facts(file: ScanFile) -> ScanFile:
        facts, path = file.listed.facts, file.path
        if facts is not None:
            rows, text, is_acid, has_events, ends, _ = facts
            mapping = mappings.get(text) or mapping_of(text, schema_of(text))
        else:
            summary = footers[path]
            rows, schema, is_acid, has_events = summary[:4]
            ends = () if summary.keys is None else summary.keys.ends
            mapping = mappings.get(id(schema)) or mapping_of(id(schema), schema)
        if has_row_ids and is_acid != file.acid:
            file.require_row_ids_as_named(rows, is_acid=is_acid)
        _, listed, length, acid, partly_valid, statement, original, *_ = file
        return ScanFile(
            path,
            listed,
            length,
            acid,
            partly_valid,
            statement,
            original,
            rows,
            mapping,
            has_events,
            ends,
            copies.get(path),
        )

    return {
        partition: LocationPlan(
            *(tuple([file for file in map(with_facts, part) if file.rows]) for part in files)
        )
        for partition, files in plans.items()
    }


def read_summaries(context: Context, files: Sequence[ScanFile]) -> dict[str, FileSummary]:
    """Read the footers of files, several at a time. The cache identifies them by path, size and time."""

    def read(file: ScanFile) -> FileSummary:
        summary = read_summary(context.fs, file.path, file.length)
        cacheable = file.listed.is_identified(context.clock.now())
        return context.summaries.put(_key(file) if cacheable else (file.path, file.length, 0), summary)

    cached = {file.path: context.summaries.get(_key(file)) for file in files}
    missing = [file for file in files if cached[file.path] is None]
    summaries = {path: summary for path, summary in cached.items() if summary is not None}
    if missing:
        summaries.update(
            zip((file.path for file in missing), map_in_threads(read, missing, missing[0].path), strict=True)
        )
    return summaries


def _key(file: ScanFile) -> FileKey:
    return file.path, file.length, file.listed.modified


def files_to_skip(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    footers: Footers,
    predicate: Predicate,
) -> frozenset[str]:
    """Return the paths of data files, and of original files, without a row for which ``predicate`` is true.

    Beside update events of ACID v1 no path is returned, because the newest version of a row decides there. Nor is one if
    fewer than a quarter of the files could be skipped.
    """
    numbers = {column.name: number for number, column in enumerate(table.columns)}
    names = [name for name in columns_of(predicate) if name in numbers]
    if not names or footers.has_acid_v1_events:
        return frozenset()
    types = [parse_type(table.columns[numbers[name]].type) for name in names]
    may_match = bounds_test(predicate, names)
    column_ids: dict[tuple[bool, int], list[int | None]] = {}  # there is one mapping for each schema
    skipped, files = [], 0
    for location in locations:
        for file in footers.plans[location.partition].rows:
            mapping, facts = file.mapping, file.listed.facts
            files += file.rows > 0
            key = (file.path, file.listed.size, file.listed.modified)
            summary = facts or context.summaries.get(key)
            statistics = facts.statistics if facts else context.summaries.statistics(key)
            if not file.rows or file.copy is not None or summary is None or mapping is None or not statistics:
                continue
            kind = (summary.is_acid, id(mapping))
            if kind not in column_ids:
                known = summary_of(summary) if isinstance(summary, FooterFacts) else summary
                column_ids[kind] = [
                    _column_id(known, mapping, numbers[name], hive)
                    for name, hive in zip(names, types, strict=True)
                ]
            if not may_match(_bounds(column_ids[kind], types, StatisticsList(file.path, statistics))):
                skipped.append(file.path)
    return frozenset(skipped) if _MIN_SKIPPED_SHARE * len(skipped) >= files else frozenset()


def _column_id(summary: FileSummary, mapping: ColumnMapping, number: int, table_type: HiveType) -> int | None:
    """Return the ORC column id of a table's column in a file; None if its statistics are not those of the values.

    Columns are numbered in the order of the schema, those of a nested type after it.
    """
    source, schema = mapping.columns[number], summary.schema
    if source.name is None or source.cut or source.problem is not None:
        return None
    names = [field.name for field in schema.fields]
    if mapping.positional is not None:
        index = int(source.name.removeprefix("c"))
    elif source.name in names:
        index = names.index(source.name)
    else:  # a column that was added to the table later
        return None
    stored = schema.fields[index].type
    if stored != table_type and not _are_ordered_alike(stored, table_type):
        return None
    root = AcidColumn.ROW.orc_id if summary.is_acid else 0
    return root + 1 + sum(_count_columns(field.type) for field in schema.fields[:index])


def _are_ordered_alike(stored: HiveType, table_type: HiveType) -> bool:
    if not isinstance(stored, Primitive) or not isinstance(table_type, Primitive):
        return False
    kinds = [stored.name, table_type.name]
    if not set(kinds).issubset(INTEGER_TYPES):
        return set(kinds) <= _TEXT
    # A number that is too large for a narrower type is read as NULL, which the statistics do not count.
    return sorted(kinds, key=INTEGER_TYPES.index) == kinds


def _count_columns(kind: HiveType) -> int:
    match kind:
        case Struct():
            return 1 + sum(_count_columns(field.type) for field in kind.fields)
        case Array():
            return 1 + _count_columns(kind.element)
        case Map():
            return 1 + _count_columns(kind.key) + _count_columns(kind.value)
        case Union():
            return 1 + sum(map(_count_columns, kind.alternatives))
    return 1


def _bounds(
    column_ids: Sequence[int | None], types: Sequence[HiveType], statistics: StatisticsList
) -> list[Bounds]:
    try:
        return [
            ANY_VALUE
            if column_id is None or column_id >= len(statistics)
            else column_bounds(statistics[column_id], hive)
            for column_id, hive in zip(column_ids, types, strict=True)
        ]
    except BadFileError:  # the reader tells what is wrong, if it needs them
        return [ANY_VALUE] * len(types)

"""Locations of a table as a transaction sees them, now or in the past; nothing here needs an engine.

On a store of hiveacid's own, the records of commits tell the files of a table, if these records are complete
(`core.snapshot.file_records`): nothing is listed. Other tables are listed for each snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import ADOPTED_TXN, PARTITIONS_DROPPED
from hiveacid.core.format.names import BaseName, DeltaName, has_hidden_prefix, parse_directory
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, WriteId
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.file_records import RecordedDirectory, RecordedPlaces, listed_entries
from hiveacid.core.snapshot.selection import IdView, Reach, SnapshotIds, measure_reach
from hiveacid.core.snapshot.selection_by_names import LocationNames, NamedSelection, names_of
from hiveacid.core.snapshot.tags import TagName
from hiveacid.errors import FormatError, NotEnoughHistoryError, StorageError, WriteConflictError
from hiveacid.ports.store import own_store
from hiveacid.storage.snapshot_locations import (
    ListedLocations,
    Location,
    id_property,
    list_locations,
    memo_of,
    select_location,
)
from hiveacid.table.connection_caches import KeptLocation, KeptSnapshot, LocationCache
from hiveacid.table.context import StoreContext
from hiveacid.table.read.history_and_time_travel import PointInTime, require_history, write_ids_at
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_MAX_PATHS_SHOWN = 5  # foreign paths in one warning


def write_ids_of(
    context: StoreContext, table: TableDefinition, txn: Transaction, as_of: PointInTime | None
) -> ValidWriteIdList:
    """Return the write ids that a transaction sees, at a point in the past if one is given.

    Raises what `write_ids_at` raises.
    """
    if as_of is None:
        return txn.valid_write_ids(table.name)
    return write_ids_at(context, table, txn, as_of)


def may_have_acid_v1_events(table: TableDefinition) -> bool:
    """Tell whether files may hold update events of ACID v1: those of an adopted table only. Rows must not be added beside them."""
    return table.kind is TableKind.FULL_ACID and ADOPTED_TXN.of(table) is not None


def list_as_of(
    context: StoreContext,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
    as_of: PointInTime | None,
) -> tuple[Location, ...]:
    """List the partitions (or the table) at the write ids of `write_ids_of`. Raises NotEnoughHistoryError."""
    # Before the table was adopted, the cleaner of another engine may have removed files without a record. The state of a tag was
    # complete when CREATE TAG listed it.
    history_kept = (
        as_of is not None
        and context.store.maintained_by_hiveacid()
        and (ADOPTED_TXN.of(table) is None or isinstance(as_of, TagName))
    )
    locations = list_visible(context, table, partitions, write_ids, txn, history_kept=history_kept)
    if as_of is not None:  # a cleaner records a removal before it begins, so check again after the listing
        require_history(context, context.require(table.name), txn, as_of, write_ids)
        if isinstance(as_of, int) and not context.store.maintained_by_hiveacid():
            _require_sources(table, locations, txn.committed_write_ids(table.name), as_of)
    return locations


def _require_sources(
    table: TableDefinition, locations: Sequence[Location], present: ValidWriteIdList, as_of: WriteId
) -> None:
    """Raise NotEnoughHistoryError if another engine's cleaner may have removed what a later directory replaces.

    Such a cleaner keeps no record of what it removed. A later base replaces all older rows; in an insert-only table, a
    merged delta replaces its sources.
    """
    for location in locations:
        for path in location.state.pending:
            name = parse_directory(path)
            later_base = (
                isinstance(name, BaseName) and as_of < name.write_id and present.is_valid(name.write_id)
            )
            merged = isinstance(name, DeltaName) and name.min_write_id <= as_of < name.max_write_id
            if later_base or (merged and table.kind is TableKind.INSERT_ONLY):
                raise NotEnoughHistoryError(
                    f"{table.name} as of write id {as_of}: {location.root}/{path} replaces it or joins it with later ones, "
                    "and Hive's cleaner may have removed its files"
                )


def list_visible(
    context: StoreContext,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
    *,
    history_kept: bool = False,
) -> tuple[Location, ...]:
    """List the partitions (or the table) as the transaction sees them; ``history_kept`` as in `core.snapshot.selection.select`.

    Raises TransactionAbortedError if the transaction timed out meanwhile, because the cleaner may then have removed
    files; WriteConflictError as `require_same_table`.
    """
    recorded = None
    try:
        if write_ids is txn.committed_write_ids(table.name):  # else a past state, or rows of this transaction
            recorded = read_records(context, table, partitions, SnapshotIds(write_ids, txn.snapshot()))
        locations = (
            recorded.locations
            if recorded is not None
            else list_locations(
                context.fs, table, partitions, write_ids, txn.snapshot(), history_kept=history_kept
            )
        )
    except (FormatError, StorageError):  # perhaps because of what is checked here, and then its error says so
        _require_complete(context, table, partitions, txn)
        raise
    _require_complete(context, table, partitions, txn)
    return locations if recorded is None else recorded.keep(context.kept)


def _require_complete(
    context: StoreContext, table: TableDefinition, partitions: Sequence[Partition] | None, txn: Transaction
) -> None:
    require_same_table(context, table, txn)
    if partitions is not None and table.kind is not TableKind.PLAIN:
        _require_partitions_of_metastore(context, table, partitions, txn)
    txn.require_open_in_store()


def require_same_table(context: StoreContext, table: TableDefinition, txn: Transaction) -> None:
    """Raise WriteConflictError if DROP or RENAME has taken files away that the snapshot of ``txn`` contains.

    Readers take no lock for which these statements would wait. Call it after listing.
    """
    now = table if txn.has_lock_on(table.name) else context.catalog.get_table(table.name)
    require_unchanged(table, now, txn)


def require_unchanged(table: TableDefinition, now: TableDefinition | None, txn: Transaction) -> None:
    """Check as `require_same_table`. ``now``: the definition of the table's name, read after the listing.

    Write ids belong to names. If the name refers to another table now than when ``txn`` first read it, the write ids of
    one table could be applied to the files of another. If partitions were dropped since the snapshot, the listing may lack
    them or some of their files.
    """
    require_table_of_snapshot(table, txn)
    if now is None or not table.is_same_table(now):
        raise _table_replaced(table, txn)
    dropped = WriteId(id_property(now, PARTITIONS_DROPPED))
    if dropped and not txn.committed_write_ids(table.name).is_valid(dropped):
        raise _partitions_dropped(table, txn)


def require_table_of_snapshot(table: TableDefinition, txn: Transaction) -> None:
    """Raise WriteConflictError if ``txn`` has read another table of this name, whose write ids it keeps.

    Compared with these, the commits of the new table would seem to be none.
    """
    if txn.reads.incarnations.setdefault(table.name, table.incarnation) != table.incarnation:
        raise _table_replaced(table, txn)


def _table_replaced(table: TableDefinition, txn: Transaction) -> WriteConflictError:
    txn.reads.outdated = True
    return WriteConflictError(
        f"{table.name} was dropped, renamed or replaced by another table while this transaction reads it: run it again"
    )


def _require_partitions_of_metastore(
    context: StoreContext, table: TableDefinition, partitions: Sequence[Partition], txn: Transaction
) -> None:
    """Raise WriteConflictError if one of the partitions, or one of an earlier statement of ``txn``, is gone by now.

    DROP PARTITION leaves no write id in a metastore. A partition that was dropped and made again is not noticed.
    """
    seen = txn.reads.partition_names.get(table.name)
    if context.store.maintained_by_hiveacid() or (seen is None and txn.has_lock_on(table.name)):
        return
    columns, own = (
        table.partition_column_names,
        {new.partition for new in txn.pending.new_partitions(table.name)},
    )
    listed = {format_partition(columns, one.values): one for one in partitions if one not in own}
    names = txn.reads.partition_names[table.name] = context.catalog.list_partition_names(table.name)
    missing = listed.keys() - names
    if missing:  # or another engine has written the name in another way
        values = {one.values for one in context.catalog.list_partitions(table.name)}
        missing = {name for name in missing if listed[name].values not in values}
    if missing or (seen is not None and not seen <= names):
        raise _partitions_dropped(table, txn)


def _partitions_dropped(table: TableDefinition, txn: Transaction) -> WriteConflictError:
    txn.reads.outdated = True
    return WriteConflictError(
        f"partitions of {table.name} were dropped or repaired after the snapshot of transaction {txn.txn_id} was taken, and their "
        "rows would be missing or too many: run it again"
    )


def warn_of_foreign_files(table: TableDefinition, locations: Sequence[Location], txn: Transaction) -> None:
    """Log foreign files among a table's files, once per transaction and table."""
    if table.name in txn.reads.warned:
        return
    foreign = memo_of(locations).get(
        ("foreign", table.kind),
        lambda: [path for location in locations for path in _foreign(table, location)],
    )
    if foreign:
        txn.reads.warned.add(table.name)
        shown = ", ".join(foreign[:_MAX_PATHS_SHOWN]) + (", …" if len(foreign) > _MAX_PATHS_SHOWN else "")
        logger.warning(
            "%s: files that are not the table's are not read (%d): %s", table.name, len(foreign), shown
        )


def _foreign(table: TableDefinition, location: Location) -> Iterator[str]:
    state = location.state
    yield from (f"{location.root}/{path}" for path in state.foreign if not has_hidden_prefix(path))
    if table.kind is not TableKind.FULL_ACID:
        return
    for directory in state.directories_to_read:
        if len(directory.acid_files) == len(directory.files):
            continue
        read = {*directory.acid_files, *directory.loaded_files}
        yield from (f"{location.root}/{file.path}" for file in directory.files if file not in read)


@dataclass(frozen=True)
class RecordedLocations:
    """Locations by the records of commits. ``key``: what the selections depend on besides place and snapshot; ``new``: by place.

    ``whole``: the records of all partitions, with the reach of all names, and the view of the snapshot.
    """

    key: tuple[object, ...]
    locations: tuple[Location, ...]
    new: Mapping[str, KeptLocation]
    whole: tuple[RecordedPlaces, tuple[Partition, ...] | None, Reach, IdView]

    def keep(self, cache: LocationCache) -> tuple[Location, ...]:
        """Keep the locations for later snapshots; the records must have been those of the table that ``key`` names.

        An earlier result is returned whose locations are the same objects, so that what was computed from them is used.
        """
        for root, location in self.new.items():
            cache.locations.put((self.key, root), location, location.size)
        if isinstance(self.locations, ListedLocations):  # those of an earlier snapshot
            return self.locations
        key = self.key, len(self.locations)
        cached = cache.snapshots.get(key)  # in a tuple of one
        found = None if cached is None else cached[0].locations
        if found is None or any(old is not new for old, new in zip(found, self.locations, strict=True)):
            found = ListedLocations.of(self.locations)
        size = sum(
            1 + sum([len(one.files) for one in location.state.directories_to_read]) for location in found
        )
        records, partitions, reach, view = self.whole
        cache.snapshots.put(key, KeptSnapshot(records, partitions, found, reach, view), size)
        return found


def read_records(
    context: StoreContext, table: TableDefinition, partitions: Sequence[Partition] | None, ids: SnapshotIds
) -> RecordedLocations | None:
    """Select what a snapshot reads by the records of commits; None if these may lack something.

    ``ids``: the current snapshot, taken before the call.
    """
    if (
        table.kind is TableKind.PLAIN
        or not context.store.maintained_by_hiveacid()
        or not context.settings.get(setting_definitions.FILE_RECORDS)
    ):
        return None
    key = table.name, table.incarnation, table.kind, table.location
    places = (
        [((), table.location, None)]
        if partitions is None
        else [(one.key, one.location, one) for one in partitions]
    )
    cached = context.kept.snapshots.get((key, len(places)))  # in a tuple of one
    last = cached[0] if cached is not None and cached[0].is_of(partitions) else None
    kept: dict[tuple[str, ...], KeptLocation] = {}
    if last is None:
        kept = _kept_locations(context, key, places)
    known = {place: one.directories for place, one in kept.items()} if last is None else last.records
    records = own_store(context.store).recorded_files(table.name, partitions, known)
    if records is None:
        return None
    if last is not None:
        whole = records, last.partitions, last.reach, last.view
        if records is last.records and ids.view(last.reach) == last.view:
            return RecordedLocations(key, last.locations, {}, whole)
        kept = _kept_locations(context, key, places)
    selections = _Selections(context, table, ids)
    locations, new, reaches = [], {}, [(0, 0)]
    for place, root, partition in places:
        before, directories = kept.get(place), tuple(records[place])
        if before is not None and before.is_reusable(partition, directories, ids):
            locations.append(before.location)
            reaches.append(before.reach)
            continue
        location, reach = selections.select(root, partition, directories)
        new[root] = KeptLocation(location, directories, reach, ids.view(reach))
        locations.append(location)
        reaches.append(reach)
    highest = max(one for one, _ in reaches), max(one for _, one in reaches)
    asked = None if partitions is None else tuple(partitions)
    return RecordedLocations(key, tuple(locations), new, (records, asked, highest, ids.view(highest)))


def _kept_locations(
    context: StoreContext,
    key: tuple[object, ...],
    places: Sequence[tuple[tuple[str, ...], str, Partition | None]],
) -> dict[tuple[str, ...], KeptLocation]:
    found = ((place, context.kept.locations.get((key, root))) for place, root, _ in places)
    return {place: one[0] for place, one in found if one is not None}


@dataclass(frozen=True)
class _Selections:
    """Selections of one table and snapshot, by the names of directories and files (`NamedSelection`)."""

    context: StoreContext
    table: TableDefinition
    ids: SnapshotIds
    by_names: dict[tuple[LocationNames, int], NamedSelection] = field(default_factory=dict)

    def select(
        self, root: str, partition: Partition | None, directories: Sequence[RecordedDirectory]
    ) -> tuple[Location, Reach]:
        """Return what the snapshot reads of recorded directories, and the reach of their names."""
        key = names_of(directories), 0 if partition is None else partition.min_write_id
        known = self.by_names.get(key)
        state = None if known is None else known.select(directories)
        if known is not None and state is not None:
            return Location(root, state, partition), known.reach
        entries = listed_entries(directories)
        ids = self.ids
        location = select_location(
            self.context.fs, self.table, root, partition, entries, ids.write_ids, ids.txns
        )
        made = NamedSelection.of(location.state, directories)
        if made is not None:
            self.by_names[key] = made
        return location, measure_reach(entries)

"""Locations of a table as a transaction sees them, now or in the past; nothing here needs an engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.format.names import BaseName, DeltaName, parse_directory
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, WriteId
from hiveacid.core.snapshot.selection_reuse import SnapshotIds
from hiveacid.errors import FormatError, NotEnoughHistoryError, WriteConflictError
from hiveacid.storage.snapshot_locations import Location, list_locations, memo_of
from hiveacid.table.context import StoreContext
from hiveacid.table.read.listing_reuse import list_kept
from hiveacid.table.read.time_travel import PointInTime, require_history, write_ids_at
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_SHOWN = 5  # foreign paths in one warning


def write_ids_of(
    context: StoreContext, table: TableDefinition, txn: Transaction, as_of: PointInTime | None
) -> ValidWriteIdList:
    """Return the write ids that a transaction sees, at a point in the past if one is given.

    Raises what `time_travel.write_ids_at` raises.
    """
    if as_of is None:
        return txn.valid_write_ids(table.name)
    return write_ids_at(context, table, txn, as_of)


def list_as_of(
    context: StoreContext,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
    as_of: PointInTime | None,
) -> tuple[Location, ...]:
    """List the partitions (or the table) at the write ids of `write_ids_of`. Raises NotEnoughHistoryError."""
    # Before the table was adopted, the cleaner of another engine may have removed files without a record
    history_kept = (
        as_of is not None and context.store.maintained_by_hiveacid() and ADOPTED_TXN.of(table) is None
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
    try:
        if write_ids is txn.committed_write_ids(table.name) and context.settings.get(
            setting_definitions.KEEP_LISTINGS
        ):
            locations = list_kept(context, table, partitions, SnapshotIds(write_ids, txn.snapshot()))
        else:  # a past state, or rows of this transaction, whose files may still change
            locations = list_locations(
                context.fs, table, partitions, write_ids, txn.snapshot(), history_kept=history_kept
            )
    except FormatError:
        txn.require_open_in_store()
        raise
    require_same_table(context, table, txn)
    txn.require_open_in_store()
    return locations


def require_same_table(context: StoreContext, table: TableDefinition, txn: Transaction) -> None:
    """Raise WriteConflictError if the table's name means another table by now, or did in an earlier statement of ``txn``.

    Write ids belong to names, and readers take no lock for which DROP and RENAME would wait: the write ids of one table
    could be applied to the files of another. Call it after listing.
    """
    same = txn.tables_read.setdefault(table.name, table.incarnation) == table.incarnation
    if same and not txn.has_lock_on(table.name):
        same = table.is_same_table(context.catalog.get_table(table.name))
    if not same:
        txn.outdated = True
        raise WriteConflictError(
            f"{table.name} was dropped, renamed or replaced by another table while this transaction reads it: run it again"
        )


def warn_of_foreign_files(table: TableDefinition, locations: Sequence[Location], txn: Transaction) -> None:
    """Log foreign files among a table's files, once per transaction and table."""
    if table.name in txn.warned:
        return
    foreign = memo_of(locations).get(
        ("foreign", table.kind),
        lambda: [path for location in locations for path in _foreign(table, location)],
    )
    if foreign:
        txn.warned.add(table.name)
        shown = ", ".join(foreign[:_SHOWN]) + (", …" if len(foreign) > _SHOWN else "")
        logger.warning("%s: not of the table, passed over (%d): %s", table.name, len(foreign), shown)


def _foreign(table: TableDefinition, location: Location) -> Iterator[str]:
    state = location.state
    yield from (f"{location.root}/{path}" for path in state.foreign if not path.startswith(("_", ".")))
    if table.kind is not TableKind.FULL_ACID:
        return
    for directory in state.directories_to_read:
        if len(directory.acid_files) == len(directory.files):
            continue
        read = {*directory.acid_files, *directory.loaded_files}
        yield from (f"{location.root}/{file.path}" for file in directory.files if file not in read)

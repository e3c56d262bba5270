"""Read the rows that the snapshot of a transaction sees in a table, as a DataFrame."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.config.table_properties import ADOPTED_TXN
from hiveacid.core.format.names import DeltaName, parse_directory
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, WriteId
from hiveacid.errors import (
    CatalogError,
    FormatError,
    NotEnoughHistoryError,
    StatementError,
    UnsupportedFeatureError,
)
from hiveacid.spark.predicates.partition_pruning import prune_partitions
from hiveacid.spark.predicates.predicate_columns import with_char_metadata
from hiveacid.spark.predicates.search_argument import SearchArgument, search_argument
from hiveacid.spark.read.scan import scan
from hiveacid.spark.read.scan_source import ScanSource, files_without_acid_columns
from hiveacid.spark.session.plan_lease import PlanWatch
from hiveacid.storage.locations import Location, list_locations
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.delete_bitmap import load_delete_bitmap
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.time_travel import PointInTime, require_history, write_ids_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.table.context import Context
    from hiveacid.transactions.transaction import Transaction


logger = logging.getLogger(__name__)

_SHOWN = 5  # foreign paths in one warning


@contextmanager
def reading_transaction(
    context: Context, joined: Transaction | None, shared: Transaction | None = None
) -> Iterator[Transaction]:
    """Yield a transaction that keeps the files of a plan from the cleaner: the caller's, or one with a read lease.

    ``shared``: a read transaction taken by the caller, so that several tables are read at one point.
    """
    leases = context.read_leases
    if shared is None and joined is not None and (not joined.explicit or leases.holds(joined)):
        shared = joined  # a statement's own transaction outlives its plans
    if shared is not None:
        yield shared
        return
    with leases.acquire(context.settings) as reader:
        yield reader


def extend_lease(context: Context, reader: Transaction, frame: DataFrame) -> None:
    """Let a read lease last as long as the plan of a DataFrame can run."""
    if context.read_leases.holds(reader):
        lease = context.settings.get(keys.SNAPSHOT_LEASE)
        context.read_leases.hold(reader, PlanWatch(context.facts, frame, lease))


@dataclass(frozen=True)
class TableSnapshot:
    """Locations of a table, listed for one snapshot, and the search argument that skips rows of their files."""

    context: Context
    table: TableDefinition
    txn: Transaction
    locations: tuple[Location, ...]
    write_ids: ValidWriteIdList
    argument: SearchArgument | None

    @property
    def size(self) -> int:
        """Return the size in bytes of all files with rows."""
        return sum(file.size for location in self.locations for file in files_without_acid_columns(location))

    def scan(self, *, changing: bool = False, counted: bool = False) -> DataFrame:
        """Return the rows, with ``ROW__ID`` and ``INPUT__FILE__NAME`` as last columns.

        ``changing``: the caller changes some of the rows; raises UnsupportedFeatureError if files hold update events of
        ACID v1.
        ``counted`` as in `spark.read.scan.scan`.
        """
        frame = scan_locations(
            self.context,
            self.table,
            self.locations,
            self.write_ids,
            self.txn,
            argument=self.argument,
            changing=changing,
            counted=counted,
        )
        return with_char_metadata(self.table, frame)


def list_snapshot(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    as_of: PointInTime | None = None,
) -> TableSnapshot:
    """List the partitions of a table and select the directories that ``txn`` sees.

    ``where``: a condition, used only to skip partitions and row groups; the caller still filters the rows by it.
    ``alias``: its name for the table. ``as_of``: a point in the past to read, instead of the present.
    """
    write_ids = txn.valid_write_ids(table.name)
    if as_of is not None:
        write_ids = write_ids_at(context, table, txn, as_of)
    partitions, argument = partitions_of(context, table, txn), None
    if where is not None:
        # An invalid condition raises its error, with the position, when the rows are filtered by it.
        with suppress(CatalogError, StatementError):
            if partitions is not None:
                partitions = prune_partitions(context.facts, table, partitions, where, alias=alias)
            argument = search_argument(context.facts, table, where, alias=alias)
    # before the table was adopted, the cleaner of another engine may have removed files without a record
    kept = as_of is not None and context.store.maintained_by_hiveacid() and ADOPTED_TXN.of(table) is None
    locations = list_visible(context, table, partitions, write_ids, txn, history_kept=kept)
    if as_of is not None:  # a cleaner records a removal before it begins, so check again after the listing
        require_history(context, context.require(table.name), txn, as_of, write_ids)
        if (
            isinstance(as_of, int)
            and table.kind is TableKind.INSERT_ONLY
            and not context.store.maintained_by_hiveacid()
        ):
            _require_sources(table, locations, as_of)
    warn_of_foreign_files(table, locations, txn)
    return TableSnapshot(context, table, txn, locations, write_ids, argument)


def _require_sources(table: TableDefinition, locations: Sequence[Location], as_of: WriteId) -> None:
    """Raise NotEnoughHistoryError if another engine's cleaner may have removed the sources of a merged delta.

    Such a cleaner keeps no record of what it removed.
    """
    for location in locations:
        for path in location.state.pending:
            name = parse_directory(path)
            if isinstance(name, DeltaName) and name.min_write_id <= as_of < name.max_write_id:
                raise NotEnoughHistoryError(
                    f"{table.name} as of write id {as_of}: {location.root}/{path} joins it with later ones"
                )


def list_visible(
    context: Context,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
    *,
    history_kept: bool = False,
) -> tuple[Location, ...]:
    """List the partitions (or the table) as the transaction sees them; ``history_kept`` as in `core.snapshot.selection.select`.

    Raises TransactionAbortedError if the transaction timed out meanwhile, because the cleaner may then have removed
    files.
    """
    try:
        found = list_locations(
            context.fs, table, partitions, write_ids, txn.snapshot(), history_kept=history_kept
        )
    except FormatError:
        txn.require_protection()
        raise
    txn.require_protection()
    return found


def scan_locations(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    write_ids: ValidWriteIdList,
    txn: Transaction,
    *,
    argument: SearchArgument | None = None,
    current: bool = False,
    changing: bool = False,
    counted: bool = False,
) -> DataFrame:
    """Return the live rows of listed locations (``spark.read.scan``); ``changing`` as in `TableSnapshot.scan`."""
    context.facts.require_plain_names()
    footers = read_footers(context, table, locations, txn)
    if changing and footers.has_acid_v1_events:
        raise UnsupportedFeatureError(f"{table.name} {ACID_V1_EVENTS}")
    delete_bitmap = partial(load_delete_bitmap, context, table, write_ids, footers.bounds)
    source = ScanSource(
        context.facts, context.fs, table, write_ids, footers.files, delete_bitmap=delete_bitmap
    )
    if argument is not None:
        source = replace(source, arguments=argument.reader_options)
    return scan(
        source, locations, footers.bounds, originals=footers.numbered, current=current, counted=counted
    )


ACID_V1_EVENTS = (
    "holds update events of Hive 2 or older (ACID v1): ALTER TABLE ... COMPACT 'major' writes its rows anew; "
    "then it can be changed"
)


def require_no_acid_v1_events(context: Context, table: TableDefinition, txn: Transaction) -> None:
    """Refuse to add rows to a table with events of ACID v1, which only an adopted table can have."""
    if table.kind is not TableKind.FULL_ACID or ADOPTED_TXN.of(table) is None:
        return
    write_ids = txn.valid_write_ids(table.name)
    locations = list_visible(context, table, partitions_of(context, table, txn), write_ids, txn)
    if read_footers(context, table, locations, txn).has_acid_v1_events:
        raise UnsupportedFeatureError(f"{table.name} {ACID_V1_EVENTS}")


def warn_of_foreign_files(table: TableDefinition, locations: Sequence[Location], txn: Transaction) -> None:
    """Log foreign files among a table's files, once per transaction and table."""
    if table.name in txn.warned:
        return
    found = [path for location in locations for path in _foreign(table, location)]
    if found:
        txn.warned.add(table.name)
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        logger.warning("%s: not of the table, passed over (%d): %s", table.name, len(found), shown)


def _foreign(table: TableDefinition, location: Location) -> Iterator[str]:
    state = location.state
    yield from (f"{location.root}/{path}" for path in state.foreign if not path.startswith(("_", ".")))
    if table.kind is not TableKind.FULL_ACID:
        return
    for directory in state.read_directories:
        read = {*directory.acid_files} if not directory.raw else set()
        if directory.raw is not False:
            read |= {*directory.raw_files}
        yield from (f"{location.root}/{file.path}" for file in directory.files if file not in read)

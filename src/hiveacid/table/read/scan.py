"""Read the rows that the snapshot of a transaction sees in a table, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.errors import CatalogError, StatementError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import active_session
from hiveacid.spark.predicates.column_conditions import table_conjuncts, with_char_metadata
from hiveacid.spark.predicates.partition_pruning import prune_partitions
from hiveacid.spark.predicates.search_argument import SearchArgument, search_argument
from hiveacid.spark.read.scan import scan
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.plan_lifetime import RelationWatch
from hiveacid.storage.snapshot_locations import Location, PlanMemo
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of, require_changeable
from hiveacid.table.read.file_skipping import files_to_skip
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.load_delete_bitmap import load_delete_bitmap
from hiveacid.table.read.prepared_file_index import index_made_ahead
from hiveacid.table.read.python_garbage_collector import rare_collections
from hiveacid.table.read.time_travel import PointInTime
from hiveacid.table.read.visible_locations import (
    list_as_of,
    list_visible,
    warn_of_foreign_files,
    write_ids_of,
)
from hiveacid.transactions.transaction import Transaction


@contextmanager
def reading_transaction(
    context: Context, joined: Transaction | None, shared: Transaction | None = None
) -> Iterator[Transaction]:
    """Yield a transaction that keeps the files of a plan from the cleaner: the caller's, or one with a read lease.

    ``shared``: a read transaction taken by the caller, so that several tables are read at one point.
    """
    if shared is None and joined is not None:
        shared = joined.lease or joined  # a statement's own transaction outlives its plans
    if shared is not None:
        yield shared
        return
    with context.read_leases.acquire(context.settings) as reader:
        yield reader


def extend_lease(context: Context, reader: Transaction, frame: DataFrame) -> None:
    """Let a read lease last as long as the plan of a DataFrame can run."""
    if context.read_leases.is_leased(reader):
        context.read_leases.add_holder(reader, RelationWatch(context.env, frame))


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
        return sum(map(_size, self.locations))

    @property
    def largest_location(self) -> int:
        """Return the size in bytes of the files with rows of the largest partition, or of the table if it has none."""
        return max(map(_size, self.locations), default=0)

    def scan(self, *, changing: bool = False, counted: bool = False, subqueries: bool = False) -> DataFrame:
        """Return the rows, with ``ROW__ID`` and ``INPUT__FILE__NAME`` as last columns.

        ``changing``: the caller changes some of the rows; raises UnsupportedFeatureError if files hold update events of
        ACID v1, or if rows do not tell their partition (`require_changeable`).
        ``counted`` as in `spark.read.scan.scan`, ``subqueries`` as in `ScanSource`.
        """
        if changing:
            require_changeable(self.context, self.table, (each.partition for each in self.locations))
        frame = scan_locations(
            self.context,
            self.table,
            self.locations,
            self.write_ids,
            self.txn,
            argument=self.argument,
            changing=changing,
            counted=counted,
            subqueries=subqueries,
        )
        return with_char_metadata(self.table, frame)


def _size(location: Location) -> int:
    state = location.state
    files = [*state.originals, *(file for directory in state.row_directories for file in directory.files)]
    return sum(file.size for file in files)


@rare_collections()
def list_snapshot(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    session: SparkEnvironment | None = None,
    as_of: PointInTime | None = None,
) -> TableSnapshot:
    """List the partitions of a table and select the directories that ``txn`` sees.

    ``where``: a condition, used only to skip partitions and row groups; the caller still filters the rows by it.
    ``alias``: its name for the table. ``session``: the one in which it is analysed (default: the connection's). ``as_of``: a point in the past to read, instead of the present.
    """
    write_ids = write_ids_of(context, table, txn, as_of)
    partitions, argument = partitions_of(context, table, txn), None
    if where is not None:
        # An invalid condition raises its error, with the position, when the rows are filtered by it.
        env = session or context.env
        with suppress(CatalogError, StatementError), active_session(env) if session else nullcontext():
            conditions = table_conjuncts(env, table, where, alias=alias)
            if partitions is not None:
                partitions = prune_partitions(env, table, partitions, conditions, alias=alias)
            argument = search_argument(context.env, table, conditions)
    locations = list_as_of(context, table, partitions, write_ids, txn, as_of)
    warn_of_foreign_files(table, locations, txn)
    return TableSnapshot(context, table, txn, locations, write_ids, argument)


@rare_collections()
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
    subqueries: bool = False,
) -> DataFrame:
    """Return the live rows of listed locations (``spark.read.scan``); ``changing`` as in `TableSnapshot.scan`."""
    context.env.prepare_scan()
    with index_made_ahead(context, table, locations, wanted=not counted) as index_ahead:
        footers = read_footers(context, table, locations, txn)
        if changing and footers.has_acid_v1_events:
            raise UnsupportedFeatureError(f"{table.name} {ACID_V1_EVENTS}")
        delete_bitmap = partial(load_delete_bitmap, context, table, write_ids, footers)
        source = ScanSource(
            context.env,
            context.fs,
            table,
            write_ids,
            footers.plans,
            delete_bitmap=delete_bitmap,
            memo=footers.memo,
            index_ahead=index_ahead,
            subqueries=subqueries,
        )
        if argument is not None:
            source = replace(source, arguments=argument.reader_options)
            skipped = files_to_skip(context, table, locations, footers, argument.predicate)
            if skipped:
                plans = {
                    partition: plan._replace(
                        rows=tuple(file for file in plan.rows if file.path not in skipped)
                    )
                    for partition, plan in footers.plans.items()
                }
                source = replace(source, plans=plans, memo=PlanMemo())
        return scan(source, locations, footers.bounds, current=current, counted=counted)


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

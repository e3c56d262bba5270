"""The change feed of a table: inserts and deletes of the write ids that were committed between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_write_id_list
from hiveacid.core.model import Displayed, Partition, TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot import change_feed as feed
from hiveacid.core.snapshot.scan_plan import LocationPlan
from hiveacid.errors import did_you_mean
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore
from hiveacid.spark.formats.driver_frames import epoch_millis
from hiveacid.spark.predicates.column_conditions import with_char_metadata
from hiveacid.spark.read.change_feed import ChangedLocation, change_feed, pair_updates
from hiveacid.spark.read.scan_source import Plans, ScanSource
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.storage import snapshot_locations as table_locations
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.history_and_time_travel import Instant, write_ids_at_instant
from hiveacid.table.read.table_snapshot import extend_lease, reading_transaction
from hiveacid.table.read.visible_locations import require_same_table
from hiveacid.transactions.transaction import Transaction

FeedPoint = int | str | datetime | Instant | None
"""A point in a table's time: a write id, a valid write-id list as Hive writes it, or a moment (docs/history.md)."""


_COLONS = 4  # of a valid write-id list: table:high watermark:lowest open:open:aborted


@dataclass(frozen=True, repr=False)
class ChangeFeed(Displayed):
    """A prepared change feed; `to_df` reads it. Arguments as in `AcidTable.changes`."""

    context: Context
    name: TableName
    joined: Transaction | None = None
    after: FeedPoint = None
    until: FeedPoint = None
    key: tuple[str, ...] = ()
    net: bool = False
    row_ids: bool = False

    def to_df(self) -> DataFrame:
        """Return the changes: the table's columns, ``_change_type`` and ``_write_id``, with ``row_ids`` also ``ROW__ID``.

        Without ``until`` the span ends at the present. Raises NotEnoughHistoryError, with the earliest write id that is
        possible as ``after``, if changes may be missing.
        """
        context = self.context.with_own_sql()
        with reading_transaction(context, self.joined) as reader:
            table = context.require(self.name)
            _check(table, self)
            with translate_errors():
                frame = read_changes(context, table, self.joined or reader, self)
                extend_lease(context, reader, frame)
        columns = map(quote_name, table.column_names)
        return frame.select(*([ROW_ID] if self.row_ids else []), *columns, feed.CHANGE_TYPE, feed.WRITE_ID)


def _check(table: TableDefinition, request: ChangeFeed) -> None:
    if table.kind is TableKind.PLAIN:
        raise errors.NotTransactionalError(
            f"changes of {table.name}: the table is not transactional, so its changes are unknown"
        )
    if request.row_ids and table.kind is not TableKind.FULL_ACID:
        raise errors.UnsupportedFeatureError(
            f"changes of {table.name}: the rows of an insert-only table have no ids"
        )
    names = table.column_names
    clashes = {feed.CHANGE_TYPE, feed.WRITE_ID}.intersection(names)
    if clashes:
        raise errors.UnsupportedFeatureError(
            f"changes of {table.name}: the table has a column {', '.join(sorted(clashes))}"
        )
    unknown = [name for name in request.key if name.lower() not in names]
    if unknown:
        near = did_you_mean(unknown[0], names)
        raise errors.ConfigError(f"changes of {table.name}: key names no column: {', '.join(unknown)}{near}")


def read_changes(
    context: Context, table: TableDefinition, txn: Transaction, request: ChangeFeed
) -> DataFrame:
    """Return the changes of a request as a plan, ``ROW__ID`` among its columns."""
    context.env.prepare_scan()
    present = txn.valid_write_ids(table.name)
    span = feed.plan_span(
        present.at(WriteId(0))
        if request.after is None
        else resolve_point(context, request.after, table, present),
        present if request.until is None else resolve_point(context, request.until, table, present),
        present,
    )
    history_kept = context.store.maintained_by_hiveacid()
    span = plan_change_history(context.store, table, span)
    partitions = partitions_of(context, table, txn)
    try:
        changed = locate_changes(context.fs, table, partitions, span, txn, kept=history_kept)
    finally:  # also after an error, which may come from what is checked here
        require_same_table(context, table, txn)
    # a cleaner records a removal before it begins: after the listing a second check finds all removals before it
    require_change_history(context.require(table.name), span)
    footers = read_footers(context, table, [change.location for change in changed], txn)
    if footers.has_acid_v1_events:
        raise errors.acid_v1(table.name)
    if footers.bounds is not None and footers.bounds.box is not None:
        reach = footers.bounds.box.write_id
        kept = [feed.prune_unaffected(change.changes, span, reach.low, reach.high) for change in changed]
        changed = [
            ChangedLocation(replace(change.location, state=changes.state), changes)
            for change, changes in zip(changed, kept, strict=True)
        ]
        footers = replace(footers, plans=_plans_of_read_files(footers.plans, changed))
    source = ScanSource(context.env, context.fs, table, span.until, footers.plans)
    frame = change_feed(source, span, changed, footers.bounds, net=request.net)
    return with_char_metadata(
        table, pair_updates(frame, request.key, net=request.net) if request.key else frame
    )


def resolve_point(
    context: Context, point: int | str | datetime | Instant, table: TableDefinition, present: ValidWriteIdList
) -> ValidWriteIdList:
    """Return the valid write-id list of a point in time.

    A write id means itself and all smaller ones that are committed by now. A timestamp means all commits up to it.
    Raises ConfigError, NotEnoughHistoryError.
    """
    if isinstance(point, bool) or not isinstance(point, int | str | datetime | Instant):
        raise errors.ConfigError(f"{point!r} is not a write id, a valid write-id list or a timestamp")
    if isinstance(point, int):
        return present.at(WriteId(point))
    if (isinstance(point, str) and point.count(":") < _COLONS) or isinstance(point, datetime):
        try:
            point = Instant(epoch_millis(context.env, point))
        except errors.ConfigError as error:
            raise errors.ConfigError(f"{point!r} is not a valid write-id list, nor a timestamp") from error
    if isinstance(point, Instant):
        return write_ids_at_instant(context, table, present, point)
    parsed = parse_write_id_list(point)
    if parsed.table not in (None, table.name):
        raise errors.ConfigError(
            f"the valid write-id list is of {parsed.table}, not of {table.name}: {point}"
        )
    return parsed


def require_change_history(table: TableDefinition, span: feed.ChangeSpan) -> None:
    """Raise NotEnoughHistoryError if the cleaner may have removed files with changes after ``span.after``."""
    earliest = table_locations.id_property(table, HISTORY_FROM)
    if span.reaches_back(1, earliest):
        raise errors.NotEnoughHistoryError.before(
            f"{table.name}: changes after {span.after.to_string()} were compacted, overwritten or dropped, and "
            f"cleaned; they can be read after write id {earliest}",
            earliest,
        )


def plan_change_history(
    store: TransactionStore, table: TableDefinition, span: feed.ChangeSpan
) -> feed.ChangeSpan:
    """Return the span whose changes are there to read. Raises NotEnoughHistoryError.

    Of a write id that was open at its begin and has failed since, there is nothing to read. But the store reports
    it as committed once the cleaner has removed its files.
    """
    try:
        require_change_history(table, span)
    except errors.NotEnoughHistoryError:
        span = _without_forgotten(store, table.name, span)
        require_change_history(table, span)
    return span


def _without_forgotten(store: TransactionStore, table: TableName, span: feed.ChangeSpan) -> feed.ChangeSpan:
    """Return a span in which the ids that the store reports as committed, but without a commit, are aborted.

    The store drops the oldest commits: if one from before the span is left, then so are all in it.
    """
    try:
        committed = {commit.write_id for commit in store.commits(table)}
    except errors.UnsupportedFeatureError:  # a metastore
        return span
    after = span.after
    if not any(write_id and after.is_valid(write_id) for write_id in committed):
        return span
    failed = {one for one in after.open if one not in committed and span.until.is_valid(one)}
    still_open = tuple(one for one in after.open if one not in failed)
    after = replace(after, open=still_open, aborted=(*after.aborted, *failed), min_open=None)
    return feed.plan_span(after, span.until, span.present)


def locate_changes(
    fs: FileSystem,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    span: feed.ChangeSpan,
    txn: Transaction,
    *,
    kept: bool,
) -> list[ChangedLocation]:
    """List the partitions (or the table) and select the directories with their changes; skip those without any."""
    try:
        locations = table_locations.for_each_location(
            table, partitions, partial(_locate_at, fs, table, span, txn, kept)
        )
    except errors.FormatError:
        txn.require_open_in_store()
        raise
    txn.require_open_in_store()
    return [
        location
        for location in locations
        if location.changes.deletes or location.changes.state.row_directories
    ]


def _locate_at(
    fs: FileSystem,
    table: TableDefinition,
    span: feed.ChangeSpan,
    txn: Transaction,
    kept: bool,  # noqa: FBT001 - as in `locate_changes`
    root: str,
    partition: Partition | None,
) -> ChangedLocation:
    entries = table_locations.list_adopted(fs, table, root, partition)
    try:
        changes = feed.select_changes(
            entries,
            span,
            txn.snapshot(),
            table_locations.read_metadata(fs, root, entries),
            adopted_txn_id=table_locations.adopted_txn_id(table),
            row_ids=table.kind is TableKind.FULL_ACID,
            history_kept=kept,
        )
    except errors.NotEnoughHistoryError:
        raise
    except errors.FormatError as error:
        raise error.below(root) from error
    changes = replace(changes, state=table_locations.without_linked_originals(table, changes.state))
    return ChangedLocation(table_locations.Location(root, changes.state, partition), changes)


def _plans_of_read_files(plans: Plans, changed: Sequence[ChangedLocation]) -> Plans:
    """Return the plans without the files with rows that need not be read."""
    read: dict[Partition | None, LocationPlan] = {}
    for location in (change.location for change in changed):
        files = {file.path for directory in location.state.row_directories for file in directory.files}
        files |= {file.path for file in location.state.originals}
        rows, events = plans[location.partition]
        read[location.partition] = LocationPlan(
            tuple(row for row in rows if row.listed.path in files), events
        )
    return read

"""Offsets and files of a streaming query over a table's changes, for the driver's process, without a Spark session.

An offset holds a valid write-id list and the creation time of the table. An empty list marks the beginning of the
table: the first batch after it is a snapshot. Every batch ends at such a list. A transaction that was open at the end
of a batch is therefore part of exactly one later batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hiveacid.catalog.opening import open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN, HISTORY_FROM
from hiveacid.core.format.names import BaseName, DeltaName, parse_directory
from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_write_id_list
from hiveacid.core.model import TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot import change_feed
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.datasource.change_feed_task import FileChanges, require_readable
from hiveacid.datasource.options import ChangeOptions
from hiveacid.errors import ConfigError, NotEnoughHistoryError, NotTransactionalError, UnsupportedFeatureError
from hiveacid.orc.footer_summary import summarize
from hiveacid.orc.tail import read_tail
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import Start, TxnKind, current_write_ids_of
from hiveacid.spark.read.change_feed import ChangedLocation
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import is_local
from hiveacid.storage.snapshot_locations import Location, id_property, list_locations
from hiveacid.stores.hms.metastores import is_metastore
from hiveacid.table.arrow_read.files_to_open import plan_files
from hiveacid.table.codec_and_writer_options import layout_level
from hiveacid.table.context import require_table
from hiveacid.table.read.change_feed import locate_changes, require_change_history
from hiveacid.table.read.visible_locations import require_unchanged
from hiveacid.transactions.heartbeats import Heartbeats, heartbeat_interval
from hiveacid.transactions.read_leases import end_read
from hiveacid.transactions.transaction import Transaction, Transactions, this_client

logger = logging.getLogger(__name__)

Offset = dict[str, object]


@dataclass
class ChangeSource:
    """Finds offsets and files. `close` closes its store and ends the read transaction that keeps the files."""

    options: ChangeOptions
    fs: LocalFileSystem = field(default_factory=LocalFileSystem)
    _store: WarehouseStore | None = field(default=None, init=False)
    _transactions: Transactions | None = field(default=None, init=False)
    _held: Transaction | None = field(default=None, init=False)
    _settings: Settings = field(default_factory=lambda: Settings.of({}), init=False)

    @property
    def store(self) -> WarehouseStore:
        """Open the store at its first use. Raises UnsupportedFeatureError for a Hive Metastore."""
        if self._store is None:
            if is_metastore(self.options.store):
                raise UnsupportedFeatureError(
                    "streaming from tables of a Hive Metastore is not supported: read t.changes() periodically"
                )
            clock = SystemClock()
            require_existing_warehouse(self.options.warehouse, self.options.store)
            self._store, _ = open_store(self.options.warehouse, self.options.store, self._settings, clock)
            beats = Heartbeats(self._store, heartbeat_interval(self._settings))
            self._transactions = Transactions(
                self._store, beats, clock, this_client("hiveacid stream source")
            )
        return self._store

    def definition(self) -> TableDefinition:
        """Return the table's definition after checking that its changes can be read.

        Raises NoSuchTableError, NotTransactionalError, UnsupportedFeatureError.
        """
        table = require_table(self.store, TableName.parse(self.options.table))
        if table.kind is TableKind.PLAIN:
            raise NotTransactionalError(f"{table.name} is not transactional: its changes are not recorded")
        if file_kind(table.storage) is not FileKind.ORC:
            raise UnsupportedFeatureError(f"{table.name} is not stored as ORC: read changes by t.changes()")
        require_readable(table)
        if not is_local(table.location):
            raise UnsupportedFeatureError(
                f"{table.name} lies at {table.location}: Spark's Python workers read local files only; read changes by "
                "t.changes()"
            )
        return table

    def current_write_ids(self, table: TableDefinition) -> ValidWriteIdList:
        """Return the table's current valid write-id list."""
        return current_write_ids_of(self.store, table.name)

    def start_offset(self) -> Offset:
        """Return the offset at which a new query begins, as its options say."""
        table, options = self.definition(), self.options
        if options.starting_write_id is not None:
            return _offset(
                table, self.current_write_ids(table).at(WriteId(max(0, options.starting_write_id - 1)))
            )
        if options.starting == "snapshot":
            return _offset(table, None)
        if options.starting == "earliest":
            return _offset(table, self.current_write_ids(table).at(WriteId(id_property(table, HISTORY_FROM))))
        return _offset(table, self.current_write_ids(table))

    def next_end_offset(self, start: Offset | None, target: Offset | None = None) -> Offset:
        """Return the end of the next batch: the current state (or ``target``), or an earlier one if limits are set.

        Spark calls this method when the previous batch has ended. The method releases that batch's files now, because
        Spark kills this process at the end of the query.
        """
        self.release()
        table = self.definition()
        end = self.current_write_ids(table) if target is None else _write_ids_of_offset(table, target)
        if end is None or start is None or not (self.options.max_write_ids or self.options.max_bytes):
            return _offset(table, end)
        begin = _write_ids_of_offset(table, start)
        if begin is None:
            return _offset(table, end)
        span = change_feed.plan_span(begin, end, self.current_write_ids(table))
        return _offset(table, self._limit_span(table, span))

    def _limit_span(self, table: TableDefinition, span: change_feed.ChangeSpan) -> ValidWriteIdList:
        begin, end = span.after, span.until
        new_ids = [
            write_id
            for write_id in (*begin.open, *range(begin.high_watermark + 1, end.high_watermark + 1))
            if span.is_new(write_id)
        ]
        write_ids = new_ids[: self.options.max_write_ids or len(new_ids)]
        if self.options.max_bytes and write_ids:
            write_ids = write_ids[: self._count_within_bytes(table, write_ids, self.options.max_bytes)]
        if len(write_ids) == len(new_ids):
            return end
        top = max(int(begin.high_watermark), write_ids[-1])
        included = set(write_ids)
        aborted = {*begin.aborted, *end.aborted}
        later = range(begin.high_watermark + 1, top + 1)
        waiting = [
            write_id
            for write_id in (*begin.open, *later)
            if write_id not in aborted and write_id not in included
        ]
        return ValidWriteIdList(
            table.name,
            WriteId(top),
            tuple(WriteId(write_id) for write_id in waiting),
            tuple(write_id for write_id in aborted if write_id <= top),
        )

    def _count_within_bytes(self, table: TableDefinition, write_ids: Sequence[int], limit: int) -> int:
        """Return the number of write ids in the next batch: as many as stay within ``limit`` bytes, but at least one."""
        sizes = dict.fromkeys(write_ids, 0)
        for root in self._roots(table):
            for entry in self.fs.list_tree(root):
                name = None if entry.is_dir else _directory_name(entry.path)
                if name is None:
                    continue
                low, high = name.span
                if isinstance(name, DeltaName) and name.visibility_txn_id and low in sizes and low != high:
                    continue  # compacted: either its inputs are counted, or all bytes would count for its first write id
                if low in sizes:
                    sizes[low] += entry.size
        total = 0
        for count, write_id in enumerate(write_ids):
            total += sizes[write_id]
            if count and total > limit:
                return count
        return len(write_ids)

    def _roots(self, table: TableDefinition) -> list[str]:
        if not table.partition_columns:
            return [table.location]
        return [partition.location for partition in self.store.list_partitions(table.name)]

    def files(self, start: Offset, end: Offset) -> list[FileChanges]:
        """Return the files with the changes between two offsets, and hold a read transaction, so that the cleaner keeps them.

        Raises NotEnoughHistoryError (unless the options ask for a snapshot in that case). Raises UnsupportedFeatureError
        if rows were deleted and the options do not say how to treat that.
        """
        table = self.definition()
        begin, until = _write_ids_of_offset(table, start), _write_ids_of_offset(table, end)
        if until is None:
            raise ConfigError("the offset of a batch's end holds no valid write-id list")
        assert self._transactions is not None  # noqa: S101 - opened by `definition`
        txn = self._transactions.begin(self._settings, TxnKind.READ_ONLY, start=Start())
        self.release()  # not before: the cleaner would find a moment without a reader
        self._held = txn
        try:
            return self._files_of_span(table, txn, begin, until)
        except BaseException:
            self.release()
            raise

    def _files_of_span(
        self,
        table: TableDefinition,
        txn: Transaction,
        begin: ValidWriteIdList | None,
        until: ValidWriteIdList,
    ) -> list[FileChanges]:
        if begin is not None:
            try:
                return self._changed_files(table, txn, begin, until)
            except NotEnoughHistoryError:
                if not self.options.snapshot_where_gone:
                    raise
                logger.warning("%s: the changes were cleaned, so the batch holds the whole table", table.name)
        return self._snapshot_files(table, txn, until)

    def _changed_files(
        self, table: TableDefinition, txn: Transaction, begin: ValidWriteIdList, until: ValidWriteIdList
    ) -> list[FileChanges]:
        span = change_feed.plan_span(begin, until, txn.valid_write_ids(table.name))
        require_change_history(table, span)
        partitions = self.store.list_partitions(table.name) if table.partition_columns else None
        locations = locate_changes(self.fs, table, partitions, span, txn, kept=True)
        self._require_complete(table, span, txn)
        options = self.options
        if not (options.changes or options.ignore_changes):
            _require_inserts(table, [(entry.location, entry.changes) for entry in locations])
        files: list[FileChanges] = []
        for entry in locations:
            location = self._without_unaffected(entry, span)
            if not options.changes:
                location = _only_new(location, span)
            overwrites = tuple(map(int, entry.changes.overwrites))
            files += self.file_changes(table, location, span.until, span.after, overwrites)
        return files

    def _without_unaffected(self, entry: ChangedLocation, span: change_feed.ChangeSpan) -> Location:
        """Leave out directories that no delete event of the span can match."""
        location = entry.location
        only_events = replace(location, state=AcidState(None, (), location.state.delete_deltas, ()))
        events = plan_files(self.fs, TableKind.FULL_ACID, only_events).events
        summaries = [summarize(read_tail(self.fs, file.path, file.length)) for file in events]
        with_rows = [summary.write_id for summary in summaries if summary.rows]
        ranges = [write_ids for write_ids in with_rows if write_ids is not None]
        if not ranges or len(ranges) < len(with_rows):
            return location
        low, high = min(ends.low for ends in ranges), max(ends.high for ends in ranges)
        return replace(location, state=change_feed.prune_unaffected(entry.changes, span, low, high).state)

    def _snapshot_files(
        self, table: TableDefinition, txn: Transaction, until: ValidWriteIdList
    ) -> list[FileChanges]:
        span = change_feed.plan_span(until, until, txn.valid_write_ids(table.name))
        try:
            require_change_history(table, span)
        except NotEnoughHistoryError:
            if not self.options.snapshot_where_gone:
                raise
            # The history ended after this batch was planned, and Spark repeats a batch with the same offsets. The next one
            # begins at its end, so it holds the whole table.
            logger.warning("%s: the batch is empty, because the state at its end was cleaned", table.name)
            return []
        partitions = self.store.list_partitions(table.name) if table.partition_columns else None
        files: list[FileChanges] = []
        kept = ADOPTED_TXN.of(table) is None  # as `list_as_of`
        for location in list_locations(
            self.fs, table, partitions, span.until, txn.snapshot(), history_kept=kept
        ):
            files += self.file_changes(table, location, span.until, None)
        txn.require_open_in_store()
        self._require_complete(table, span, txn)
        return files

    def _require_complete(
        self, table: TableDefinition, span: change_feed.ChangeSpan, txn: Transaction
    ) -> None:
        """Raise NotEnoughHistoryError or WriteConflictError if the listing before may lack files."""
        now = require_table(self.store, table.name)
        require_change_history(now, span)
        require_unchanged(table, now, txn)

    def file_changes(
        self,
        table: TableDefinition,
        location: Location,
        until: ValidWriteIdList,
        after: ValidWriteIdList | None,
        overwrites: tuple[int, ...] = (),
    ) -> Iterator[FileChanges]:
        """Yield the files of a location that hold rows, each for one task. Raises BadFileError, StorageError."""
        plan = plan_files(self.fs, table.kind, location)
        for file in plan.rows:
            is_acid = table.kind is TableKind.FULL_ACID
            write_id = None if is_acid else _write_id_of_file(file.listed.path, until)
            yield FileChanges(
                file,
                table,
                layout_level(table, self._settings),
                location.partition,
                until,
                after,
                plan.events,
                overwrites,
                write_id,
                with_deletes=self.options.changes and after is not None,
                with_change_columns=self.options.changes,
            )

    def release(self) -> None:
        """End the read transaction of the last batch, so that the cleaner may delete its files."""
        held, self._held = self._held, None
        if held is not None:
            end_read(held)

    def close(self) -> None:
        """Close everything; a later call opens it again."""
        self.release()
        if self._transactions is not None:
            self._transactions.heartbeats.close()
        if self._store is not None:
            self._store.close()
        self._store = self._transactions = None


# The time of creation, not the incarnation: hiveacid migrate keeps it, and the write ids go on in the other store.
def _offset(table: TableDefinition, write_ids: ValidWriteIdList | None) -> Offset:
    return {"write_ids": "" if write_ids is None else write_ids.to_string(), "made": table.created_at}


def _write_ids_of_offset(table: TableDefinition, offset: Mapping[str, object]) -> ValidWriteIdList | None:
    if offset.get("made") != table.created_at:
        raise ConfigError(
            f"{table.name} was dropped and created again since the query's offset: begin it with a new checkpoint"
        )
    text = str(offset.get("write_ids") or "")
    return parse_write_id_list(text) if text else None


def _directory_name(path: str) -> BaseName | DeltaName | None:
    top, slash, _ = path.partition("/")
    return None if not slash or top.startswith((".", "_")) else parse_directory(top)


def _only_new(location: Location, span: change_feed.ChangeSpan) -> Location:
    """Leave out the directories whose names say that they hold no new rows."""
    state = location.state
    base = state.base if state.base is not None and change_feed.may_be_new(state.base, span) else None
    deltas = tuple(directory for directory in state.deltas if change_feed.may_be_new(directory, span))
    return replace(location, state=replace(state, base=base, deltas=deltas, originals=()))


def _write_id_of_file(path: str, until: ValidWriteIdList) -> int:
    """Return the write id of the rows of an insert-only table's file; 0 if a compaction has merged several, or of an original.

    A compacted base may have the name of an aborted write id, whose rows it does not hold. ``path``: below the location.
    """
    name = _directory_name(path)
    if name is None:
        return 0
    low, high = name.span
    single = isinstance(name, BaseName) or low == high
    return int(high) if single and until.is_valid(high) else 0


def _require_inserts(
    table: TableDefinition, changed: Sequence[tuple[Location, change_feed.ChangedState]]
) -> None:
    for location, state in changed:
        if state.deletes:
            partition = location.partition
            where = "" if partition is None else f" (partition {', '.join(map(str, partition.values))})"
            raise UnsupportedFeatureError(
                f"rows of {table.name}{where} were deleted, updated or overwritten, and the query reads inserts only: set "
                '.option("changes", "true") to read them as changes, or .option("ignore_changes", "true") to read '
                "inserted rows (those of updates, too) and skip deletes"
            )

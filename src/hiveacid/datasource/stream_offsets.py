"""Offsets and files of a streaming query over a table's changes, for the driver's process, without a Spark session.

An offset holds a valid write-id list and the creation time of the table. An empty list marks the beginning of the
table: the first batch after it is a snapshot. Every batch ends at such a list. A transaction that was open at the end
of a batch is therefore part of exactly one later batch.

The cleaner of a Hive Metastore keeps no record of what it removes. A read transaction that is open since the end of a batch
keeps what commits later from it (Hive 4). Without one, after a restart, a base beyond that point ends the query with an
error. DROP PARTITION leaves no trace either; an offset therefore names the partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hiveacid.catalog.opening import begin_session, open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN, HISTORY_FROM, MIGRATED_FROM
from hiveacid.core.format.names import BaseName, DeltaName, LayoutLevel, parse_directory
from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_write_id_list
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot import change_feed
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.datasource.change_feed_task import FileChanges, require_readable
from hiveacid.datasource.options import ChangeOptions
from hiveacid.errors import (
    ConfigError,
    NotEnoughHistoryError,
    NotTransactionalError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.orc.footer_summary import summarize
from hiveacid.orc.tail import read_tail
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import Start, TxnKind, current_write_ids_of
from hiveacid.spark.read.change_feed import ChangedLocation
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.snapshot_locations import Location, id_property, list_locations
from hiveacid.table.arrow_read.files_to_open import plan_files
from hiveacid.table.context import layout_level, require_table
from hiveacid.table.read.change_feed import locate_changes, plan_change_history, require_change_history
from hiveacid.table.read.visible_locations import require_unchanged
from hiveacid.transactions.read_leases import end_read
from hiveacid.transactions.transaction import Transaction, Transactions, has_new_commits

logger = logging.getLogger(__name__)

Offset = dict[str, object]
_LONGEST_GUARD = 60_000  # ms that a transaction keeps the changes after it while none come


@dataclass(frozen=True)
class _Held:
    """An open read transaction, its snapshot of the table, and when it began (ms)."""

    txn: Transaction
    write_ids: ValidWriteIdList
    begun: int


@dataclass
class ChangeSource:
    """Finds offsets and files. `close` closes its store and ends the read transaction that keeps the files."""

    options: ChangeOptions
    fs: AnyFileSystem = field(default_factory=AnyFileSystem)
    _store: WarehouseStore | None = field(default=None, init=False)
    _transactions: Transactions | None = field(default=None, init=False)
    _held: list[_Held] = field(default_factory=list, init=False)
    _last: Offset | None = field(default=None, init=False)
    _settings: Settings = field(default_factory=lambda: Settings.of({}), init=False)

    @property
    def store(self) -> WarehouseStore:
        """Open the store at its first use."""
        if self._store is None:
            clock = SystemClock()
            require_existing_warehouse(self.options.warehouse, self.options.store)
            self._store, _ = open_store(self.options.warehouse, self.options.store, self._settings, clock)
            self._settings, self._transactions = begin_session(
                self._store, {}, clock, "hiveacid stream source"
            )
        return self._store

    @property
    def _is_guarded(self) -> bool:
        """Tell whether only open transactions keep the changes of later batches: those of a metastore of Hive 4."""
        return not self.store.maintained_by_hiveacid() and self.store.layout_level() != LayoutLevel.HIVE3

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
        return table

    def current_write_ids(self, table: TableDefinition) -> ValidWriteIdList:
        """Return the table's current valid write-id list."""
        return current_write_ids_of(self.store, table.name)

    def start_offset(self) -> Offset:
        """Return the offset at which a new query begins, as its options say."""
        table, options = self.definition(), self.options
        if options.starting_write_id is not None:
            return self._offset(
                table, self.current_write_ids(table).at(WriteId(max(0, options.starting_write_id - 1)))
            )
        if options.starting == "snapshot":
            return self._offset(table, None)
        if options.starting == "earliest":
            first = WriteId(id_property(table, HISTORY_FROM))
            return self._offset(table, self.current_write_ids(table).at(first))
        return self._offset(table, self._present(table, None))

    def _offset(self, table: TableDefinition, write_ids: ValidWriteIdList | None) -> Offset:
        offset: Offset = {
            "write_ids": "" if write_ids is None else write_ids.to_string(),
            "made": table.created_at,
            "table": table.incarnation,
        }
        if table.partition_columns and not self.store.maintained_by_hiveacid():
            last = self._last or {}
            if any(last.get(key) != value for key, value in offset.items()):  # else Spark asks too often
                names = sorted(self.store.list_partition_names(table.name))
                self._last = offset | {"partitions": names}
            return self._last or offset
        return offset

    def _present(self, table: TableDefinition, start: ValidWriteIdList | None) -> ValidWriteIdList:
        """Return the current list, or that of a transaction which a query that has come to ``start`` has yet to reach.

        In a metastore of Hive 4 an open transaction keeps what commits after the list. It is renewed when it has lasted, because
        no table of the metastore is cleaned of what was compacted since.
        """
        if not self._is_guarded:
            return self.current_write_ids(table)
        newest = self._held[-1] if self._held else None
        if newest is not None:
            if start is not None and has_new_commits(newest.write_ids, start):
                return newest.write_ids
            is_young = 0 <= newest.txn.clock.now() - newest.begun < _LONGEST_GUARD
            if is_young and self.current_write_ids(table) == newest.write_ids:
                return newest.write_ids
        guard = self._begin(table)
        if newest is not None and guard.write_ids == newest.write_ids:
            self._held.remove(newest)
            end_read(newest.txn)
        return guard.write_ids

    def _begin(self, table: TableDefinition) -> _Held:
        """Begin a read transaction, and hold it.

        Hive 3 cleans what no lock protects, whatever transactions are open. A lock on the table does not protect its partitions.
        """
        assert self._transactions is not None  # noqa: S101 - opened with the store
        name, start = table.name, Start(tables=(table.name,))
        if not (self.store.maintained_by_hiveacid() or self._is_guarded):
            partitions = sorted(self.store.list_partition_names(name)) if table.partition_columns else ()
            start = replace(
                start,
                locks=tuple(
                    LockComponent(LockType.SHARED_READ, name.database, name.name, partition)
                    for partition in (None, *partitions)
                ),
            )
        begun = self._transactions.clock.now()
        txn = self._transactions.begin(self._settings, TxnKind.READ_ONLY, start=start)
        held = _Held(txn, txn.valid_write_ids(table.name), begun)
        self._held.append(held)
        return held

    def next_end_offset(self, start: Offset | None, target: Offset | None = None) -> Offset:
        """Return the end of the next batch: the current state (or ``target``), or an earlier one if limits are set.

        Spark calls this method when the previous batch has ended. The method releases that batch's files now, because
        Spark kills this process at the end of the query.
        """
        if not self._is_guarded:
            self.release()
        table = self.definition()
        begin = None if start is None else _write_ids_of_offset(table, start)
        end = self._present(table, begin) if target is None else _write_ids_of_offset(table, target)
        if end is None or begin is None or not (self.options.max_write_ids or self.options.max_bytes):
            return self._offset(table, end)
        span = change_feed.plan_span(begin, end, self.current_write_ids(table))
        return self._offset(table, self._limit_span(table, span))

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
        reading = self._held[-1] if self._is_guarded and self._held else None
        if reading is None or has_new_commits(until, reading.write_ids):
            reading = self._begin(table)
        # not before: the cleaner would find a moment without a reader
        self.release_before(until if begin is None else begin, reading)
        try:
            return self._files_of_span(table, reading.txn, begin, until, (start, end))
        except BaseException:
            self.release()
            raise

    def _files_of_span(
        self,
        table: TableDefinition,
        txn: Transaction,
        begin: ValidWriteIdList | None,
        until: ValidWriteIdList,
        offsets: tuple[Offset, Offset],
    ) -> list[FileChanges]:
        if begin is not None:
            try:
                self._require_partitions(table, offsets)
                return self._changed_files(table, txn, begin, until)
            except NotEnoughHistoryError:
                if not self.options.snapshot_where_gone:
                    raise
                logger.warning("%s: the changes were cleaned, so the batch holds the whole table", table.name)
        return self._snapshot_files(table, txn, until)

    def _require_partitions(self, table: TableDefinition, offsets: tuple[Offset, Offset]) -> None:
        """Raise NotEnoughHistoryError if a partition of a metastore's table is gone, perhaps with rows that were not read."""
        lists = [offset.get("partitions") for offset in offsets]
        named = {str(name) for names in lists if isinstance(names, list) for name in names}
        if not named or self.options.ignore_changes:
            return
        gone = sorted(named - self.store.list_partition_names(table.name))
        if gone:
            raise NotEnoughHistoryError(
                f"{table.name}: {len(gone)} partitions were dropped since the last batch ({gone[0]}), and a metastore does not "
                'tell whether the query had read all of their rows; option("ignore_changes", "true") goes on without them'
            )

    def _is_kept(self, after: ValidWriteIdList) -> bool:
        """Tell whether all that was committed after a list is still there, or recorded as removed.

        In a metastore: whether a transaction has been open since an earlier list, or since this one. Raises
        TransactionAbortedError if that was aborted.
        """
        if self.store.maintained_by_hiveacid():
            return True
        guards = [held for held in self._held if not has_new_commits(held.write_ids, after)]
        if not self._is_guarded or not guards:
            return False
        guards[-1].txn.require_open_in_store()
        return True

    def _changed_files(
        self, table: TableDefinition, txn: Transaction, begin: ValidWriteIdList, until: ValidWriteIdList
    ) -> list[FileChanges]:
        span = change_feed.plan_span(begin, until, txn.valid_write_ids(table.name))
        span = plan_change_history(self.store, table, span)
        partitions = self.store.list_partitions(table.name) if table.partition_columns else None
        locations = locate_changes(self.fs, table, partitions, span, txn, kept=self._is_kept(begin))
        self._is_kept(begin)  # raises if its transaction has timed out meanwhile
        self._require_complete(table, span, txn, partitions)
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
        partitions = self.store.list_partitions(table.name) if table.partition_columns else None
        is_own = self.store.maintained_by_hiveacid()
        try:
            require_change_history(table, span)
            if not is_own and not self._is_kept(span.until):  # only for its errors
                locate_changes(self.fs, table, partitions, span, txn, kept=False)
        except NotEnoughHistoryError:
            if not self.options.snapshot_where_gone:
                raise
            # The history ended after this batch was planned, and Spark repeats a batch with the same offsets. The next one
            # begins at its end, so it holds the whole table.
            logger.warning("%s: the batch is empty, because the state at its end was cleaned", table.name)
            return []
        files: list[FileChanges] = []
        kept = is_own and ADOPTED_TXN.of(table) is None  # as `list_as_of`
        for location in list_locations(
            self.fs, table, partitions, span.until, txn.snapshot(), history_kept=kept
        ):
            files += self.file_changes(table, location, span.until, None)
        txn.require_open_in_store()
        self._require_complete(table, span, txn, partitions)
        return files

    def _require_complete(
        self,
        table: TableDefinition,
        span: change_feed.ChangeSpan,
        txn: Transaction,
        partitions: Sequence[Partition] | None,
    ) -> None:
        """Raise NotEnoughHistoryError or WriteConflictError if the listing before may lack files."""
        now = require_table(self.store, table.name)
        require_change_history(now, span)
        require_unchanged(table, now, txn)
        if partitions is not None and not self.store.maintained_by_hiveacid():
            now_there = {partition.key for partition in self.store.list_partitions(table.name)}
            if not {partition.key for partition in partitions} <= now_there:
                raise WriteConflictError(
                    f"partitions of {table.name} were dropped while a batch was planned, and their rows would be missing: "
                    "start the query again"
                )

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
        """End the read transactions, so that the cleaner may delete their files."""
        while self._held:
            end_read(self._held.pop().txn)

    def release_before(self, reached: ValidWriteIdList, reading: _Held) -> None:
        """End the read transactions before ``reading`` but for the last one that keeps the changes after ``reached``."""
        guards = [held for held in self._held if not has_new_commits(held.write_ids, reached)]
        for held in tuple(self._held):
            if held is (guards[-1] if self._is_guarded and guards else reading):
                break
            self._held.remove(held)
            end_read(held.txn)

    def committed(self, end: Offset) -> None:
        """Release what a committed batch needed: spans that begin at its end need it no longer."""
        if not self._is_guarded:
            self.release()
        elif self._held:
            self.release_before(parse_write_id_list(str(end["write_ids"])), self._held[-1])

    def close(self) -> None:
        """Close everything; a later call opens it again."""
        self.release()
        if self._transactions is not None:
            self._transactions.heartbeats.close()
        if self._store is not None:
            self._store.close()
        self._store = self._transactions = None


def _write_ids_of_offset(table: TableDefinition, offset: Mapping[str, object]) -> ValidWriteIdList | None:
    # hiveacid migrate keeps the time, and the write ids go on in the other store, which gives the table another incarnation
    known_as = {table.incarnation, *(MIGRATED_FROM.of(table) or "").split(",")}
    if offset.get("made") != table.created_at or offset.get("table", table.incarnation) not in known_as:
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

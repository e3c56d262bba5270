"""The reference store: every rule in its plainest form, in one process. Nothing is kept when the process ends.

It is the oracle of the contract tests and of the simulation, and useful for experiments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.file_records import NO_PLACES, RecordedDirectory, RecordedPlaces, TableRecords
from hiveacid.core.transactions.commit_records import (
    CommitRecord,
    OperationSummary,
    StreamBatch,
    StreamKey,
    StreamProgress,
    TableOperation,
    batch_error,
    register_writer,
    sort_commits,
)
from hiveacid.core.transactions.locks_and_conflicts import (
    Change,
    Conflict,
    LockState,
    conflict_message,
    first_conflict,
    overtaken_message,
)
from hiveacid.core.transactions.states import TRANSACTION, TransactionState, fire
from hiveacid.errors import HiveAcidError, WriteConflictError
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.transactions import (
    SNAPSHOT_ONLY,
    Begun,
    Client,
    HeartbeatAnswer,
    Operation,
    Remains,
    Start,
    TransactionRow,
    TxnKind,
    Written,
)
from hiveacid.stores import refusals
from support.memory_store.catalog import MemoryCatalog
from support.memory_store.compaction_queue import MemoryCompactionQueue
from support.memory_store.figures import MemoryFigures
from support.memory_store.locks import MemoryLocks
from support.memory_store.state import NOBODY, TransactionRecord, WrittenRow, synchronized


class MemoryStore(MemoryCatalog, MemoryCompactionQueue, MemoryLocks, MemoryFigures):
    """Implements :class:`hiveacid.ports.store.TransactionStore` and :class:`hiveacid.ports.catalog.Catalog`.

    ``limits``: time-outs and maximum numbers. ``clock``: source of all times in the store.
    """

    # --- transactions -------------------------------------------------------------------------

    @synchronized
    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`. Raises ConfigError for an impossible ``count``."""
        refusals.client(client)
        refusals.open_count(count, self._limits)
        state, now = self._state, self._clock.now()
        if len(state.open_txns()) + count > self._limits.max_open_txns:
            raise refusals.too_many_open(self._limits.max_open_txns)
        lowest = self.min_open_txn_id()
        opened = tuple(TxnId(state.last_txn + step) for step in range(1, count + 1))
        timeout = int(self._limits.txn_timeout * 1000)
        for txn_id in opened:
            state.txns[txn_id] = TransactionRecord(
                txn_id, kind, client, now, now, state.sequence, lowest, timeout
            )
        state.last_txn = opened[-1]
        return opened

    @synchronized
    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        refusals.start(start, kind)
        (txn_id,) = self.open_txns(client, 1, kind)
        answer = self.lock(txn_id, start.locks) if start.locks else None
        if answer is not None and answer.state is LockState.WAITING:
            return Begun(txn_id, answer)
        snapshot = self.take_snapshot(txn_id)
        lists = self.valid_write_ids(snapshot, start.tables)
        given = {table: self.allocate_write_ids([txn_id], table)[0] for table in start.writes}
        return Begun(txn_id, answer, snapshot, lists, given)

    @synchronized
    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`. The ids in between count as committed."""
        refusals.seedable(high_watermark)
        state, now = self._state, self._clock.now()
        if state.last_txn >= high_watermark:
            return
        nobody, kind = Client("", "", ""), TxnKind.DEFAULT
        made = TransactionRecord(high_watermark, kind, nobody, now, now, state.sequence, high_watermark, 0)
        made.state, made.ended = fire(TRANSACTION, made.state, "commit"), now
        state.txns[high_watermark] = made
        state.last_txn = high_watermark

    @synchronized
    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """See :class:`hiveacid.ports.transactions.TransactionPort`.

        Once an update or delete is recorded, a new snapshot leaves the recorded moment alone.
        """
        txn = self._state.require_open(txn_id)
        if not any(row.txn_id == txn_id and row.counts for row in self._state.written):
            txn.moment = self._state.sequence
        return self.valid_txns()

    @synchronized
    def valid_txns(self) -> ValidTxnList:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        txns = sorted(self._state.txns.values(), key=lambda txn: txn.id)
        return ValidTxnList(
            TxnId(self._state.last_txn),
            tuple(txn.id for txn in txns if txn.state == TransactionState.OPEN),
            tuple(txn.id for txn in txns if txn.state == TransactionState.ABORTED),
        )

    @synchronized
    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        states = {txn_id: self.txn_state(txn_id) for txn_id in sorted(set(txn_ids))}
        for txn_id, state in states.items():
            if state == TransactionState.OPEN:
                self._state.txns[txn_id].heartbeat = self._clock.now()
        return HeartbeatAnswer(
            aborted=tuple(txn_id for txn_id, state in states.items() if state == TransactionState.ABORTED),
            missing=tuple(
                txn_id
                for txn_id, state in states.items()
                if state in (TransactionState.COMMITTED, TransactionState.UNKNOWN)
            ),
        )

    @synchronized
    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`.

        Raises AlreadyExistsError or NoSuchDatabaseError if ``changes`` do not fit; the transaction is open then.
        """
        refusals.changes(changes)
        refusals.written(written)
        txn = self._state.txns.get(txn_id)
        if txn is not None and txn.state == TransactionState.COMMITTED:
            return
        txn = self._state.require_open(txn_id)
        lost = self._lost_job(txn_id)
        refused = lost if batch is None else batch_error(self._state.streams.get(batch.stream), batch)
        if refused is not None:
            self._end_txn(txn, "abort", str(refused), refused.code)
            raise refused
        known = len(self._state.written)
        if written:
            self.add_written(txn_id, written)
        outdated = self._misplaced_partition(changes) or self._altered_definition(changes)
        if outdated is not None:
            self._end_txn(txn, "conflict", outdated, refusals.CONFLICT)
            raise WriteConflictError(outdated)
        mine = [row for row in self._state.written if row.txn_id == txn_id]
        refusal = self._refusal(txn, mine)
        if refusal is not None:
            self._end_txn(txn, "conflict", refusal, refusals.CONFLICT)
            raise WriteConflictError(refusal)
        try:
            self._require_changes_fit(changes)
        except HiveAcidError:
            del self._state.written[known:]
            raise
        if any(row.counts for row in mine):
            self._state.sequence += 1
            for row in mine:
                row.sequence = self._state.sequence
        self._apply_changes(changes)
        if batch is not None:
            self._state.streams[batch.stream] = replace(
                self._state.streams[batch.stream], last_batch_id=batch.batch_id
            )
        self._finish_committed_job(txn_id)
        self._end_txn(txn, "commit")
        self._record_commit(txn, operations)
        self._record_files(txn_id, changes.records)
        for row in mine:
            if row.change.operation != "c":
                self._state.changed[row.change.table, row.change.partition] = self._clock.now()

    def _refusal(self, txn: TransactionRecord, mine: list[WrittenRow]) -> str | None:
        conflict = self._conflict(txn, mine)
        if conflict is None:
            return self._overtaken(txn, mine)
        self._state.sequence += 1
        return conflict_message(txn.id, self._state.sequence, conflict)

    def _conflict(self, txn: TransactionRecord, mine: list[WrittenRow]) -> Conflict | None:
        committed = [row.committed() for row in self._state.written if row.sequence is not None]
        return first_conflict(txn.moment, [row.change for row in mine], committed)

    def _overtaken(self, txn: TransactionRecord, mine: list[WrittenRow]) -> str | None:
        """Return the reason if an overwrite with a higher write id committed in one of the places since the snapshot."""
        for row in mine:
            own = self._write_id_of(txn.id, row.change.table)
            for theirs in self._state.written:
                place = theirs.change.table, theirs.change.partition
                later = theirs.change.operation == Operation.UPDATE and (theirs.sequence or 0) > txn.moment
                if (
                    later
                    and place == (row.change.table, row.change.partition)
                    and (theirs.write_id or 0) > own
                ):
                    return overtaken_message(row.change, theirs.txn_id)
        return None

    def _write_id_of(self, txn_id: TxnId, table: TableName) -> WriteId:
        given = self._state.write_ids.get(table, {})
        return next((write_id for write_id, owner in given.items() if owner == txn_id), WriteId(0))

    @synchronized
    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        wanted = set(txn_ids)
        found = [txn for txn in self._state.open_txns() if txn.id in wanted]
        for txn in found:
            self._end_txn(txn, "abort", refusals.storable_text(reason))
        aborted = {txn_id for txn_id in wanted if self.txn_state(txn_id) == TransactionState.ABORTED}
        for txn_id in aborted if remains is not Remains.UNKNOWN else ():
            if not self._has_stopped(txn_id):
                self._state.txns[txn_id].code = refusals.STOPPED
        if remains is Remains.NOTHING:
            self._state.written = [row for row in self._state.written if row.txn_id not in aborted]
            for given in self._state.write_ids.values():
                for write_id in [write_id for write_id, txn_id in given.items() if txn_id in aborted]:
                    del given[write_id]
        return tuple(txn.id for txn in found)

    @synchronized
    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`. Compactions of such transactions have failed."""
        now = self._clock.now()
        silent = [txn for txn in self._state.open_txns() if txn.heartbeat + txn.timeout < now]
        for txn in silent:
            reason = refusals.timed_out(txn.timeout / 1000)
            self._end_txn(txn, "time out", reason, refusals.TIME_OUT)
            self._requeue_or_fail_lost_jobs(txn.id, reason)
        return tuple(txn.id for txn in silent)

    def _end_txn(
        self, txn: TransactionRecord, event: str, reason: str | None = None, code: str | None = None
    ) -> None:
        txn.state = fire(TRANSACTION, txn.state, event)
        txn.ended, txn.reason, txn.code = self._clock.now(), reason, code
        requests = self._state.requests
        for lock_id in [one.id for one in requests.values() if one.txn_id == txn.id]:
            del requests[lock_id]

    @synchronized
    def min_open_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return min((txn.id for txn in self._state.open_txns()), default=TxnId(self._state.last_txn + 1))

    @synchronized
    def last_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return TxnId(self._state.last_txn)

    @synchronized
    def txn_state(self, txn_id: TxnId) -> str:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        txn = self._state.txns.get(txn_id)
        return TransactionState.UNKNOWN if txn is None else txn.state

    @synchronized
    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return tuple(
            TransactionRow(
                txn.id,
                txn.state.upper(),
                txn.started,
                txn.heartbeat,
                txn.client.user,
                txn.client.host,
                txn.timeout,
                txn.code,
                txn.ended,
            )
            for _, txn in sorted(self._state.txns.items())
            if txn.state != TransactionState.COMMITTED
        )

    # --- write ids ----------------------------------------------------------------------------

    @synchronized
    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`. All of them get one, or none."""
        refusals.table_name(table)
        for txn in [self._state.require_open(txn_id) for txn_id in sorted(txn_ids)]:
            if txn.kind is TxnKind.READ_ONLY:
                raise refusals.read_only(txn.id)
        given = self._state.write_ids.setdefault(table, {})
        known = {txn_id: write_id for write_id, txn_id in given.items()}
        for txn_id in sorted(set(txn_ids) - set(known)):
            known[txn_id] = WriteId(self._state.next_write_id.get(table, 1))
            given[known[txn_id]] = txn_id
            self._state.next_write_id[table] = known[txn_id] + 1
        return tuple(known[txn_id] for txn_id in txn_ids)

    @synchronized
    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`. Raises TransactionStateError if ids were given out."""
        refusals.table_name(table)
        ids = refusals.seed(high_watermark, aborted)
        if self._state.next_write_id.get(table, 1) > 1:
            raise refusals.ids_given(table)
        self._state.next_write_id[table] = high_watermark + 1
        self._state.write_ids[table] = dict.fromkeys(ids, NOBODY)

    @synchronized
    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`."""
        return {table: self._valid_write_ids(txns, refusals.table_name(table)) for table in tables}

    def _valid_write_ids(self, txns: ValidTxnList, table: TableName) -> ValidWriteIdList:
        """Apply Hive's ``GetValidWriteIdsFunction``, which cuts off the highest ids if later transactions hold them."""
        given = self._state.write_ids.get(table, {})
        top = self._state.next_write_id.get(table, 1) - 1
        while WriteId(top) in given and given[WriteId(top)] > txns.high_watermark:
            top -= 1
        aborted: list[WriteId] = []
        open_ids: list[WriteId] = []
        for write_id, txn_id in given.items():
            if write_id > top or (txn_id != NOBODY and txns.is_valid(txn_id)):
                continue
            (aborted if txn_id == NOBODY or txns.is_aborted(txn_id) else open_ids).append(write_id)
        return ValidWriteIdList(table, WriteId(top), tuple(open_ids), tuple(aborted))

    def _compactor_high_watermark(self, table: TableName) -> WriteId:
        return self._valid_write_ids(self.valid_txns(), table).compactor().high_watermark

    @synchronized
    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        changes = refusals.written(written)
        if self._state.require_open(txn_id).kind is TxnKind.READ_ONLY:
            raise refusals.read_only(txn_id)
        for one in changes:
            change = Change(one.table, one.partition, one.operation.value)
            own = self._write_id_of(txn_id, one.table) if one.replaced else None
            self._state.written.append(WrittenRow(txn_id, change, write_id=own))

    @synchronized
    def ended_up_to(self, table: TableName) -> WriteId:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`."""
        return WriteId(self._state.lowest_open_write_id(refusals.table_name(table)) - 1)

    @synchronized
    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`."""
        given = self._state.write_ids.get(refusals.table_name(table), {})
        return tuple(
            sorted(
                write_id
                for write_id, txn_id in given.items()
                if self._is_aborted(txn_id) and not (may_come and self._has_stopped(txn_id))
            )
        )

    @synchronized
    def forget_aborted(
        self,
        table: TableName,
        partition: str | None,
        up_to: WriteId,
        before: TxnId | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`. ``partition`` None: the table with all partitions.

        A write id stays aborted while other partitions it was recorded for are not cleaned, and, where
        nothing was recorded for it, until the whole table is.
        """
        refusals.table_name(table)
        refusals.partition_name(partition)
        if seen is not None:
            self._require_table(table, seen)
        given = self._state.write_ids.get(table, {})
        wrote = {txn_id: write_id for write_id, txn_id in given.items()}
        touched = set()
        kept = []
        for row in self._state.written:
            write_id = row.write_id or wrote.get(row.txn_id)
            cleaned = partition is None or row.change.partition == partition
            if (
                row.change.table == table
                and cleaned
                and self._is_aborted(row.txn_id)
                and write_id is not None
                and write_id <= up_to
                and (row.change.operation != "c" or before is None or row.txn_id < before)
            ):
                touched.add(row.txn_id)
            else:
                kept.append(row)
        self._state.written = kept
        left = {row.txn_id for row in kept if row.change.table == table}
        for write_id, txn_id in list(given.items()):
            gone = partition is None or (txn_id in touched and txn_id not in left)
            if gone and write_id <= up_to and self._is_aborted(txn_id):
                del given[write_id]

    def _is_aborted(self, txn_id: TxnId) -> bool:
        return txn_id == NOBODY or self.txn_state(txn_id) == TransactionState.ABORTED

    # --- commit records ----------------------------------------------------------------------------

    @synchronized
    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        known = sort_commits(self._state.commits.get(refusals.table_name(table), ()))
        return known if after is None else (*known[:1], *(one for one in known[1:] if one.committed > after))

    def _record_commit(self, txn: TransactionRecord, operations: Sequence[TableOperation]) -> None:
        deeds = {one.table: one.summary for one in refusals.storable_operations(operations)}
        for table, given in self._state.write_ids.items():
            for write_id, txn_id in given.items():
                if txn_id == txn.id:
                    summary = deeds.get(table, OperationSummary())
                    client = txn.client
                    known = self._state.commits.get(table, ())
                    committed = max([self._clock.now(), *(one.committed for one in known)])
                    made = CommitRecord(
                        write_id, committed, txn.id, client.user, client.host, client.agent, summary
                    )
                    self._state.commits.setdefault(table, []).append(made)

    # --- files -------------------------------------------------------------------------------------

    def _record_files(self, txn_id: TxnId, records: Sequence[TableRecords]) -> None:
        told = {one.table: one.directories for one in records}
        compacted = {
            row.change.table
            for row in self._state.written
            if row.txn_id == txn_id and row.change.operation == "c"
        }
        for table in list(self._state.files):
            if txn_id not in self._state.write_ids.get(table, {}).values() and table not in compacted:
                continue
            if table not in told:
                del self._state.files[table]
                continue
            for new in told[table]:
                place = self._state.files[table].setdefault(Partition(new.values, "").key, {})
                place[new.directory.name] = new.directory

    @synchronized
    def recorded_files(
        self, table: TableName, partitions: Sequence[Partition] | None, known: RecordedPlaces = NO_PLACES
    ) -> dict[tuple[str, ...], list[RecordedDirectory]] | None:
        """See :class:`hiveacid.ports.store.FileRecordsPort`."""
        present = self._state.files.get(refusals.table_name(table))
        if present is None:
            return None
        found: dict[tuple[str, ...], list[RecordedDirectory]] = {}
        for key in [()] if partitions is None else [one.key for one in partitions]:
            kept = {one.name: one for one in known.get(key, ())}
            directories = [present.get(key, {})[name] for name in sorted(present.get(key, {}))]
            found[key] = [kept[one.name] if kept.get(one.name) == one else one for one in directories]
        return found

    @synchronized
    def forget_directories(
        self, table: TableName, partition: Partition | None, directories: Sequence[str], held: TxnId
    ) -> None:
        """See :class:`hiveacid.ports.store.FileRecordsPort`."""
        self._state.require_open(held)
        known = self._state.files.get(refusals.table_name(table), {})
        place = known.get(() if partition is None else partition.key, {})
        for name in directories:
            place.pop(name, None)

    @synchronized
    def end_records(self, table: TableName, held: TxnId) -> None:
        """See :class:`hiveacid.ports.store.FileRecordsPort`."""
        self._state.require_open(held)
        self._state.files.pop(refusals.table_name(table), None)

    def _prune_commits(self) -> None:
        oldest = self._clock.now() - int(self._limits.commits_retention * 1000)
        for table, known in self._state.commits.items():
            last = max((one.committed for one in known if one.committed <= oldest), default=0)
            self._state.commits[table] = [one for one in known if one.committed >= last]

    # --- streams -----------------------------------------------------------------------------------

    @synchronized
    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """See :class:`hiveacid.ports.store.StreamProgressPort`."""
        refusals.stream(stream, writer, checkpoint)
        known = self._state.streams.get(stream)
        self._state.streams[stream] = register_writer(known, stream, writer, checkpoint, restart=restart)
        return self._state.streams[stream]

    @synchronized
    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """See :class:`hiveacid.ports.store.StreamProgressPort`."""
        return self._state.streams.get(refusals.stream(stream))

    @synchronized
    def list_streams(self, table: TableName) -> tuple[StreamProgress, ...]:
        """See :class:`hiveacid.ports.store.StreamProgressPort`."""
        found = [progress for key, progress in self._state.streams.items() if key.table == table]
        return tuple(sorted(found, key=lambda progress: progress.stream.query))

    @synchronized
    def restore_streams(self, table: TableName, streams: Sequence[StreamProgress]) -> None:
        """See :class:`hiveacid.ports.store.StreamProgressPort`."""
        others = {key: progress for key, progress in self._state.streams.items() if key.table != table}
        self._state.streams = others | {progress.stream: progress for progress in streams}

    # --- housekeeping -------------------------------------------------------------------------

    @synchronized
    def housekeep(self) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`.

        Ended transactions are kept for their timeout at least: a client that lost the answer to its commit
        may still ask.
        """
        self._requeue_abandoned_jobs()
        self._prune_history()
        self._prune_commits()
        self._forget_services()
        state, still_open = self._state, self._state.open_txns()
        now = self._clock.now()
        old = {
            txn.id for txn in state.txns.values() if txn.ended is not None and txn.ended + txn.timeout < now
        }
        committed = {txn_id for txn_id in old if state.txns[txn_id].state == TransactionState.COMMITTED}
        seen = min((txn.min_open for txn in still_open), default=state.last_txn + 1)
        moment = min((txn.moment for txn in still_open), default=state.sequence)
        for table, given in state.write_ids.items():
            state.write_ids[table] = {
                write_id: txn_id
                for write_id, txn_id in given.items()
                if not (txn_id in committed and txn_id < seen)
                and not (
                    table not in state.tables and txn_id in old - committed and self._will_not_come(txn_id)
                )
            }
        wrote = {(txn_id, table) for table, given in state.write_ids.items() for txn_id in given.values()}
        state.written = [
            row
            for row in state.written
            if row.txn_id not in old
            or (row.txn_id in committed and (row.sequence or 0) > moment)
            or (row.txn_id not in committed and self._left_something(row, wrote))
        ]
        needed = {row.txn_id for row in state.written} | {txn_id for txn_id, _ in wrote}
        for txn_id in old - needed - {TxnId(state.last_txn)}:
            state.refused += state.txns.pop(txn_id).code == refusals.CONFLICT

    @staticmethod
    def _left_something(row: WrittenRow, wrote: set[tuple[TxnId, TableName]]) -> bool:
        """Tell whether an aborted transaction may have left files in the table or partition of the row."""
        return row.change.operation == "c" or (row.txn_id, row.change.table) in wrote

    def close(self) -> None:
        """Do nothing: there is no connection."""

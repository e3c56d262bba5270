"""The reference store: every rule in its plainest form, in one process, with nothing kept when it ends.

It is the oracle of the contract tests and of the simulation, and good for trying things out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiveacid.config import Settings
from hiveacid.core.commits import Told
from hiveacid.core.conflicts import Change, Conflict, conflict_message, first_conflict
from hiveacid.core.locks import HeldLock, LockComponent, LockState, blocker
from hiveacid.core.model import LockId, TableName, TxnId, WriteId
from hiveacid.core.states import TRANSACTION, fire
from hiveacid.core.streams import StreamBatch, committed, refusal
from hiveacid.core.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.errors import HiveAcidError, WriteConflictError
from hiveacid.ports import (
    Begun,
    CatalogChanges,
    Client,
    HeartbeatAnswer,
    LockAnswer,
    LockRow,
    Start,
    TransactionRow,
    TxnKind,
    Written,
)
from hiveacid.stores import checks, refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.memory_catalog import MemoryCatalog
from hiveacid.stores.memory_commits import MemoryCommits
from hiveacid.stores.memory_queue import MemoryQueue
from hiveacid.stores.memory_state import NOBODY, Request, Transaction, WrittenRow, alone
from hiveacid.stores.memory_streams import MemoryStreams

_NO_CHANGES, _NOTHING = CatalogChanges(), Start()


class MemoryStore(MemoryCatalog, MemoryQueue, MemoryStreams, MemoryCommits):
    """Implements :class:`hiveacid.ports.TransactionStore` and :class:`hiveacid.ports.Catalog`.

    ``limits``: time-outs and the like; ``clock``: the store's only time.
    """

    # --- transactions -------------------------------------------------------------------------

    @alone
    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`. Raises ConfigError for an impossible ``count``."""
        checks.client(client)
        checks.batch(count, self._limits)
        state, now = self._state, self._clock.now()
        if len(state.open_txns()) + count > self._limits.max_open_txns:
            raise refusals.too_many_open(self._limits.max_open_txns)
        lowest = self.min_open_txn_id()
        opened = tuple(TxnId(state.last_txn + step) for step in range(1, count + 1))
        for txn_id in opened:
            state.txns[txn_id] = Transaction(txn_id, kind, client, now, now, state.sequence, lowest)
        state.last_txn = opened[-1]
        return opened

    @alone
    def begin_txn(self, client: Client, start: Start = _NOTHING, kind: TxnKind = TxnKind.DEFAULT) -> Begun:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.start(start, kind)
        (txn_id,) = self.open_txns(client, 1, kind)
        answer = self.lock(txn_id, start.locks) if start.locks else None
        if answer is not None and answer.state is LockState.WAITING:
            return Begun(txn_id, answer)
        snapshot = self.take_snapshot(txn_id)
        lists = self.valid_write_ids(snapshot, start.tables)
        given = {table: self.allocate_write_ids([txn_id], table)[0] for table in start.writes}
        return Begun(txn_id, answer, snapshot, lists, given)

    @alone
    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`. The ids in between count as committed."""
        state, now = self._state, self._clock.now()
        if state.last_txn >= high_watermark:
            return
        nobody, kind = Client("", "", ""), TxnKind.DEFAULT
        made = Transaction(high_watermark, kind, nobody, now, now, state.sequence, high_watermark)
        made.state, made.ended = fire(TRANSACTION, made.state, "commit"), now
        state.txns[high_watermark] = made
        state.last_txn = high_watermark

    @alone
    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`.

        Once an update or delete is recorded, a new snapshot leaves the recorded moment alone.
        """
        txn = self._state.require_open(txn_id)
        if not any(row.txn_id == txn_id and row.counts for row in self._state.written):
            txn.moment = self._state.sequence
        return self.valid_txns()

    @alone
    def valid_txns(self) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`."""
        txns = sorted(self._state.txns.values(), key=lambda txn: txn.id)
        return ValidTxnList(
            TxnId(self._state.last_txn),
            tuple(txn.id for txn in txns if txn.state == "open"),
            tuple(txn.id for txn in txns if txn.state == "aborted"),
        )

    @alone
    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        states = {txn_id: self.txn_state(txn_id) for txn_id in sorted(set(txn_ids))}
        for txn_id, state in states.items():
            if state == "open":
                self._state.txns[txn_id].heartbeat = self._clock.now()
        return HeartbeatAnswer(
            aborted=tuple(txn_id for txn_id, state in states.items() if state == "aborted"),
            missing=tuple(txn_id for txn_id, state in states.items() if state in ("committed", "unknown")),
        )

    def txn_timeout(self) -> float | None:
        """See :class:`hiveacid.ports.TransactionStore`: whoever looks goes by its own setting."""
        return None

    @alone
    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = _NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        told: Sequence[Told] = (),
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`.

        Raises AlreadyExistsError or NoSuchDatabaseError if ``changes`` do not fit; the transaction is open then.
        """
        checks.changes(changes)
        checks.written(written)
        txn = self._state.txns.get(txn_id)
        if txn is not None and txn.state == "committed":
            return
        txn = self._state.require_open(txn_id)
        refused = None if batch is None else refusal(self._state.streams.get(batch.stream), batch)
        if refused is not None:
            self._end(txn, "abort", str(refused), refused.code)
            raise refused
        known = len(self._state.written)
        if written:
            self.add_written(txn_id, written)
        elsewhere = self._partition_elsewhere(changes)
        if elsewhere is not None:
            self._end(txn, "conflict", elsewhere, refusals.CONFLICT)
            raise WriteConflictError(elsewhere)
        mine = [row for row in self._state.written if row.txn_id == txn_id]
        conflict = self._conflict(txn, mine)
        if conflict is not None:
            self._state.sequence += 1
            message = conflict_message(txn_id, self._state.sequence, conflict)
            self._end(txn, "conflict", message, refusals.CONFLICT)
            raise WriteConflictError(message)
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
            self._state.streams[batch.stream] = committed(self._state.streams[batch.stream], batch)
        self._compaction_committed(txn_id)
        self._end(txn, "commit")
        self._note_commit(txn, told)
        for row in mine:
            if row.change.operation != "c":
                self._state.changed[row.change.table, row.change.partition] = self._clock.now()

    def _conflict(self, txn: Transaction, mine: list[WrittenRow]) -> Conflict | None:
        committed = [row.committed() for row in self._state.written if row.sequence is not None]
        return first_conflict(txn.moment, [row.change for row in mine], committed)

    @alone
    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        wanted = set(txn_ids)
        found = [txn for txn in self._state.open_txns() if txn.id in wanted]
        for txn in found:
            self._end(txn, "abort", checks.said(reason))
        return tuple(txn.id for txn in found)

    @alone
    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`. Compactions of such transactions have failed."""
        oldest = self._clock.now() - int(self._limits.txn_timeout * 1000)
        silent = [txn for txn in self._state.open_txns() if txn.heartbeat < oldest]
        reason = refusals.timed_out(self._limits.txn_timeout)
        for txn in silent:
            self._end(txn, "time out", reason, refusals.TIME_OUT)
            self._compaction_lost(txn.id, reason)
        return tuple(txn.id for txn in silent)

    def _end(self, txn: Transaction, event: str, reason: str | None = None, code: str | None = None) -> None:
        txn.state = fire(TRANSACTION, txn.state, event)
        txn.ended, txn.reason, txn.code = self._clock.now(), reason, code
        requests = self._state.requests
        for lock_id in [one.id for one in requests.values() if one.txn_id == txn.id]:
            del requests[lock_id]

    @alone
    def min_open_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return min((txn.id for txn in self._state.open_txns()), default=TxnId(self._state.last_txn + 1))

    @alone
    def txn_state(self, txn_id: TxnId) -> str:
        """See :class:`hiveacid.ports.TransactionStore`."""
        txn = self._state.txns.get(txn_id)
        return "unknown" if txn is None else txn.state

    @alone
    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return tuple(
            TransactionRow(
                txn.id, txn.state.upper(), txn.started, txn.heartbeat, txn.client.user, txn.client.host
            )
            for _, txn in sorted(self._state.txns.items())
            if txn.state != "committed"
        )

    # --- write ids ----------------------------------------------------------------------------

    def reads(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner asks for open transactions."""

    @alone
    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`. All of them get one, or none."""
        checks.table_name(table)
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

    @alone
    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`. Raises TransactionStateError if ids were given out."""
        checks.table_name(table)
        ids = checks.seed(high_watermark, aborted)
        if self._state.next_write_id.get(table, 1) > 1:
            raise refusals.ids_given(table)
        self._state.next_write_id[table] = high_watermark + 1
        self._state.write_ids[table] = dict.fromkeys(ids, NOBODY)

    @alone
    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return {table: self._valid_write_ids(txns, checks.table_name(table)) for table in tables}

    def _valid_write_ids(self, txns: ValidTxnList, table: TableName) -> ValidWriteIdList:
        """Apply Hive's ``GetValidWriteIdsFunction``: what later transactions took at the top is cut off."""
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

    @alone
    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        changes = checks.written(written)
        if self._state.require_open(txn_id).kind is TxnKind.READ_ONLY:
            raise refusals.read_only(txn_id)
        for one in changes:
            change = Change(one.table, one.partition, one.operation.value)
            self._state.written.append(WrittenRow(txn_id, change))

    @alone
    def aborted_write_ids(self, table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        given = self._state.write_ids.get(checks.table_name(table), {})
        return tuple(sorted(write_id for write_id, txn_id in given.items() if self._is_aborted(txn_id)))

    @alone
    def forget_aborted(self, table: TableName, partition: str | None, up_to: WriteId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`. ``partition`` None: the table with all partitions.

        A write id stays aborted while other partitions it was recorded for are not cleaned, and, where
        nothing was recorded for it, until the whole table is.
        """
        checks.table_name(table)
        checks.partition_name(partition)
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
        return txn_id == NOBODY or self.txn_state(txn_id) == "aborted"

    # --- locks --------------------------------------------------------------------------------

    @alone
    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`. Raises ConfigError for an empty or odd request."""
        wanted = checks.components(components)
        self._state.require_open(txn_id)
        found = self._blocker(txn_id, wanted, LockId(self._state.last_lock + 1))
        if found is not None and zero_wait:
            return LockAnswer(LockId(0), LockState.NOT_ACQUIRED, str(found))
        self._state.last_lock += 1
        made = Request(LockId(self._state.last_lock), txn_id, wanted, LockState.WAITING, None, None)
        self._state.requests[made.id] = made
        return self._answer(made, found)

    @alone
    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`. Raises TransactionStateError if the request is gone."""
        request = self._state.requests.get(lock_id)
        if request is None:
            raise refusals.request_gone(lock_id)
        if request.state is LockState.ACQUIRED:
            return LockAnswer(lock_id, LockState.ACQUIRED)
        return self._answer(request, self._blocker(request.txn_id, request.components, lock_id))

    @alone
    def unlock(self, lock_id: LockId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`. A request that is gone is no error.

        Raises TransactionStateError for a lock that protects what its transaction wrote.
        """
        request = self._state.requests.get(lock_id)
        if request is None:
            return
        txn_id = request.txn_id
        wrote = any(row.txn_id == txn_id for row in self._state.written) or any(
            txn_id in given.values() for given in self._state.write_ids.values()
        )
        if request.state is LockState.ACQUIRED and wrote:
            raise refusals.lock_in_use(lock_id, txn_id)
        del self._state.requests[lock_id]

    def _blocker(self, txn_id: TxnId, wanted: Sequence[LockComponent], before: LockId) -> HeldLock | None:
        earlier = [held for one in self._state.requests.values() if one.id < before for held in one.held()]
        return blocker(txn_id, wanted, earlier)

    def _answer(self, request: Request, found: HeldLock | None) -> LockAnswer:
        if found is None:
            request.state, request.acquired_at = LockState.ACQUIRED, self._clock.now()
        request.blocked_by = None if found is None else found.name
        return LockAnswer(request.id, request.state, None if found is None else str(found))

    @alone
    def show_locks(self) -> tuple[LockRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return tuple(
            self._lock_row(request, held)
            for _, request in sorted(self._state.requests.items())
            for held in request.held()
        )

    def _lock_row(self, request: Request, held: HeldLock) -> LockRow:
        txn = self._state.txns[request.txn_id]
        return LockRow(
            lock_id=held.name,
            database=held.component.database,
            table=held.component.table,
            partition=held.component.partition,
            state=request.state.value,
            blocked_by=request.blocked_by,
            type=held.component.type.value,
            txn_id=txn.id,
            last_heartbeat=txn.heartbeat,
            acquired_at=request.acquired_at,
            user=txn.client.user,
            host=txn.client.host,
            agent=txn.client.agent,
        )

    # --- housekeeping -------------------------------------------------------------------------

    @alone
    def housekeep(self) -> None:
        """See :class:`hiveacid.ports.TransactionStore`.

        Ended transactions are kept for hive.txn.timeout at least: a client that lost the answer to its commit
        may still ask.
        """
        self._revoke_compactions()
        self._prune_history()
        self._prune_commits()
        self._forget_services()
        state, still_open = self._state, self._state.open_txns()
        oldest = self._clock.now() - int(self._limits.txn_timeout * 1000)
        old = {txn.id for txn in state.txns.values() if txn.ended is not None and txn.ended < oldest}
        committed = {txn_id for txn_id in old if state.txns[txn_id].state == "committed"}
        seen = min((txn.min_open for txn in still_open), default=state.last_txn + 1)
        moment = min((txn.moment for txn in still_open), default=state.sequence)
        for table, given in state.write_ids.items():
            state.write_ids[table] = {
                write_id: txn_id
                for write_id, txn_id in given.items()
                if not (txn_id in committed and txn_id < seen)
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
            del state.txns[txn_id]

    @staticmethod
    def _left_something(row: WrittenRow, wrote: set[tuple[TxnId, TableName]]) -> bool:
        """Tell whether an aborted transaction may have left files where it wrote."""
        return row.change.operation == "c" or (row.txn_id, row.change.table) in wrote

    def obey(self, settings: Settings) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        self._limits = Limits.of(settings)

    def close(self) -> None:
        """Nothing to close; here so that all stores end alike."""

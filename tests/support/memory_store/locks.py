"""Lock queue of the reference store."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.core.model import LockId, TxnId
from hiveacid.core.transactions.locks_and_conflicts import (
    HeldLock,
    LockComponent,
    LockState,
    first_blocking_lock,
)
from hiveacid.ports.transactions import LockAnswer, LockRow
from hiveacid.stores import refusals
from support.memory_store.state import MemoryBase, Request, synchronized


class MemoryLocks(MemoryBase):
    """Implements :class:`hiveacid.ports.transactions.LockPort`."""

    @synchronized
    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.transactions.LockPort`. Raises ConfigError for an empty or odd request."""
        wanted = refusals.components(components)
        self._state.require_open(txn_id)
        blocker = self._blocker(txn_id, wanted, LockId(self._state.last_lock + 1))
        if blocker is not None and zero_wait:
            return LockAnswer(LockId(0), LockState.NOT_ACQUIRED, str(blocker))
        self._state.last_lock += 1
        request = Request(LockId(self._state.last_lock), txn_id, wanted, LockState.WAITING, None, None)
        self._state.requests[request.id] = request
        return self._answer(request, blocker)

    @synchronized
    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.transactions.LockPort`. Raises TransactionStateError if the request is gone."""
        request = self._state.requests.get(lock_id)
        if request is None:
            raise refusals.request_gone(lock_id)
        if request.state is LockState.ACQUIRED:
            return LockAnswer(lock_id, LockState.ACQUIRED)
        return self._answer(request, self._blocker(request.txn_id, request.components, lock_id))

    @synchronized
    def unlock(self, lock_id: LockId) -> None:
        """See :class:`hiveacid.ports.transactions.LockPort`. A request that is gone is not an error.

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
        earlier = [
            held
            for request in self._state.requests.values()
            if request.id < before
            for held in request.held()
        ]
        return first_blocking_lock(txn_id, wanted, earlier)

    def _answer(self, request: Request, blocker: HeldLock | None) -> LockAnswer:
        if blocker is None:
            request.state, request.acquired_at = LockState.ACQUIRED, self._clock.now()
        request.blocked_by = None if blocker is None else blocker.name
        return LockAnswer(request.id, request.state, None if blocker is None else str(blocker))

    @synchronized
    def show_locks(self) -> tuple[LockRow, ...]:
        """See :class:`hiveacid.ports.transactions.LockPort`."""
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

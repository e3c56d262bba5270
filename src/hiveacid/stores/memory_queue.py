"""The compaction queue of the reference store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hiveacid.core.conflicts import Change
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.states import COMPACTION, end_compaction, fire
from hiveacid.ports import Compaction, CompactionRequest
from hiveacid.stores import checks, refusals
from hiveacid.stores.memory_state import MemoryPart, WrittenRow, alone


class MemoryQueue(MemoryPart):
    """The verbs of :class:`hiveacid.ports.TransactionStore` about compactions."""

    @alone
    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.compaction(request)
        checks.text("the name of the initiator", initiator)
        for number, one in sorted(self._state.compactions.items()):
            same = (one.request.table, one.request.partition) == (request.table, request.partition)
            if same and one.state in ("initiated", "working"):
                raise refusals.scheduled(request, one.state, number)
        self._state.last_compaction += 1
        made = Compaction(
            id=self._state.last_compaction,
            request=request,
            state=COMPACTION.start,
            enqueued=self._clock.now(),
            initiator=initiator,
        )
        self._state.compactions[made.id] = made
        return made

    @alone
    def claim_compaction(self, worker: str, compaction_id: int | None = None) -> Compaction | None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.text("the name of the worker", worker)
        for number, one in sorted(self._state.compactions.items()):
            if one.state == "initiated" and compaction_id in (None, number):
                state = fire(COMPACTION, one.state, "claim")
                claimed = replace(one, state=state, worker=worker, started=self._clock.now())
                self._state.compactions[number] = claimed
                return claimed
        return None

    @alone
    def start_compaction(self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id)
        if one.state != "working":
            raise refusals.compaction_not_working(compaction_id, one.state)
        self._state.require_open(txn_id)
        self._state.compactions[compaction_id] = replace(one, txn_id=txn_id, high_watermark=high_watermark)
        change = Change(one.request.table, one.request.partition, "c")
        self._state.written.append(WrittenRow(txn_id, change, write_id=high_watermark))

    @alone
    def end_compaction(
        self, compaction_id: int, state: str, error: str | None = None, next_txn_id: TxnId | None = None
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id)
        state = end_compaction(one.state, state)
        ended = self._clock.now() if state in COMPACTION.final_states else None
        if next_txn_id is None:
            next_txn_id = one.next_txn_id
        commit_time = one.commit_time
        if state == "ready for cleaning" and one.txn_id is None:
            next_txn_id = next_txn_id or TxnId(self._state.last_txn + 1)
            commit_time = self._clock.now()
        self._state.compactions[compaction_id] = replace(
            one,
            state=state,
            error=checks.said(error),
            ended=ended,
            next_txn_id=next_txn_id,
            commit_time=commit_time,
        )

    @alone
    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return tuple(one for _, one in sorted(self._state.compactions.items()))

    def _compaction(self, compaction_id: int) -> Compaction:
        one = self._state.compactions.get(compaction_id)
        if one is None:
            raise refusals.no_compaction(compaction_id)
        return one

    def _compaction_committed(self, txn_id: TxnId) -> None:
        for number, one in self._state.compactions.items():
            if one.txn_id == txn_id and one.state in ("working", "ready for cleaning"):
                self._state.compactions[number] = replace(
                    one,
                    state=fire(COMPACTION, one.state, "finish"),
                    next_txn_id=TxnId(self._state.last_txn + 1),
                    commit_time=self._clock.now(),
                )

    def _compaction_lost(self, txn_id: TxnId, reason: str) -> None:
        for number, one in self._state.compactions.items():
            if one.txn_id == txn_id and one.state in ("working", "ready for cleaning"):
                self._state.compactions[number] = replace(
                    one, state=fire(COMPACTION, one.state, "fail"), error=reason, ended=self._clock.now()
                )

    def _revoke_compactions(self) -> None:
        """Queue again what a worker claimed and never came back to (``hive.compactor.worker.timeout``)."""
        oldest = self._clock.now() - int(self._limits.worker_timeout * 1000)
        at_work = {txn.id for txn in self._state.open_txns()}
        for number, one in self._state.compactions.items():
            if one.state == "working" and (one.started or 0) < oldest and one.txn_id not in at_work:
                self._state.compactions[number] = replace(
                    one,
                    state=fire(COMPACTION, one.state, "revoke"),
                    worker=None,
                    started=None,
                    txn_id=None,
                    high_watermark=None,
                )

    def _prune_history(self) -> None:
        """Keep the newest ended compactions of each table or partition and state."""
        seen: dict[tuple[TableName, str | None, str], int] = defaultdict(int)
        for number, one in sorted(self._state.compactions.items(), reverse=True):
            key = (one.request.table, one.request.partition, one.state)
            seen[key] += 1
            if one.state in self._limits.history and seen[key] > self._limits.history[one.state]:
                del self._state.compactions[number]

"""The compaction queue of the reference store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hiveacid.core.conflicts import Change
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.queue import (
    DEFAULT_POOL,
    READY,
    ChangedPlace,
    Compaction,
    CompactionRequest,
    Service,
    is_covered,
)
from hiveacid.core.states import COMPACTION, end_compaction, fire
from hiveacid.stores import checks, refusals
from hiveacid.stores.memory_state import MemoryPart, WrittenRow, alone

_UNDER_WAY = ("initiated", "working")


class MemoryQueue(MemoryPart):
    """The verbs of :class:`hiveacid.ports.TransactionStore` about compactions."""

    @alone
    def now(self) -> int:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return self._clock.now()

    def require_jobs(self) -> None:
        """Do nothing: jobs are for whoever claims them."""

    def upkeep_is_ours(self) -> bool:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return True

    @alone
    def changed_places(self, since: int = 0) -> tuple[ChangedPlace, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        found = {place: at for place, at in self._state.changed.items() if at >= since}
        aborted: dict[tuple[TableName, str | None], list[int]] = defaultdict(list)
        for table, given in self._state.write_ids.items():
            for txn_id in given.values():
                txn = self._state.txns.get(txn_id)
                if txn is None or txn.state != "aborted" or txn.ended is None:
                    continue
                rows = [row.change for row in self._state.written if row.txn_id == txn_id]
                traces = {one.partition for one in rows if one.table == table and one.operation != "c"}
                for partition in traces or {None}:
                    aborted[table, partition].append(txn.ended)
        places = sorted({*found, *aborted}, key=lambda place: (place[0], place[1] or ""))
        return tuple(
            ChangedPlace(*place, found.get(place), tuple(sorted(aborted.get(place, ())))) for place in places
        )

    @alone
    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.compaction(request)
        checks.text("the name of the initiator", initiator)
        top = self._compactor_high_watermark(request.table)
        for number, one in sorted(self._state.compactions.items()):
            same = (one.request.table, one.request.partition) == (request.table, request.partition)
            covered = (
                one.state == READY
                and one.high_watermark == top
                and is_covered(one.request.kind, request.kind)
            )
            if same and (covered or one.state in _UNDER_WAY):
                raise refusals.scheduled(request, one.state, number)
        return self._queued(Compaction(0, request, COMPACTION.start, initiator=initiator))

    @alone
    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.compaction(request)
        checks.text("the name of the initiator", initiator)
        state, said = fire(COMPACTION, COMPACTION.start, "give up"), checks.said(error)
        now = self._clock.now()
        return self._queued(Compaction(0, request, state, ended=now, error=said, initiator=initiator))

    def _queued(self, one: Compaction) -> Compaction:
        self._state.last_compaction += 1
        made = replace(one, id=self._state.last_compaction, enqueued=self._clock.now())
        self._state.compactions[made.id] = made
        return made

    def _compactor_high_watermark(self, table: TableName) -> WriteId:
        raise NotImplementedError

    @alone
    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.text("the name of the worker", worker)
        checks.pool_name(pool)
        oldest = self._clock.now() - int(self._limits.pool_timeout * 1000)

        def mine(one: Compaction) -> bool:
            if compaction_id is not None:
                return one.id == compaction_id
            forgotten = pool == DEFAULT_POOL and (one.enqueued or 0) < oldest
            return one.request.pool == pool or forgotten

        waiting = [one for one in self._state.compactions.values() if one.state == "initiated" and mine(one)]
        if not waiting:
            return None
        one = min(waiting, key=lambda job: (-job.request.priority, job.id))
        state = fire(COMPACTION, one.state, "claim")
        claims = one.claims + 1
        return self._change(
            replace(one, state=state, worker=worker, started=self._clock.now(), claims=claims)
        )

    @alone
    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id, worker)
        if one.state != "working":
            raise refusals.compaction_not_working(compaction_id, one.state)
        self._state.require_open(txn_id)
        self._change(replace(one, txn_id=txn_id, high_watermark=high_watermark))
        change = Change(one.request.table, one.request.partition, "c")
        self._state.written.append(WrittenRow(txn_id, change, write_id=high_watermark))

    @alone
    def note_compaction(self, compaction_id: int, details: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        self._change(replace(self._compaction(compaction_id), details=checks.said(details)))

    @alone
    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id, worker)
        self._revoke(replace(one, claims=one.claims - 1))

    def _revoke(self, one: Compaction) -> None:
        state = fire(COMPACTION, one.state, "revoke")
        self._change(replace(one, state=state, worker=None, started=None, txn_id=None, high_watermark=None))

    @alone
    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        next_txn_id: TxnId | None = None,
        worker: str | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id, worker)
        state = end_compaction(one.state, state)
        ended = self._clock.now() if state in COMPACTION.final_states else None
        if next_txn_id is None:
            next_txn_id = one.next_txn_id
        commit_time = one.commit_time
        if state == READY and one.txn_id is None:
            next_txn_id = next_txn_id or TxnId(self._state.last_txn + 1)
            commit_time = self._clock.now()
        self._change(
            replace(
                one,
                state=state,
                error=checks.said(error),
                ended=ended,
                next_txn_id=next_txn_id,
                commit_time=commit_time,
            )
        )

    @alone
    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        now = self._clock.now()
        lowest = min((txn.id for txn in self._state.open_txns()), default=self._state.last_txn + 1)
        found = [
            one
            for one in self._state.compactions.values()
            if one.state == READY
            and one.next_txn_id is not None
            and one.next_txn_id <= lowest
            and (one.commit_time or 0) <= now - int(delay * 1000)
            and (one.clean_from or 0) <= now
        ]
        return tuple(sorted(found, key=lambda one: (one.high_watermark or 0, one.id)))

    @alone
    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        one = self._compaction(compaction_id)
        if one.state != READY:
            raise refusals.not_ready_for_cleaning(compaction_id, one.state)
        until = self._clock.now() + int(wait * 1000)
        self._change(replace(one, error=checks.said(error), cleanings=one.cleanings + 1, clean_from=until))

    @alone
    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return tuple(one for _, one in sorted(self._state.compactions.items()))

    @alone
    def announce_service(self, service: Service) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.service(service)
        now = self._clock.now()
        known = self._state.services.get(service.name)
        started = now if known is None else known.started
        self._state.services[service.name] = replace(service, started=started, last_seen=now)

    @alone
    def withdraw_service(self, name: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        self._state.services.pop(name, None)

    @alone
    def show_services(self, within: float) -> tuple[Service, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        oldest = self._clock.now() - int(within * 1000)
        found = [one for one in self._state.services.values() if (one.last_seen or 0) >= oldest]
        return tuple(sorted(found, key=lambda one: one.name))

    def _compaction(self, compaction_id: int, worker: str | None = None) -> Compaction:
        one = self._state.compactions.get(compaction_id)
        if one is None:
            raise refusals.no_compaction(compaction_id)
        if worker is not None and one.worker != worker:
            raise refusals.not_with_worker(compaction_id, worker)
        return one

    def _change(self, one: Compaction) -> Compaction:
        self._state.compactions[one.id] = one
        return one

    def _compaction_committed(self, txn_id: TxnId) -> None:
        for one in self._of_txn(txn_id):
            self._change(
                replace(
                    one,
                    state=fire(COMPACTION, one.state, "finish"),
                    next_txn_id=TxnId(self._state.last_txn + 1),
                    commit_time=self._clock.now(),
                )
            )

    def _compaction_lost(self, txn_id: TxnId, reason: str) -> None:
        for one in self._of_txn(txn_id):
            if one.state == "working" and one.claims < self._limits.lost_workers:
                self._revoke(replace(one, error=reason))
                continue
            state = fire(COMPACTION, one.state, "fail")
            self._change(replace(one, state=state, error=reason, ended=self._clock.now()))

    def _of_txn(self, txn_id: TxnId) -> list[Compaction]:
        jobs = self._state.compactions.values()
        return [one for one in jobs if one.txn_id == txn_id and one.state in ("working", READY)]

    def _revoke_compactions(self) -> None:
        """Queue again what a worker claimed and never came back to.

        ``hive.compactor.worker.timeout``, but ``hive.txn.timeout`` as long as it has no transaction to beat for.
        """
        now = self._clock.now()
        at_work = {txn.id for txn in self._state.open_txns()}
        for one in list(self._state.compactions.values()):
            limit = self._limits.txn_timeout if one.txn_id is None else self._limits.worker_timeout
            silent = (one.started or 0) < now - int(limit * 1000)
            if one.state == "working" and silent and one.txn_id not in at_work:
                self._revoke(one)

    def _forget_services(self) -> None:
        """Drop services that nobody has heard of for ``hive.compactor.worker.timeout``."""
        oldest = self._clock.now() - int(self._limits.worker_timeout * 1000)
        services = self._state.services
        self._state.services = {name: one for name, one in services.items() if (one.last_seen or 0) >= oldest}

    def _prune_history(self) -> None:
        """Keep the newest ended compactions of each table or partition and state.

        Failures that are old and were followed by a success of the same or a stronger kind go, too.
        """
        seen: dict[tuple[TableName, str | None, str], int] = defaultdict(int)
        succeeded: dict[tuple[TableName, str | None], set[str]] = defaultdict(set)
        oldest = self._clock.now() - int(self._limits.history_timeout * 1000)
        for number, one in sorted(self._state.compactions.items(), reverse=True):
            place = (one.request.table, one.request.partition)
            seen[*place, one.state] += 1
            if one.state == "succeeded":
                succeeded[place].add(one.request.kind)
            surplus = one.state in self._limits.history and (
                seen[*place, one.state] > self._limits.history[one.state]
                or checks.is_outlived(one, succeeded[place], oldest)
            )
            if surplus:
                del self._state.compactions[number]

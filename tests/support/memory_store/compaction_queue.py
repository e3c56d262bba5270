"""Compaction queue and register of services of the reference store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    ChangedPartition,
    Compaction,
    CompactionRequest,
    Service,
    is_covered,
    list_changed_partitions,
    list_surplus_jobs,
)
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import Change
from hiveacid.core.transactions.states import (
    COMPACTION,
    UNDER_WAY,
    CompactionState,
    TransactionState,
    end_compaction,
    fire,
)
from hiveacid.errors import TransactionAbortedError
from hiveacid.stores import refusals
from support.memory_store.state import MemoryBase, WrittenRow, synchronized


class MemoryCompactionQueue(MemoryBase):
    """Implements :class:`hiveacid.ports.store.CompactionQueuePort`."""

    @synchronized
    def now(self) -> int:
        """See :class:`hiveacid.ports.store.StoreConnection`."""
        return self._clock.now()

    @synchronized
    def changed_partitions(self, since: int = 0) -> tuple[ChangedPartition, ...]:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        changed = {partition: time for partition, time in self._state.changed.items() if time >= since}
        aborted: dict[tuple[TableName, str | None], list[int]] = defaultdict(list)
        for table, given in self._state.write_ids.items():
            for txn_id in given.values():
                txn = self._state.txns.get(txn_id)
                if txn is None or txn.state != TransactionState.ABORTED or txn.ended is None:
                    continue
                rows = [row.change for row in self._state.written if row.txn_id == txn_id]
                traces = {
                    change.partition for change in rows if change.table == table and change.operation != "c"
                }
                for partition in traces or {None}:
                    aborted[table, partition].append(txn.ended)
        return list_changed_partitions(changed, aborted)

    @synchronized
    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        refusals.compaction(request)
        refusals.require_storable("the name of the initiator", initiator)
        top = self._compactor_high_watermark(request.table)
        for number, job in sorted(self._state.compactions.items()):
            same = (job.request.table, job.request.partition) == (request.table, request.partition)
            covered = (
                job.state == CompactionState.READY_FOR_CLEANING
                and job.high_watermark == top
                and is_covered(job.request.kind, request.kind)
            )
            if same and (covered or job.state in UNDER_WAY):
                raise refusals.scheduled(request, job.state, number)
        return self._add_job(Compaction(0, request, COMPACTION.start, initiator=initiator))

    @synchronized
    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        refusals.compaction(request)
        refusals.require_storable("the name of the initiator", initiator)
        state, said = fire(COMPACTION, COMPACTION.start, "give up"), refusals.storable_text(error)
        now = self._clock.now()
        return self._add_job(Compaction(0, request, state, ended=now, error=said, initiator=initiator))

    def _add_job(self, job: Compaction) -> Compaction:
        self._state.last_compaction += 1
        made = replace(job, id=self._state.last_compaction, enqueued=self._clock.now())
        self._state.compactions[made.id] = made
        return made

    def _compactor_high_watermark(self, table: TableName) -> WriteId:
        raise NotImplementedError

    @synchronized
    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        refusals.require_storable("the name of the worker", worker)
        refusals.pool_name(pool)
        oldest = self._clock.now() - int(self._limits.pool_timeout * 1000)

        def mine(job: Compaction) -> bool:
            if compaction_id is not None:
                return job.id == compaction_id
            forgotten = pool == DEFAULT_POOL and (job.enqueued or 0) < oldest
            return job.request.pool == pool or forgotten

        waiting = [
            job
            for job in self._state.compactions.values()
            if job.state == CompactionState.INITIATED and mine(job)
        ]
        if not waiting:
            return None
        job = min(waiting, key=lambda job: (-job.request.priority, job.id))
        state = fire(COMPACTION, job.state, "claim")
        claims = job.claims + 1
        return self._replace_job(
            replace(job, state=state, worker=worker, started=self._clock.now(), claims=claims)
        )

    @synchronized
    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        job = self._job(compaction_id, worker)
        if job.state != CompactionState.WORKING:
            raise refusals.compaction_not_working(compaction_id, job.state)
        self._state.require_open(txn_id)
        self._replace_job(replace(job, txn_id=txn_id, high_watermark=high_watermark))
        change = Change(job.request.table, job.request.partition, "c")
        self._state.written.append(WrittenRow(txn_id, change, write_id=high_watermark))

    @synchronized
    def note_compaction(self, compaction_id: int, details: str) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        self._replace_job(replace(self._job(compaction_id), details=refusals.storable_text(details)))

    @synchronized
    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        job = self._job(compaction_id, worker)
        self._requeue(replace(job, claims=job.claims - 1))

    def _requeue(self, job: Compaction) -> None:
        state = fire(COMPACTION, job.state, "revoke")
        self._replace_job(
            replace(job, state=state, worker=None, started=None, txn_id=None, high_watermark=None)
        )

    @synchronized
    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        worker: str | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        job = self._job(compaction_id, worker)
        state = end_compaction(job.state, state)
        ended = self._clock.now() if state in COMPACTION.final_states else None
        next_txn_id, commit_time = job.next_txn_id, job.commit_time
        txn = None if job.txn_id is None else self._state.txns.get(job.txn_id)
        wrote_nothing = job.txn_id is None or (txn is not None and txn.state == TransactionState.ABORTED)
        if state == CompactionState.READY_FOR_CLEANING and wrote_nothing:
            next_txn_id = next_txn_id or TxnId(self._state.last_txn + 1)
            commit_time = self._clock.now()
        if state == CompactionState.REFUSED or (
            state == CompactionState.READY_FOR_CLEANING and wrote_nothing
        ):
            self._state.written = [
                row for row in self._state.written if row.txn_id != job.txn_id or row.change.operation != "c"
            ]
        self._replace_job(
            replace(
                job,
                state=state,
                error=refusals.storable_text(error),
                ended=ended,
                next_txn_id=next_txn_id,
                commit_time=commit_time,
            )
        )

    @synchronized
    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        now = self._clock.now()
        lowest = min((txn.id for txn in self._state.open_txns()), default=self._state.last_txn + 1)
        ready = [
            job
            for job in self._state.compactions.values()
            if job.state == CompactionState.READY_FOR_CLEANING
            and job.next_txn_id is not None
            and job.next_txn_id <= lowest
            and (job.commit_time or 0) <= now - int(delay * 1000)
            and (job.clean_from or 0) <= now
        ]
        return tuple(sorted(ready, key=lambda job: (job.high_watermark or 0, job.id)))

    @synchronized
    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        job = self._job(compaction_id)
        if job.state != CompactionState.READY_FOR_CLEANING:
            raise refusals.not_ready_for_cleaning(compaction_id, job.state)
        until = self._clock.now() + int(wait * 1000)
        self._replace_job(
            replace(
                job,
                error=refusals.storable_text(error),
                cleanings=job.cleanings + 1,
                clean_from=until,
            )
        )

    @synchronized
    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        return tuple(job for _, job in sorted(self._state.compactions.items()))

    @synchronized
    def announce_service(self, service: Service) -> None:
        """See :class:`hiveacid.ports.store.ServicePort`."""
        refusals.service(service)
        now = self._clock.now()
        before = self._state.services.get(service.name)
        started = now if before is None else before.started
        self._state.services[service.name] = replace(service, started=started, last_seen=now)

    @synchronized
    def withdraw_service(self, name: str) -> None:
        """See :class:`hiveacid.ports.store.ServicePort`."""
        self._state.services.pop(name, None)

    @synchronized
    def show_services(self, within: float) -> tuple[Service, ...]:
        """See :class:`hiveacid.ports.store.ServicePort`."""
        oldest = self._clock.now() - int(within * 1000)
        services = self._state.services.values()
        recent = [service for service in services if (service.last_seen or 0) >= oldest]
        return tuple(sorted(recent, key=lambda service: service.name))

    def _job(self, compaction_id: int, worker: str | None = None) -> Compaction:
        job = self._state.compactions.get(compaction_id)
        if job is None:
            raise refusals.no_compaction(compaction_id)
        if worker is not None and job.worker != worker:
            raise refusals.not_with_worker(compaction_id, worker)
        return job

    def _replace_job(self, job: Compaction) -> Compaction:
        self._state.compactions[job.id] = job
        return job

    def _lost_job(self, txn_id: TxnId) -> TransactionAbortedError | None:
        traces = (row for row in self._state.written if row.txn_id == txn_id and row.change.operation == "c")
        return refusals.compaction_lost(txn_id) if any(traces) and not self._jobs_of_txn(txn_id) else None

    def _finish_committed_job(self, txn_id: TxnId) -> None:
        for job in self._jobs_of_txn(txn_id):
            self._replace_job(
                replace(
                    job,
                    state=fire(COMPACTION, job.state, "finish"),
                    next_txn_id=TxnId(self._state.last_txn + 1),
                    commit_time=self._clock.now(),
                )
            )

    def _requeue_or_fail_lost_jobs(self, txn_id: TxnId, reason: str) -> None:
        for job in self._jobs_of_txn(txn_id):
            if job.state == CompactionState.WORKING and job.claims < self._limits.max_lost_workers:
                self._requeue(replace(job, error=reason))
                continue
            state = fire(COMPACTION, job.state, "fail")
            self._replace_job(replace(job, state=state, error=reason, ended=self._clock.now()))

    def _jobs_of_txn(self, txn_id: TxnId) -> list[Compaction]:
        jobs = self._state.compactions.values()
        return [
            job
            for job in jobs
            if job.txn_id == txn_id
            and job.state in (CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)
        ]

    def _requeue_abandoned_jobs(self) -> None:
        """Put jobs of workers that have been silent for too long back into the queue.

        The limit is ``hive.compactor.worker.timeout``, or ``hive.txn.timeout`` while the job has no transaction yet, and
        from the abort of its transaction on.
        """
        now = self._clock.now()
        at_work = {txn.id for txn in self._state.open_txns()}
        for job in list(self._state.compactions.values()):
            limit = self._limits.txn_timeout if job.txn_id is None else self._limits.worker_timeout
            silent = (job.started or 0) < now - int(limit * 1000)
            txn = None if job.txn_id is None else self._state.txns.get(job.txn_id)
            if txn is not None and txn.state == TransactionState.ABORTED:
                silent |= (txn.ended or 0) < now - int(self._limits.txn_timeout * 1000)
            if job.state == CompactionState.WORKING and silent and job.txn_id not in at_work:
                self._requeue(job)

    def _forget_services(self) -> None:
        """Drop services that were not announced for ``hive.compactor.worker.timeout``."""
        oldest = self._clock.now() - int(self._limits.worker_timeout * 1000)
        services = self._state.services
        self._state.services = {
            name: service for name, service in services.items() if (service.last_seen or 0) >= oldest
        }

    def _prune_history(self) -> None:
        """Drop ended compactions that the history need not keep."""
        oldest = self._clock.now() - int(self._limits.history_timeout * 1000)
        jobs = [job for _, job in sorted(self._state.compactions.items(), reverse=True)]
        ended = [job for job in jobs if job.state in self._limits.history]
        for compaction_id in list_surplus_jobs(ended, self._limits.history, oldest):
            del self._state.compactions[compaction_id]

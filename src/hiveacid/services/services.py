"""Workers, and all services of one process, stepped one after the other."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace

from hiveacid.catalog.connection import WarehouseConnection
from hiveacid.core.compaction.queue import DEFAULT_POOL, Compaction
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.services.cleaner import Cleaner, CleaningResult
from hiveacid.services.initiator import Initiator, InitiatorFinding
from hiveacid.spark.session.error_translation import is_spark_error
from hiveacid.spark.session.jobs import cancel_jobs
from hiveacid.table.compaction.job import job_group, run_job
from hiveacid.table.compaction.report import CompactionReport
from hiveacid.table.context import Context

STOPPED = "the worker was told to stop; the job waits for the next one"

logger = logging.getLogger(__name__)


@dataclass
class Worker:
    """Worker of one pool. ``name`` must be unique among all workers, because the queue assigns jobs by it."""

    context: Context
    name: str
    pool: str = DEFAULT_POOL
    _stopping: bool = field(default=False, init=False)
    _job: Compaction | None = field(default=None, init=False)

    def stop(self) -> None:
        """Stop the running job, which goes back into the queue. Called from another thread."""
        self._stopping = True
        job = self._job
        if job is not None:
            cancel_jobs(self.context.facts, job_group(job.id))

    def step(self) -> CompactionReport | None:
        """Carry out the next job and return its report, also after a failure; None if no job waits."""
        job = self.context.store.claim_compaction(self.name, pool=self.pool)
        if job is None:
            return None
        self._job = job
        try:
            return run_job(self.context, job, self.name, lambda: self._stopping)
        except Exception as error:
            if self._stopping:
                return CompactionReport(
                    job.id, job.request.kind, job.request.partition, CompactionState.INITIATED, STOPPED
                )
            if not isinstance(error, HiveAcidError) and not is_spark_error(error):
                raise
            logger.debug("compaction %s failed", job.id, exc_info=True)
            return CompactionReport(
                job.id, job.request.kind, job.request.partition, CompactionState.FAILED, str(error)[:500]
            )
        finally:
            self._job = None


@dataclass
class Housekeeper:
    """Aborts silent transactions and drops old rows of the store (Hive's ``AcidHouseKeeper``)."""

    context: Context

    def step(self) -> tuple[TxnId, ...]:
        """Do one turn; return the transactions that were aborted because their heartbeats stopped."""
        aborted = self.context.store.abort_timed_out()
        self.context.store.housekeep()
        return aborted


@dataclass(frozen=True)
class Turn:
    """Results of one turn of all services."""

    aborted: tuple[TxnId, ...] = ()
    findings: tuple[InitiatorFinding, ...] = ()
    compactions: tuple[CompactionReport, ...] = ()
    cleaned: CleaningResult = field(default_factory=CleaningResult)


class Services:
    """Initiator, workers, cleaner and housekeeper of a connection; a scheduler calls `step`.

        services = hiveacid.services.Services(acid)
        services.step()

    ``initiator``, ``cleaner``, ``housekeeper``: whether this process runs one. ``workers``: how many workers of ``pool``;
    `step` runs them one after the other, ``runner.Runner`` side by side. With a Hive Metastore 4 only workers are
    possible, which take jobs from its queue; the other services are Hive's own. Otherwise, and with Hive 3, the
    constructor raises UnsupportedFeatureError.
    """

    def __init__(
        self,
        connection: WarehouseConnection,
        *,
        initiator: bool = True,
        workers: int = 1,
        cleaner: bool = True,
        housekeeper: bool = True,
        pool: str = DEFAULT_POOL,
    ) -> None:
        context = connection.context
        if not context.store.maintained_by_hiveacid() and (initiator or cleaner or housekeeper):
            raise UnsupportedFeatureError(
                "a Hive Metastore has an initiator, a cleaner and housekeepers of its own; only workers can run here "
                "(hiveacid services --workers N)"
            )
        context.store.require_claimable_jobs()
        self.context: Context = replace(context)  # settings of its own: those of the session may change
        self.name = f"{context.transactions.client.host}-{os.getpid()}"
        self.initiator = Initiator(self.context, f"{self.name}.initiator") if initiator else None
        self.workers = [
            Worker(self.context, f"{self.name}.worker{number}", pool) for number in range(workers)
        ]
        self.cleaner = Cleaner(self.context) if cleaner else None
        self.housekeeper = Housekeeper(self.context) if housekeeper else None

    def step(self) -> Turn:
        """Do one turn: abort silent transactions, queue due compactions, run all queued jobs, clean."""
        aborted = self.housekeeper.step() if self.housekeeper else ()
        findings = self.initiator.step() if self.initiator else []
        reports = [report for worker in self.workers[:1] for report in _all_jobs(worker)]
        cleaned = self.cleaner.step() if self.cleaner else CleaningResult()
        return Turn(tuple(aborted), tuple(findings), tuple(reports), cleaned)


def _all_jobs(worker: Worker) -> list[CompactionReport]:
    """Let a worker run jobs until its queue is empty."""
    reports = []
    while (report := worker.step()) is not None:
        reports.append(report)
    return reports

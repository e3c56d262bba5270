"""Services of one process: `Services.step` runs them one after the other, `runner.Runner` side by side."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field, replace

from hiveacid.catalog.connection import WarehouseConnection
from hiveacid.core.compaction.queue_records import DEFAULT_POOL
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.services.cleaner import Cleaner, CleaningResult
from hiveacid.services.housekeeper import Housekeeper
from hiveacid.services.initiator import Initiator, InitiatorFinding
from hiveacid.services.worker import Worker
from hiveacid.table.compaction.report import CompactionReport
from hiveacid.table.context import Context


@dataclass(frozen=True)
class Turn:
    """Results of one turn of all services."""

    aborted: tuple[TxnId, ...] = ()
    findings: tuple[InitiatorFinding, ...] = ()
    compactions: tuple[CompactionReport, ...] = ()
    cleaned: CleaningResult = field(default_factory=CleaningResult)

    @property
    def failed(self) -> bool:
        """Tell whether a compaction or a cleaning failed."""
        failed = any(report.state == CompactionState.FAILED for report in self.compactions)
        return failed or bool(self.cleaned.errors)


class Services:
    """Initiator, workers, cleaner and housekeeper of a connection; a scheduler calls `step`.

        services = hiveacid.services.Services(acid)
        services.step()

    ``initiator``, ``cleaner``, ``housekeeper``: whether this process runs one. ``workers``: number of workers of ``pool``.
    `step` lets one worker run all queued jobs; ``runner.Runner`` runs all workers side by side. With a Hive Metastore 4
    only workers are possible: they take jobs from its queue, and Hive itself runs the other services. The constructor
    raises UnsupportedFeatureError for those services, and always with Hive 3.
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
        # containers with their host's network have one host name, and pid 1
        self.name = f"{context.transactions.client.host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
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

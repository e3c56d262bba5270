"""A worker, which carries out the compactions of the queue one by one (Hive's ``Worker``).

A failed job is not repeated here: the initiator decides when to queue it again (`core.compaction.initiation_and_retry_policy`). The jobs of a
worker that died go back into the queue (``stores.sql.compaction_queue``). `runner` pauses between jobs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from hiveacid.core.compaction.queue_records import DEFAULT_POOL, Compaction
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import HiveAcidError
from hiveacid.spark.session.error_translation import is_spark_error
from hiveacid.spark.session.jobs import cancel_jobs
from hiveacid.table.compaction.report import CompactionReport
from hiveacid.table.compaction.run_compaction import job_group, run_job
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

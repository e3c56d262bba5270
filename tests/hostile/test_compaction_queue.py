"""A job that a newer version or somebody by hand has queued fails alone (issue 20)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.errors import CompactionError
from hiveacid.services.steps import Worker
from hiveacid.table.compaction.run_compaction import run_job

if TYPE_CHECKING:
    from hiveacid import AcidSession


def test_a_job_of_an_unknown_kind_fails_and_the_worker_goes_on(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql("CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC")
    for row in (1, 2):
        acid.sql(f"INSERT INTO t VALUES ({row})")
    name, store = acid.table("t").name, acid.context.store
    (path,) = (tmp_path / "warehouse" / ".hiveacid").glob("*.db")
    for worker in ("step", "run_job"):
        job = store.enqueue_compaction(CompactionRequest(name, None, "minor"), "test")
        with sqlite3.connect(path) as database:
            database.execute("UPDATE hiveacid_compactions SET kind = 'tidy' WHERE id = ?", (job.id,))
        told = rf"compaction {job.id} of default\.t is of the unknown kind 'tidy'"
        if worker == "step":
            report = Worker(acid.context, worker).step()
            assert report is not None
            assert report.state == "failed"
        else:
            claimed = store.claim_compaction(worker, job.id)
            assert claimed is not None
            with pytest.raises(CompactionError, match=told):
                run_job(acid.context, claimed, worker)
        found = next(one for one in store.show_compactions() if one.id == job.id)
        assert found.state == "failed"
        assert f"compaction {job.id} of {name} is of the unknown kind 'tidy'" in (found.error or "")

    store.enqueue_compaction(CompactionRequest(name, None, "major"), "test")
    report = Worker(acid.context, "step").step()
    assert report is not None
    assert report.state == "ready for cleaning"

"""COMPACT of what a dead worker has (issue 20, point 21)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from scene import Scene, T

from hiveacid.config import Settings
from hiveacid.core.compaction.queue_records import CompactionRequest, Service
from hiveacid.core.model import TxnId, WriteId
from hiveacid.errors import CompactionRefusedError
from hiveacid.ports.transactions import TxnKind
from hiveacid.table.compaction.request_compaction import compact
from support.samples import CLIENT


def claim(scene: Scene, partition: str | None) -> tuple[int, TxnId]:
    """Be a worker that takes a job, begins it, and dies."""
    job = scene.store.enqueue_compaction(CompactionRequest(T, partition, "major"), "test-manual")
    scene.store.claim_compaction("host-dead", job.id)
    (txn_id,) = scene.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    scene.store.start_compaction(job.id, txn_id, WriteId(0), "host-dead")
    return job.id, txn_id


def test_a_refusal_says_until_when_a_dead_worker_may_stand_in_the_way(scene: Scene) -> None:
    """By the timeout of the worker's transaction, whatever that of the session is."""
    scene.table()
    job_id, txn_id = claim(scene, None)
    scene.clock.advance(100)
    scene.store.heartbeat([txn_id])
    scene.clock.advance(100)
    scene.context.change_settings(Settings.of({"hive.txn.timeout": "10s"}))
    until = datetime.fromtimestamp(scene.clock.now() / 1000 + 200, UTC).isoformat(sep=" ", timespec="seconds")
    with pytest.raises(CompactionRefusedError) as caught:
        compact(scene.context, T, "major", None)
    assert str(caught.value).startswith(
        f"Compaction is already scheduled with state='working' and id={job_id} for"
    )
    assert f"host-dead is at work on it. If that worker is dead, its job is given up at {until};" in str(
        caught.value
    )


def test_a_worker_that_has_just_committed_is_not_dead(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job counted as failed, and the cleaner no longer waited for readers that do not see what it made."""
    scene.table()
    job_id, txn_id = claim(scene, None)
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    for _ in range(4):
        scene.clock.advance(100)
        scene.store.heartbeat([txn_id, reader])
    state = scene.store.txn_state

    def commit_first(asked: TxnId) -> str:
        scene.store.commit_txn(txn_id)
        return state(asked)

    monkeypatch.setattr(scene.store, "txn_state", commit_first)
    with pytest.raises(CompactionRefusedError, match="ready for cleaning"):
        compact(scene.context, T, "major", None)
    assert scene.states() == [(job_id, "ready for cleaning")]


def test_a_request_for_all_partitions_is_refused_because_of_a_dead_worker(scene: Scene) -> None:
    """It raises once a heartbeat is missing, and while the worker's service is not announced."""
    scene.table(partitions=("1", "2"))
    scene.set("hiveacid.compactor.threads", "1")
    for partition in ("p=1", "p=2"):
        claim(scene, partition)
    assert [report.state for report in compact(scene.context, T, "major", None)] == ["refused", "refused"]
    scene.clock.advance(181)
    with pytest.raises(
        CompactionRefusedError, match=r"for default\.t/p=1: .* given up at .*/p=2: .* given up at "
    ):
        compact(scene.context, T, "major", None)
    scene.store.announce_service(Service("host-dead", "worker", "default"))
    assert [report.state for report in compact(scene.context, T, "major", None)] == ["refused", "refused"]

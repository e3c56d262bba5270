"""Jobs on the reference store: what happens while a worker is at work. Files are written by hand, not by Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from scene import Scene, T

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.names import PAIR_FILE
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import (
    CompactionError,
    CompactionRefusedError,
    HiveAcidError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from hiveacid.ports.transactions import TxnKind
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import read_location
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
from hiveacid.table.compaction import write_compacted_files
from hiveacid.table.compaction.run_compaction import CompactionReport, run_job
from hiveacid.table.compaction.write_compacted_files import CompactionJob
from hiveacid.table.write.publish import PublishedFiles
from support.samples import CLIENT


def claimed(scene: Scene, kind: str = "major", partition: str | None = None) -> Compaction:
    made = scene.store.enqueue_compaction(CompactionRequest(T, partition, kind), "test")
    job = scene.store.claim_compaction("w", made.id)
    assert job is not None
    return job


@dataclass(frozen=True)
class OneByte:
    """Writes a file that is no ORC file; ``meanwhile`` happens before."""

    meanwhile: Callable[[CompactionJob], object]
    counts = False

    def rows(self, job: CompactionJob, output: str) -> PublishedFiles:
        self.meanwhile(job)
        job.context.fs.make_directory(output)
        job.context.fs.write_bytes(f"{output}/bucket_00000", b"x")
        return PublishedFiles({}, (output,))

    events = rows


def work(
    scene: Scene, meanwhile: Callable[[CompactionJob], object] = lambda _: None, job: Compaction | None = None
) -> CompactionReport:
    """Be a worker; ``meanwhile`` happens when the plan stands and nothing of its result lies there yet."""
    return run_job(scene.context, job or claimed(scene), "w", writer=OneByte(meanwhile))


HIVE3 = {"hiveacid.layout.level": "hive3"}  # directories without the suffix of a transaction


def test_a_worker_that_is_aborted_publishes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that slept past its time-out: its table may be another one by now."""
    scene.table(**HIVE3)
    for _ in range(2):
        scene.write()
    note = scene.store.note_compaction
    workers: list[TxnId] = []

    def sleep(job_id: int, details: str) -> None:
        note(job_id, details)
        if "publishing" in details:
            scene.store.abort_txns(workers, "timed out")

    monkeypatch.setattr(scene.store, "note_compaction", sleep)
    with pytest.raises(TransactionAbortedError):
        work(scene, lambda job: workers.append(job.txn.txn_id))
    assert scene.listing() == ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]


def test_what_another_worker_published_is_not_removed(scene: Scene) -> None:
    """It took the job over; without a suffix its directories have the same names."""
    scene.table(**HIVE3)
    for is_delete in (False, False, True, True):
        scene.write(is_delete=is_delete)
    theirs = scene.place(T, None) / "delete_delta_0000001_0000004"

    def publish(job: CompactionJob) -> None:
        assert theirs.name == job.plan.delete_output
        if not theirs.exists():
            scene.put(theirs, 1)

    with pytest.raises(StorageError):
        work(scene, publish, claimed(scene, "minor"))
    assert [name for name in scene.listing() if name.endswith("_0000001_0000004")] == [theirs.name]


def test_a_half_that_another_worker_has_made_anew_is_not_removed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that slept between its two halves: the first was cleaned, and a result of that name holds all rows by now."""
    scene.table(**HIVE3)
    for is_delete in (False, False, True, True):
        scene.write(is_delete=is_delete)
    move, moved = LocalFileSystem.move_directory, list[str]()

    def sleep(self: LocalFileSystem, source: str, target: str) -> None:
        move(self, source, target)
        moved.append(target)
        if len(moved) == 1:
            (job,) = scene.store.show_compactions()
            assert job.txn_id is not None
            scene.store.abort_txns([job.txn_id], "timed out")
            scene.store.end_compaction(job.id, "failed", "lost")
            clean(scene.context)
            assert not Path(target).exists()
            work(scene, job=claimed(scene, "minor"))
            clean(scene.context)

    monkeypatch.setattr(LocalFileSystem, "move_directory", sleep)
    with pytest.raises(TransactionAbortedError):
        work(scene, job=claimed(scene, "minor"))
    assert scene.listing() == ["delete_delta_0000001_0000004", "delta_0000001_0000004"]


@pytest.mark.parametrize("of", ["the table", "the worker's session"])
@pytest.mark.parametrize("when", ["before its commit", "after it", "where it fails"])
def test_readers_keep_what_a_result_without_a_visibility_id_replaces(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, when: str, of: str
) -> None:
    """The cleaning after an earlier job took from them what they had listed before the next one had its name."""
    table = scene.table(**HIVE3 if of == "the table" else {})
    level = "hive4" if of == "the table" else "hive3"

    def clean_elsewhere() -> list[str]:
        """Clean in a session without the worker's setting."""
        scene.set("hiveacid.layout.level", "hive4")
        removed = clean(scene.context)
        scene.set("hiveacid.layout.level", level)
        return removed

    scene.set("hiveacid.layout.level", level)
    for is_delete in (False, False, True, True):
        scene.write(is_delete=is_delete)
    (older,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    work(scene, job=claimed(scene, "minor"))
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    txns = scene.store.take_snapshot(reader)
    write_ids = scene.store.valid_write_ids(txns, [T])[T]
    read = read_location(scene.context.fs, table, table.location, None, write_ids, txns).state
    needed = {directory.path for directory in read.directories_to_read}
    scene.store.commit_txn(older)
    if when == "before its commit":
        cleaned: list[list[str]] = []
        put_in_place = write_compacted_files._put_in_place

        def clean_behind(job: CompactionJob, scratch: str, names: list[str]) -> None:
            put_in_place(job, scratch, names)
            cleaned.append(clean_elsewhere())

        monkeypatch.setattr(write_compacted_files, "_put_in_place", clean_behind)
        work(scene)
        assert cleaned == [[]]
    elif when == "where it fails":
        monkeypatch.setattr(scene.store, "commit_txn", _lost)
        with pytest.raises(StoreUnavailableError):
            work(scene)
        monkeypatch.undo()
    else:
        work(scene)
    clean_elsewhere()
    assert needed <= set(scene.listing())
    scene.store.commit_txn(reader)
    clean_elsewhere()
    assert scene.listing() == ["base_0000004"]
    states = {state for _, state in scene.states()}
    assert states == ({"succeeded", "failed"} if when == "where it fails" else {"succeeded"})


def test_a_half_stays_whose_other_half_comes_after_the_cleaners_listing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction had committed when the cleaner asked, and readers had both halves."""
    scene.table(**HIVE3)
    for is_delete in (False, False, True, True):
        scene.write(is_delete=is_delete)
    (worker,) = scene.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    halves = ["delete_delta_0000001_0000004", "delta_0000001_0000004"]
    ask = scene.store.txn_state

    def put(name: str) -> None:
        scene.put(scene.place(T, None) / name, 1)
        (scene.place(T, None) / name / PAIR_FILE).write_text(str(int(worker)))

    def state(txn_id: TxnId) -> str:
        if txn_id == worker and ask(worker) == "open":
            put(halves[0])
            scene.store.commit_txn(worker)
        return ask(txn_id)

    put(halves[1])
    monkeypatch.setattr(scene.store, "txn_state", state)
    clean(scene.context)
    assert set(halves) <= set(scene.listing())


def _lost(*_: object) -> None:
    raise StoreUnavailableError("no answer")


def test_its_own_transaction_counts_as_open(scene: Scene) -> None:
    """C19, HIVE-29567: what a worker that lost its way has left under the same transaction id is not read."""
    scene.table()
    for _ in range(2):
        scene.write()
    read: list[str] = []

    def look(job: CompactionJob) -> None:
        snapshot = job.txn.snapshot()
        assert not snapshot.is_valid(job.txn.txn_id)
        scene.put(scene.place(T, None) / f"delta_0000001_0000002_v{job.txn.txn_id:07d}", 1)
        location = read_location(
            scene.context.fs, job.table, job.table.location, None, job.plan.write_ids, snapshot
        )
        read.extend(one.path for one in location.state.directories_to_read)

    report = work(scene, look)
    assert read == ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
    assert report.state == "ready for cleaning"


def test_a_job_is_ready_for_cleaning_by_the_commit_of_its_transaction(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HIVE-29571: not before it, when the cleaner would find nothing to remove and end the job."""
    scene.table()
    for _ in range(2):
        scene.write()
    states: list[str] = []

    def fail(*_: object, **__: object) -> None:
        states.extend(state for _, state in scene.states())
        raise StoreUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(scene.store, "commit_txn", fail)
        with pytest.raises(StoreUnavailableError):
            work(scene)
    assert set(states) == {"working"}
    clean(scene.context)
    assert {"delta_0000001_0000001_0000", "delta_0000002_0000002_0000"} <= {*scene.listing()}
    assert "ready for cleaning" not in [state for _, state in scene.states()]


def test_an_aborted_compaction_does_not_hold_back_the_cleaning_after_the_next_one(scene: Scene) -> None:
    """HIVE-29572."""
    scene.table()
    for _ in range(2):
        scene.write()
    with pytest.raises(TransactionAbortedError):
        work(scene, lambda job: scene.store.abort_txns([job.txn.txn_id], "timed out"))
    assert work(scene, job=claimed(scene)).state == "ready for cleaning"
    clean(scene.context)
    (base,) = scene.listing()
    assert base.startswith("base_0000002_v")
    assert scene.states()[-1][1] == "succeeded"


def test_a_table_is_not_dropped_while_it_is_compacted(scene: Scene) -> None:
    """C17: DROP waits for the worker; writers and readers don't."""
    scene.table()
    for _ in range(2):
        scene.write()
    (other,) = scene.store.open_txns(CLIENT)
    answers = {}

    def ask(_: CompactionJob) -> None:
        for kind in LockType:
            wanted = [LockComponent(kind, T.database, T.name)]
            answer = scene.store.lock(other, wanted, zero_wait=True)
            answers[kind] = answer.state
            if answer.state is LockState.ACQUIRED:
                scene.store.unlock(answer.lock_id)

    work(scene, ask)
    assert {kind for kind, state in answers.items() if state is LockState.NOT_ACQUIRED} == {
        LockType.EXCLUSIVE
    }


def test_a_table_that_was_dropped_all_the_same(scene: Scene) -> None:
    """C17: somebody who asks no lock drops it meanwhile; the job has failed, its transaction is over."""
    scene.table()
    for _ in range(2):
        scene.write()
    with pytest.raises(CompactionError):
        work(scene, lambda _: scene.store.drop_table(T))
    assert scene.store.show_compactions() == ()
    assert {row.state for row in scene.store.show_transactions()} <= {"ABORTED"}
    assert not any(name.startswith("base_") for name in scene.listing())


@pytest.mark.parametrize("what", ["table", "partition"])
def test_a_job_whose_place_is_gone_is_refused(scene: Scene, what: str) -> None:
    """C17: between the queue and the worker."""
    scene.table(partitions=("1",))
    for _ in range(2):
        scene.write(T, "p=1")
    job = claimed(scene, partition="p=1")
    scene.store.drop_partitions(T, scene.store.list_partitions(T))
    if what == "table":
        scene.store.drop_table(T)
    report = work(scene, job=job)
    assert (report.state, "assuming it was dropped" in (report.reason or "")) == (
        "refused" if what == "partition" else "failed",
        True,
    )


def test_a_refused_job_still_lets_the_cleaner_come(scene: Scene) -> None:
    """C11: nothing to compact, but directories that a base replaced: the cleaner takes them, no reader's."""
    scene.table()
    scene.write()
    scene.put(scene.place(T, None) / "base_0000001", 1)  # an INSERT OVERWRITE in the same transaction
    report = work(scene)
    assert (report.state, report.reason) == (
        "ready for cleaning",
        "None of the compaction thresholds met, compaction request is refused!",
    )
    assert len(clean(scene.context)) == 1
    assert scene.listing() == ["base_0000001"]
    assert work(scene).state == "refused"


def test_a_worker_that_died_leaves_nothing_that_is_read(scene: Scene) -> None:
    """C6: not even when it dies between its files and its commit; its job is taken by another one in time."""
    scene.table()
    for _ in range(2):
        scene.write()
    job = claimed(scene)
    (txn_id,) = scene.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    scene.store.start_compaction(job.id, txn_id, WriteId(2), "w")
    dead = scene.place(T, None) / f"base_0000002_v{txn_id:07d}"
    scene.put(dead, 1)
    with pytest.raises(CompactionRefusedError):
        claimed(scene)
    scene.clock.advance(301)
    scene.store.abort_timed_out()
    assert scene.states() == [(1, "initiated")]
    again = scene.store.claim_compaction("w2")
    assert again is not None
    with pytest.raises(HiveAcidError):  # the dead one comes back: the job is not his any more
        scene.store.end_compaction(job.id, "ready for cleaning", worker="w")
    scene.store.release_compaction(again.id, "w2")
    second = scene.store.claim_compaction("w", again.id)
    assert work(scene, job=second).state == "ready for cleaning"
    clean(scene.context)
    assert [Path(name).name for name in scene.listing()] == ["base_0000002_v0000004"]


def test_a_refused_compaction_leaves_nothing(scene: Scene) -> None:
    scene.table()
    scene.write()
    assert work(scene).state == "refused"
    assert scene.states() == [(1, "refused")]
    assert scene.store.show_transactions() == ()


def test_a_refusal_that_cannot_be_recorded_leaves_no_open_transaction(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailableError("no answer")

    scene.table()
    scene.write()
    job = claimed(scene)
    monkeypatch.setattr(scene.store, "end_compaction", away)
    with pytest.raises(StoreUnavailableError):
        work(scene, job=job)
    assert scene.context.transactions.heartbeats.tracked() == frozenset()


def test_a_compaction_that_failed_before_it_published_leaves_nothing(scene: Scene) -> None:
    """Housekeeping drops its transaction, without a cleaner."""
    scene.table()
    for _ in range(2):
        scene.write()

    def fail(_: CompactionJob) -> None:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="full"):
        work(scene, fail)
    assert [row.state for row in scene.store.show_transactions()] == ["ABORTED"]
    scene.write()
    scene.clock.advance(10_000)
    scene.store.housekeep()
    assert scene.store.show_transactions() == ()

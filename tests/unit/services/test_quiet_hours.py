"""Major compactions by time and in their window, with two services on one turned clock: who queues what, and who starts it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from scene import Scene, T
from test_initiator import initiator, only
from test_worker import OneByte

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.compaction.queue_records import Service as Announced
from hiveacid.core.model import TableName
from hiveacid.services import steps
from hiveacid.services.steps import Initiator, Worker
from hiveacid.table.compaction.request_compaction import compact
from hiveacid.table.compaction.run_compaction import run_job
from hiveacid.transactions.transaction import Heartbeats
from support.contexts import context_of

WINDOW, INTERVAL = "hiveacid.compactor.window", "hiveacid.compactor.major.interval"
U = TableName("default", "u")
HOUR = 3600
NIGHT = "01:00-02:00"  # the clock begins at 22:13:20


@dataclass(frozen=True)
class Service:
    initiator: Initiator
    worker: Worker


def service(scene: Scene, name: str, **settings: str) -> Service:
    context = context_of(scene.store, str(scene.root), scene.clock, Heartbeats(scene.store, 150.0))
    for key, value in settings.items():
        context.session.settings = context.settings.with_value(key, value)
    return Service(Initiator(context, f"{name}-initiator"), Worker(context, f"{name}-worker"))


@pytest.fixture(autouse=True)
def _files_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = OneByte(lambda _: None)
    monkeypatch.setattr(steps, "run_job", lambda *arguments: run_job(*arguments, writer=writer))


def written(scene: Scene, name: TableName = T, count: int = 11) -> None:
    for _ in range(count):
        scene.write(name)


def test_a_base_that_is_too_old_is_replaced_although_nothing_is_written(scene: Scene) -> None:
    scene.table(**{INTERVAL: "1d"})
    scene.write(size=500)
    scene.store.end_compaction(scene.compact(size=1000), "succeeded")
    scene.clock.advance(HOUR)
    look = initiator(scene)
    assert only(look.step()).job is None  # no deltas
    scene.clock.advance(HOUR)
    scene.write()
    found = only(look.step())
    assert found.decision.kind is None
    assert found.decision.again == scene.clock.now() + 22 * HOUR * 1000
    scene.clock.advance(22 * HOUR - 1)
    assert only(look.step()).job is None  # what was written within a minute of the last turn
    assert look.step() == []
    scene.clock.advance(1)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.reason == (
        "the last major compaction was 24.0 hours ago, with deltas since (hiveacid.compactor.major.interval)"
    )
    scene.store.end_compaction(scene.compact(size=1000), "succeeded")
    scene.clock.advance(48 * HOUR)
    assert look.step() == []


def test_without_a_base_the_oldest_delta_counts_and_what_is_under_way_is_waited_for(scene: Scene) -> None:
    scene.set(INTERVAL, "1d")
    scene.table()
    scene.write()
    scene.clock.advance(HOUR)
    scene.write()
    look = initiator(scene)
    assert only(look.step()).job is None
    job = scene.store.enqueue_compaction(CompactionRequest(T, None, "minor"), "test-manual")
    scene.clock.advance(23 * HOUR)
    assert only(look.step()).decision.reason == f"compaction {job.id} is initiated already"
    scene.store.end_compaction(job.id, "aborted")
    scene.clock.advance(300)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.kind == "major"


def test_outside_of_the_window_many_deltas_get_a_minor_compaction(scene: Scene) -> None:
    scene.table()
    scene.write(size=50)
    scene.store.end_compaction(scene.compact(size=100), "succeeded")
    scene.set(WINDOW, NIGHT)
    look = initiator(scene)
    scene.write(size=60)
    found = only(look.step())
    assert found.decision.kind is None
    assert found.decision.reason.endswith("; major compactions start 01:00-02:00 (hiveacid.compactor.window)")
    for _ in range(10):
        scene.write(size=1)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.kind == "minor"
    scene.store.end_compaction(found.job.id, "aborted")
    scene.clock.advance(3 * HOUR)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.kind == "major"


def test_two_services_keep_to_the_window_of_the_table(scene: Scene) -> None:
    scene.table(**{WINDOW: NIGHT})
    scene.table(U)
    one, other = service(scene, "one"), service(scene, "other", **{WINDOW: "12:00-13:00"})
    written(scene)
    assert [only(each.initiator.step()).job for each in (one, other)] == [None, None]
    scene.clock.advance(2 * HOUR)
    assert [only(each.initiator.step()).job for each in (one, other)] == [
        None,
        None,
    ]  # 00:13, within a minute of the write
    scene.clock.advance(46 * 60)
    assert [each.initiator.step() for each in (one, other)] == [[], []]
    scene.clock.advance(HOUR / 3)  # 01:19
    jobs = [only(each.initiator.step()).job for each in (other, one)]
    assert jobs[0] is not None
    assert jobs[0].request.properties == (("compactor.hiveacid.compactor.window", NIGHT),)
    assert jobs[1] is None
    scene.clock.advance(HOUR)  # the workers were busy until 02:19
    minor = scene.store.enqueue_compaction(CompactionRequest(U, None, "major"), "test-manual")
    scene.write(U)
    assert [each.worker.step() for each in (one, other)].count(None) == 1
    assert dict(scene.states())[jobs[0].id] == "initiated"
    assert dict(scene.states())[minor.id] != "initiated"  # asked for by a user
    scene.clock.advance(23 * HOUR)
    report = other.worker.step()
    assert report is not None
    assert (report.id, report.state) == (jobs[0].id, "ready for cleaning")


def test_each_service_keeps_to_its_own_window(scene: Scene) -> None:
    scene.table()
    night, day = service(scene, "night", **{WINDOW: NIGHT}), service(scene, "day")
    written(scene)
    assert only(night.initiator.step()).job is None
    job = only(day.initiator.step()).job
    assert job is not None
    assert job.request.properties == ()
    assert night.worker.step() is None
    assert dict(scene.states()) == {job.id: "initiated"}
    report = day.worker.step()
    assert report is not None
    assert report.state == "ready for cleaning"


def test_a_table_may_be_free_of_the_window_of_the_service(scene: Scene) -> None:
    scene.table(**{WINDOW: "always"})
    night = service(scene, "night", **{WINDOW: NIGHT})
    written(scene)
    assert only(night.initiator.step()).job is not None
    report = night.worker.step()
    assert report is not None
    assert report.state == "ready for cleaning"


def test_a_job_that_waits_for_its_window_gives_way_to_that_of_a_user(scene: Scene) -> None:
    """The user's job joined it, and waited for the window, too."""
    scene.table()
    night, day = service(scene, "night", **{WINDOW: NIGHT}), service(scene, "day")
    written(scene)
    waiting = only(day.initiator.step()).job
    assert waiting is not None
    assert night.worker.step() is None
    scene.store.announce_service(Announced("night-worker", "worker", pool="default"))
    (asked,) = compact(scene.context, T, "major", None, wait=False)
    (again,) = compact(scene.context, T, "major", None, wait=False)
    assert again.id == asked.id != waiting.id
    assert dict(scene.states()) == {waiting.id: "did not initiate", asked.id: "initiated"}
    report = night.worker.step()
    assert report is not None
    assert (report.id, report.state) == (asked.id, "ready for cleaning")


def test_a_window_in_a_zone_that_the_machine_of_the_worker_does_not_know_fails_its_job(scene: Scene) -> None:
    """It stayed with the worker, which took another one at each turn, and raised."""
    scene.table()
    written(scene)
    there = ((f"compactor.{WINDOW}", f"{NIGHT} Mars/Olympus"),)
    job = scene.store.enqueue_compaction(
        CompactionRequest(T, None, "major", properties=there, reason="many deltas"), "elsewhere"
    )
    report = service(scene, "one").worker.step()
    assert report is not None
    assert (report.id, report.state) == (job.id, "failed")
    assert "no time zone 'Mars/Olympus' on this machine" in str(report.reason)
    assert dict(scene.states()) == {job.id: "failed"}

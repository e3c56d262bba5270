"""The initiator on the reference store: what is queued, with which reason, and what is left alone."""

from __future__ import annotations

from scene import Scene, T

from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.services.steps import Initiator, InitiatorFinding


def initiator(scene: Scene) -> Initiator:
    found = scene.services().initiator
    assert found is not None
    return found


def only(findings: list[InitiatorFinding]) -> InitiatorFinding:
    (found,) = findings
    return found


def fail_twice(scene: Scene, look: Initiator) -> None:
    for number in (1, 2):
        assert only(look.step()).job is not None
        scene.store.claim_compaction("w")
        scene.store.end_compaction(number, "failed", "disk full")
        scene.clock.advance(300)
        scene.store.housekeep()


def test_the_eleventh_delta_queues_a_job_with_its_reason(scene: Scene) -> None:
    """C10."""
    scene.table()
    look = initiator(scene)
    for _ in range(10):
        scene.write()
    assert only(look.step()).job is None
    assert look.step() == [only(look.step())]  # within a minute it looks again
    scene.write(is_delete=True)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.kind == "major"
    assert found.job.request.reason == (
        "11 deltas, more than 10 (hive.compactor.delta.num.threshold), and no base"
    )
    assert found.job.initiator == look.name
    scene.write()
    assert only(look.step()).decision.reason == f"compaction {found.job.id} is initiated already"


def test_what_is_written_beside_a_compaction_is_looked_at_when_that_has_ended(scene: Scene) -> None:
    scene.table()
    for _ in range(11):
        scene.write()
    look = initiator(scene)
    job = only(look.step()).job
    assert job is not None
    for _ in range(11):
        scene.write()
    scene.clock.advance(300)
    assert only(look.step()).decision.reason == f"compaction {job.id} is initiated already"
    scene.clock.advance(300)
    assert only(look.step()).decision.kind is None
    scene.store.claim_compaction("w")
    for state in ("ready for cleaning", "succeeded"):
        scene.store.end_compaction(job.id, state)
    scene.clock.advance(300)
    assert only(look.step()).job is not None


def test_only_what_was_written_since_is_looked_at_again(scene: Scene) -> None:
    scene.table()
    scene.table(TableName("default", "u"))
    look = initiator(scene)
    scene.write()
    scene.write(TableName("default", "u"))
    assert [found.table.name for found in look.step()] == ["t", "u"]
    scene.clock.advance(100)
    assert len(look.step()) == 2
    scene.clock.advance(100)
    scene.write()
    assert [found.table.name for found in look.step()] == ["t"]
    scene.clock.advance(61)
    look.step()
    assert look.step() == []


def test_each_partition_is_its_own_job(scene: Scene) -> None:
    scene.table(partitions=("1", "2", "3"))
    for _ in range(11):
        for p in (1, 3):
            scene.write(T, f"p={p}")
    scene.write(T, "p=2")
    jobs = [found.job for found in initiator(scene).step() if found.job]
    assert [job.request.partition for job in jobs] == ["p=1", "p=3"]


def test_a_base_with_large_deltas_calls_for_a_major_one(scene: Scene) -> None:
    scene.table()
    scene.write(size=500)
    scene.compact(size=1000)
    look = initiator(scene)
    assert only(look.step()).job is None
    scene.write(size=100)
    assert only(look.step()).job is None
    scene.write(size=1)
    found = only(look.step())
    assert found.job is not None
    assert found.job.request.reason == (
        "deltas are 0.101 times the size of the base, more than 0.1 (hive.compactor.delta.pct.threshold)"
    )


def test_properties_of_the_table_stand_above_those_of_the_database(scene: Scene) -> None:
    """C10, C16: thresholds, pool and priority."""
    few = "compactorthreshold.hive.compactor.delta.num.threshold"
    properties = ((few, "1"), ("hive.compactor.worker.pool", "night"))
    scene.store.create_database(DatabaseDefinition("d", str(scene.root / "d"), None, properties))
    a, b = TableName("d", "a"), TableName("d", "b")
    scene.table(a)
    scene.table(b, **{few: "2", "hive.compactor.worker.pool": "day", "hiveacid.compactor.priority": "3"})
    for name in (a, b):
        for _ in range(2):
            scene.write(name)
    look = initiator(scene)
    first = [found.job.request for found in look.step() if found.job]
    assert [(one.table, one.pool, one.priority) for one in first] == [(a, "night", 0)]
    scene.write(b)
    second = [found.job.request for found in look.step() if found.job]
    assert [(one.table, one.pool, one.priority) for one in second] == [(b, "day", 3)]


def test_no_auto_compaction(scene: Scene) -> None:
    """C9: on the table, on the database, in any case."""
    scene.store.create_database(
        DatabaseDefinition("d", str(scene.root / "d.db"), None, (("NO_AUTO_COMPACTION", "TRUE"),))
    )
    u = TableName("d", "u")
    scene.table(No_Auto_Compaction="true")
    scene.table(u)
    for name in (T, u):
        for _ in range(11):
            scene.write(name)
    reasons = [found.decision.reason for found in initiator(scene).step()]
    assert reasons == [f"no_auto_compaction is set on the {what}" for what in ("database", "table")]
    assert scene.store.show_compactions() == ()


def test_nothing_is_queued_while_the_initiator_is_off(scene: Scene) -> None:
    scene.table()
    for _ in range(11):
        scene.write()
    scene.set("hive.compactor.initiator.on", "false")
    assert initiator(scene).step() == []
    assert scene.store.show_compactions() == ()
    scene.set("hive.compactor.initiator.on", "true")
    assert only(initiator(scene).step()).job is not None


def test_failures_are_kept_until_they_can_be_counted(scene: Scene) -> None:
    """Whatever ``metastore.compactor.history.retention.failed`` says, as in Hive."""
    scene.table()
    scene.set("hive.compactor.history.retention.failed", "0")
    scene.store.apply_settings(scene.context.settings)
    for _ in range(11):
        scene.write()
    look = initiator(scene)
    fail_twice(scene, look)
    assert only(look.step()).decision.noted


def test_two_failures_are_noted_once_and_tried_again_after_a_week(scene: Scene) -> None:
    scene.table()
    for _ in range(11):
        scene.write()
    look = initiator(scene)
    fail_twice(scene, look)
    for _ in range(3):
        found = only(look.step())
        assert found.decision.reason.startswith("Compaction is not initiated since last 2")
        scene.clock.advance(300)
    assert scene.states() == [(1, "failed"), (2, "failed"), (3, "did not initiate")]
    scene.clock.advance(7 * 86_400)
    assert only(look.step()).job is not None


def test_old_aborts_call_for_a_compaction(scene: Scene) -> None:
    """C13: once; the compaction has seen them."""
    scene.table()
    scene.write()
    scene.write(end="abort")
    look = initiator(scene)
    assert only(look.step()).job is None
    scene.clock.advance(12 * 3600 + 1)
    found = only(look.step())
    assert found.job is not None
    assert (found.job.request.kind, found.job.request.reason) == (
        "minor",
        "a transaction was aborted 12.0 hours ago, more than 12 (hive.compactor.aborted.txn.time.threshold)",
    )
    scene.clock.advance(1)
    job = scene.compact()
    scene.store.end_compaction(job, "succeeded")
    scene.clock.advance(300)
    assert only(look.step()).decision.reason.startswith("Not enough deltas")


def test_many_aborts_call_for_a_major_compaction(scene: Scene) -> None:
    scene.table()
    scene.set("hive.compactor.abortedtxn.threshold", "2")
    for _ in range(3):
        scene.write(end="abort")
    found = only(initiator(scene).step())
    assert found.job is not None
    assert (found.job.request.kind, found.job.request.reason) == (
        "major",
        "3 aborted transactions, more than 2 (hive.compactor.abortedtxn.threshold)",
    )


def test_what_is_open_or_gone_is_passed_over(scene: Scene) -> None:
    """C17: the table, or a partition, was dropped meanwhile."""
    table = scene.table(partitions=("1", "2"))
    u = TableName("default", "u")
    scene.table(u)
    for p in (1, 2):
        scene.write(T, f"p={p}")
    scene.write(u)
    scene.write(T, "p=1", end="")
    scene.store.drop_partitions(T, [one for one in scene.store.list_partitions(T) if one.values == ("2",)])
    scene.store.drop_table(u)
    found = only(initiator(scene).step())
    assert (found.table, found.partition) == (table.name, "p=1")


def test_the_figures_of_what_was_dropped_are_forgotten(scene: Scene) -> None:
    """A process that runs for weeks meets ever new tables and partitions, and the metrics name those that are there."""
    scene.table(partitions=("1", "2"))
    u = TableName("default", "u")
    scene.table(u)
    for name, partition in ((T, "p=1"), (T, "p=2"), (u, None)):
        scene.write(name, partition)
    look = initiator(scene)
    look.step()
    assert sorted(look.figures) == [("default", "t", "p=1"), ("default", "t", "p=2"), ("default", "u", "")]
    scene.store.drop_partitions(T, [one for one in scene.store.list_partitions(T) if one.values == ("2",)])
    scene.store.drop_table(u)
    scene.clock.advance(300)
    scene.write(T, "p=1")
    look.step()
    assert sorted(look.figures) == [("default", "t", "p=1")]
    scene.store.drop_table(T)
    scene.clock.advance(300)
    look.step()
    assert look.figures == {}


def test_a_directory_that_is_not_there_or_makes_no_sense_is_noted(scene: Scene) -> None:
    scene.table(T, **{"compactorthreshold.hive.compactor.delta.num.threshold": "many"})
    scene.write()
    u = TableName("default", "u")
    scene.table(u)
    scene.write(u)
    scene.put(scene.place(u, None) / "delta_7_", 1)
    look = initiator(scene)
    for _ in range(2):
        jobs = [found.job for found in look.step()]
        scene.clock.advance(300)
    assert jobs == [None, None]  # noted once
    errors = [job.error or "" for job in scene.store.show_compactions()]
    assert [job.state for job in scene.store.show_compactions()] == ["did not initiate"] * 2
    assert "hive.compactor.delta.num.threshold: expected a whole number" in errors[0]
    assert "delta_7_" in errors[1]


def test_an_abort_in_no_known_partition_is_left_to_the_cleaner(scene: Scene) -> None:
    """The writer of a partitioned table aborted before it named a partition: there is no location to look at."""
    scene.table(partitions=("1",))
    scene.write(partition="p=1")
    scene.write(partition=None, end="abort")
    assert [found.partition for found in initiator(scene).step()] == ["p=1"]

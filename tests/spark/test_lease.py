"""A plan keeps its snapshot as long as it can run, in whatever shape, and no longer."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.plan_lifetime import (
    RelationWatch,
    _release_java_objects,
    collect_garbage,
    release_unused_plans,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def directory(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("lease") / "files")
    spark.range(1000, numPartitions=1).write.orc(path)
    return path


@pytest.fixture
def facts(spark: SparkSession) -> SparkFacts:
    return SparkFacts(spark)


def ends(facts: SparkFacts, watch: RelationWatch) -> bool:
    """Wait for the JVM's collector, which may need several turns."""
    for _ in range(40):
        collect_garbage(facts)
        if not watch.alive():
            return True
        time.sleep(0.1)
    return False


def stays(facts: SparkFacts, watch: RelationWatch) -> bool:
    for _ in range(2):
        collect_garbage(facts)
        time.sleep(0.05)
    return watch.alive()


def scanned(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.orc(path).where("id > 5")


def test_frame_keeps_its_snapshot_and_frees_it(facts: SparkFacts, directory: str) -> None:
    frame = scanned(facts.spark, directory)
    watch = RelationWatch(facts, frame)
    assert stays(facts, watch)
    assert frame.count() == 994
    del frame
    assert ends(facts, watch)


def test_derived_frame_keeps_the_snapshot_of_its_parent(facts: SparkFacts, directory: str) -> None:
    frame = scanned(facts.spark, directory)
    watch = RelationWatch(facts, frame)
    derived = frame.groupBy((F.col("id") % 3).alias("rest")).count().where("rest = 1")
    del frame
    assert stays(facts, watch)
    assert derived.first()["count"] == 331
    del derived
    assert ends(facts, watch)


def test_join_keeps_both_sides(facts: SparkFacts, directory: str) -> None:
    left, right = scanned(facts.spark, directory), scanned(facts.spark, directory)
    watches = [RelationWatch(facts, left), RelationWatch(facts, right)]
    joined = left.join(right, "id")
    del left, right
    assert all(stays(facts, watch) for watch in watches)
    del joined
    assert all(ends(facts, watch) for watch in watches)


def test_temporary_view_keeps_the_snapshot(facts: SparkFacts, directory: str) -> None:
    frame = scanned(facts.spark, directory)
    watch = RelationWatch(facts, frame)
    frame.createOrReplaceTempView("lease_view")
    del frame
    assert stays(facts, watch)
    assert facts.spark.sql("SELECT count(*) FROM lease_view").first()[0] == 994
    facts.spark.catalog.dropTempView("lease_view")
    assert ends(facts, watch)


def test_view_over_a_view_keeps_the_snapshot(facts: SparkFacts, directory: str) -> None:
    frame = scanned(facts.spark, directory)
    watch = RelationWatch(facts, frame)
    frame.createOrReplaceTempView("lease_inner")
    facts.spark.sql("SELECT id + 1 AS n FROM lease_inner").createOrReplaceTempView("lease_outer")
    facts.spark.catalog.dropTempView("lease_inner")
    del frame
    assert stays(facts, watch)
    facts.spark.catalog.dropTempView("lease_outer")
    assert ends(facts, watch)


def test_cached_frame_keeps_the_snapshot(facts: SparkFacts, directory: str) -> None:
    frame = scanned(facts.spark, directory).cache()
    watch = RelationWatch(facts, frame)
    assert frame.count() == 994
    other = scanned(facts.spark, directory)  # an equal plan, by which the cache can be let go
    del frame
    assert stays(facts, watch)
    other.unpersist()
    del other
    assert ends(facts, watch)


def test_union_of_several_relations_is_watched_as_a_whole(facts: SparkFacts, directory: str) -> None:
    parts = [scanned(facts.spark, directory) for _ in range(3)]
    frame = parts[0].unionByName(parts[1]).unionByName(parts[2])
    watch = RelationWatch(facts, frame)
    del frame, parts[0], parts[1]
    assert stays(facts, watch)  # the second part alone
    parts.clear()
    assert ends(facts, watch)


def test_frame_without_files_holds_nothing(facts: SparkFacts) -> None:
    frame = facts.spark.createDataFrame([(1,)], "id int")
    assert not RelationWatch(facts, frame).alive()
    assert frame.count() == 1


def test_asking_costs_one_round_trip(
    facts: SparkFacts, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = scanned(facts.spark, directory)
    watch = RelationWatch(facts, frame)
    client: Any = facts.spark._jvm._gateway_client  # type: ignore[union-attr]
    send, sent = client.send_command, []

    def counted(command: str, *rest: Any, **named: Any) -> Any:
        if command.startswith("c\n"):  # a call; what Py4J says of forgotten objects begins with m
            sent.append(command)
        return send(command, *rest, **named)

    monkeypatch.setattr(client, "send_command", counted)
    for _ in range(100):
        assert watch.alive()
    assert len(sent) == 100
    assert frame is not None


def test_the_jvm_hears_at_once_of_what_python_forgot(facts: SparkFacts, directory: str) -> None:
    """Py4J's own thread may sleep for a second before it tells: longer than a compaction waits to clean."""
    waiting = facts.spark._jvm._gateway_client.finalizer_deque  # type: ignore[union-attr]
    for _ in range(3):
        frame = scanned(facts.spark, directory)
        watch = RelationWatch(facts, frame)
        assert frame.groupBy("id").count().count() == 994
        del frame
        collect_garbage(facts)
        assert not waiting
        release_unused_plans(facts, lambda watch=watch: int(watch.alive()))  # type: ignore[misc]
        assert not watch.alive()


def test_queries_at_work_end_the_rounds(facts: SparkFacts, tmp_path: Path) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go_on"

    def work(_row: object) -> None:
        started.touch()
        while not go_on.exists():
            time.sleep(0.01)

    def rounds(*, patient: bool) -> int:
        sweeps = []
        release_unused_plans(facts, lambda: sweeps.append(1) or 1, patient=patient)  # type: ignore[func-returns-value]
        return len(sweeps)

    query = threading.Thread(target=facts.spark.sparkContext.parallelize([1], 1).foreach, args=(work,))
    query.start()
    try:
        while not started.exists():
            time.sleep(0.01)
        assert rounds(patient=False) == 2
        assert rounds(patient=True) == 5
    finally:
        go_on.touch()
        query.join()


class _Told:
    """What Py4J's queue holds: who is to tell the JVM."""

    def __init__(self) -> None:
        self.numbers: list[str] = []

    def garbage_collect_object(self, number: str, *, enqueue: bool) -> None:
        assert not enqueue
        self.numbers.append(number)


def test_the_end_of_py4j_s_queue_is_left_to_its_thread() -> None:
    told = _Told()
    waiting = deque(["__shutdown__", (told, "o2"), (told, "o1")])
    _release_java_objects(SimpleNamespace(finalizer_deque=waiting))
    assert (told.numbers, list(waiting)) == (["o1", "o2"], ["__shutdown__"])
    _release_java_objects(SimpleNamespace())

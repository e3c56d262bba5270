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

from hiveacid.spark.session import running_jobs_and_plans
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.running_jobs_and_plans import (
    RelationWatch,
    _release_java_objects,
    collect_garbage,
    release_unused_plans,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

rarely = pytest.mark.exhaustive("leases of frames, derived frames and views stay")


@pytest.fixture(scope="module")
def directory(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("lease") / "files")
    spark.range(1000, numPartitions=1).write.orc(path)
    return path


@pytest.fixture
def env(spark: SparkSession) -> SparkEnvironment:
    return SparkEnvironment(spark)


def ends(env: SparkEnvironment, watch: RelationWatch) -> bool:
    """Wait for the JVM's collector, which may need several turns."""
    for _ in range(40):
        collect_garbage(env)
        if not watch.alive():
            return True
        time.sleep(0.1)
    return False


def stays(env: SparkEnvironment, watch: RelationWatch) -> bool:
    for _ in range(2):
        collect_garbage(env)
        time.sleep(0.05)
    return watch.alive()


def scanned(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.orc(path).where("id > 5")


def test_frame_keeps_its_snapshot_and_frees_it(env: SparkEnvironment, directory: str) -> None:
    frame = scanned(env.spark, directory)
    watch = RelationWatch(env, frame)
    assert stays(env, watch)
    assert frame.count() == 994
    del frame
    assert ends(env, watch)


def test_derived_frame_keeps_the_snapshot_of_its_parent(env: SparkEnvironment, directory: str) -> None:
    frame = scanned(env.spark, directory)
    watch = RelationWatch(env, frame)
    derived = frame.groupBy((F.col("id") % 3).alias("rest")).count().where("rest = 1")
    del frame
    assert stays(env, watch)
    assert derived.first()["count"] == 331
    del derived
    assert ends(env, watch)


@rarely
def test_join_keeps_both_sides(env: SparkEnvironment, directory: str) -> None:
    left, right = scanned(env.spark, directory), scanned(env.spark, directory)
    watches = [RelationWatch(env, left), RelationWatch(env, right)]
    joined = left.join(right, "id")
    del left, right
    assert all(stays(env, watch) for watch in watches)
    del joined
    assert all(ends(env, watch) for watch in watches)


def test_temporary_view_keeps_the_snapshot(env: SparkEnvironment, directory: str) -> None:
    frame = scanned(env.spark, directory)
    watch = RelationWatch(env, frame)
    frame.createOrReplaceTempView("lease_view")
    del frame
    assert stays(env, watch)
    assert env.spark.sql("SELECT count(*) FROM lease_view").first()[0] == 994
    env.spark.catalog.dropTempView("lease_view")
    assert ends(env, watch)


@rarely
def test_view_over_a_view_keeps_the_snapshot(env: SparkEnvironment, directory: str) -> None:
    frame = scanned(env.spark, directory)
    watch = RelationWatch(env, frame)
    frame.createOrReplaceTempView("lease_inner")
    env.spark.sql("SELECT id + 1 AS n FROM lease_inner").createOrReplaceTempView("lease_outer")
    env.spark.catalog.dropTempView("lease_inner")
    del frame
    assert stays(env, watch)
    env.spark.catalog.dropTempView("lease_outer")
    assert ends(env, watch)


@rarely
def test_cached_frame_keeps_the_snapshot(env: SparkEnvironment, directory: str) -> None:
    frame = scanned(env.spark, directory).cache()
    watch = RelationWatch(env, frame)
    assert frame.count() == 994
    other = scanned(env.spark, directory)  # an equal plan, by which the cache can be let go
    del frame
    assert stays(env, watch)
    other.unpersist()
    del other
    assert ends(env, watch)


@rarely
def test_union_of_several_relations_is_watched_as_a_whole(env: SparkEnvironment, directory: str) -> None:
    parts = [scanned(env.spark, directory) for _ in range(3)]
    frame = parts[0].unionByName(parts[1]).unionByName(parts[2])
    watch = RelationWatch(env, frame)
    del frame, parts[0], parts[1]
    assert stays(env, watch)  # the second part alone
    parts.clear()
    assert ends(env, watch)


@rarely
def test_frame_without_files_holds_nothing(env: SparkEnvironment) -> None:
    frame = env.spark.createDataFrame([(1,)], "id int")
    assert not RelationWatch(env, frame).alive()
    assert frame.count() == 1


@rarely
def test_asking_costs_one_round_trip(
    env: SparkEnvironment, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = scanned(env.spark, directory)
    watch = RelationWatch(env, frame)
    client: Any = env.spark._jvm._gateway_client  # type: ignore[union-attr]
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


def test_the_jvm_hears_at_once_of_what_python_forgot(env: SparkEnvironment, directory: str) -> None:
    """Py4J's own thread may sleep for a second before it tells: longer than a compaction waits to clean."""
    waiting = env.spark._jvm._gateway_client.finalizer_deque  # type: ignore[union-attr]
    for _ in range(3):
        frame = scanned(env.spark, directory)
        watch = RelationWatch(env, frame)
        assert frame.groupBy("id").count().count() == 994
        del frame
        collect_garbage(env)
        assert not waiting
        release_unused_plans(env, lambda watch=watch: int(watch.alive()))  # type: ignore[misc]
        assert not watch.alive()


def test_queries_at_work_end_the_rounds(env: SparkEnvironment, tmp_path: Path) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go_on"

    def work(_row: object) -> None:
        started.touch()
        while not go_on.exists():
            time.sleep(0.01)

    def rounds(*, patient: bool) -> int:
        sweeps = []
        release_unused_plans(env, lambda: sweeps.append(1) or 1, patient=patient)  # type: ignore[func-returns-value]
        return len(sweeps)

    query = threading.Thread(target=env.spark.sparkContext.parallelize([1], 1).foreach, args=(work,))
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


@rarely
def test_the_end_of_py4j_s_queue_is_left_to_its_thread() -> None:
    told = _Told()
    waiting = deque(["__shutdown__", (told, "o2"), (told, "o1")])
    _release_java_objects(SimpleNamespace(finalizer_deque=waiting))
    assert (told.numbers, list(waiting)) == (["o1", "o2"], ["__shutdown__"])
    _release_java_objects(SimpleNamespace())


def test_rounds_that_free_nothing_and_take_long_are_few(
    env: SparkEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that frees a snapshot is followed by one more; somebody who waits for a refused job gets all of them."""

    def rounds(*held: int, patient: bool = False) -> int:
        answers = iter(held)
        release_unused_plans(env, lambda: next(answers), patient=patient)
        return len(held) - len([*answers]) - 1

    monkeypatch.setattr(running_jobs_and_plans, "_LITTLE_TIME", 60.0)
    assert rounds(2, 2, 2, 2, 2) == 4
    monkeypatch.setattr(running_jobs_and_plans, "_LITTLE_TIME", 0.0)
    assert rounds(2, 2, 2, 2, 2) == 2
    assert rounds(2, 2, 1, 1, 1) == 3
    assert rounds(2, 0, 0, 0, 0) == 1
    assert rounds(2, 2, 2, 2, 2, patient=True) == 4

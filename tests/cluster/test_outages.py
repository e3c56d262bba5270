"""A store or a file system that is away during a statement: it succeeds or ends with one error, and no row is lost.

HIVEACID_TEST_SECONDS: seconds that the server is away (3).
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import CommitStateUnknownError, HiveAcidError
from support.servers.absent import skip_without
from support.servers.databases import PostgresServer
from support.servers.hdfs import WHY_NOT as NO_HDFS
from support.servers.hdfs import Hdfs, hdfs_server
from support.servers.object_store import S3Server, reached_by, s3_server, why_no_s3a
from support.servers.outage import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

pytestmark = pytest.mark.cluster("contract/test_lost_answers.py cuts the store off at each call")


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
SLOW = "coalesce(id + length(reflect('java.lang.Thread', 'sleep', 20L)) * 0, id)"
ROWS = [(number, "a") for number in range(100)]
MERGED = [(number, "m" if number < 20 else "a") for number in range(120)]
# The client of a name node without a standby repeats no call unless it is told to.
REPEATING = {"dfs.client.retry.policy.enabled": "true", "dfs.client.retry.policy.spec": "1000,90"}
SCENES = ("store", "hdfs", "hdfs repeating", "s3")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    skip_without(NO_HDFS)
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    skip_without(why_no_s3a())
    with s3_server() as running:
        yield running


@contextmanager
def _scene(request: pytest.FixtureRequest, spark: SparkSession, scratch: Path) -> Iterator[Scene]:
    kind, store = request.param, f"sqlite:///{scratch}/store.db"
    if kind == "store":
        skip_without(PostgresServer.why_not())
        server = PostgresServer()
        server.start()
        try:
            with hiveacid.connect(spark, str(scratch / "wh"), server.make_database("outage")) as acid:
                yield Scene(acid, lambda: server.stop(signal.SIGQUIT), server.start)
        finally:
            server.remove()
    elif kind == "s3":
        away = request.getfixturevalue("s3")
        with reached_by(spark, away):
            bucket = away.make_bucket(f"outage-{time.time_ns()}")
            with hiveacid.connect(spark, f"{bucket}/wh", store) as acid:
                yield Scene(acid, away.away.set, away.away.clear)
    else:
        away = request.getfixturevalue("hdfs")
        settings = REPEATING if kind != "hdfs" else {}
        # Hadoop keeps one client for each name of a host, with the settings that it began with.
        uri = away.uri.replace("127.0.0.1", "localhost") if settings else away.uri
        for name, value in settings.items():
            spark.conf.set(name, value)
        try:
            with hiveacid.connect(spark, f"{uri}/wh-{time.time_ns()}", store) as acid:
                yield Scene(acid, away.stop_name_node, away.start_name_node, bool(settings))
        finally:
            for name in settings:
                spark.conf.unset(name)


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    with _scene(request, spark, tmp_path) as made:
        made.acid.sql(f"CREATE TABLE t (id BIGINT, v STRING) {ACID}")
        for part in ("0, 50", "50, 100"):
            made.acid.sql(f"INSERT INTO t SELECT id, 'a' FROM range({part})")
        # A compaction by the driver would end before the server is away.
        made.acid.set("hiveacid.small.changes.max.bytes", "0")
        yield made


@dataclass(frozen=True)
class Change:
    """A statement, its rows in the end, and the ids whose rows it leaves as they are."""

    run: Callable[[], object]
    rows: list[tuple[int, str]]
    kept: range = range(100)


def _changes(acid: AcidSession) -> dict[str, Change]:
    spark = acid.context.env.spark
    spark.range(0, 120, 1, 2).selectExpr(f"CAST({SLOW} AS BIGINT) AS id").createOrReplaceTempView("slow_ids")
    insert = "INSERT INTO t SELECT id, 'b' FROM slow_ids"
    merge = """MERGE INTO t USING slow_ids s ON t.id = s.id WHEN MATCHED AND s.id < 20 THEN UPDATE SET v = 'm'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a')"""
    return {
        "insert": Change(lambda: acid.sql(insert).collect(), [*ROWS, *((n, "b") for n in range(120))]),
        "merge": Change(lambda: acid.sql(merge).collect(), MERGED, range(20, 100)),
        "compact": Change(lambda: acid.table("t").compact("major"), ROWS),
    }


@pytest.mark.parametrize("name", ["insert", "merge", "compact"])
def test_a_statement_is_done_or_never_was(scene: Scene, name: str, request: pytest.FixtureRequest) -> None:
    change, before = _changes(scene.acid)[name], scene.rows()
    wanted = sorted(change.rows)
    error = scene.during(change.run)
    _report(request, error)
    found = scene.rows()
    done = sorted(found.values()) == wanted
    if error is None:
        assert done
    else:
        assert isinstance(error, HiveAcidError), error
        assert not scene.must_succeed, error
        if name != "compact":
            assert not done or isinstance(error, CommitStateUnknownError)
            assert done or found == before
            if not done:
                change.run()
        else:
            change.run()
    found = scene.rows()
    assert sorted(found.values()) == wanted
    kept = {identity: row for identity, row in before.items() if row[0] in change.kept}
    assert kept.items() <= found.items()
    scene.acid.sql("INSERT INTO t VALUES (1000, 'z')")
    scene.acid.clean()
    assert sorted(scene.rows().values()) == [*wanted, (1000, "z")]
    assert scene.acid.table("t").inspect.check() == ()


def _report(request: pytest.FixtureRequest, error: BaseException | None) -> None:
    text = "succeeded" if error is None else f"{type(error).__name__}: {str(error)[:300]}"
    print(f"OUTAGE {request.node.name}: {text}")  # noqa: T201 - the table of docs/cluster.md


def test_a_stream_goes_on(scene: Scene, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The query may fail; started again, it writes every batch once."""
    spark = scene.acid.context.env.spark
    source = tmp_path / "source"
    source.mkdir()
    for batch in range(3):
        lines = [
            json.dumps({"id": number, "v": f"b{batch}"}) for number in range(batch * 50, batch * 50 + 60)
        ]
        (source / f"{batch}.json").write_text("\n".join(lines), encoding="utf-8")

    def run() -> None:
        frame = (
            spark.readStream.schema("id BIGINT, v STRING").option("maxFilesPerTrigger", 1).json(str(source))
        )
        writer: Any = scene.acid.table("t").stream_writer("outage")
        into = frame.selectExpr(f"CAST({SLOW} AS BIGINT) AS id", "v").writeStream.foreachBatch(writer)
        into = into.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        into.start().awaitTermination()

    error = scene.during(run)
    _report(request, error)
    assert error is None or not scene.must_succeed, error
    if error is not None:
        time.sleep(1)
        run()
    streamed = [(number, f"b{batch}") for batch in range(3) for number in range(batch * 50, batch * 50 + 60)]
    assert sorted(scene.rows().values()) == sorted([*ROWS, *streamed])

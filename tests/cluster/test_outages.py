"""A store or an S3 server that is away during a statement: it succeeds or ends with one error, and no row is lost.

HIVEACID_TEST_OUTAGE: seconds that the server is away (3).
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import HiveAcidError
from support.servers.absent import skip_without
from support.servers.databases import PostgresServer
from support.servers.object_store import reached_by, s3_server, why_no_s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

SECONDS = float(os.environ.get("HIVEACID_TEST_OUTAGE", "3"))
_PATIENCE = 400.0 + 4 * SECONDS
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
SLOW = "coalesce(id + length(reflect('java.lang.Thread', 'sleep', 20L)) * 0, id)"
ROWS = [(number, "a") for number in range(100)]
MERGED = [(number, "m" if number < 20 else "a") for number in range(120)]


@dataclass
class Scene:
    """A table of 100 rows, and what takes its server away."""

    acid: AcidSession
    away: Callable[[], None]
    back: Callable[[], None]

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.acid.sql("SELECT id, v FROM t").collect())

    def during(self, statement: Callable[[], object]) -> BaseException | None:
        """Run a statement whose server goes away while its tasks run; return its error."""
        tracker = self.acid.context.facts.spark.sparkContext.statusTracker()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                statement()
            except BaseException as error:  # noqa: BLE001 - judged by the test
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and not tracker.getActiveStageIds():
            thread.join(0.01)
        assert thread.is_alive(), failed
        self.away()
        try:
            thread.join(SECONDS)
        finally:
            self.back()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "it hangs"
        return failed[0] if failed else None


@contextmanager
def _scene(kind: str, spark: SparkSession, scratch: Path) -> Iterator[Scene]:
    if kind == "store":
        skip_without(PostgresServer.why_not())
        server = PostgresServer()
        server.start()
        try:
            with hiveacid.connect(spark, str(scratch / "wh"), server.make_database("outage")) as acid:
                yield Scene(acid, lambda: server.stop(signal.SIGQUIT), server.start)
        finally:
            server.remove()
    else:
        skip_without(why_no_s3a())
        with s3_server() as s3, reached_by(spark, s3):
            store = f"sqlite:///{scratch}/store.db"
            with hiveacid.connect(spark, f"{s3.make_bucket(f'outage-{time.time_ns()}')}/wh", store) as acid:
                yield Scene(acid, s3.away.set, s3.away.clear)


@pytest.fixture
def scene(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    with _scene(request.param, spark, tmp_path) as made:
        made.acid.sql(f"CREATE TABLE t (id BIGINT, v STRING) {ACID}")
        made.acid.sql("INSERT INTO t SELECT id, 'a' FROM range(100)")
        yield made


def _statements(acid: AcidSession) -> dict[str, tuple[Callable[[], object], list[tuple[int, str]]]]:
    spark = acid.context.facts.spark
    spark.range(0, 120, 1, 2).selectExpr(f"CAST({SLOW} AS BIGINT) AS id").createOrReplaceTempView("slow_ids")
    insert = "INSERT INTO t SELECT id, 'a' FROM slow_ids"
    merge = """MERGE INTO t USING slow_ids s ON t.id = s.id WHEN MATCHED AND s.id < 20 THEN UPDATE SET v = 'm'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a')"""
    return {
        "insert": (lambda: acid.sql(insert).collect(), sorted([*ROWS, *((n, "a") for n in range(120))])),
        "merge": (lambda: acid.sql(merge).collect(), MERGED),
    }


@pytest.mark.parametrize(
    ("name", "scene"), [("insert", "store"), ("merge", "store"), ("insert", "s3")], indirect=["scene"]
)
def test_a_statement_is_done_or_never_was(scene: Scene, name: str, request: pytest.FixtureRequest) -> None:
    statement, wanted = _statements(scene.acid)[name]
    error = scene.during(statement)
    found = scene.rows()
    print(f"OUTAGE {request.node.name}: {type(error).__name__}: {str(error)[:300]}")  # noqa: T201 - the table of docs/cluster.md
    if error is None:
        assert found == wanted
    else:
        assert isinstance(error, HiveAcidError), error
        assert found in (ROWS, wanted)
        assert found == ROWS or type(error).__name__ == "CommitStateUnknownError"
    scene.acid.sql("INSERT INTO t VALUES (1000, 'z')")
    assert scene.rows() == sorted([*found, (1000, "z")])
    assert scene.acid.table("t").inspect.check() == ()


@pytest.mark.parametrize("scene", ["store"], indirect=True)
def test_a_stream_goes_on(scene: Scene, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The query may fail; started again, it writes every batch once."""
    spark = scene.acid.context.facts.spark
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
    print(f"OUTAGE {request.node.name}: {type(error).__name__}: {str(error)[:300]}")  # noqa: T201 - see above
    if error is not None:
        time.sleep(1)
        run()
    streamed = [(number, f"b{batch}") for batch in range(3) for number in range(batch * 50, batch * 50 + 60)]
    assert scene.rows() == sorted([*ROWS, *streamed])

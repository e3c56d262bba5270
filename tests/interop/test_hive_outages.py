"""A metastore killed (``kill -9``) while the tasks of our statement run, and started again at the same address.

It is away until the statement wants to commit (HIVEACID_TEST_SECONDS, 3, at least), or is back before. Either way the
statement succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive
from hive_compaction import Compactions
from hive_server import HiveServers

from hiveacid.core.snapshot.check_findings import Severity
from support.servers.outage import AWAY, Scene

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
ROWS = [(number, "a") for number in range(100)]
MERGED = [(number, "m" if number < 20 else "a") for number in range(120)]
INSERTED = [*ROWS, *((number, "b") for number in range(120))]
INSERT = "INSERT INTO t SELECT id, 'b' FROM slow_ids"
MERGE = """MERGE INTO t USING slow_ids s ON t.id = s.id WHEN MATCHED AND s.id < 20 THEN UPDATE SET v = 'm'
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a')"""
INITIATES = True
_START = 25.0
"""Seconds within which a killed metastore is there again, on a machine that does other work, too."""


@pytest.fixture
def scene(hive: HiveServers, acid: AcidSession) -> Iterator[Scene]:
    """Make a table of 100 rows in two deltas."""
    acid.sql(f"CREATE TABLE t (id BIGINT, v STRING) {ACID}")
    for part in ("0, 50", "50, 100"):
        acid.sql(f"INSERT INTO t SELECT id, 'a' FROM range({part})")
    Compactions(hive).forget()
    Compactions(hive).hold()
    # A compaction by the driver would end before the server is away.
    acid.set("hiveacid.small.changes.max.bytes", "0")
    yield Scene(acid, hive.kill_metastore, hive.start_again)
    _abort_what_is_left(acid)  # of a test that failed: DROP would wait for its locks
    acid.sql("DROP TABLE t")


def _slow_rows(spark: SparkSession, milliseconds: int) -> DataFrame:
    """Return 120 ids in two tasks, which wait for each row."""
    slow = f"coalesce(id + length(reflect('java.lang.Thread', 'sleep', {milliseconds}L)) * 0, id)"
    return spark.range(0, 120, 1, 2).selectExpr(f"CAST({slow} AS BIGINT) AS id")


def _abort_what_is_left(acid: AcidSession) -> None:
    """Do what the metastore does after its time-out."""
    acid.context.read_leases.close()
    store = acid.context.store
    store.abort_txns([row.txn_id for row in store.show_transactions() if row.state == "OPEN"], "outage")
    assert store.show_locks() == ()


def _require(scene: Scene, session: Hive, wanted: list[tuple[int, str]]) -> dict[tuple[Any, ...], Any]:
    """Require of both engines these rows, and of the directory no damage; return the rows by their ids."""
    found = scene.rows()
    assert sorted(found.values()) == sorted(wanted)
    assert sorted(session.sql("SELECT id, v FROM t")) == sorted(wanted)
    # What the aborted transaction wrote lies there still.
    damage = [one for one in scene.acid.table("t").inspect.check() if one.severity is Severity.DAMAGE]
    assert damage == []
    return found


@pytest.mark.parametrize("back", ["after the tasks", "before the end"])
@pytest.mark.parametrize("name", ["insert", "merge"])
def test_a_statement_waits_for_the_metastore(scene: Scene, session: Hive, name: str, back: str) -> None:
    """Its calls are repeated until the transaction is about to expire."""
    spark = scene.acid.context.env.spark
    milliseconds = int((AWAY + _START) * 1000 / 60) if back == "before the end" else 20
    _slow_rows(spark, milliseconds).createOrReplaceTempView("slow_ids")
    statement, wanted = {"insert": (INSERT, INSERTED), "merge": (MERGE, MERGED)}[name]
    before = scene.rows()
    assert scene.during(lambda: scene.acid.sql(statement).collect()) is None
    found = _require(scene, session, wanted)
    kept = {identity: row for identity, row in before.items() if name == "insert" or row[0] >= 20}
    assert kept.items() <= found.items()
    session.sql("INSERT INTO t VALUES (1000, 'z')")
    _require(scene, session, [*wanted, (1000, "z")])


def test_a_compaction_waits_for_the_metastore(scene: Scene, session: Hive, hive: HiveServers) -> None:
    """Ours. The workers of Hive 3 are within the metastore: the next one takes the job."""
    before, queue = scene.rows(), Compactions(hive)
    if hive.is_hive3:
        scene.acid.sql("ALTER TABLE t COMPACT 'major'")
        queue.wait_until_worked_on()
        scene.away()
        time.sleep(AWAY)
        scene.back()
        queue.settle()
    else:
        scene.acid.set("hiveacid.compactor.here", "true")
        assert scene.during(lambda: scene.acid.sql("ALTER TABLE t COMPACT 'major'").collect()) is None
        scene.acid.set("hiveacid.compactor.here", "false")
    assert _require(scene, session, ROWS) == before
    directories = {entry.path for entry in scene.acid.context.fs.list_tree(_location(scene)) if entry.is_dir}
    assert any(path.startswith("base_") for path in directories), directories


def _location(scene: Scene) -> str:
    return scene.acid.table("t").definition.location


def test_a_stream_goes_on(scene: Scene, session: Hive, tmp_path: Any) -> None:
    """A query that merges by key in ``foreachBatch`` waits for the metastore, too, and writes every row once."""
    spark = scene.acid.context.env.spark
    source = tmp_path / "source"
    _slow_rows(spark, 0).selectExpr("id", "id DIV 40 AS part").write.partitionBy("part").json(str(source))

    def merge(batch: DataFrame, number: int) -> None:
        del number
        # Spark gives each batch a session of its own.
        spark.createDataFrame(batch.collect(), "id BIGINT").createOrReplaceTempView("batch")
        slow = "coalesce(id + length(reflect('java.lang.Thread', 'sleep', 20L)) * 0, id)"
        scene.acid.sql(
            f"""MERGE INTO t USING (SELECT CAST({slow} AS BIGINT) AS id FROM batch) s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET v = 's' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 's')"""
        ).collect()

    def run() -> None:
        frame = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1)
        writer: Any = frame.json(f"{source}/part=*").writeStream.foreachBatch(merge)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    assert scene.during(run) is None
    _require(scene, session, [(number, "s") for number in range(120)])

"""The driver of a cluster test: python cluster_driver.py SCENARIO MASTER WAREHOUSE [STORE]; prints what it found as JSON.

HIVEACID_CLUSTER_CONF holds more settings of Spark, as JSON.

A process of its own, because a process has one SparkContext, and one time zone of its JVM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import HiveAcidError
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.python_workers import run_in_workers
from hiveacid.table.arrow_read import row_tasks
from hiveacid.table.arrow_read.row_tasks import Result, RowTask
from hiveacid.table.write import driver_reads

if TYPE_CHECKING:
    from hiveacid import AcidSession

ACID = "CREATE TABLE {} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
STORE = sys.argv[4] if len(sys.argv) > 4 else None
_PATIENCE = 120.0  # seconds
_BLOCK = 0.01
_MOST_COMPACTIONS = 5


def session(master: str, warehouse: Path, **settings: str) -> AcidSession:
    """Return a session whose executors have one core each."""
    os.environ["PYSPARK_PYTHON"] = "python3"  # the executors' own, without hiveacid
    spark = hiveacid.configure(builder(master, settings)).getOrCreate()
    return hiveacid.connect(spark, str(warehouse), STORE)


def builder(master: str, settings: Mapping[str, str]) -> Any:
    """Return the settings of a small driver and small executors."""
    built: Any = SparkSession.builder.appName("cluster test").master(master)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "600m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "500m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.session.timeZone": "UTC",
    }
    given = {key.replace("_", "."): value for key, value in settings.items()}
    for key, value in (common | given | json.loads(os.environ.get("HIVEACID_CLUSTER_CONF", "{}"))).items():
        built = built.config(key, value)
    return built


def refused(run: Callable[[], object]) -> str:
    """Return the error of a statement as text."""
    try:
        return f"no error, but {run()}"
    except HiveAcidError as error:
        return f"{type(error).__name__}: {error}"


def rows(acid: AcidSession, query: str) -> list[list[Any]]:
    """Return what a query finds."""
    return [list(row) for row in acid.sql(query).collect()]


def unshared(master: str, directory: Path) -> dict[str, object]:
    """Write to a directory under which every executor has a file system of its own."""
    acid = session(master, directory)
    acid.sql("SET hiveacid.small.changes.max.bytes=0")  # the driver itself would merge so few rows
    acid.sql(ACID.format("t (id BIGINT, v STRING)"))
    acid.sql(ACID.format("p (id BIGINT) PARTITIONED BY (k BIGINT)"))
    acid.sql("CREATE TABLE plain (id BIGINT, v STRING) STORED AS PARQUET")
    source = "SELECT id, 'x' FROM range(1000)"
    found: dict[str, object] = {
        "insert": refused(lambda: acid.sql(f"INSERT INTO t {source}").collect()),
        "partitions": refused(lambda: acid.sql("INSERT INTO p SELECT id, id % 3 FROM range(1000)").collect()),
        "overwrite": refused(lambda: acid.sql(f"INSERT OVERWRITE TABLE t {source}").collect()),
        "merge": refused(
            lambda: acid.sql(
                "MERGE INTO t USING (SELECT id FROM range(10)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm')"
            ).collect()
        ),
        "plain": refused(lambda: acid.sql(f"INSERT INTO plain {source}").collect()),
    }
    found["rows"] = [rows(acid, f"SELECT count(*) FROM {name}")[0][0] for name in ("t", "p", "plain")]
    return found


def _executors(master_of: str) -> list[int]:
    """Return the processes of an application's executors."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and master_of.encode() in words:
            found.append(int(entry.name))
    return found


def _killing(acid: AcidSession, statement: Callable[[], object]) -> bool:
    """Kill an executor while a statement's tasks run; tell whether the statement was still at work."""
    context = acid.context.env.spark.sparkContext
    tracker = context.statusTracker()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            statement()
        except BaseException as error:  # noqa: BLE001 - raised below, in the main thread
            failed.append(error)

    thread = threading.Thread(target=run)
    before = set(tracker.getActiveStageIds())
    thread.start()
    until = time.monotonic() + _PATIENCE
    while thread.is_alive() and time.monotonic() < until:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds() if stage not in before]
        if any(stage is not None and stage.numActiveTasks for stage in stages):
            break
        thread.join(_BLOCK)
    alive = thread.is_alive()
    os.kill(_executors(context.applicationId)[0], signal.SIGKILL)
    thread.join(_PATIENCE)
    if failed:
        raise failed[0]
    return alive


def killed(master: str, directory: Path, dying: tuple[str, ...]) -> dict[str, object]:
    """Kill an executor during those statements of an INSERT, a MERGE and a COMPACT, with speculative tasks."""
    acid = session(
        master,
        directory,
        spark_speculation="true",
        **{
            "spark.speculation.interval": "50ms",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.minTaskRuntime": "0ms",
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "100ms",
        },
    )
    acid.sql(ACID.format("t (id BIGINT, v STRING)"))
    slow = "coalesce(id + length(reflect('java.lang.Thread', 'sleep', 0L)) * 0, id)"
    spark = acid.context.env.spark
    source = spark.range(0, 20_000, 1, 8).selectExpr(f"CAST({slow} AS BIGINT) AS id", "'a' AS v")
    source.createOrReplaceTempView("source")
    found: dict[str, object] = {}

    def run(name: str, statement: Callable[[], object]) -> None:
        if name in dying:
            found[name] = _killing(acid, statement)
        else:
            statement()

    run("insert", lambda: acid.sql("INSERT INTO t SELECT * FROM source").collect())
    found["after insert"] = rows(acid, "SELECT count(*), count(DISTINCT id), sum(id) FROM t")
    spark.range(10_000, 30_000, 1, 8).selectExpr(f"CAST({slow} AS BIGINT) AS id").createOrReplaceTempView(
        "changes"
    )
    merge = """MERGE INTO t USING changes s ON t.id = s.id
        WHEN MATCHED AND t.id % 2 = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = 'b'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'c')"""
    run("merge", lambda: acid.sql(merge).collect())
    query = "SELECT v, count(*), count(DISTINCT id), sum(id) FROM t GROUP BY v ORDER BY v"
    found["after merge"] = rows(acid, query)
    acid.set("hiveacid.small.changes.max.bytes", "0")  # else the driver compacts, without an executor
    for _ in range(_MOST_COMPACTIONS):  # its tasks are short: on a busy machine the executor may die too late
        run("compact", lambda: acid.table("t").compact("major"))
        if found.get("compact", True):
            break
        acid.sql("UPDATE t SET v = v").collect()
    found["after compact"] = rows(acid, query)
    return found


def zones(master: str, directory: Path) -> dict[str, object]:
    """Write and read times where the driver is in Berlin, the executors are in New York and the session shows UTC."""
    acid = session(master, directory, **{"spark.driver.extraJavaOptions": "-Duser.timezone=Europe/Berlin"})
    columns = "(id INT, t TIMESTAMP, l TIMESTAMP WITH LOCAL TIME ZONE, a ARRAY<TIMESTAMP>)"
    noon = "TIMESTAMP'2026-01-15 12:00:00'"
    acid.sql(ACID.format(f"z {columns}"))
    acid.sql(f"INSERT INTO z SELECT id, {noon}, {noon}, array({noon}) FROM range(4)")
    acid.sql("UPDATE z SET t = t + INTERVAL 1 HOUR WHERE id = 1")
    acid.sql(f"DELETE FROM z WHERE t = {noon} AND id = 2")
    acid.sql(f"INSERT INTO z VALUES (5, {noon}, {noon}, array({noon}))")
    shown = "SELECT id, CAST(t AS STRING), CAST(l AS STRING), CAST(a[0] AS STRING) FROM z ORDER BY id"
    found: dict[str, object] = {"before": rows(acid, shown)}
    jobs: Any = acid.context.env.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    for name, limit in (("after", "0"), ("after by the driver", "64mb")):
        acid.set("hiveacid.small.changes.max.bytes", limit)
        before = jobs()
        acid.table("z").compact("major")
        found[f"jobs {name}"] = jobs() - before
        found[name] = rows(acid, shown)
        acid.sql("UPDATE z SET a = a WHERE id = 1")
    found["zone of executors"] = acid.context.env.stored_time_zone
    found["noon"] = rows(acid, f"SELECT count(*) FROM z WHERE t = {noon}")
    acid.sql(
        f"CREATE TABLE i {columns} CLUSTERED BY (t) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    for _ in range(2):
        acid.sql("INSERT INTO i SELECT * FROM z")
    acid.table("i").compact("major")
    found["insert only"] = rows(acid, shown.replace("FROM z", "FROM i"))
    return found


def everything(master: str, warehouse: str) -> dict[str, object]:
    """Run all verbs by both SQL interfaces, and a stream by ``foreachBatch``."""
    from hiveacid.sql.native.session import NativeSession  # noqa: PLC0415 - not of the other scenarios
    from support import cluster_verbs  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = "python3"
    place = str(warehouse)
    native = hiveacid.configure(builder(master, {}), native=True, warehouse=place, store=STORE).getOrCreate()
    assert isinstance(native, NativeSession)
    acid = native.acid
    found = {
        "by acid.sql": cluster_verbs.verbs(acid.sql, "a"),
        "by spark.sql": cluster_verbs.verbs(native.sql, "n"),
        "by foreachBatch": cluster_verbs.merged_stream(native, acid),
    }
    return {name: dict(answers) for name, answers in found.items()}


def dying(master: str, warehouse: str) -> dict[str, object]:
    """Update rows, slowly enough that something is killed meanwhile."""
    acid = session(master, Path(warehouse))
    acid.set("hive.txn.timeout", "10s")
    acid.sql(ACID.format("d (id BIGINT, v STRING)"))
    acid.sql("INSERT INTO d SELECT id, 'a' FROM range(0, 500, 1, 1)")
    acid.sql("INSERT INTO d SELECT id, 'a' FROM range(500, 1000, 1, 1)")
    sys.stdout.write("slow\n")
    sys.stdout.flush()
    acid.sql(f"UPDATE d SET v = 'b' WHERE {SLOW} % 5 = 0")
    return {}


def survived(master: str, warehouse: str) -> dict[str, object]:
    """Read and change what a killed process left."""
    acid = session(master, Path(warehouse))
    acid.set("hive.txn.timeout", "10s")
    query = "SELECT v, count(*), count(DISTINCT id), sum(id) FROM d GROUP BY v ORDER BY v"
    found: dict[str, object] = {"before": rows(acid, query)}
    acid.sql("UPDATE d SET v = 'c' WHERE id % 5 = 0")
    acid.sql("ALTER TABLE d COMPACT 'major' AND WAIT")
    found["after"] = rows(acid, query)
    until = time.monotonic() + _PATIENCE
    while rows(acid, "SHOW LOCKS") and time.monotonic() < until:
        time.sleep(0.5)
    acid.clean()
    found["locks"] = rows(acid, "SHOW LOCKS")
    found["check"] = [str(one) for one in acid.table("d").inspect.check()]
    return found


def formats(master: str, warehouse: Path) -> dict[str, object]:
    """Write 1,000 rows by ``format("hiveacid")``, read them by it and by SQL; return what was found, or the error."""
    spark = hiveacid.configure(builder(master, {})).getOrCreate()
    acid = hiveacid.connect(spark, str(warehouse), STORE)
    acid.sql(ACID.format("f (id BIGINT, v STRING)"))
    options = {"table": "f", "warehouse": str(warehouse)} | ({"store": STORE} if STORE else {})
    try:
        written = spark.range(0, 1000, 1, 4).selectExpr("id", "CAST(id AS STRING) AS v")
        written.write.format("hiveacid").options(**options).mode("append").save()
        read = spark.read.format("hiveacid").options(**options).load()
        return {
            "by format": [list(row) for row in read.selectExpr("count(*)", "sum(id)").collect()],
            "by sql": rows(acid, "SELECT count(*), sum(id) FROM f"),
        }
    except Exception as error:  # noqa: BLE001 - of Spark; what it says is tested
        return {"error": str(error)}


@dataclass(frozen=True)
class FirstAttempt(RowTask):
    """A task whose first attempt ends as ``how`` says."""

    marker: str
    how: str

    def __call__(self) -> Result:
        """Read the rows, or end."""
        try:
            Path(self.marker).touch(exist_ok=self.how == "always raises")
        except FileExistsError:
            return super().__call__()
        if self.how in ("raises", "always raises"):
            raise RuntimeError(self.how)
        worker = os.getpid()
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(worker if self.how == "worker dies" else executor, signal.SIGKILL)
        raise AssertionError("it is dead")


def changes(master: str, warehouse: Path) -> dict[str, object]:
    """Change rows by tasks in Python on executors, some of which fail, and by jobs; return what both left."""
    spark = hiveacid.configure(builder(master, {})).getOrCreate()
    acid = hiveacid.connect(spark, str(warehouse), STORE)
    for name in ("tasks", "jobs"):
        acid.sql(
            ACID.format(
                f"{name} (id BIGINT, v STRING, at TIMESTAMP, amount DECIMAL(7,2)) PARTITIONED BY (p INT)"
            )
        )
        for start in (0, 1000):
            acid.sql(
                f"INSERT INTO {name} SELECT id, concat('v', id % 9), timestamp_seconds(id * 86400 * 50), id / 8, id % 2 "
                f"FROM range({start}, {start} + 1000, 1, 4)"
            )
    row_tasks._MIN_PART = 1  # so that small files have several tasks
    ways = ("", "raises", "worker dies", "executor dies", "always raises")
    used: list[str] = []

    def of(way: str, *arguments: Any) -> object:
        used.append(way)
        task = RowTask.of(*arguments)
        return FirstAttempt(**vars(task), marker=f"{warehouse}/marker-{way}", how=way) if way else task

    done: list[str] = []

    def run(env: SparkEnvironment, tasks: Sequence[Callable[[], object]]) -> object:
        results = run_in_workers(env, tasks)
        done.extend([used[-1]] if results and all(isinstance(one, list) for one in results) else [])
        return results

    vars(driver_reads)["run_in_workers"] = run
    found: dict[str, object] = {}
    vars(driver_reads)["RowTask"] = made = Mock()
    for number, way in enumerate(ways):
        made.of = partial(of, way)
        texts = (
            f"UPDATE {{t}} SET amount = amount + 1, v = concat(v, '!') WHERE v = 'v{number}' AND id < 1500",
            f"DELETE FROM {{t}} WHERE id BETWEEN {number * 300} AND {number * 300 + 70} AND p = 1",
        )
        counts = {}
        for name, by in (("tasks", "executors"), ("jobs", "job")):
            acid.set("hiveacid.changes.by", by)
            counts[name] = [rows(acid, text.replace("{t}", name))[0][0] for text in texts]
        found[way] = counts["tasks"] == counts["jobs"] and min(counts["jobs"])
    query = "SELECT id, v, CAST(at AS STRING), CAST(amount AS STRING), p FROM {} ORDER BY id"
    found["equal"] = rows(acid, query.format("tasks")) == rows(acid, query.format("jobs"))
    found["check"] = [str(one) for one in acid.table("tasks").inspect.check()]
    found["usable"] = acid.context.env.executor_python.usable
    found["done"] = sorted(set(done))
    return found


SLOW = "coalesce(id + length(reflect('java.lang.Thread', 'sleep', 20L)) * 0, id)"
SCENARIOS: dict[str, Callable[[str, Any], dict[str, object]]] = {
    "everything": everything,
    "dying": dying,
    "survived": survived,
    "zones": zones,
    "unshared": unshared,
    "killed": partial(killed, dying=("insert", "merge", "compact")),
    "killed in merge": partial(killed, dying=("merge",)),
    "formats": formats,
    "changes": changes,
}

if __name__ == "__main__":
    place = sys.argv[3]
    found = SCENARIOS[sys.argv[1]](sys.argv[2], place if "://" in place else Path(place))
    sys.stdout.write(json.dumps(found, default=str))

"""``hiveacid services`` as processes of their own: stopped in order, killed, several of them, watched."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
import hiveacid.services
from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from support.samples import CLIENT, INCOMPRESSIBLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from support.servers.databases import Server

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TIMEOUT = {"hive.txn.timeout": "10s"}
SETTINGS = {
    **TIMEOUT,
    "hive.compactor.worker.sleep.time": "100ms",
    "hive.compactor.worker.max.sleep.time": "500ms",
    "hive.compactor.cleaner.run.interval": "200ms",
    "hive.compactor.check.interval": "500ms",
    "hive.compactor.delta.num.threshold": "2",
    "metastore.acid.housekeeper.interval": "1s",
}
CONF = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
}
_PATIENCE = 300.0  # seconds


@dataclass
class Process:
    """One process; what it says on standard error is kept in a file."""

    home: Path
    store: str
    arguments: tuple[str, ...]
    child: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Start it."""
        settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        conf = [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
        self.log = self.home / f"log-{time.monotonic_ns()}"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "hiveacid", "services", "--log", "json", *self.arguments, *settings, *conf,
                 "-w", str(self.home / "warehouse")],
                env={**os.environ, "HIVEACID_STORE": self.store}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def stopped(self) -> str:
        """Tell it to stop, wait for its end in order, and return what it said."""
        self.child.send_signal(signal.SIGTERM)
        assert self.child.wait(_PATIENCE) == 0, self.said()
        return self.said()

    def owns(self, job: Compaction) -> bool:
        worker = job.worker or ""
        return f"-{self.child.pid}-" in worker and ".worker" in worker


@dataclass
class Scene:
    acid: AcidSession
    home: Path
    store: str
    processes: list[Process] = field(default_factory=list)
    open: list[TxnId] = field(default_factory=list)  # kept alive while it waits

    def start(self, *arguments: str) -> Process:
        made = Process(self.home, self.store, arguments)
        self.processes.append(made)
        return made

    def until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not true():
            for process in self.processes:
                assert process.child.poll() in (None, 0, -signal.SIGKILL), process.said()
            if time.monotonic() > deadline:
                said = "\n".join(process.said()[-2000:] for process in self.processes)
                pytest.fail(f"not in {_PATIENCE} s: {what}\n{self.jobs()}\n{said}")
            self.acid.context.store.heartbeat(self.open)
            time.sleep(0.05)

    def jobs(self, table: str | None = None) -> list[Compaction]:
        return [
            one
            for one in self.acid.context.store.show_compactions()
            if table in (None, one.request.table.name)
        ]

    def is_there(self, process: Process) -> bool:
        return any(f"-{process.child.pid}-" in one.name for one in self.acid.context.store.show_services(60))

    def table(self, name: str, partitions: int = 0, inserts: int = 3) -> None:
        parts = "PARTITIONED BY (p INT) " if partitions else ""
        self.acid.sql(f"CREATE TABLE {name} (id INT) {parts}{ACID}")
        for number in range(inserts):
            rows = [f"({number}, {p})" for p in range(partitions)] if partitions else [f"({number})"]
            self.acid.sql(f"INSERT INTO {name} VALUES {', '.join(rows)}")

    def rows(self, name: str) -> list[int]:
        return sorted(row["id"] for row in self.acid.sql(f"SELECT id FROM {name}").collect())

    def queue(
        self, name: str, kind: str = "major", partition: str | None = None, pool: str = "default"
    ) -> int:
        request = CompactionRequest(TableName("default", name), partition, kind, pool)
        return self.acid.context.store.enqueue_compaction(request, "test").id

    def state(self, number: int) -> str:
        return next(one.state for one in self.jobs() if one.id == number)

    def released(self) -> bool:
        """End the leases that no frame needs any more; tell whether these were all."""
        context = self.acid.context
        release_unused_plans(context.env, context.read_leases.sweep)
        return not context.read_leases.txn_ids()

    def locked(self, name: str) -> Callable[[], None]:
        """Keep a rebalance from its lock; return what lets it go on."""
        store = self.acid.context.store
        (txn_id,) = store.open_txns(CLIENT)
        store.lock(txn_id, [LockComponent(LockType.EXCL_WRITE, "default", name)])
        self.open.append(txn_id)

        def unlock() -> None:
            self.open.remove(txn_id)
            store.commit_txn(txn_id)

        return unlock


@pytest.fixture
def on_sqlite(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    yield from _scene(spark, tmp_path, f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def on_postgres(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> Iterator[Scene]:
    yield from _scene(spark, tmp_path, postgres_server.make_database("services"))


def _scene(spark: SparkSession, home: Path, store: str) -> Iterator[Scene]:
    with hiveacid.connect(spark, warehouse=str(home / "warehouse"), store=store, settings=TIMEOUT) as acid:
        scene = Scene(acid, home, store)
        try:
            yield scene
        finally:
            for process in scene.processes:
                process.child.kill()
                process.child.wait(_PATIENCE)


def ask(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.exhaustive("two processes and one turn stay; unit/services has the watch")
def test_a_service_process_works_is_watched_and_ends_in_order(on_sqlite: Scene) -> None:
    """On SQLite: SIGTERM lets the job at work end within --grace; the log is JSON, line by line."""
    scene = on_sqlite
    scene.table("few")
    scene.table("slow")
    process = scene.start("--port", "0", "--web", "0", "--grace", "60")
    scene.until(lambda: "/health" in process.said() and scene.is_there(process), "it has started")
    (port,) = map(int, re.findall(r"http://127\.0\.0\.1:(\d+)/health", process.said()))
    scene.until(
        lambda: {one.state for one in scene.jobs()} == {"succeeded"} and len(scene.jobs()) == 2, "compacted"
    )
    assert all(process.owns(job) and job.claims == 1 for job in scene.jobs())
    assert scene.rows("few") == [0, 1, 2]
    status, text = ask(port, "/health")
    report = json.loads(text)
    assert (status, report["status"]) == (200, "ok"), report
    assert {one["kind"] for one in report["services"].values()} == {
        "initiator",
        "worker",
        "cleaner",
        "housekeeper",
    }
    status, text = ask(port, "/metrics")
    assert (status, "\ncompaction_num_succeeded 2.0" in text) == (200, True), text
    (pages,) = map(int, re.findall(r"http://127\.0\.0\.1:(\d+), where nobody", process.said()))
    status, text = ask(pages, "/services.json")
    shown = json.loads(text)["services"]
    assert (status, len(shown)) == (200, 4), text
    assert all(one["turns"]["turns"] and one["turns"]["error"] is None for one in shown), text
    unlock = scene.locked("slow")
    number = scene.queue("slow", "rebalance")
    scene.until(lambda: scene.state(number) == "working", "the worker waits for its lock")
    process.child.send_signal(signal.SIGTERM)
    scene.until(lambda: "stopping" in process.said(), "it has heard")
    assert (process.child.poll(), scene.state(number)) == (None, "working")
    unlock()
    assert process.child.wait(_PATIENCE) == 0
    assert scene.state(number) in ("ready for cleaning", "succeeded")
    assert not scene.is_there(process)
    records = [json.loads(line) for line in process.said().splitlines()]
    assert {"started", "stopping", "stopped"} <= {one["message"] for one in records}
    assert all(one["time"] and one["level"] in ("info", "warning") for one in records), process.said()


def test_one_turn_for_a_scheduler(on_sqlite: Scene) -> None:
    """--once: what was done, one JSON object a line; a job of another pool is left alone."""
    scene = on_sqlite
    scene.table("few")
    scene.table("few_at_night")
    night = scene.queue("few_at_night", pool="night")
    # the one turn cleans nothing that a reader may still need, and the INSERTs' leases would end a few seconds later
    scene.until(scene.released, "the leases of the INSERTs have ended")
    process = scene.start("--once")
    assert process.child.wait(_PATIENCE) == 0, process.said()
    done = [json.loads(line) for line in process.said().splitlines()]
    (found,) = [one for one in done if one.get("table") == "default.few"]
    assert (found["kind"], found["compaction_id"]) == ("major", night + 1)
    (report,) = [one["compaction"] for one in done if "compaction" in one]
    assert (report["id"], report["before"]["rows"], report["after"]["files"]) == (night + 1, 3, 1)
    assert sum("removed" in one for one in done) == 3
    assert (scene.state(night), scene.state(night + 1)) == ("initiated", "succeeded")


@pytest.mark.exhaustive("a service process works above, and tests/contract claims jobs by two workers")
def test_two_processes_share_the_work_and_one_of_them_dies(on_postgres: Scene) -> None:
    """C6: no job is done twice; one of a worker that was killed -9 is taken again after hive.txn.timeout."""
    scene = on_postgres
    two = [scene.start("--workers", "1", "--housekeeper", "--grace", "0") for _ in range(2)]
    scene.table("parted", partitions=6, inserts=2)
    scene.acid.sql(f"CREATE TABLE big (id INT, t STRING) {ACID}")
    for number in range(2):
        scene.acid.sql(f"INSERT INTO big SELECT id * 2 + {number}, {INCOMPRESSIBLE} FROM range(600000)")
    location = Path(scene.acid.table("big").definition.location)
    scene.until(lambda: all(map(scene.is_there, two)), "both have started")
    for p in range(6):
        scene.queue("parted", partition=f"p={p}")
    scene.until(lambda: {one.state for one in scene.jobs("parted")} == {"ready for cleaning"}, "all are done")
    jobs = scene.jobs("parted")
    assert [(one.claims, sum(process.owns(one) for process in two)) for one in jobs] == [(1, 1)] * 6
    assert [any(map(process.owns, jobs)) for process in two] == [True, True]
    number = scene.queue("big")

    def is_writing(process: Process) -> bool:
        (job,) = scene.jobs("big")
        return process.owns(job) and bool(list(location.glob(".hiveacid-staging-*/**/*.orc")))

    scene.until(lambda: any(map(is_writing, two)), "one of them writes")
    dead, other = sorted(two, key=is_writing, reverse=True)
    dead.child.kill()
    dead.child.wait(_PATIENCE)
    assert scene.state(number) == "working"
    left = {path.name for path in location.iterdir()}
    assert sum(name.startswith(".hiveacid-staging-") for name in left) == 1
    assert not any(name.startswith("base_") for name in left)
    scene.until(lambda: is_writing(other), "the other one has it")
    (job,) = scene.jobs("big")
    assert job.claims == 2
    other.stopped()  # without grace: it goes back into the queue
    assert scene.state(number) == "initiated"
    assert {path.name for path in location.iterdir()} == left
    count = scene.acid.sql("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM big").collect()
    assert [tuple(row) for row in count] == [(1_200_000, 1_200_000, 0, 1_199_999)]
    turn = hiveacid.services.Services(scene.acid).step()
    assert [(one.id, one.state) for one in turn.compactions] == [(number, "ready for cleaning")]
    scene.acid.clean()
    assert [path.name[:13] for path in location.iterdir()] == ["base_0000002_"]

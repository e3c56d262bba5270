"""A soak: writers, readers and two service processes on one store, one of them killed: tools/soak.py SECONDS [SEED].

The URL of an empty store stands in the variable HIVEACID_STORE. Streams insert; one Spark session updates, deletes,
overwrites, reads and holds DataFrames; two ``hiveacid services`` compact and clean, and now and then one of them is
killed -9 and started again. Exit 1 with the first thing that is wrong: rows that are not the model's, a reader whose
files are gone, deltas without bound, anything left over after a final clean.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hiveacid
from hiveacid.ports.store import own_store
from hiveacid.services import Services
from hiveacid.spark.session.jvm_process import local_session
from soak_model import Model, Stream, WrongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.core.compaction.queue_records import Compaction

STREAMS = 2
SMALL_JVM = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SETTINGS = {
    "hive.txn.timeout": "20s",
    "hive.compactor.check.interval": "1s",
    "hive.compactor.delta.num.threshold": "8",
    "hive.compactor.cleaner.run.interval": "500ms",
    "hive.compactor.worker.sleep.time": "200ms",
    "hive.compactor.worker.max.sleep.time": "1s",
    "metastore.acid.housekeeper.interval": "2s",
}
MOST_ROWS = 10_000
HELD = 3
"""DataFrames held at a time."""
MOST_DELTAS = 250
"""On disk, in both partitions: what is held by readers, waits for a worker or a cleaner. In five minutes there would be
twice as many if nobody compacted; the most that was seen is half of it, on two cores that had much else to do."""
PATIENCE = 300.0  # seconds
TABLE = (
    "CREATE TABLE t (id BIGINT, v BIGINT) PARTITIONED BY (p INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true')"
)
STATE = "CREATE TABLE state (n BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@dataclass
class Process:
    """A ``hiveacid services`` process, started again when it was killed."""

    number: int
    store: str
    warehouse: Path
    child: subprocess.Popen[bytes] | None = None
    kills: int = 0

    @property
    def mark(self) -> str:
        """Return what stands in the names of its services, and of no others."""
        return f"-{self.child.pid}." if self.child else "nobody"

    @property
    def log(self) -> Path:
        """Return where it writes its log."""
        return self.warehouse.parent / f"services-{self.number}.log"

    def start(self) -> None:
        """Start it."""
        settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        conf = [part for key, value in SMALL_JVM.items() for part in ("--conf", f"{key}={value}")]
        arguments = [
            "services",
            "--log",
            "json",
            "--grace",
            "60",
            *settings,
            *conf,
            "-w",
            str(self.warehouse),
        ]
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "hiveacid", *arguments],
                env={**os.environ, "HIVEACID_STORE": self.store},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def require_alive(self) -> None:
        """Raise WrongError if it has ended by itself."""
        if self.child is not None and self.child.poll() is not None:
            raise WrongError(f"services {self.number} ended with {self.child.returncode}:\n{self.said()}")

    def has_job(self, jobs: tuple[Compaction, ...]) -> bool:
        """Tell whether a worker of this process is at work."""
        return any(job.state == "working" and self.mark in (job.worker or "") for job in jobs)

    def kill(self) -> None:
        """Kill it -9, with its JVM, which would end a little later."""
        if self.child is not None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait(PATIENCE)
            self.child = None
            self.kills += 1

    def stop(self) -> None:
        """Stop it in order."""
        if self.child is None:
            return
        self.require_alive()
        self.child.send_signal(signal.SIGTERM)
        if self.child.wait(PATIENCE) != 0:
            raise WrongError(f"services {self.number} stopped with {self.child.returncode}:\n{self.said()}")
        self.child = None

    def said(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def warnings(self) -> Iterator[str]:
        """Yield what its log warns of."""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and (record := json.loads(line))["level"] in ("warning", "error"):
                yield record["message"] + record.get("error", "")


@dataclass
class Soak:
    """One run."""

    acid: AcidSession
    streams: list[Stream]
    processes: list[Process]
    chance: random.Random
    model: Model
    counts: Counter[str] = field(default_factory=Counter)
    held: list[tuple[DataFrame, list[Any], float]] = field(default_factory=list)
    most: int = 0
    kill_at: float = 0.0
    start_at: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def run(self, seconds: float) -> None:
        """Begin when both services are there; then go on for so many seconds, and clean up."""
        for process in self.processes:
            process.start()
        self.acid.sql(TABLE)
        self.acid.sql(STATE)
        self.until(self.both_are_there, "both services are there")
        for stream in self.streams:
            stream.start()
        began = time.monotonic()
        self.kill_at = began + min(seconds / 4, self.chance.uniform(5, 60))
        while time.monotonic() < began + seconds or not self.counts["restarted"]:
            self.step()
            self.misfortune()
        self.end()

    def both_are_there(self) -> bool:
        """Tell whether the workers of both processes have announced themselves."""
        for process in self.processes:
            process.require_alive()
        names = [one.name for one in own_store(self.acid.context.store).show_services(60)]
        return all(
            process.child is None or any(process.mark in name for name in names) for process in self.processes
        )

    def step(self) -> None:
        """Change something, and look at everything."""
        (verb,) = self.chance.choices((self.update, self.delete, self.overwrite), (4, 2, 1))
        for one in (verb, self.read):
            one()
            self.counts[one.__name__] += 1
        for stream in self.streams:
            stream.require_well()
        for process in self.processes:
            process.require_alive()
        self.most = max(self.most, self.deltas())
        if self.most > MOST_DELTAS:
            raise WrongError(f"{self.most} delta directories: they are not compacted, or not cleaned")
        now = time.monotonic()
        for reader in [one for one in self.held if one[2] <= now]:
            self.held.remove(reader)
            frame, rows, _ = reader
            if sorted(map(tuple, frame.collect())) != rows:
                raise WrongError("a DataFrame that was held reads other rows than before")

    def update(self) -> None:
        """Count some rows up; how many is known."""
        where, ids = self.model.choose(self.chance, self.streams, every=7)
        done = self.acid.table("t").update({"v": "v + 1"}, where)
        self.require(done.updated, len(ids), f"rows updated {where}")
        self.model.count_up(ids)

    def delete(self) -> None:
        """Delete some rows, many where there are too many."""
        every = 1 if self.model.size > MOST_ROWS else 13
        where, ids = self.model.choose(self.chance, self.streams, every=every)
        done = self.acid.table("t").delete(where)
        self.require(done.deleted, len(ids), f"rows deleted {where}")
        self.model.delete(ids)

    def overwrite(self) -> None:
        """Replace the only row of the other table, which nobody compacts."""
        self.counts["overwritten"] += 1
        self.acid.sql(f"INSERT OVERWRITE TABLE state SELECT {self.counts['overwritten']} AS n")

    def read(self) -> None:
        """Compare all rows with the model; keep the DataFrame for a while."""
        before = self.model.absorb(self.streams)
        frame = self.acid.table("t").scan(columns=("id", "v")).to_df()
        rows = sorted(map(tuple, frame.collect()))
        self.model.compare(rows, before, self.streams)
        if len(self.held) < HELD:
            self.held.append((frame, rows, time.monotonic() + self.chance.uniform(1, 8)))
        seen = [row[0] for row in self.acid.sql("SELECT n FROM state").collect()]
        self.require(
            seen, [self.counts["overwritten"]] if self.counts["overwritten"] else [], "rows of state"
        )

    def misfortune(self) -> None:
        """Kill a service when its time has come and it is at work, and start it again a little later."""
        now = time.monotonic()
        if self.start_at and now >= self.start_at:
            for process in self.processes:
                if process.child is None:
                    process.start()
                    self.counts["restarted"] += 1
            self.start_at, self.kill_at = 0.0, now + self.chance.uniform(15, 60)
        elif not self.start_at and now >= self.kill_at:
            jobs = self.acid.context.store.show_compactions()
            busy = [one for one in self.processes if one.has_job(jobs)]
            if busy or now > self.kill_at + 20:
                self.counts["killed at work"] += bool(busy)
                self.chance.choice(busy or self.processes).kill()
                self.start_at = now + self.chance.uniform(0, 3)

    def end(self) -> None:
        """Let writers and services end, clean, and look at what is left."""
        for stream in self.streams:
            stream.stop()
        self.until(self.both_are_there, "both services are there")
        for process in self.processes:
            process.stop()
        self.read()
        self.held.clear()
        store = self.acid.context.store
        self.until(self.tidied, "all jobs are done and cleaned")
        for name in ("t", "state"):
            table = self.acid.table(name)
            left = [
                f"{row.directory}: {row.state}"
                for row in table.inspect.deltas().collect()
                if row.state != "used"
            ]
            hidden = [str(path) for path in Path(table.definition.location).rglob(".*")]
            damage = table.inspect.check()
            self.require((left, hidden, damage), ([], [], ()), f"left over in {name}")
        self.require(store.show_locks(), (), "locks")
        failed = [job for job in store.show_compactions() if job.state == "failed"]
        self.require(failed, [], "failed compactions")
        self.read()

    def tidied(self) -> bool:
        """Be the services for one turn; tell whether nothing is left to do."""
        Services(self.acid).step()
        self.acid.clean()
        states = {job.state for job in self.acid.context.store.show_compactions()}
        return not states & {"initiated", "working", "ready for cleaning"}

    def deltas(self) -> int:
        """Count the delta directories that lie there, read or not."""
        root = Path(self.acid.table("t").definition.location)
        return sum(1 for path in root.glob("p=*/*delta_*"))

    def until(self, true: Any, what: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                raise WrongError(f"not in {PATIENCE:.0f} s: {what}")
            time.sleep(0.3)

    def require(self, found: object, expected: object, what: str) -> None:
        """Raise WrongError if something is not as expected."""
        if found != expected:
            raise WrongError(f"{what}: {found}, not {expected}")

    def report(self) -> str:
        """Say in a line what was done."""
        jobs = self.acid.context.store.show_compactions()
        done = {
            **{name: self.counts[name] for name in ("update", "delete", "overwrite", "read")},
            "commits of streams": sum(len(stream.batches) for stream in self.streams),
            "last compaction": max((job.id for job in jobs), default=0),
            "seconds": round(time.monotonic() - self.began),
            "services killed": sum(process.kills for process in self.processes),
            "of them at work": self.counts["killed at work"],
            "most deltas": self.most,
            "rows": self.model.size,
        }
        return ", ".join(f"{name}: {count}" for name, count in done.items())


def main(seconds: str, seed: str = "") -> int:
    """Run it."""
    store = os.environ["HIVEACID_STORE"]
    number = int(seed) if seed else random.SystemRandom().randrange(10**6)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-soak-")))
        warehouse = home / "wh"
        spark = stack.enter_context(local_session(SMALL_JVM))
        acid = stack.enter_context(
            hiveacid.connect(spark, warehouse=str(warehouse), store=store, settings=SETTINGS)
        )
        processes = [Process(n, store, warehouse) for n in (1, 2)]
        streams = [Stream(n, store, str(warehouse), SETTINGS, seed=number) for n in range(STREAMS)]
        soak = Soak(acid, streams, processes, random.Random(number), Model(STREAMS))  # noqa: S311 - a seed
        try:
            soak.run(float(seconds))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed
            print(f"FAILED (seed {number}): {type(error).__name__}: {error}")
            print(soak.report())
            for process in processes:
                print(process.said())
            return 1
        finally:
            for stream in streams:
                stream.over.set()
            for process in processes:
                process.kill()
        warned = Counter(text[:160] for process in processes for text in process.warnings())
        print(f"seed {number}: {soak.report()}")
        print(*(f"{count} x {text}" for text, count in warned.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

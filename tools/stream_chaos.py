"""A producer, a streaming query, a compactor and readers for minutes, with kill -9 at random points.

    python tools/stream_chaos.py SECONDS [--kind sink|append|merge] [--kills N] [--copies] [--seed N]

The producer drops files of events; the query (a process of its own, with a compactor beside it) writes them to a table;
the reader, which is no Spark and no part of hiveacid, looks at snapshots again and again. Each must be what the first k
files make, k never going back: every event exactly once, never a part of a batch. ``--copies``: now and then a second
copy of the query is started while the first one runs. Prints the delay from the end of writing a file to the first
snapshot that has it; exit 1 on any anomaly.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiveacid.core.model import TableName
from hiveacid.ports.transactions import Client
from hiveacid.stores.sql.store import SqlStore

TESTS = Path(__file__).resolve().parents[1] / "tests"
EVENTS, KEYS, EVERY = 10, 40, 0.4  # of a file, of a merged table, seconds between two files
NAME, CLIENT = TableName("default", "t"), Client("chaos", "here", "reader")
SCHEMA = "op STRING, at BIGINT, id BIGINT, v BIGINT"
LATEST = 300.0  # seconds that a query may take to catch up


def query(place: Path, kind: str) -> None:
    """Run the streaming query and a compactor, until killed or fenced."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the parent needs no Spark

    import hiveacid  # noqa: PLC0415

    builder = hiveacid.configure(SparkSession.builder.master("local[2]").appName("hiveacid chaos"))
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "spark"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    warehouse, settings = str(place / "wh"), {"hive.txn.timeout": "20s"}
    acid = hiveacid.connect(spark, warehouse=warehouse, settings=settings)
    acid.sql(
        "CREATE TABLE IF NOT EXISTS t (id BIGINT, v BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    feed = spark.readStream.schema(SCHEMA).json(str(place / "feed"))
    if kind != "merge":
        feed = feed.select("id", "v")
    writer = feed.writeStream.option("checkpointLocation", str(place / "check")).trigger(
        processingTime="1 second"
    )
    if kind == "sink":
        options = {"table": "t", "warehouse": warehouse, "query_name": "chaos"}
        running = writer.format("hiveacid").options(**options).start()
    else:
        keys: dict[str, Any] = {"merge_on": "id", "change_type": "op", "sequence_by": "at"}
        write = acid.table("t").stream_writer("chaos", **(keys if kind == "merge" else {}))
        running = writer.foreachBatch(write).start()
    threading.Thread(target=compact, args=(spark, warehouse, settings), daemon=True).start()
    running.awaitTermination()


def compact(spark: Any, warehouse: str, settings: dict[str, str]) -> None:
    """Compact and clean for ever, in a session of its own."""
    import hiveacid  # noqa: PLC0415

    acid = hiveacid.connect(spark, warehouse=warehouse, settings=settings)
    for kind in iter(lambda: random.choice(["minor", "minor", "major"]), ""):  # noqa: S311 - no secret
        time.sleep(4)
        try:
            acid.table("t").compact(kind)
            acid.clean()
        except hiveacid.HiveAcidError as error:
            print(f"compactor: {type(error).__name__}: {str(error)[:120]}", flush=True)


@dataclass
class Model:
    """What was produced: ``written[k]`` when file k was complete, ``states[k]`` what the first k files make."""

    kind: str
    dice: random.Random
    written: list[float] = field(default_factory=list)
    states: list[dict[int, int]] = field(default_factory=lambda: [{}])

    def produce(self, feed: Path) -> None:
        """Drop the next file; with kind merge, row -1 says how many there were."""
        number, state = len(self.written), dict(self.states[-1])
        events = []
        for one in range(EVENTS):
            at = number * EVENTS + one
            if self.kind != "merge":
                events.append({"op": "i", "at": at, "id": at, "v": number})
                state[at] = number
                continue
            key, op = self.dice.randrange(KEYS), self.dice.choice(["i", "u", "u", "d"])
            events.append({"op": op, "at": at, "id": key, "v": at})
            if op == "d":
                state.pop(key, None)
            else:
                state[key] = at
        if self.kind == "merge":
            events.append({"op": "u", "at": number, "id": -1, "v": number})
            state[-1] = number
        self.states.append(state)
        hidden = feed / f".{number:06}"
        hidden.write_text("\n".join(map(json.dumps, events)))
        hidden.rename(feed / f"{number:06}.json")
        self.written.append(time.monotonic())

    def files_in(self, rows: list[tuple[int, int]]) -> int | None:
        """Return how many files make exactly these rows, None if nothing does."""
        found = dict(rows)
        count = found.get(-1, -1) + 1 if self.kind == "merge" else len(rows) // EVENTS
        whole = len(found) == len(rows) and count < len(self.states) and found == self.states[count]
        return count if whole else None


def read(place: Path, store: SqlStore) -> list[tuple[int, int]]:
    """Return the rows of a snapshot that its transaction keeps from the cleaner."""
    from support.corpus.sort_merge_reader import read_table  # noqa: PLC0415 - of the tests

    (txn_id,) = store.open_txns(CLIENT)
    try:
        valid = store.valid_write_ids(store.take_snapshot(txn_id), [NAME])[NAME]
        for attempts_left in reversed(range(100)):
            try:
                found = read_table(place / "wh" / "t", valid.to_string())
                break
            except FileNotFoundError:
                # It also reads hidden directories and deltas that a minor compaction has merged, which the cleaner may
                # delete meanwhile. If a file were deleted that the snapshot needs, the next attempt would lack its rows.
                if not attempts_left:
                    raise
    finally:
        store.abort_txns([txn_id], "read")
    return [row[3] for rows in found.values() for row in rows]


@dataclass
class Chaos:
    """The parent."""

    place: Path
    model: Model
    dice: random.Random
    copies: bool
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)  # when the first snapshot with file k was there
    reads: int = 0

    def start(self) -> None:
        """Start the query, or a copy of it."""
        with (self.place / "log").open("ab") as log:
            command = [sys.executable, __file__, "0", "--query", str(self.place), "--kind", self.model.kind]
            self.running.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def kill_all(self) -> None:
        """Kill -9 every process of every copy."""
        for process in self.running:
            with suppress(ProcessLookupError):  # one that was fenced has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.running.clear()

    def strike(self) -> None:
        """Kill the query in the middle of whatever it does, or let a copy of it run beside it."""
        self.kills.append(time.monotonic())
        if not (self.copies and self.dice.random() < 0.5):  # noqa: PLR2004
            self.kill_all()
        self.start()

    def look(self, store: SqlStore) -> str | None:
        """Read a snapshot; return what is wrong with it."""
        rows = read(self.place, store)
        now, self.reads = time.monotonic(), self.reads + 1
        count = self.model.files_in(rows)
        if count is None or count < len(self.seen):
            return f"a snapshot of {len(rows)} rows is no state after {len(self.seen)} or more files: {sorted(rows)}"
        self.seen += [now] * (count - len(self.seen))
        return None

    def run(self, seconds: float, kills: int) -> str | None:
        """Produce, strike and look until the time is over and all has arrived; return what went wrong."""
        self.start()
        wait_for((self.place / "wh" / "t").exists, LATEST)
        store = SqlStore(f"sqlite:///{self.place}/wh/.hiveacid/store.db")
        begun = time.monotonic()
        strikes = sorted(
            begun + seconds * (n + self.dice.uniform(0.3, 0.9)) / max(kills, 1) for n in range(kills)
        )
        produced = 0.0
        while time.monotonic() < begun + seconds or strikes or len(self.seen) < len(self.model.written):
            now = time.monotonic()
            if now > begun + seconds + LATEST:
                return f"{len(self.model.written) - len(self.seen)} files never arrived"
            if now >= produced + EVERY and now < begun + seconds:
                self.model.produce(self.place / "feed")
                produced = now
            if strikes and now >= strikes[0]:
                del strikes[0]
                self.strike()
            if all(process.poll() is not None for process in self.running):
                self.start()  # of two copies both may end: Spark's own log takes one writer, too
            wrong = self.look(store)
            if wrong:
                return wrong
            time.sleep(0.05)
        store.close()
        return None

    def summary(self) -> str:
        """Say how much there was, and how late."""
        delays = [seen - written for seen, written in zip(self.seen, self.model.written, strict=True)]
        calm = [
            seen - written
            for seen, written in zip(self.seen, self.model.written, strict=True)
            if self._at_work(written)
            and bisect.bisect(self.kills, written) == bisect.bisect(self.kills, seen)
        ]
        return (
            f"{self.model.kind}: {len(self.model.written)} files, {len(self.kills)} strikes, {self.reads} snapshots: every "
            f"event once; delay in all {percentiles(delays)}; undisturbed {percentiles(calm)} ({len(calm)} files)"
        )

    def _at_work(self, moment: float) -> bool:
        """Tell whether the query had delivered something since it was last started."""
        struck = bisect.bisect(self.kills, moment)
        first = bisect.bisect(self.seen, self.kills[struck - 1] if struck else 0.0)
        return first < len(self.seen) and self.seen[first] < moment


def percentiles(values: list[float]) -> str:
    """Return the 50th and the 99th."""
    ordered = sorted(values)
    if not ordered:
        return "unknown"
    return f"p50 {ordered[len(ordered) // 2]:.1f} s, p99 {ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]:.1f} s"


def wait_for(happened: Callable[[], bool], seconds: float) -> None:
    """Wait until something is true, or raise."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError("the query does not start")
        time.sleep(0.1)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float)
    parser.add_argument("--kind", choices=["sink", "append", "merge"], default="sink")
    parser.add_argument("--kills", type=int, default=None, help="as a rule one in 20 seconds")
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--query", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.query:
        query(Path(chosen.query), chosen.kind)
        return 0
    sys.path.insert(0, str(TESTS))
    dice = random.Random(chosen.seed)  # noqa: S311 - no secret
    kills = round(chosen.seconds / 20) if chosen.kills is None else chosen.kills
    with tempfile.TemporaryDirectory(prefix="hiveacid-chaos-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        (place / "feed").mkdir()
        chaos = Chaos(place, Model(chosen.kind, dice), dice, chosen.copies)
        try:
            wrong = chaos.run(chosen.seconds, kills)
        finally:
            chaos.kill_all()
        if wrong:
            print(wrong, (place / "log").read_text()[-6000:], sep="\n")
            return 1
    print(chaos.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())

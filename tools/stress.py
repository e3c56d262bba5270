"""The long checks: one line each, exit 1 on any anomaly. ``make stress``, or ``make stress ARGS="--share 0.1"``.

Each check is a program of its own with a limit of time, three of them at a time (they wait more than they
work); the servers they need are started and removed here. To add one, add a line to ``CHECKS``. All of them
together take half an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from support.servers.databases import MariadbServer, MysqlServer, PostgresServer, Server

HISTORY = (
    "-m", "support.history", "--clients", "8", "--longest", "{seconds}", "--transactions",
)  # fmt: skip
SIMULATION = ("-m", "support.simulation", "--seeds")
CHAOS = ("tools/stream_chaos.py", "{count}", "--kind")
PYTEST = ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider")
SLOW_OPENINGS = ("tools/slow_openings.py", "{count}")
SERVERS: tuple[type[Server], ...] = (PostgresServer, MariadbServer, MysqlServer)


@dataclass(frozen=True)
class Check:
    """A check: arguments of Python, ``{count}`` how much of it to do (of the soak: seconds).

    A test reads the count from HIVEACID_TEST_COUNT. ``store``: what kind of store it needs; the URL of an empty one stands
    in the variable HIVEACID_STORE. ``caught``: a bug is planted, and the check has to find it.
    """

    name: str
    command: tuple[str, ...]
    count: int
    minutes: float
    store: str = ""
    caught: bool = False


CHECKS = (
    Check("history on PostgreSQL", (*HISTORY, "{count}"), 10_000, 14, store="PostgreSQL"),
    Check("another history on PostgreSQL", (*HISTORY, "{count}", "--seed", "1"), 10_000, 14, store="PostgreSQL"),
    Check("history on MariaDB", (*HISTORY, "{count}"), 2_000, 8, store="MariaDB"),
    Check("history on MySQL", (*HISTORY, "{count}"), 2_000, 8, store="MySQL"),
    Check("history on SQLite", (*HISTORY, "{count}"), 5_000, 10, store="SQLite"),
    Check("slow openings on PostgreSQL", SLOW_OPENINGS, 400, 3, store="PostgreSQL"),
    Check(
        "planted: a gap treated as committed", (*SLOW_OPENINGS, "blind"), 400, 3, store="PostgreSQL", caught=True
    ),
    Check(
        "planted: conflict check off", (*HISTORY, "{count}", "--bug", "conflict check off"), 300, 2,
        store="SQLite", caught=True,
    ),
    Check(
        "planted: snapshot taken late", (*HISTORY, "{count}", "--bug", "snapshot taken late"), 300, 2,
        store="SQLite", caught=True,
    ),
    Check("spoilt directories, 300 each", (*PYTEST, "tests/property/test_spoilt_directories.py"), 20, 8),
    Check("streaming query, sink", (*CHAOS, "sink"), 180, 8),
    Check("streaming query, merged, with copies", (*CHAOS, "merge", "--copies", "--seed", "1"), 120, 7),
    Check("soak: services that die", ("tools/soak.py", "{count}"), 300, 10, store="PostgreSQL"),
    Check(
        "drivers on s3a that are killed", (*PYTEST, "tests/crash/test_object_store_kill.py"), 20, 12,
        store="PostgreSQL",
    ),
    Check("race on s3a", (*PYTEST, "tests/spark/test_object_store.py", "-k", "race"), 5, 12),
    Check("deaths at each step on s3a", (*PYTEST, "tests/spark/test_object_store.py", "-k", "dies"), 1, 12),
    Check("random statements on one table", (*PYTEST, "tests/spark/test_random_history.py"), 24, 15),
    Check("random statements and queries", (*PYTEST, "tests/spark/test_random_interfaces.py"), 30, 40),
    Check("simulation", (*SIMULATION, "{count}", "--first", "1000"), 500, 6),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What came of a check."""

    check: Check
    word: str  # ok, FAILED, skipped
    seconds: float
    said: str

    def __str__(self) -> str:
        """Return one line."""
        first = self.said.strip().partition("\n")[0]
        return f"{self.word:<7} {self.check.name:<36} {self.seconds:>4.0f} s  {first}"


class Stores:
    """Stores for the checks: an SQLite file, or a database on a server that is started when it is needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[str, Server] = {}
        self._made = 0
        self._lock = threading.Lock()

    def why_not(self, kind: str) -> str | None:
        """Return why there is no such store here, or None."""
        return next((one.why_not() for one in SERVERS if one.name == kind), None)

    def empty(self, kind: str) -> str:
        """Return the URL of an empty store."""
        with self._lock:
            self._made += 1
            if kind == "SQLite":
                return f"sqlite:///{self._directory}/store{self._made}.db"
            if kind not in self._servers:
                self._servers[kind] = next(one for one in SERVERS if one.name == kind)()
                self._servers[kind].start()
            return self._servers[kind].make_database(f"stress{self._made}")

    def remove(self) -> None:
        """Stop the servers."""
        for server in self._servers.values():
            server.remove()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="do so much of each check: 0.1 is a tenth")
    parser.add_argument("--only", default="", help="only checks whose name holds this")
    parser.add_argument("--jobs", type=int, default=3, help="so many checks at a time")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = [check for check in CHECKS if chosen.only in check.name]
    with tempfile.TemporaryDirectory(prefix="hiveacid-stress-") as directory:
        stores, running = Stores(Path(directory)), Running()
        with ThreadPoolExecutor(chosen.jobs) as pool:
            try:
                results = list(pool.map(lambda check: run(check, stores, chosen.share, running), wanted))
            finally:
                running.end_all()
                stores.remove()
    print("\n== result", *results, sep="\n")
    return 1 if any(one.word == "FAILED" for one in results) or not results else 0


class Running:
    """Groups of processes that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._over = False

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a program with a group of processes of its own."""
        with self._lock:
            if self._over:
                raise RuntimeError("no check begins any more")
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
            self._processes.add(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """Kill what is left of a group."""
        with self._lock:
            self._processes.discard(process)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        process.wait()

    def end_all(self) -> None:
        """Kill all groups, and let none begin."""
        with self._lock:
            self._over, left = True, tuple(self._processes)
        for process in left:
            self.end(process)


def run(check: Check, stores: Stores, share: float, running: Running) -> Result:
    """Run one check, say at once what came of it, and leave none of its processes behind."""
    result = _run(check, stores, share, running)
    print(f"== {check.name}\n{result.said.strip()}", flush=True)
    return result


def _run(check: Check, stores: Stores, share: float, running: Running) -> Result:
    missing = stores.why_not(check.store)
    if missing is not None:
        return Result(check, "skipped", 0, missing)
    words = {
        "count": str(check.count if check.caught else max(1, round(check.count * share))),
        "seconds": str(60 * check.minutes - 20),
    }
    command = [sys.executable, *(part.format(**words) for part in check.command)]
    store = stores.empty(check.store) if check.store else ""
    environment = {
        **os.environ,
        "HIVEACID_TEST_ALL": "stress",
        "HIVEACID_TEST_COUNT": words["count"],
        "HIVEACID_STORE": store,
    }
    began = time.monotonic()
    process = running.start(command, environment)
    try:
        said, complaints = process.communicate(timeout=60 * check.minutes)
    except subprocess.TimeoutExpired:
        return Result(
            check, "FAILED", time.monotonic() - began, f"takes longer than {check.minutes:g} minutes"
        )
    finally:
        running.end(process)
    expected = 1 if check.caught else 0
    failed = process.returncode != expected or (check.caught and "Traceback" in complaints)
    if failed:
        said = f"{said}\n{complaints}"
    return Result(check, "FAILED" if failed else "ok", time.monotonic() - began, said)


if __name__ == "__main__":
    sys.exit(main())

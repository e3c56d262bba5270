"""Hive and two processes of ours write, update, merge and compact one table at once; one of ours is killed -9.

With Hive 4 each of the three has a worker on the metastore's queue, and who is first compacts; Hive 3 does it itself.

HIVEACID_TEST_SECONDS (240) says how long on each version, HIVEACID_TEST_SEED (1) what each writer does. Numbers of
statements, conflicts and kills are logged: ARGS="-o log_cli=true --log-cli-level=INFO" shows them.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive, HiveError
from hive_compaction import Compactions
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers
from hive_writers import CREATE, FILL, Account, Task, ended, next_statement, settings, worker

import hiveacid
from support.exhaustive import SECONDS as GIVEN_SECONDS
from support.exhaustive import steady_seed
from support.servers.databases import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

SECONDS = GIVEN_SECONDS or 240.0
SEED = steady_seed()
TIME_OUT = 10  # seconds, of transactions: so long what a killed one locked stays locked
_LONG = 120  # seconds from which on Hive writes with locks that exclude writers, too
_OURS, _SIDE_BY_SIDE, _EXCLUDING, _VICTIM = 1, 2, 3, 50  # writers, as the numbers of their statements say
_GONE = re.compile("No such file|FileNotFound|does not exist|FAILED_READ_FILE|were overwritten")
logger = logging.getLogger(__name__)


@pytest.fixture(scope="module", params=VERSIONS)
def quick_hive(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[HiveServers]:
    """Return servers that end a silent transaction soon."""
    if not is_installed(request.param) or java_home() is None:
        pytest.skip(f"Hive {request.param} is not installed: make interop-hive fetches it")
    cleans = request.param.startswith(
        "3."
    )  # the cleaner of 4.0.1 loses rows of Hive's writers (docs/metastore.md)
    made = HiveServers(request.param, postgres_server, timeout=TIME_OUT, cleans=cleans)  # type: ignore[arg-type]
    try:
        made.start_metastore()
        made.start_hive_server()
        yield made
    finally:
        made.remove()


class Writers:
    """Threads that write until :meth:`stop`, and the account of all of them."""

    def __init__(self) -> None:
        self.account = Account()
        self.ends: Counter[tuple[int, str]] = Counter()
        self.trouble: list[BaseException] = []
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Repeat ``work``."""

        def loop() -> None:
            try:
                while not self._end.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001 - told to the test
                self.trouble.append(error)

        self._threads.append(threading.Thread(target=loop))
        self._threads[-1].start()

    def writer(self, sql: Callable[[str], object], seed: int) -> None:
        draw, number = Random(seed), seed * 1000

        def work() -> None:
            nonlocal number
            number += 1
            task = next_statement(draw, number)
            self.told("try", task)
            self.told(ended(lambda: sql(task.text)), task)

        self.start(work)

    def told(self, how: str, task: Task) -> None:
        """Note that a statement begins (try), or how it ended."""
        with self._lock:
            self.ends[min(task.number // 1000 % 100, _VICTIM), how] += 1
            if how == "try":
                self.account.begin(task)
            else:
                self.account.end(task.number, how)

    def have_all_done(self) -> bool:
        """Tell whether we and Hive both changed something by now."""
        with self._lock:
            return {who for who, how in self.ends if how == "done"} >= {_OURS, _SIDE_BY_SIDE}

    def stop(self) -> None:
        self._end.set()
        for one in self._threads:
            one.join(600)
            assert not one.is_alive()
        assert self.trouble == []


class Victim:
    """A process of ours, which is killed."""

    def __init__(self, writers: Writers, url: str, scratch: Path, seed: int) -> None:
        self._writers = writers
        command = [
            sys.executable,
            str(Path(__file__).with_name("hive_victim.py")),
            url,
            str(scratch),
            str(seed),
            str(TIME_OUT),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.pid = self._process.pid
        self.number = 0  # of its latest statement
        self.ready = time.monotonic() + 2 * TIME_OUT  # the others are to get on between two kills
        self.began = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def wait(self, draw: Random) -> None:
        """Wait until it is in the middle of a statement; of the second one, if the first ends soon."""
        self.began.wait(30)
        while time.monotonic() < self.ready or self.number not in self._writers.account.open:
            assert self._process.poll() is None
            time.sleep(0.05)
        time.sleep(draw.uniform(0.2, 3.0))

    def kill(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait(30)
        self._listener.join(30)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            how, number, *what = line.split()
            task = Task(int(number), " ".join(what), "")
            self._writers.told(how, task)
            self.number = task.number
            if how != "try":
                self.began.set()


def compactor(session: Hive, queue: Compactions, compacted: Counter[tuple[str, str]]) -> Callable[[], None]:
    """Return what asks for a compaction and waits for it; ``compacted`` counts who did which."""
    kinds = iter(range(10**6))

    def work() -> None:
        compacted.update(queue.forget())
        try:
            session.sql(f"ALTER TABLE shared COMPACT '{'minor' if next(kinds) % 2 else 'major'}'")
        except HiveError as error:
            if "compact" not in str(error).lower():
                raise
        queue.settle()  # one of 3.1.3 may fail where its cleaner deletes what it lists
        time.sleep(0.5)

    return work


def undisturbed(read: Callable[[], list[Any]]) -> list[Any]:
    """Read once more where a cleaner took a directory away in the middle of the listing, which is a loud error.

    Hive 3.1.3's own SELECT ends so, too, as long as its cleaner is at work on the last compaction.
    """
    deadline = time.monotonic() + 30 * TIME_OUT
    while True:
        try:
            return read()
        except Exception as error:
            if time.monotonic() > deadline or not _GONE.search(str(error)):
                raise
            logger.info("read once more: %s", str(error)[:300])
            time.sleep(1)


def left_open(acid: AcidSession) -> list[object]:
    acid.context.read_leases.close()
    store = acid.context.store
    return [row for row in store.show_transactions() if row.state == "OPEN"] + list(store.show_locks())


def test_nothing_is_lost_or_doubled(quick_hive: HiveServers, spark: SparkSession, tmp_path: Path) -> None:
    acid = hiveacid.connect(spark, store=quick_hive.url, settings=settings(TIME_OUT))
    queue, compacted = Compactions(quick_hive), Counter[tuple[str, str]]()
    ours_at_work: AbstractContextManager[object] = nullcontext() if quick_hive.is_hive3 else worker(acid)
    hives = [Hive(quick_hive.hs2_port) for _ in range(4)]
    acid.sql(CREATE)
    acid.sql(FILL)
    writers = Writers()
    try:
        writers.writer(acid.sql, SEED * 100 + _OURS)
        if not quick_hive.is_hive3:
            hives[0].sql("SET hive.txn.xlock.write=false")
        writers.writer(hives[0].sql, SEED * 100 + _SIDE_BY_SIDE)
        if SECONDS >= _LONG:
            writers.writer(hives[1].sql, SEED * 100 + _EXCLUDING)
        writers.start(compactor(hives[2], queue, compacted))
        with ours_at_work:
            kills = _kills(writers, quick_hive.url, queue, tmp_path)
    finally:
        writers.stop()
    compacted.update(queue.forget())
    query = "SELECT id, v FROM shared"
    ours = sorted(tuple(row) for row in undisturbed(lambda: acid.sql(query).collect()))
    numbers = dict(writers.ends), queue.ended(), dict(compacted), queue.died
    logger.info(
        "Hive %s: %d kills, %d rows, statements %s, compactions %s, cleaned or forgotten %s, killed in the middle %d",
        quick_hive.version,
        kills,
        len(ours),
        *numbers,
    )
    assert ours == sorted(undisturbed(lambda: hives[3].sql(query)))
    writers.account.check(ours)
    assert writers.have_all_done()
    if SECONDS >= _LONG and not quick_hive.is_hive3:
        assert {who for who, _ in compacted} == {"we", "Hive"}
    deadline = time.monotonic() + 30 * TIME_OUT
    while left := left_open(acid):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert sorted(tuple(row) for row in acid.sql(query).collect()) == ours
    acid.close()


def _kills(writers: Writers, url: str, queue: Compactions, scratch: Path) -> int:
    """Start victims and kill them as long as the test lasts; return how many there were."""
    draw, kills = Random(SEED), 0
    deadline = time.monotonic() + SECONDS
    late = deadline + max(120, SECONDS)
    while time.monotonic() < (deadline if writers.have_all_done() else late):
        victim = Victim(writers, url, scratch / str(kills), SEED * 100 + _VICTIM + kills % 50)
        try:
            victim.wait(draw)
        finally:
            victim.kill()
            queue.bury(victim.pid)
        kills += 1
    return kills

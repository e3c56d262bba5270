"""Drivers on ``s3a://`` that die by kill -9 at random moments, again and again, several statements under way at a time.

A child runs INSERT, UPDATE, MERGE, INSERT OVERWRITE and compactions on two tables or three. This process holds the bucket
(moto's server), reads what the child writes, and kills it after a random number of its changes to one table's
directory. The store's commits say which state a snapshot must be, and every state is known beforehand
(`object_store_statements.Story`).

    HIVEACID_TEST_COUNT   how often (2); more than that in ``make stress``, on the store that HIVEACID_STORE names
    HIVEACID_TEST_SEED    which statements and moments (on CI 1, elsewhere others each time)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import TableName
from hiveacid.errors import CompactionRefusedError
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from support.crash import object_store_victim as s3_kill_victim
from support.crash.object_store_statements import COMPACTIONS, TABLES, Rows, Story, kind_of, run
from support.exhaustive import COUNT, seed
from support.servers.absent import skip_without
from support.servers.object_store import S3Server, reached_by, s3_server, why_no_s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

pytestmark = pytest.mark.exhaustive("test_kill.py kills drivers; spark/test_object_store.py has deaths on S3")


KILLS = COUNT or 2
CHOSEN = tuple(TABLES)[: 3 if KILLS > 2 else 2]
_MOST_CHANGES = 30  # of one table's directory, by whoever is killed; two statements or so
_PATIENCE = 300.0  # seconds


@dataclass
class Victim:
    """A child process and what it said."""

    process: subprocess.Popen[str]
    ear: threading.Thread = field(init=False)
    said: list[list[str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def started(cls, warehouse: str, seed: int, store: str, settings: Mapping[str, str]) -> Victim:
        process = subprocess.Popen(
            [sys.executable, s3_kill_victim.__file__, warehouse, str(seed), json.dumps(settings)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "HIVEACID_STORE": store,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return cls(process)

    def __post_init__(self) -> None:
        """Listen to it."""
        self.ear = threading.Thread(target=self._listen, daemon=True)
        self.ear.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith('["'):
                self.said.append(json.loads(line))
            else:
                self.complaints.append(line)

    def require_health(self) -> None:
        """Fail where the child failed by itself."""
        failed = [words for words in self.said if words[0] == "failed"]
        ended = self.process.poll() not in (None, -signal.SIGKILL)
        assert not failed, "\n".join(failed[0])
        assert not ended, "".join(self.complaints[-40:])

    def go(self, numbers: Mapping[str, int]) -> None:
        """Let it begin as soon as it is ready."""
        deadline = time.monotonic() + _PATIENCE
        while ["ready"] not in self.said:
            self.require_health()
            assert time.monotonic() < deadline, "".join(self.complaints[-40:])
            time.sleep(0.02)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(numbers)}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill -9 Python and its JVM, and hear what it had said."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_PATIENCE)
        self.ear.join(_PATIENCE)

    def done(self, table: str) -> int:
        """Return how many commits of rows it has reported."""
        ended = (words for words in self.said if words[0] == "end" and words[1] == table)
        return sum(words[2] not in COMPACTIONS for words in ended)

    def under_way(self, table: str) -> str | None:
        """Return which statement was begun and not reported."""
        last = [words for words in self.said if words[1:2] == [table]][-1:]
        return last[0][2] if last and last[0][0] == "begin" else None


@dataclass
class Scene:
    """The parent: its own session, which reads and at last writes."""

    acid: AcidSession
    server: S3Server
    store: str
    seed: int
    stories: dict[str, Story] = field(init=False)
    commits: dict[str, int] = field(default_factory=dict)  # of each table, known for sure
    deaths: Counter[str] = field(default_factory=Counter)
    reads: int = 0

    def __post_init__(self) -> None:
        """Make the tables, with one insert each."""
        self.stories = {table: Story(self.seed, table) for table in CHOSEN}
        for table in CHOSEN:
            self.acid.sql(f"CREATE TABLE {table} {TABLES[table]}")
            self.write(table)

    def victim(self) -> Victim:
        return Victim.started(self.acid.context.warehouse, self.seed, self.store, self.server.settings)

    def committed(self, table: str) -> int:
        """Return how many statements have committed rows, as the store says."""
        known = self.acid.context.store.commits(TableName("default", table))
        return sum(one.write_id > 0 for one in known)

    def look(self, table: str) -> int:
        """Read a table: it must be as some commit left it that was the last one meanwhile; return the last one."""
        low = self.committed(table)
        frame = self.acid.sql(f"SELECT id, v, p FROM {table}")
        found: Rows = sorted((row["id"], row["v"], row["p"]) for row in frame.collect())
        high = self.committed(table)
        expected = [self.stories[table].after(commits) for commits in range(low, high + 1)]
        assert found in expected, f"{table} after {low} to {high} commits"
        self.reads += 1
        return high

    def write(self, table: str) -> None:
        """Run the next statements of a table here, up to one that commits rows."""
        story, before = self.stories[table], self.commits.get(table, 0)
        for number in range(story.next_number(before), story.next_number(before + 1)):
            run(self.acid, kind_of(self.seed, table, number), table, number)
        self.commits[table] = self.look(table)
        assert self.commits[table] == before + 1

    def kill_once(self, victim: Victim, dice: Random) -> None:
        """Let a child work, read meanwhile, kill it, and see what it left."""
        self.server.counted()
        victim.go({table: self.stories[table].next_number(self.commits[table]) for table in CHOSEN})
        struck, changes = dice.choice(CHOSEN), dice.randint(1, _MOST_CHANGES)
        place = f"{self.acid.context.warehouse.partition('://')[2]}/{struck}/"
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self.read_until, over)
            try:
                deadline = time.monotonic() + _PATIENCE
                while self.server.changes_below(place) < changes and time.monotonic() < deadline:
                    victim.require_health()
                    time.sleep(0.01)
                time.sleep(dice.uniform(0, 0.2))
                victim.require_health()
                victim.kill()
            finally:
                over.set()
            reading.result()
        for table in CHOSEN:
            self.settle(table, victim)

    def read_until(self, over: threading.Event) -> None:
        """Read one table after the other."""
        while True:
            for table in CHOSEN:
                if over.wait(1.5):
                    return
                self.look(table)

    def settle(self, table: str, victim: Victim) -> None:
        """Require that all that was reported is there, of what was not reported all or nothing."""
        reported = self.commits[table] + victim.done(table)
        kind = victim.under_way(table)
        now = self.look(table)
        most = reported + (kind is not None and kind not in COMPACTIONS)
        assert reported <= now <= most, f"{table}: {reported} statements were done, {now} are there"
        self.commits[table] = now
        if kind is not None:
            self.deaths[f"{kind}, {'committed' if now > reported else 'not committed'}"] += 1

    def go_on(self) -> None:
        """Write, compact and clean behind the dead: nothing of theirs is in the way, nothing stays."""
        for table in CHOSEN:
            self.write(table)
        with suppress(CompactionRefusedError):
            self.acid.table("parts").compact("major")
        for table in CHOSEN:
            deadline = time.monotonic() + _PATIENCE
            while left := self.leftovers(table):
                assert time.monotonic() < deadline, left
                time.sleep(0.5)
                release_unused_plans(self.acid.context.env, self.acid.context.read_leases.sweep)
                self.acid.clean()
            assert self.look(table) == self.commits[table]

    def leftovers(self, name: str) -> set[str]:
        """Return the directories of a table that nobody knows: neither read, nor replaced by a later write."""
        table = self.acid.table(name)
        known = {
            f"{row.partition}/{row.directory}" if row.partition else row.directory
            for row in table.inspect.deltas().collect()
            if row.state in ("used", "obsolete")
        }
        depth = 2 if table.definition.partition_columns else 1
        found = self.acid.context.fs.list_tree(table.definition.location)
        parts = [entry.path.split("/") for entry in found if not entry.is_dir]
        return {"/".join(part[: 1 if part[0].startswith(".") else depth]) for part in parts} - known


def test_what_drivers_leave_that_are_killed_at_any_moment(spark: SparkSession, tmp_path: Path) -> None:
    import hiveacid  # noqa: PLC0415

    skip_without(why_no_s3a())
    start = seed()
    store = f"sqlite:///{tmp_path}/store.db"
    if COUNT:
        store = os.environ.get("HIVEACID_STORE") or store
    dice = Random(start)
    victims: list[Victim] = []
    with s3_server() as server, reached_by(spark, server):
        bucket = server.make_bucket(f"kill-{server.endpoint.rpartition(':')[2]}")
        warehouse, settings = f"{bucket}/wh", s3_kill_victim.TIMEOUT
        with hiveacid.connect(spark, warehouse=warehouse, store=store, settings=settings) as acid:
            try:
                victims.append(Victim.started(warehouse, start, store, server.settings))
                scene = Scene(acid, server, store, start)
                for kill in range(KILLS):
                    if kill + 1 < KILLS:
                        victims.append(scene.victim())
                    scene.kill_once(victims[kill], dice)
                scene.go_on()
            finally:
                for victim in victims:
                    victim.kill()
    found = ", ".join(f"{count} x {what}" for what, count in sorted(scene.deaths.items()))
    print(f"seed {start}: {KILLS} kills, {scene.reads} snapshots; died in: {found}")  # noqa: T201
    assert [victim.process.returncode for victim in victims] == [-signal.SIGKILL] * KILLS
    assert scene.deaths
    assert scene.reads > KILLS

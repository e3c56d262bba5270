"""A driver that dies at any named point between begin and commit: the table is as before or as after.

Most points are met by a simulated death (``support.crash.faults``): from there on the dead session can
reach neither disk nor store. Its store's clock runs an hour late, so that to everybody else it has been silent
for long: whoever waits for its locks ends its transactions. `test_kill.py` kills real processes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import TransactionAbortedError
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from hiveacid.stores.sql.store import SqlStore
from support.crash import statements as st
from support.crash.faults import Faults, Moment, Pause, Point, SimulatedCrash, crash, faulty
from support.exhaustive import STRESS, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

pytestmark = pytest.mark.usefixtures("without_heartbeats")

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
FIRST, LAST = 1, -1

# name -> verb, which of its calls, before or after it
NAMED = {
    "not begun": ("store.begin_txn", LAST, BEFORE),
    "begun": ("store.begin_txn", LAST, AFTER),
    "staged": ("fs.replace_tail", FIRST, BEFORE),
    "first footer": ("fs.replace_tail", FIRST, AFTER),
    "last footer": ("fs.replace_tail", LAST, AFTER),
    "first file": ("fs.move_file", FIRST, AFTER),
    "last file": ("fs.move_file", LAST, AFTER),
    "version file": ("fs.link_file", FIRST, AFTER),
    "staging removed": ("fs.delete_tree", LAST, AFTER),
    "before commit": ("store.commit_txn", LAST, BEFORE),
    "after commit": ("store.commit_txn", LAST, AFTER),
    # A compaction's own commit comes first; readers whose frames are gone may be ended behind it.
    "before compacted": ("store.commit_txn", FIRST, BEFORE),
    "compacted": ("store.commit_txn", FIRST, AFTER),
    "enqueued": ("store.enqueue_compaction", FIRST, AFTER),
    "claimed": ("store.claim_compaction", FIRST, AFTER),
    "started": ("store.start_compaction", FIRST, AFTER),
}
BEGIN = ("not begun", "begun")
END = ("last file", "version file", "staging removed", "before commit", "after commit")
_PATIENCE = 300.0  # seconds
WRITING = ("staged", "first footer", "last footer", "first file", *END)


class Late:
    """A clock that is an hour late."""

    def __init__(self, session: AcidSession) -> None:
        self._clock = session.context.clock

    def now(self) -> int:
        return self._clock.now() - 3_600_000

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@dataclass
class Scene:
    """One table, what it must hold, and sessions that are let die on it."""

    acid: AcidSession
    store: SqlStore
    name: str
    rows: st.Rows
    turns: Iterator[int] = field(default_factory=count)

    def victim(self, faults: Faults) -> AcidSession:
        return faulty(self.acid, faults, self.store)

    def points(self, statement: st.Statement, names: tuple[str, ...]) -> dict[str, Point]:
        """Run the statement once, alive, and find its points."""
        faults = Faults()
        statement.run(self.victim(faults), self.name)
        self.rows = statement.result(self.rows)
        counts = Counter(faults.calls)
        if STRESS:
            every = [Point(verb, n, BEFORE) for verb, calls in counts.items() for n in range(1, calls + 1)]
            return {str(point): point for point in every}
        return {
            name: Point(verb, which if which == FIRST else counts[verb], moment)
            for name, (verb, which, moment) in ((name, NAMED[name]) for name in sample(names, 2))
        }

    def die_at(self, statement: st.Statement, name: str, point: Point) -> None:
        """Let a session die, check what is left, and go on writing."""
        faults = Faults()
        faults.at(point.verb, point.nth, point.moment, crash)
        with pytest.raises(SimulatedCrash):
            statement.run(self.victim(faults), self.name)
        assert faults.struck == [point], name
        assert faults.dead
        if point.verb == "store.commit_txn" and point.moment is AFTER:
            self.rows = statement.result(self.rows)
        turn = next(self.turns)
        if turn % 2:
            assert st.rows(self.acid, self.name) == self.rows, f"died at: {name}"
        self.write(turn)
        if not turn % 2:
            assert st.rows(self.acid, self.name) == self.rows, f"died at: {name}"

    def write(self, turn: int) -> None:
        """Be the next writer: one that takes a shared lock, then one that has to end the dead one's."""
        if turn % 2:
            self.acid.sql(f"UPDATE {self.name} SET v = '{turn}' WHERE id = 1")
            self.rows = sorted((i, str(turn) if i == 1 else v, p) for i, v, p in self.rows)
        else:
            new = (10_000 + turn, "next", 1)
            self.acid.sql(f"INSERT INTO {self.name} VALUES {new}")
            self.rows = sorted([*self.rows, new])

    def require_no_leftovers(self) -> None:
        """Clean; every directory on disk is then one that is or was read (by whom overwrote it, or compacted)."""
        self.acid.clean()
        assert st.rows(self.acid, self.name) == self.rows
        assert not st.leftovers(self.acid, self.name)


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("crash")))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def late_store(warehouse: AcidSession) -> Iterator[SqlStore]:
    """Return the store as sessions know it that have not been heard of for an hour."""
    url = f"sqlite:///{warehouse.context.warehouse}/.hiveacid/store.db"
    store = SqlStore(url, clock=Late(warehouse))
    yield store
    store.close()


@pytest.fixture
def scene(warehouse: AcidSession, late_store: SqlStore, request: pytest.FixtureRequest) -> Iterator[Scene]:
    name = "t_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    st.create(warehouse, name)
    yield Scene(warehouse, late_store, name, list(st.FIRST))
    warehouse.sql(f"DROP TABLE {name}")


@pytest.mark.exhaustive("MERGE updates as well", cases=("update",))
@pytest.mark.exhaustive("INSERT and MERGE stay", cases=("overwrite", "transaction"))
@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("insert", BEGIN + WRITING),
        ("update", ("begun", "first footer", *END[2:])),
        ("merge", WRITING),
        ("overwrite", ("staged", "first file", *END)),
        ("transaction", ("first file", *END)),
    ],
)
def test_the_statement_is_done_or_never_was(scene: Scene, statement: str, names: tuple[str, ...]) -> None:
    dying = st.STATEMENTS[statement]
    for name, point in scene.points(dying, names).items():
        scene.die_at(dying, name, point)
    scene.require_no_leftovers()


@pytest.mark.exhaustive("another case of the same test stays", cases=("minor",))
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("minor", ("enqueued", "started", "first file", "compacted")),
        ("major", ("claimed", "staged", "version file", "before compacted")),
    ],
)
def test_a_compaction_is_done_or_never_was(scene: Scene, kind: str, names: tuple[str, ...]) -> None:
    """The next one takes over the job that the dead one left in the queue."""
    dying = st.STATEMENTS[kind]
    for turn in (0, 2):
        scene.write(turn)
    points = scene.points(dying, names)
    scene.write(4)
    for name, point in points.items():
        scene.write(6)
        scene.die_at(dying, name, point)  # and a write follows, so that there is something left to compact
        dying.run(scene.acid, scene.name)
        assert st.rows(scene.acid, scene.name) == scene.rows, f"died at: {name}"
    scene.require_no_leftovers()


def test_a_cleaner_that_dies_leaves_the_rest_to_the_next(scene: Scene) -> None:
    cleaning = st.STATEMENTS["clean"]
    reader = scene.acid.table(scene.name).scan().to_df()  # holds the cleaner of the compactions back
    for turn in range(4):
        scene.write(turn)
    scene.acid.table(scene.name).compact("major")
    del reader
    context = scene.acid.context
    for _ in range(20):  # the JVM collects its garbage when it likes
        release_unused_plans(context.env, context.read_leases.sweep)
        if all(row.state != "OPEN" for row in context.store.show_transactions()):
            break
    deaths = 0
    while True:
        faults = Faults()
        faults.at("fs.delete_listed", 1 + deaths % 2, AFTER if deaths % 2 else BEFORE, crash)
        try:
            cleaning.run(scene.victim(faults), scene.name)
        except SimulatedCrash:
            deaths += 1
            assert st.rows(scene.acid, scene.name) == scene.rows
            scene.acid.context.store.abort_timed_out()  # the dead one kept others from the table
        else:
            break
        if deaths > 20:
            pytest.fail("the cleaner makes no progress")
    assert deaths >= 3
    scene.require_no_leftovers()


def test_rows_of_a_dead_writer_never_come_back(scene: Scene) -> None:
    """Not even in a partition that only it knew, once its write id is forgotten."""
    faults = Faults()
    faults.at("store.commit_txn", 1, BEFORE, crash)
    with pytest.raises(SimulatedCrash):
        scene.victim(faults).sql(f"INSERT INTO {scene.name} VALUES (1, 'dead', 1), (2, 'dead', 77)")
    root = Path(scene.acid.table(scene.name).definition.location)
    assert list((root / "p=77").glob("delta_*/bucket_*"))
    scene.acid.context.store.abort_timed_out()
    scene.write(0)
    scene.acid.table(scene.name).compact("major")
    scene.acid.clean()
    scene.acid.clean()
    scene.acid.sql(f"INSERT INTO {scene.name} VALUES (3, 'alive', 77)")
    assert st.rows(scene.acid, scene.name) == sorted([*scene.rows, (3, "alive", 77)])


@pytest.mark.exhaustive("the latest moment stays", cases=("staged", "first"))
@pytest.mark.parametrize("point", ["staged", "first file", "before commit"])
def test_a_writer_that_wakes_up_too_late_changes_nothing(scene: Scene, point: str) -> None:
    """It slept past its time-out: others have taken its locks and cleaned up after it."""
    verb, _, moment = NAMED[point]
    faults, sleep = Faults(), Pause()
    faults.at(verb, 1, moment, sleep)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            st.update(scene.victim(faults), scene.name)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test wants to see it
            raised.append(error)

    sleeper = threading.Thread(target=run)
    sleeper.start()
    assert sleep.reached.wait(_PATIENCE)
    scene.write(1)
    scene.acid.table(scene.name).compact("major")
    scene.acid.clean()
    sleep.go.set()
    sleeper.join(_PATIENCE)
    assert [type(error) for error in raised] == [TransactionAbortedError]
    assert st.rows(scene.acid, scene.name) == scene.rows
    scene.write(2)
    scene.require_no_leftovers()

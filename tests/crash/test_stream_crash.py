"""A streaming query that dies at named points of a batch, and begins it again: every batch is there once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.stores.sql.store import SqlStore
from support.crash import statements as st
from support.crash.faults import Faults, Moment, Point, SimulatedCrash, crash, faulty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.table.write.foreach_batch_writer import StreamWriter

pytestmark = pytest.mark.usefixtures("without_heartbeats")

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
ROOT = Path(__file__).resolve().parents[2]

# verb, whether its last call (else its first), moment
POINTS = {
    "append": (
        ("store.register_stream", False, AFTER),
        ("fs.move_file", False, AFTER),
        ("store.commit_txn", True, BEFORE),
        ("store.commit_txn", True, AFTER),
    ),
    "merge": (
        ("fs.move_file", True, AFTER),
        ("store.commit_txn", True, BEFORE),
        ("store.commit_txn", True, AFTER),
    ),
}


class Late:
    """A clock that is an hour late: who dies with it has been silent for long, and is waited for by nobody."""

    def __init__(self, acid: AcidSession) -> None:
        self._clock = acid.context.clock

    def now(self) -> int:
        return self._clock.now() - 3_600_000

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@pytest.fixture
def late_store(acid: AcidSession) -> Iterator[SqlStore]:
    store = SqlStore(f"sqlite:///{acid.context.warehouse}/.hiveacid/store.db", clock=Late(acid))
    yield store
    store.close()


def writer_of(acid: AcidSession, kind: str) -> StreamWriter:
    options: dict[str, Any] = {} if kind == "append" else {"merge_on": "id", "change_type": "op"}
    return acid.table("t").stream_writer("q", checkpoint="c", **options)


def batch(acid: AcidSession, kind: str, number: int) -> DataFrame:
    """Return new rows, or: a row that moves to another partition, one that goes, a new one."""
    spark = acid.context.env.spark
    if kind == "append":
        return spark.createDataFrame(
            [(100 + number, "x", 1), (200 + number, "x", 2)], "id INT, v STRING, p INT"
        )
    changes = [
        ("u", 1, f"v{number}", number % 3),
        ("d", 100 + number - 1, None, None),
        ("i", 100 + number, "new", 1),
    ]
    return spark.createDataFrame(changes, "op STRING, id INT, v STRING, p INT")


def after(rows: st.Rows, kind: str, number: int) -> st.Rows:
    """Say what a batch does."""
    if kind == "append":
        return sorted([*rows, (100 + number, "x", 1), (200 + number, "x", 2)])
    kept = [row for row in rows if row[0] not in (1, 100 + number - 1)]
    return sorted([*kept, (1, f"v{number}", number % 3), (100 + number, "new", 1)])


@pytest.mark.exhaustive("another case of the same test stays", cases=("merge",))
@pytest.mark.parametrize("kind", POINTS)
def test_a_batch_that_died_is_written_once(acid: AcidSession, late_store: SqlStore, kind: str) -> None:
    st.create(acid, "t")
    alive = Faults()
    writer_of(faulty(acid, alive), kind)(batch(acid, kind, 0), 0)
    rows, counts = after(list(st.FIRST), kind, 0), Counter(alive.calls)
    assert st.rows(acid, "t") == rows
    for number, (verb, last, moment) in enumerate(POINTS[kind], 1):
        point, faults = Point(verb, counts[verb] if last else 1, moment), Faults()
        faults.at(point.verb, point.nth, point.moment, crash)
        with pytest.raises(SimulatedCrash):
            writer_of(faulty(acid, faults, late_store), kind)(batch(acid, kind, number), number)
        assert faults.struck == [point]
        done = after(rows, kind, number)
        if number % 2:
            assert st.rows(acid, "t") == (done if (verb, moment) == ("store.commit_txn", AFTER) else rows), (
                point
            )
        writer_of(acid, kind)(batch(acid, kind, number), number)
        assert st.rows(acid, "t") == done, point
        rows = done
    acid.clean()
    assert not st.leftovers(acid, "t")


@pytest.mark.exhaustive("batches that died stay; unit/streaming kills writers")
def test_a_query_that_is_killed_and_started_again(tmp_path: Path) -> None:
    """Kill -9 while a compactor is at work beside it; ``make stress`` does it for minutes."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "stream_chaos.py"), "12", "--kills", "1", "--kind", "append"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 strikes" in done.stdout

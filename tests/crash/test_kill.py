"""A driver that dies by kill -9, a process of its own, in the middle of six statements."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.crash import statements as st
from support.crash import victim as crash_victim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

# table: statement, verb, which of its calls, when
DEATHS = {
    "while_spark_stages": ("insert many", "spark", 0, "before"),
    "first_footer": ("update", "fs.replace_tail", 1, "after"),
    "not_recorded": ("merge", "store.commit_txn", 1, "before"),
    "first_file": ("overwrite", "fs.move_file", 1, "after"),
    "not_committed": ("transaction", "store.commit_txn", 1, "before"),
    "committed": ("major", "store.commit_txn", 1, "after"),
}
_PATIENCE = 600  # seconds


@pytest.fixture(scope="module")
def acid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    import hiveacid  # noqa: PLC0415

    warehouse = str(tmp_path_factory.mktemp("kill") / "wh")
    connection = hiveacid.connect(spark, warehouse=warehouse, settings=crash_victim.TIMEOUT)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def dead(acid: AcidSession, request: pytest.FixtureRequest) -> int:
    """Let a process die in the statements whose tests run, each on a table of its own; return how it ended."""
    running = {item.name for item in request.session.items}
    deaths = {
        name: death
        for name, death in DEATHS.items()
        if f"{test_what_a_killed_driver_leaves.__name__}[{name}]" in running or name == "committed"
    }
    for name in deaths:
        st.create(acid, name)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, crash_victim.__file__, acid.context.warehouse, json.dumps(deaths)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    print(done.stdout[-3000:])  # noqa: T201 - shown when a test fails
    return done.returncode


@pytest.mark.exhaustive(
    "other moments of a killed driver stay; crash/test_crash.py has more statements",
    cases=("first_file]", "not_committed]"),
)
@pytest.mark.parametrize("name", DEATHS)
def test_what_a_killed_driver_leaves(acid: AcidSession, dead: int, name: str) -> None:
    assert dead == -signal.SIGKILL
    rows = list(st.FIRST)
    assert st.rows(acid, name) == rows
    acid.sql(f"UPDATE {name} SET v = 'next' WHERE p < 3")
    rows = [(i, "next" if p < 3 else v, p) for i, v, p in rows]
    assert st.rows(acid, name) == rows
    for _ in range(60):  # it is dead to others when hive.txn.timeout has passed
        acid.clean()
        if not st.leftovers(acid, name):
            break
        time.sleep(0.5)
    assert not st.leftovers(acid, name)
    assert st.rows(acid, name) == rows


def test_what_was_committed_before_the_kill_is_there(acid: AcidSession, dead: int) -> None:
    assert dead == -signal.SIGKILL
    deltas = acid.table("committed").inspect.deltas().collect()
    assert "base" in {row.kind for row in deltas if row.partition == "p=1" and row.state == "used"}

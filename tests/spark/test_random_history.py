"""Random statements on one table, by SQL and by Python, against a model in memory; compared after each one.

A history is a list of (kind of statement, seed): given the same list the same statements run, so a failure
prints all it takes to see it again. Settings, by environment variables:

    HIVEACID_TEST_COUNT    statements a kind of table (10, in `make test` 4; half as many in insert-only tables)
    HIVEACID_TEST_SEED     where to begin (on CI 1, elsewhere another one each time)
    HIVEACID_TEST_SHRINK   after a failure, look for a shorter history that fails too (slow)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.exhaustive import ALL, COUNT, seed
from support.random_history.histories import History, drawn, shrunk
from support.random_history.runner import Layout, Runner

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LAYOUTS = [
    Layout("plain"),
    Layout("partitioned", partitioned=True),
    Layout("bucketed_1", bucketing_version=1, retention=True),
    Layout("bucketed_2", bucketing_version=2),
    Layout("partitioned_and_bucketed", partitioned=True, bucketing_version=2, retention=True),
    Layout("insert_only", insert_only=True, retention=True),
    Layout("insert_only_partitioned", insert_only=True, partitioned=True),
]
WEIGHTS = {
    "insert": 6,
    "overwrite": 2,
    "update": 4,
    "delete": 3,
    "merge": 5,
    "truncate": 0.5,
    "transaction": 3,
    "conflict": 1,
    "retry": 1,
    "compact": 4,
    "clean": 1,
    "add_column": 0.7,
    "add_partition": 0.5,
    "drop_partition": 0.5,
    "open_reader": 2,
    "read_old": 1,
}
ONLY_FULL_ACID = {"update", "delete", "merge", "conflict", "retry"}
STATEMENTS = COUNT or (10 if ALL else 4)


def history(layout: Layout, start: int) -> History:
    weights = {
        kind: weight
        for kind, weight in WEIGHTS.items()
        if not (layout.insert_only and kind in ONLY_FULL_ACID)
    }
    count = STATEMENTS // 2 if layout.insert_only else STATEMENTS
    return drawn(f"{layout.name} {start}", weights, count)


def run(spark: SparkSession, layout: Layout, warehouse: Path, statements: History) -> None:
    runner = Runner(spark, layout, str(warehouse))
    try:
        for kind, number in statements:
            runner.run(kind, number)
        runner.finish()
    except BaseException:
        print("\n".join(runner.log))  # noqa: T201 - shown when the test fails
        raise
    finally:
        runner.close()


@pytest.mark.exhaustive("SQL scripts write to insert-only tables", cases=("insert_only",))
@pytest.mark.exhaustive("the layout with partitions stays", cases=("bucketed_", "partitioned]", "plain"))
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_random_histories(spark: SparkSession, tmp_path: Path, layout: Layout) -> None:
    start = seed()
    statements = history(layout, start)
    print(f"HIVEACID_TEST_SEED={start} HIVEACID_TEST_COUNT={STATEMENTS}")  # noqa: T201
    try:
        run(spark, layout, tmp_path / "wh", statements)
    except Exception:
        if os.environ.get("HIVEACID_TEST_SHRINK"):
            attempts = iter(range(10**6))

            def fails(shorter: History) -> bool:
                try:
                    run(spark, layout, tmp_path / f"wh{next(attempts)}", shorter)
                except Exception:  # noqa: BLE001 - any failure will do
                    return True
                return False

            print(f"shortest history that fails: {shrunk(statements, fails)}")  # noqa: T201
        raise

"""The main job on PostgreSQL and on MariaDB, from two sessions and from a process without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.errors import TransactionAbortedError, WriteConflictError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from support.servers.databases import Server

ACID = "CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')"
Two = tuple["AcidSession", "AcidSession"]


@pytest.fixture(params=["postgres_server", "mariadb_server", "mysql_server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    server: Server = request.getfixturevalue(request.param)
    return server.make_database(tmp_path.name)


@pytest.fixture
def two(spark: SparkSession, url: str, tmp_path: Path) -> Iterator[Two]:
    warehouse = str(tmp_path / "warehouse")
    with (
        hiveacid.connect(spark, warehouse=warehouse, store=url) as one,
        hiveacid.connect(spark, warehouse=warehouse, store=url) as other,
    ):
        yield one, other


def rows(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in acid.sql("SELECT id, item, p FROM t").collect())


def command(url: str, warehouse: Path, *arguments: str) -> list[dict[str, object]]:
    """Run a command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "hiveacid", *arguments, "-w", str(warehouse)],
        env={**os.environ, "HIVEACID_STORE": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.exhaustive("the same test on MariaDB stays", cases=("mysql", "postgres"))
@pytest.mark.exhaustive("sessions on PostgreSQL stay", cases=("mariadb",))
def test_two_sessions_insert_update_merge_and_compact(two: Two, url: str, tmp_path: Path) -> None:
    one, other = two
    one.sql(f"CREATE TABLE t (id INT, item STRING) PARTITIONED BY (p STRING) {ACID}")
    one.sql("INSERT INTO t PARTITION (p) VALUES (1, 'tea', 'a'), (2, 'jam', 'a'), (3, 'ale', 'b')")
    assert rows(other) == [(1, "tea", "a"), (2, "jam", "a"), (3, "ale", "b")]
    other.sql("UPDATE t SET item = upper(item) WHERE p = 'a'")
    one.sql("DELETE FROM t WHERE id = 3")
    merged = other.table("t").merge(
        other.context.env.spark.sql(
            "SELECT 2 AS id, 'bread' AS item, 'a' AS p UNION ALL SELECT 4, 'oil', 'c'"
        ),
        on="t.id = s.id",
    )
    report = merged.when_matched_update({"item": "s.item"}).when_not_matched_insert().execute()
    assert (report.updated, report.inserted) == (1, 1)
    expected = [(1, "TEA", "a"), (2, "bread", "a"), (4, "oil", "c")]
    assert rows(one) == rows(other) == expected
    for kind in ("minor", "major"):
        (done,) = one.table("t").compact(kind, {"p": "a"})
        # The other one's DataFrames may still be read.
        assert done.state in ("succeeded", "ready for cleaning")
        assert rows(one) == rows(other) == expected
    warehouse = tmp_path / "warehouse"
    assert command(url, warehouse, "table", "list", "-o", "json") == [{"tab_name": "t"}]
    for session in (other, one):
        session.clean()
    assert {row["state"] for row in other.sql("SHOW COMPACTIONS").collect()} == {"succeeded"}


@pytest.mark.exhaustive("the same test on PostgreSQL stays", cases=("mariadb", "mysql"))
def test_two_sessions_in_each_others_way(two: Two, url: str, tmp_path: Path) -> None:
    """First committer wins, a statement of its own is tried again; another process ends a transaction."""
    one, other = two
    warehouse = tmp_path / "warehouse"
    one.sql(f"CREATE TABLE t (id INT, item STRING) PARTITIONED BY (p STRING) {ACID}")
    one.sql("INSERT INTO t PARTITION (p) VALUES (1, 'tea', 'a'), (2, 'jam', 'b')")
    one.sql("START TRANSACTION")
    one.sql("UPDATE t SET item = 'mine' WHERE id = 1")
    assert other.table("t").update({"item": "'theirs'"}, "id = 1").updated == 1
    with pytest.raises(WriteConflictError, match="write conflict on default/t/p=a"):
        one.sql("COMMIT")
    one.sql("START TRANSACTION")
    one.sql("UPDATE t SET item = 'never' WHERE id = 2")
    (lock,) = command(url, warehouse, "locks", "-o", "json")
    assert (lock["table"], lock["lock_type"], lock["lock_state"]) == ("t", "SHARED_WRITE", "ACQUIRED")
    opened = command(url, warehouse, "txn", "list", "-o", "json")
    assert ("OPEN", lock["transaction_id"]) in {(row["state"], row["txnid"]) for row in opened}
    command(url, warehouse, "txn", "abort", str(lock["transaction_id"]))
    with pytest.raises(TransactionAbortedError):
        one.sql("COMMIT")
    assert rows(one) == rows(other) == [(1, "theirs", "a"), (2, "jam", "b")]
    assert command(url, warehouse, "locks", "-o", "json") == []

"""RESTORE: the rows of each point of a random history come back in one commit, whose changes the feed tells."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hiveacid.core.snapshot.check_findings import FindingKind
from hiveacid.errors import (
    ConfigError,
    NotEnoughHistoryError,
    NotTransactionalError,
    StatementError,
    TransactionStateError,
    UnsupportedFeatureError,
    WriteConflictError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ACID = "'transactional'='true', 'hiveacid.history.retention'='7d'"
KINDS = {"full": ACID, "only": f"{ACID}, 'transactional_properties'='insert_only'"}
Rows = Counter[tuple[object, ...]]


def rows_of(frame: DataFrame) -> Rows:
    return Counter((row.id, row.v, row.p) for row in frame.collect())


def create(acid: AcidSession, kind: str, *, partitioned: bool) -> None:
    columns = (
        "(id INT, v STRING) PARTITIONED BY (p STRING)" if partitioned else "(id INT, v STRING, p STRING)"
    )
    acid.sql(f"CREATE TABLE t {columns} STORED AS ORC TBLPROPERTIES ({KINDS[kind]})")


def statement(number: int, kind: str, choice: random.Random) -> str:
    p = choice.choice("abc")
    texts = [
        f"INSERT INTO t VALUES ({number}, 'i', '{p}'), ({number + 100}, 'j', '{choice.choice('abc')}')",
        f"INSERT INTO t SELECT id + 1000, v, p FROM t WHERE p <> '{p}'",
        f"INSERT OVERWRITE TABLE t VALUES ({number}, 'o', '{p}')",
        "TRUNCATE TABLE t",
    ]
    changes = [f"UPDATE t SET v = 'u{number}' WHERE id % 2 = {number % 2}", f"DELETE FROM t WHERE p = '{p}'"]
    weights = [4, 2, 1, 1] + [4, 3] * (kind == "full")
    return choice.choices(texts + changes * (kind == "full"), weights)[0]


@pytest.mark.exhaustive("another case of the same test stays", cases=("full-False", "only-True"))
@pytest.mark.parametrize(
    ("kind", "partitioned"), [("full", True), ("full", False), ("only", True), ("only", False)]
)
def test_each_point_of_a_history_comes_back(acid: AcidSession, kind: str, partitioned: bool) -> None:  # noqa: FBT001
    create(acid, kind, partitioned=partitioned)
    t, choice = acid.table("t"), random.Random(f"{kind} {partitioned}")
    states: list[Rows] = [Counter()]

    def run(text: str) -> None:
        before = t.valid_write_ids()
        acid.sql(text)
        states.append(rows_of(t.to_df()))
        feed = t.changes(after=before).to_df().collect()
        was = Counter(states[-2])
        was.subtract((row.id, row.v, row.p) for row in feed if row["_change_type"] == "delete")
        was.update((row.id, row.v, row.p) for row in feed if row["_change_type"] == "insert")
        assert +was == states[-1], text
        assert -was == Counter(), text

    for number in range(6):
        run("INSERT INTO t VALUES (1, 'first', 'a')" if not number else statement(number, kind, choice))
    t.compact("minor", wait=True) if not partitioned else None
    last = len(states) - 1
    for write_id in choice.sample(range(last + 1), 3):
        run(f"RESTORE TABLE t TO VERSION AS OF {write_id}")
        assert states[-1] == states[write_id], write_id
        run(f"INSERT INTO t VALUES ({write_id}, 'later', 'z')")
    report = t.restore(last)
    assert rows_of(t.to_df()) == states[last] == rows_of(t.as_of(last).to_df())
    assert (report.inserted, report.deleted) == (states[last].total(), 0)
    assert {found.kind for found in t.inspect.check()} <= {FindingKind.OBSOLETE}
    newest = t.inspect.history(1).first()
    assert newest is not None
    assert (newest.operation, newest.write_id) == ("RESTORE", report.write_id)


def test_a_restored_moment_and_what_is_refused(acid: AcidSession) -> None:
    create(acid, "full", partitioned=True)
    t = acid.table("t")
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    when = t.inspect.history(1).first()
    acid.sql("INSERT INTO t VALUES (2, 'y', 'b')")
    acid.set("hive.exec.dynamic.partition.mode", "strict")
    assert when is not None
    acid.sql("RESTORE t TIMESTAMP AS OF :moment", {"moment": when.committed_at})
    assert rows_of(t.to_df()) == {(1, "x", "a"): 1}
    assert t.restore(timestamp=t.inspect.history(2).collect()[1].committed_at).inserted == 2
    both = {(1, "x", "a"): 1, (2, "y", "b"): 1}
    for write_id in (5, 99):  # a refused statement takes none
        with pytest.raises(ConfigError, match=f"write id {write_id} is not between 0 and 4"):
            acid.sql(f"RESTORE TABLE t TO VERSION AS OF {write_id}")
    with pytest.raises(StatementError, match="not a timestamp"):
        acid.sql("RESTORE TABLE t TO TIMESTAMP AS OF 'soon'")
    with pytest.raises(NotEnoughHistoryError):
        acid.sql("RESTORE TABLE t TO TIMESTAMP AS OF '1999-01-01'")
    with pytest.raises(TransactionStateError):
        t.as_of(1).restore(1)
    with pytest.raises(ConfigError, match="a write_id, a timestamp or a tag"):
        t.restore()
    acid.sql("CREATE TABLE plain (id INT) STORED AS ORC")
    with pytest.raises(NotTransactionalError, match=r"RESTORE of default\.plain"):
        acid.sql("RESTORE TABLE plain TO VERSION AS OF 0")
    assert rows_of(t.to_df()) == both
    acid.sql("START TRANSACTION")
    acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
    assert rows_of(acid.sql("SELECT * FROM t")) == {(1, "x", "a"): 1}
    acid.sql("ROLLBACK")
    assert rows_of(t.to_df()) == both
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='0')")
    t.compact("major")
    acid.clean()
    with pytest.raises(NotEnoughHistoryError, match="the earliest state that is whole is write id"):
        acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
    assert rows_of(t.to_df()) == both


def test_a_restore_is_refused_behind_an_overwrite_of_its_transaction(acid: AcidSession) -> None:
    """A second base of the partition has no place, so that the rows of the first one would stay."""
    create(acid, "full", partitioned=True)
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    acid.sql("INSERT INTO t VALUES (2, 'y', 'b')")
    acid.sql("START TRANSACTION")
    acid.sql("INSERT OVERWRITE t PARTITION (p = 'b') VALUES (3, 'z')")
    with pytest.raises(UnsupportedFeatureError, match=r"overwritten .* earlier in this transaction"):
        acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
    acid.sql("ROLLBACK")
    acid.sql("START TRANSACTION")
    acid.sql("INSERT INTO t VALUES (4, 'new', 'c'), (5, 'new', 'a')")
    acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
    acid.sql("COMMIT")
    assert rows_of(acid.table("t").to_df()) == {(1, "x", "a"): 1}


@pytest.mark.parametrize("kind", ["default", "insert_only"])
def test_clock_times_that_the_session_skips_come_back(acid: AcidSession, tmp_path: Path, kind: str) -> None:
    import hiveacid  # noqa: PLC0415

    properties = f"{ACID}, 'transactional_properties'='{kind}'"
    acid.sql(f"CREATE TABLE t (id INT, at TIMESTAMP) STORED AS ORC TBLPROPERTIES ({properties})")
    times = {1: datetime(2024, 3, 31, 2, 30), 2: datetime(2024, 10, 27, 2, 30), 3: None}  # noqa: DTZ001
    spark = acid.context.env.spark
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    with hiveacid.open(tmp_path / "warehouse") as warehouse:
        t = warehouse.table("t")
        t.append(
            pa.table({"id": pa.array(times, pa.int32()), "at": pa.array(times.values(), pa.timestamp("us"))})
        )
        acid.sql("INSERT INTO t VALUES (4, NULL)")
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        try:
            acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert {row["id"]: row["at"] for row in t.to_arrow().to_pylist()} == times


def test_a_restore_that_missed_a_commit_is_a_conflict(
    acid: AcidSession, spark: SparkSession, tmp_path: Path
) -> None:
    import hiveacid  # noqa: PLC0415

    create(acid, "full", partitioned=False)
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    with hiveacid.connect(spark, warehouse=str(tmp_path / "warehouse")) as other:
        acid.sql("START TRANSACTION")
        assert acid.sql("SELECT * FROM t").count() == 1
        other.sql("INSERT INTO t VALUES (2, 'y', 'a')")
        with pytest.raises(WriteConflictError):
            acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
        acid.sql("ROLLBACK")
        assert other.table("t").count() == 2

"""The change feed at chosen points; `test_random_history.py` replays it over random histories."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import (
    ConfigError,
    NoSuchColumnError,
    NotEnoughHistoryError,
    NotTransactionalError,
    UnsupportedFeatureError,
)
from hiveacid.spark.read.change_feed import pair_updates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[AcidSession]:
    with hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as session:
        yield session


def told(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row["_write_id"], row["_change_type"], row["id"], row["v"]) for row in frame.collect())


def clean(acid: AcidSession) -> None:
    """Remove what only plans read that nobody has any more: the JVM says when."""
    for _ in range(5):
        acid.clean()
        if {row.state for row in acid.table("t").inspect.deltas().collect()} == {"used"}:
            return
    raise AssertionError("directories are still held")


def test_updates_are_paired_in_plans(spark: SparkSession) -> None:
    """Over every set of at most two deletes and two inserts of a key in two write ids."""
    numbers = product(range(3), repeat=4)  # deletes and inserts of write id 5, then those of 6
    kinds = [("delete", 5), ("insert", 5), ("delete", 6), ("insert", 6)]
    rows = [
        (key, part, kind, write_id)
        for key, counts in enumerate(numbers)
        for part in (key % 7, None)
        for (kind, write_id), count in zip(kinds, counts, strict=True)
        for _ in range(count)
    ]
    columns = ["key", "part", "_change_type", "_write_id"]
    frame = spark.createDataFrame(rows, "key INT, part INT, _change_type STRING, _write_id BIGINT")
    found = pair_updates(frame, ["part", "key"], net=False).select(*columns)
    counts = Counter(rows)
    expected = Counter(
        (key, part, f"update_{'after' if kind == 'insert' else 'before'}", write_id)
        if part is not None and all(counts[key, part, each, write_id] == 1 for each in ("insert", "delete"))
        else (key, part, kind, write_id)
        for key, part, kind, write_id in rows
    )
    assert Counter(map(tuple, found.collect())) == expected
    assert sum(expected[row] for row in expected if row[2] == "update_after") == 18


def test_changes_of_statements_updates_paired_by_key_and_net(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    t = acid.table("t")
    empty = t.valid_write_ids()
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    first = t.valid_write_ids()
    acid.sql("UPDATE t SET v = 'B' WHERE id = 2")
    acid.sql("INSERT INTO t VALUES (4, 'd')")
    acid.sql("DELETE FROM t WHERE id IN (3, 4)")
    update = [(2, "delete", 2, "b"), (2, "insert", 2, "B")]
    rest = [(3, "insert", 4, "d"), (4, "delete", 3, "c"), (4, "delete", 4, "d")]
    assert told(t.changes(first).to_df()) == update + rest
    assert told(t.changes(after=1).to_df()) == update + rest
    assert told(t.changes(after=1, until=2, key=["id"]).to_df()) == [
        (2, "update_after", 2, "B"),
        (2, "update_before", 2, "b"),
    ]
    assert told(t.changes(after=2, net=True).to_df()) == [(4, "delete", 3, "c")]
    assert told(t.changes(empty, first).to_df()) == [
        (1, "insert", n, v) for n, v in ((1, "a"), (2, "b"), (3, "c"))
    ]
    assert told(t.changes(t.valid_write_ids()).to_df()) == []
    ids = {row["id"]: tuple(row["ROW__ID"]) for row in t.changes(until=1, row_ids=True).to_df().collect()}
    gone = {row["id"]: tuple(row["ROW__ID"]) for row in t.changes(after=1, row_ids=True).to_df().collect()}
    assert gone[3] == ids[3]


@pytest.mark.exhaustive("changes of statements and across compactions stay, and stream_source replays a feed")
def test_an_overwrite_is_deletes_and_inserts_and_what_one_write_id_made_and_ended_is_not_seen(
    acid: AcidSession,
) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    acid.sql("INSERT OVERWRITE TABLE t PARTITION (p = 1) VALUES (9, 'z')")
    acid.sql("TRUNCATE TABLE t PARTITION (p = 2)")
    t = acid.table("t")
    over = [(2, "delete", 1, "a"), (2, "delete", 2, "b"), (2, "insert", 9, "z"), (3, "delete", 3, "c")]
    assert told(t.changes(after=1).to_df()) == over
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (7, 'x', 1)")
        txn.sql("UPDATE t SET v = 'X' WHERE id = 7")
        txn.sql("UPDATE t SET v = 'Z' WHERE id = 9")
        inside = told(txn.table("t").changes(after=3).to_df())
    assert inside == [(4, "delete", 9, "z"), (4, "insert", 7, "X"), (4, "insert", 9, "Z")]
    assert told(t.changes(after=3).to_df()) == inside


@pytest.mark.exhaustive(
    "random histories replay the change feed; queries that are stopped and started again stay"
)
def test_a_write_id_that_commits_late_is_told_once(acid: AcidSession) -> None:
    """Write id 2 commits after 3: a list says what was told, a number does not."""
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a')")
    t = acid.table("t")
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (2, 'late')")
        acid.sql("INSERT INTO t VALUES (3, 'early')")
        between = t.valid_write_ids()
        assert told(t.changes(after=1).to_df()) == [(3, "insert", 3, "early")]
    assert told(t.changes(between).to_df()) == [(2, "insert", 2, "late")]
    assert told(t.changes(after=3).to_df()) == []


def test_changes_survive_minor_compaction_and_name_the_earliest_point_after_a_major_one(
    acid: AcidSession,
) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    for n in (1, 2, 3):
        acid.sql(f"INSERT INTO t VALUES ({n}, 'a')")
    acid.sql("DELETE FROM t WHERE id = 1")
    acid.sql("UPDATE t SET v = 'b' WHERE id = 2")
    t = acid.table("t")
    every = told(t.changes().to_df())
    assert len(every) == 6
    t.compact("minor")
    clean(acid)
    assert told(t.changes().to_df()) == every
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='1h')")
    t.compact("major")
    assert told(t.changes().to_df()) == every, "what the compaction replaced is still there, and is used"
    acid.sql("INSERT INTO t VALUES (4, 'a')")
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='0')")
    t.compact("major")
    clean(acid)
    with pytest.raises(NotEnoughHistoryError, match="after write id 6") as refused:
        t.changes(after=5).to_df()
    assert refused.value.earliest == 6
    acid.sql("DELETE FROM t WHERE id = 4")
    assert told(t.changes(after=6).to_df()) == [(7, "delete", 4, "a")]


@pytest.mark.exhaustive("changes of statements and across compactions stay, and stream_source replays a feed")
def test_history_ends_where_partitions_were_dropped_or_rows_were_numbered_anew(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE p (id INT, v STRING) PARTITIONED BY (d INT) {ACID}")
    acid.sql("INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2)")
    before = acid.table("p").valid_write_ids()
    acid.sql("ALTER TABLE p DROP PARTITION (d = 1)")
    for late in (before, 1):
        with pytest.raises(NotEnoughHistoryError):
            acid.table("p").changes(late).to_df()
    acid.sql("INSERT INTO p VALUES (3, 'c', 3)")
    assert told(acid.table("p").changes(after=2).to_df()) == [(3, "insert", 3, "c")]
    acid.sql(
        "CREATE TABLE r (id INT, v STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true', 'hiveacid.history.retention'='1h')"
    )
    acid.sql("INSERT INTO r VALUES (1, 'a'), (2, 'b')")
    acid.sql("INSERT INTO r VALUES (3, 'c')")
    acid.table("r").compact("rebalance", buckets=2)
    acid.sql("DELETE FROM r WHERE id = 3")
    with pytest.raises(NotEnoughHistoryError):
        acid.table("r").changes(after=1).to_df()
    assert told(acid.table("r").changes(after=2).to_df()) == [(3, "delete", 3, "c")]


def test_changes_that_make_no_sense_are_refused(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    acid.sql("CREATE TABLE plain (id INT) STORED AS ORC")
    acid.sql(f"CREATE TABLE odd (id INT, _write_id INT) {ACID}")
    t, later = acid.table("t"), "default.t:9:9223372036854775807::"
    for after, until, error in (
        ("default.other:1:9223372036854775807::", None, "not of default.t"),
        (later, None, "not contained"),
        (None, later, "not one of this table's past"),
        (7, None, "write id 7"),
        ("nonsense", None, "not a valid write-id list"),
    ):
        with pytest.raises(ConfigError, match=error):
            t.changes(after, until).to_df()
    with pytest.raises(ConfigError, match="key"):
        t.changes(key=["nothing"]).to_df()
    with pytest.raises(NotTransactionalError):
        acid.table("plain").changes().to_df()
    with pytest.raises(UnsupportedFeatureError, match="_write_id"):
        acid.table("odd").changes().to_df()
    for retention in ("soon", "-1d"):
        with pytest.raises(ConfigError, match="retention"):
            acid.sql(f"ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='{retention}')")


def test_stars_of_a_merge_do_not_ignore_columns(acid: AcidSession) -> None:
    """A source without a column of the table has a misspelt one, or a wrong one altogether."""
    acid.sql("CREATE TABLE m (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO m VALUES (1, 'old')")
    for source, clause in (
        ("SELECT 2 AS key, 'new' AS val", "NOT MATCHED THEN INSERT *"),
        ("SELECT 1 AS key, 'new' AS val", "MATCHED THEN UPDATE SET *"),
        ("SELECT 2 AS key, 2 AS id, 'new' AS vv", "NOT MATCHED THEN INSERT *"),
    ):
        with pytest.raises(
            NoSuchColumnError, match=r"takes columns by name, but the source lacks .*v of default\.m"
        ):
            acid.sql(f"MERGE INTO m USING ({source}) s ON m.id = s.key WHEN {clause}")
    acid.sql("MERGE INTO m USING (SELECT 2 AS id) s ON m.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert [tuple(row) for row in acid.sql("SELECT * FROM m ORDER BY id").collect()] == [
        (1, "old"),
        (2, None),
    ]

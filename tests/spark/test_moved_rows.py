"""UPDATE and MERGE that set partition and bucketing columns: rows move, in one transaction, and count as updated once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import ConstraintViolationError, MergeCardinalityError, WriteConflictError
from support.exhaustive import seed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TEXTS = [None, "", "__HIVE_DEFAULT_PARTITION__", "a=b/c", "%2F", "..", " x ", "it's", "ü", "NULL", "a"]
NUMBERS = [None, -1, 0, 7]
LAYOUTS = {
    "partitioned": ("k INT, v STRING", "PARTITIONED BY (p STRING, q INT)"),
    "bucketed": ("k INT, v STRING, p STRING, q INT", "CLUSTERED BY (p, q) INTO 3 BUCKETS"),
    "both": ("k INT, v STRING, q INT", "PARTITIONED BY (p STRING) CLUSTERED BY (q) INTO 2 BUCKETS"),
}
Row = tuple[int, str, str | None, int | None]


def literal(value: object) -> str:
    return (
        "NULL"
        if value is None
        else "'{}'".format(str(value).replace("'", "\\'"))
        if isinstance(value, str)
        else str(value)
    )


class Model:
    """The rows of a table by key, changed as statements should change them; ``partitioned``: texts of p are partitions."""

    def __init__(self, *, partitioned: bool) -> None:
        self.rows: dict[int, Row] = {}
        self.partitioned = partitioned

    def put(self, row: Row) -> None:
        k, v, p, q = row
        self.rows[k] = (k, v, None if self.partitioned and p in ("", "__HIVE_DEFAULT_PARTITION__") else p, q)


@pytest.mark.parametrize("by", ["auto", "executors", "job"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.sampled(3, "the same statements, read by others, in another layout")
def test_random_moves_are_those_of_a_model(native: NativeSession, layout: str, by: str) -> None:
    acid = native.acid
    start = f"moves {layout} {by} {seed()}"
    random, model = Random(start), Model(partitioned=layout != "bucketed")
    columns, by_what = LAYOUTS[layout]
    acid.sql(f"SET hiveacid.layout.level = {random.choice(['hive3', 'hive4'])}")
    acid.sql(f"SET hiveacid.changes.by = {by}")
    acid.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    acid.sql(f"CREATE TABLE t ({columns}) {by_what} {ACID}")
    try:
        _insert(acid, random, model)
        for _ in range(9):
            random.choice([_update, _update, _merge])(native, random, model)
            found = acid.sql("SELECT k, v, p, q FROM t").collect()
            assert sorted(map(tuple, found)) == sorted(model.rows.values(), key=lambda row: row[0]), start
        assert not [*acid.table("t").inspect.check()]
        for p in {row[2] for row in model.rows.values()}:  # by the directories that a filter leaves
            found = acid.sql(f"SELECT k FROM t WHERE p <=> {literal(p)}").collect()
            assert sorted(row[0] for row in found) == sorted(
                k for k, row in model.rows.items() if row[2] == p
            )
        acid.table("t").compact("major")
        found = acid.sql("SELECT k, v, p, q FROM t").collect()
        assert sorted(map(tuple, found)) == sorted(model.rows.values(), key=lambda row: row[0])
        assert not [*acid.table("t").inspect.check()]
    except BaseException as error:
        raise AssertionError(start) from error


def _insert(acid: AcidSession, random: Random, model: Model) -> None:
    rows: list[Row] = [(k, f"v{k}", random.choice(TEXTS), random.choice(NUMBERS)) for k in range(24)]
    for half in (rows[:12], rows[12:]):
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in half)
        acid.sql(f"INSERT INTO t (k, v, p, q) VALUES {values}")
    for row in rows:
        model.put(row)


def _counts(report: Any) -> tuple[int, ...]:
    """Return the rows that a statement inserted, updated and deleted, from its result."""
    if hasattr(report, "collect"):
        row = report.collect()[0]
        return row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows
    return report.inserted, report.updated, report.deleted


def _update(native: NativeSession, random: Random, model: Model) -> None:
    modulus, rest = random.randint(2, 5), random.randint(0, 1)
    p, q = random.choice(TEXTS), random.choice(NUMBERS)
    choices = {
        "constant": ({"p": literal(p)}, lambda row: (row[0], row[1], p, row[3])),
        "both": ({"p": literal(p), "q": literal(q)}, lambda row: (row[0], row[1], p, q)),
        "stay": ({"p": "p", "v": "concat(v, '!')"}, lambda row: (row[0], row[1] + "!", row[2], row[3])),
        "swap": ({"p": "v", "v": "coalesce(p, 'none')"}, lambda row: (row[0], "none" if row[2] is None else row[2], row[1], row[3])),
        "other": ({"q": "coalesce(q, 5) + 1"}, lambda row: (*row[:3], (5 if row[3] is None else row[3]) + 1)),
    }  # fmt: skip
    values, change = choices[random.choice([*choices])]
    where = f"k % {modulus} = {rest}" if random.random() < 0.7 else f"k % {modulus} = {rest} AND rand() >= 0"
    chosen = [row for row in model.rows.values() if row[0] % modulus == rest]
    text = f"UPDATE t SET {', '.join(f'{name} = {value}' for name, value in values.items())} WHERE {where}"
    doors = [native.sql, native.acid.sql, lambda _: native.acid.table("t").update(values, where)]
    assert _counts(random.choice(doors)(text)) == (0, len(chosen), 0), text
    for row in chosen:
        model.put(change(row))


def _merge(native: NativeSession, random: Random, model: Model) -> None:
    keys = random.sample(range(30), 8)
    news: list[Row] = [(k, f"m{k}", random.choice(TEXTS), random.choice(NUMBERS)) for k in keys]
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in news)
    source = f"(SELECT CAST(k AS INT) k, CAST(v AS STRING) v, CAST(p AS STRING) p, CAST(q AS INT) q FROM (VALUES {rows}) AS x (k, v, p, q))"
    update = random.choice(
        ["UPDATE SET *", "UPDATE SET p = s.p", "UPDATE SET v = upper(s.v), q = s.q, p = concat(s.p, '')"]
    )
    matched = {k for k in keys if k in model.rows}
    dropped = {k for k in matched if k % 5 == 0}
    text = (
        f"MERGE INTO t USING {source} s ON t.k = s.k WHEN MATCHED AND s.k % 5 = 0 THEN DELETE WHEN MATCHED THEN {update} "
        "WHEN NOT MATCHED THEN INSERT (k, v, p, q) VALUES (s.k, s.v, s.p, s.q)"
    )
    report = random.choice([native.sql, native.acid.sql])(text)
    assert _counts(report) == (len(keys) - len(matched), len(matched - dropped), len(dropped)), text
    for k, v, p, q in news:
        if k in dropped:
            del model.rows[k]
        elif k not in matched or update == "UPDATE SET *":
            model.put((k, v, p, q))
        elif update == "UPDATE SET p = s.p":
            _, old, _, number = model.rows[k]
            model.put((k, old, p, number))
        else:
            model.put((k, v.upper(), p, q))


@pytest.mark.parametrize("by", ["auto", "job"])
def test_a_second_match_of_a_moved_row_is_found(acid: AcidSession, by: str) -> None:
    """The matches go to different partitions; their delete events meet in the one where the row was."""
    acid.sql(f"SET hiveacid.changes.by = {by}")
    acid.sql(f"CREATE TABLE t (k INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    with pytest.raises(hiveacid.errors.MergeCardinalityError):
        acid.sql(
            "MERGE INTO t USING (VALUES (1, 2), (1, 3)) s (k, p) ON t.k = s.k WHEN MATCHED THEN UPDATE SET p = s.p"
        )
    assert _rows(acid) == [(1, 1), (2, 1)]


def _rows(acid: AcidSession) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, acid.sql("SELECT * FROM t").collect()))


def _move_beside(acid: AcidSession, other: AcidSession, statement: str) -> None:
    with acid.transaction() as txn:
        txn.table("t").update({"p": "1"}, "k = 1")
        other.sql(statement)


@pytest.mark.parametrize("by", ["auto", "job"])
def test_two_writers_meet_in_the_old_partition_only(spark: SparkSession, tmp_path: Path, by: str) -> None:
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    try:
        acid.sql(f"SET hiveacid.changes.by = {by}")
        acid.sql(f"CREATE TABLE t (k INT) PARTITIONED BY (p INT) {ACID}")
        acid.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        with acid.transaction() as txn:
            assert txn.sql("SELECT count(*) FROM t").collect()[0][0] == 2
            other.sql("UPDATE t SET k = k + 10 WHERE p = 2")  # rows that move there do not conflict with it
            other.sql("INSERT INTO t VALUES (3, 1), (4, 3)")
            txn.table("t").update({"p": "p + 1"}, "k = 1")
        assert _rows(other) == [(1, 2), (3, 1), (4, 3), (12, 2)]
        for statement in (
            "UPDATE t SET k = 5 WHERE p = 3",
            "DELETE FROM t WHERE k = 1",
            "UPDATE t SET p = 9 WHERE k = 1",
        ):
            other.sql("DELETE FROM t")
            other.sql("INSERT INTO t VALUES (1, 3), (4, 3)")
            with pytest.raises(WriteConflictError):
                _move_beside(acid, other, statement)
        assert not [*acid.table("t").inspect.check()]
    finally:
        acid.close()
        other.close()


@pytest.mark.parametrize("by", ["auto", "job"])
def test_a_moved_row_fulfils_the_constraints(acid: AcidSession, by: str) -> None:
    acid.sql(f"SET hiveacid.changes.by = {by}")
    acid.sql(f"CREATE TABLE t (k INT, CHECK (p <> 'c' OR k > 1)) PARTITIONED BY (p STRING NOT NULL) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    merge = "MERGE INTO t USING (SELECT 1 AS k, {} AS p) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
    for value in ("'c'", "''", "CAST(NULL AS STRING)"):
        for text in (f"UPDATE t SET p = {value}", merge.format(value)):
            with pytest.raises(ConstraintViolationError):
                acid.sql(text)
    acid.sql("UPDATE t SET p = 'c' WHERE k = 2")
    assert _rows(acid) == [(1, "a"), (2, "c")]


def test_the_change_feed_and_the_record_of_a_moved_row(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (k INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    report = acid.table("t").update({"p": "p + 1"}, "k < 3")
    assert (report.inserted, report.updated, report.deleted) == (0, 2, 0)
    moved = [(1, 1), (1, 2), (2, 1), (2, 2)]
    for key, before, after in (
        ("", "delete", "insert"),
        (", key => array('k')", "update_before", "update_after"),
    ):
        feed = acid.sql(f"SELECT k, p, _change_type FROM hiveacid_changes('t', 1{key})").collect()
        assert sorted(map(tuple, feed)) == [(k, p, after if p == 2 else before) for k, p in moved]


def test_rows_of_one_id_may_move_into_one_partition(acid: AcidSession) -> None:
    """Ids are unique in a partition only: both rows were the first of bucket 0 that their statement wrote there."""
    acid.sql(f"CREATE TABLE t (k INT) PARTITIONED BY (p INT) CLUSTERED BY (k) INTO 1 BUCKETS {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    ids = {tuple(row) for row in acid.sql("SELECT ROW__ID.* FROM t").collect()}
    assert len(ids) == 1
    acid.sql("SET hiveacid.changes.by = job")
    moves = "MERGE INTO t USING (VALUES {}) s(k, p) ON t.k = s.k WHEN MATCHED THEN UPDATE SET p = s.p"
    acid.sql(moves.format("(1, 9), (2, 9)"))
    assert sorted(tuple(row) for row in acid.sql("SELECT k, p FROM t").collect()) == [(1, 9), (2, 9)]
    with pytest.raises(MergeCardinalityError):
        acid.sql(moves.format("(1, 8), (1, 7)"))

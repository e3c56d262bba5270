"""Columns that were renamed and widened after rows were written: queries, conditions, changes by every way, the feed, the past, compactions."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import HiveAcidError, NoSuchColumnError

if TYPE_CHECKING:
    from pathlib import Path

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'hiveacid.history.retention'='1h')"
INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
Rows = set[tuple[Any, ...]]


def values(acid: AcidSession, query: str) -> Rows:
    found = [tuple(row) for row in acid.sql(query).collect()]
    assert len(found) == len(set(found))
    return set(found)


def held(acid: AcidSession, rows: Rows) -> None:
    """Compare the rows by every reader with a model."""
    assert values(acid, "SELECT k, id, d, p FROM t") == rows
    assert values(acid, "SELECT k FROM t WHERE id = 'b-executors' OR k >= 5") == {
        row[:1] for row in rows if row[1] == "b-executors" or row[0] >= 5
    }
    spark, warehouse = acid.context.env.spark, acid.context.warehouse
    source = spark.read.format("hiveacid").options(table="t", warehouse=warehouse).load()
    assert {tuple(row) for row in source.collect()} == rows
    with hiveacid.open(warehouse) as opened:
        table = opened.table("t")
        assert {tuple(row.values()) for row in table.to_arrow().to_pylist()} == rows
        few = table.to_arrow(["k"], where="d > 2 AND id <> 'longer'").column(0).to_pylist()
        assert sorted(few) == sorted(row[0] for row in rows if row[2] > 2 and row[1] != "longer")


def test_rows_of_before_change_and_are_read_by_every_way(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v VARCHAR(3), d DECIMAL(5,2)) PARTITIONED BY (p INT) {ACID}")
    acid.sql(
        "INSERT INTO t VALUES (1,'a',1.25,0), (2,'b',2.25,0), (3,'c',3.25,1), (4,'d',4.25,1), (5,'e',5.25,1), (6,'f',6.25,0)"
    )
    acid.sql("DELETE FROM t WHERE id = 6")
    opened_before = acid.table("t").to_df()
    acid.sql("ALTER TABLE t CHANGE COLUMN id k BIGINT")
    acid.sql("ALTER TABLE t CHANGE COLUMN v id STRING")  # the name that the first one had
    acid.sql("ALTER TABLE t ALTER COLUMN d TYPE DECIMAL(9,3)")
    assert opened_before.columns == ["id", "v", "d", "p"]
    assert {row[0] for row in opened_before.collect()} == {1, 2, 3, 4, 5}
    rows: Rows = {(k, v, Decimal(f"{k}.250"), int(k > 2)) for k, v in zip(range(1, 6), "abcde", strict=True)}
    held(acid, rows)
    for k, v, by in ((1, "a", "driver"), (2, "b", "executors"), (3, "c", "job")):
        acid.sql(f"SET hiveacid.changes.by={by}")
        acid.sql(f"UPDATE t SET id = concat(id, '-{by}') WHERE k = {k} AND id IN ('{v}', 'x')")
        rows = {(*row[:1], f"{v}-{by}", *row[2:]) if row[0] == k else row for row in rows}
    acid.sql("SET hiveacid.changes.by=auto")
    acid.sql(f"INSERT INTO t VALUES ({2**40}, 'longer', 2.125, 1)")
    acid.sql("DELETE FROM t WHERE id = 'd'")
    acid.sql(
        "MERGE INTO t USING (SELECT 5 AS k, 'merged' AS id UNION ALL SELECT 9, 'new') s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.id, 0, 0)"
    )
    rows = {row for row in rows if row[0] not in (4, 5)}
    rows |= {
        (2**40, "longer", Decimal("2.125"), 1),
        (5, "merged", Decimal("5.250"), 1),
        (9, "new", Decimal("0.000"), 0),
    }
    held(acid, rows)
    past = values(acid, "SELECT k, id, d FROM t VERSION AS OF 1")
    assert past == {(k, v, Decimal(f"{k}.250")) for k, v in zip(range(1, 7), "abcdef", strict=True)}
    feed = acid.sql("SELECT k, id, d, p, _change_type FROM hiveacid_changes('t', 0)").collect()
    replayed: Rows = set()
    for row in sorted(feed, key=lambda change: change["_change_type"] == "delete"):
        (replayed.discard if row["_change_type"] == "delete" else replayed.add)(tuple(row)[:4])
    assert replayed == rows
    for kind in ("minor", "major"):
        for place in (0, 1):
            acid.sql(f"ALTER TABLE t PARTITION (p={place}) COMPACT '{kind}' AND WAIT")
        held(acid, rows)
    with pytest.raises(NoSuchColumnError, match="v"):
        acid.sql("UPDATE t SET v = 'x'")


def test_conditions_on_values_that_files_hold_as_another_type(acid: AcidSession, tmp_path: Path) -> None:
    """Spark's ORC reader would cast the value that a column is compared with to the type of the file."""
    acid.sql(f"CREATE TABLE t (id INT, w INT) STORED AS ORC {INSERT_ONLY}")
    acid.sql("INSERT INTO t VALUES (1, 5)")
    acid.sql("ALTER TABLE t ALTER COLUMN w TYPE STRING")
    acid.sql("INSERT INTO t VALUES (2, '5'), (3, 'x')")
    assert values(acid, "SELECT id FROM t WHERE w = '5'") == {(1,), (2,)}
    assert values(acid, "SELECT id FROM t WHERE w > 'a' OR w IS NULL") == {(3,)}
    files = {
        "DATE": ("DATE'2020-01-01'", "STRING", "w IN ('2020-01-01', 'x')"),
        "DECIMAL(5,2)": ("1.5", "DOUBLE", "w > 1 AND w <> 1.25D"),
        "BOOLEAN": ("true", "INT", "w = 1"),
        "STRING": ("'5'", "INT", "w < 6"),
        "TIMESTAMP": ("TIMESTAMP'2020-01-01 10:00:00'", "DATE", "w = DATE'2020-01-01'"),
    }
    spark = acid.context.env.spark
    for number, (have, (value, want, condition)) in enumerate(files.items()):
        place = tmp_path / str(number)
        spark.sql(f"SELECT 1 AS id, CAST({value} AS {have}) AS w").write.orc(str(place))
        acid.sql(f"CREATE EXTERNAL TABLE t{number} (id INT, w {want}) STORED AS ORC LOCATION '{place}'")
        assert values(acid, f"SELECT id FROM t{number} WHERE {condition}") == {(1,)}, (have, want)


@pytest.mark.exhaustive("unit/core/schema says what each format takes", cases=("TEXTFILE]", "PARQUET]"))
@pytest.mark.parametrize("storage", ["ORC", "TEXTFILE", "PARQUET"])
def test_rows_of_insert_only_tables(acid: AcidSession, storage: str) -> None:
    """Names of Parquet files stay, and its columns move."""
    acid.sql(f"CREATE TABLE t (a INT, b VARCHAR(3), c INT) STORED AS {storage} {INSERT_ONLY}")
    acid.sql("INSERT INTO t VALUES (1, 'x', 10), (2, NULL, 20)")
    by_name = storage == "PARQUET"
    change = "CHANGE COLUMN c c INT FIRST" if by_name else "CHANGE COLUMN a k INT"
    acid.sql(f"ALTER TABLE t {change}")
    acid.sql("ALTER TABLE t ALTER COLUMN b TYPE VARCHAR(6) COMMENT 'longer'")
    acid.sql(
        "INSERT INTO t VALUES (30, 'longer', 3)" if not by_name else "INSERT INTO t VALUES (3, 30, 'longer')"
    )
    a = "a" if by_name else "k"
    rows = {(1, "x", 10), (2, None, 20), (30, "longer", 3)}
    assert acid.table("t").to_df().columns == (["c", "a", "b"] if by_name else ["k", "b", "c"])
    for compacted in (False, True):
        assert values(acid, f"SELECT {a}, b, c FROM t") == rows
        assert values(acid, f"SELECT c FROM t WHERE {a} = 2 OR b = 'longer'") == {(20,), (3,)}
        if storage != "TEXTFILE":
            with hiveacid.open(acid.context.warehouse) as opened:
                found = opened.table("t").to_arrow([a, "b", "c"]).to_pylist()
            assert {tuple(row.values()) for row in found} == rows
        if not compacted:
            acid.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    refused = "RENAME COLUMN a TO k" if by_name else "CHANGE COLUMN c c INT FIRST"
    with pytest.raises(HiveAcidError, match="would show NULL in k" if by_name else "c cannot move"):
        acid.sql(f"ALTER TABLE t {refused}")

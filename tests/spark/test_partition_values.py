"""Texts of partition values: the default partition's name, other engines' spellings, names that a new partition gets."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid import errors as e
from hiveacid.core.model import Column
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.spark.formats.file_columns import value_text
from hiveacid.spark.formats.types import column_type
from hiveacid.table.write import insert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.transactions.locks_and_conflicts import LockComponent

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
NAMED = f"PARTITION (p='{DEFAULT}')"


def rows(acid: AcidSession, table: str = "t") -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in acid.sql(f"SELECT * FROM {table}").collect()), key=repr)


def names(acid: AcidSession, clause: str = "") -> list[str]:
    return [row[0] for row in acid.sql(f"SHOW PARTITIONS t {clause}").collect()]


def adopted(acid: AcidSession, tmp_path: Path, kind: str, *texts: str) -> None:
    """Make a table t (id, p) whose partitions have these texts, as another engine may spell them."""
    acid.sql(f"CREATE TABLE source (id INT) PARTITIONED BY (p STRING) {ACID}")
    values = ", ".join(f"({number}, '{text}')" for number, text in enumerate(texts))
    acid.sql(f"INSERT INTO source VALUES {values}")
    shutil.copytree(acid.table("source").definition.location, tmp_path / "t")
    acid.adopt(f"CREATE TABLE t (id INT) PARTITIONED BY (p {kind}) {ACID}", str(tmp_path / "t"))


@pytest.mark.parametrize("kind", ["STRING", "INT", "DATE", "CHAR(40)"])
def test_every_statement_takes_the_printed_name_for_null(
    acid: AcidSession, kind: str, tmp_path: Path
) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p {kind}) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, NULL)")
    acid.sql(f"INSERT INTO t {NAMED} VALUES (2)")
    with (
        hiveacid.streaming.Connection(
            "t", warehouse=acid.context.warehouse, partition={"p": DEFAULT}
        ) as stream,
        stream.transaction(),
    ):
        stream.write([{"id": 3}])
    assert rows(acid) == [(1, None), (2, None), (3, None)]
    assert names(acid) == names(acid, NAMED) == [f"p={DEFAULT}"]
    assert acid.sql("DELETE FROM t WHERE p IS NULL AND id = 3").collect()[0]["num_deleted_rows"] == 1
    described = acid.sql(f"DESCRIBE FORMATTED t {NAMED}").collect()
    assert ("Partition Value:", f"[{DEFAULT}]") in [(row[0], row[1]) for row in described]
    acid.sql(f"ALTER TABLE t {NAMED} COMPACT 'major' AND WAIT")
    assert rows(acid) == [(1, None), (2, None)]
    acid.sql(f"INSERT OVERWRITE TABLE t {NAMED} VALUES (4)")
    assert rows(acid) == [(4, None)]
    (tmp_path / "data").write_bytes(b"")
    acid.sql("TRUNCATE TABLE t " + NAMED)
    assert rows(acid) == []
    with pytest.raises(e.AlreadyExistsError):
        acid.sql(f"ALTER TABLE t ADD PARTITION (p='{DEFAULT}')")
    acid.sql(f"ALTER TABLE t DROP {NAMED}")
    assert names(acid) == []
    acid.sql(f"ALTER TABLE t DROP IF EXISTS {NAMED}")
    acid.sql(f"ALTER TABLE t ADD PARTITION (p='{DEFAULT}')")
    acid.sql("INSERT INTO t VALUES (5, NULL)")
    assert rows(acid) == [(5, None)]
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert warehouse.table("t").to_arrow().to_pylist() == [{"id": 5, "p": None}]


def test_a_partition_that_is_missing_cannot_be_truncated(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING, q INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2)")
    for spec in ("p='nope'", f"p='{DEFAULT}'", "p='a', q=3"):
        with pytest.raises(e.NoSuchPartitionError):
            acid.sql(f"TRUNCATE TABLE t PARTITION ({spec})")
    acid.sql("TRUNCATE TABLE t PARTITION (p='a', q=1)")
    assert rows(acid) == [(2, "a", 2)]
    acid.sql("TRUNCATE TABLE t PARTITION (p='a')")
    acid.sql("TRUNCATE TABLE t")
    assert rows(acid) == []


@pytest.mark.parametrize("limit", ["64MB", "0"])
def test_partitions_that_another_engine_spelled_are_written_where_they_are(
    acid: AcidSession, tmp_path: Path, limit: str
) -> None:
    """``limit``: changes in the driver, or by jobs."""
    adopted(acid, tmp_path, "INT", "06", "7", "+8")
    acid.sql(f"SET hiveacid.small.changes.max.bytes={limit}")
    acid.sql("INSERT INTO t VALUES (10, 6), (11, 9)")
    acid.sql("INSERT INTO t PARTITION (p=8) VALUES (12)")
    acid.sql("UPDATE t SET id = id + 100 WHERE id IN (0, 2)")
    acid.sql("DELETE FROM t WHERE id = 12")
    acid.sql("MERGE INTO t USING (SELECT 10 AS id, 6 AS p UNION ALL SELECT 13, 8) s ON t.id = s.id AND t.p = s.p "
             "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.p)")  # fmt: skip
    expected = [(1, 7), (100, 6), (102, 8), (11, 9), (13, 8)]
    assert rows(acid) == expected
    assert names(acid) == ["p=+8", "p=06", "p=7", "p=9"]
    for spec in ("p=6", "p='+8'"):
        acid.sql(f"ALTER TABLE t PARTITION ({spec}) COMPACT 'major' AND WAIT")
        assert acid.sql(f"DESCRIBE FORMATTED t PARTITION ({spec})").count()
    with hiveacid.streaming.Connection("t", warehouse=acid.context.warehouse) as stream, stream.transaction():
        stream.write([{"id": 14, "p": 6}])
    expected.append((14, 6))
    assert rows(acid) == sorted(expected, key=repr)
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert sorted(map(repr, warehouse.table("t").to_arrow().to_pylist())) == sorted(
            repr({"id": id_, "p": p}) for id_, p in expected
        )
        assert warehouse.table("t").to_arrow(where="p = 8").num_rows == 2
    acid.sql("INSERT OVERWRITE TABLE t PARTITION (p=6) VALUES (15)")
    acid.sql("TRUNCATE TABLE t PARTITION (p=8)")
    assert rows(acid) == [(1, 7), (11, 9), (15, 6)]
    with pytest.raises(e.AlreadyExistsError):
        acid.sql("ALTER TABLE t ADD PARTITION (p=6)")
    acid.sql("ALTER TABLE t DROP PARTITION (p='06'), PARTITION (p >= 8)")
    assert names(acid) == ["p=7"]
    assert [path.name for path in tmp_path.glob("t/p=*")] == ["p=7"]


@pytest.mark.parametrize("limit", ["64MB", "0"])
@pytest.mark.parametrize(
    ("kind", "text", "value", "printed"),
    [
        ("CHAR(3)", "abcdef", "'abc'", "abc"),
        ("BOOLEAN", "TRUE", "true", "True"),
        ("DATE", "2024-1-5", "DATE'2024-01-05'", "2024-01-05"),
        ("DECIMAL(5,2)", "1.5", "1.50", "1.50"),
        ("DOUBLE", "1e3", "1000.0D", "1000.0"),
    ],
)
def test_spellings_of_other_types(
    acid: AcidSession, tmp_path: Path, kind: str, text: str, value: str, printed: str, limit: str
) -> None:
    adopted(acid, tmp_path, kind, text)
    acid.sql(f"SET hiveacid.small.changes.max.bytes={limit}")
    acid.sql(f"INSERT INTO t VALUES (1, {value})")
    acid.sql(f"UPDATE t SET id = id + 10 WHERE p = {value}")
    assert [(row[0], str(row[1])) for row in rows(acid)] == [(10, printed), (11, printed)]
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert {str(row["p"]) for row in warehouse.table("t").to_arrow().to_pylist()} == {printed}
    assert names(acid) == [f"p={text}"]
    acid.sql(f"ALTER TABLE t DROP PARTITION (p = {value.removesuffix('D')})")
    assert names(acid) == []


@pytest.mark.parametrize(
    ("kind", "value", "chosen_by"),
    [
        ("DECIMAL(5,1)", "1.3", "p <= 1.25"),
        ("DECIMAL(5,1)", "1.2", "p >= 1.24"),
        ("INT", "2", "p >= 5 / 2"),
        ("DATE", "'2024-01-05'", "p >= TIMESTAMP'2024-01-05 12:00:00'"),
        ("DATE", "'2024-01-05'", "p > '2024-01-04 12:00:00'"),
        ("CHAR(3)", "'abc'", "p >= 'abcd'"),
        ("VARCHAR(3)", "'abc'", "p <> 'abcd'"),
    ],
)
def test_no_partition_is_dropped_by_a_value_that_its_column_rounds_or_cuts(
    acid: AcidSession, kind: str, value: str, chosen_by: str
) -> None:
    """Five of these would drop a partition that does not fulfil the condition."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p {kind}) {ACID}")
    acid.sql(f"INSERT INTO t VALUES (1, {value})")
    with pytest.raises(e.StatementError, match="by another value") as caught:
        acid.sql(f"ALTER TABLE t DROP PARTITION ({chosen_by})")
    assert (caught.value.line, caught.value.column) == (1, 31)
    assert len(names(acid)) == 1
    for exact in ("p >= TIMESTAMP'2024-01-05 00:00:00'",) if kind == "DATE" else (f"p >= {value}",):
        acid.sql(f"ALTER TABLE t DROP PARTITION ({exact})")
    assert names(acid) == []


def test_a_bad_partition_stops_changes_of_itself_only(acid: AcidSession, tmp_path: Path) -> None:
    adopted(acid, tmp_path, "INT", "six", "7", "08", "8")
    acid.sql("INSERT INTO t VALUES (10, 7), (11, 9)")
    acid.sql("DELETE FROM t WHERE p = 7 AND id = 1")
    acid.sql("SET hiveacid.small.changes.max.bytes=0")
    acid.sql("UPDATE t SET id = 20 WHERE p = 9")
    with pytest.raises(e.UnsupportedFeatureError, match="p=08, p=8"):
        acid.sql("DELETE FROM t WHERE p = 8")
    assert sorted(acid.sql("SELECT id, p FROM t WHERE p > 6").collect()) == [(2, 8), (3, 8), (10, 7), (20, 9)]
    acid.sql("ALTER TABLE t DROP PARTITION (p='08')")
    assert names(acid) == ["p=7", "p=8", "p=9", "p=six"]
    acid.sql("ALTER TABLE t DROP PARTITION (p='six')")
    acid.sql("DELETE FROM t WHERE p = 8")
    assert rows(acid) == [(10, 7), (20, 9)]


@pytest.mark.parametrize("limit", ["64MB", "0"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DATE", "CAST('20245-05-01' AS DATE)"),
        ("DATE", "'0000-01-01'"),
        ("TIMESTAMP", "CAST('+12345-01-01 00:00:00' AS TIMESTAMP)"),
        ("STRING", "CAST(X'ff' AS STRING)"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP'2024-01-01 00:00:00'"),
    ],
)
def test_a_value_without_a_name_is_refused_and_the_table_stays_writable(
    acid: AcidSession, kind: str, value: str, limit: str
) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p {kind}) {ACID}")
    acid.sql(f"SET hiveacid.small.changes.max.bytes={limit}")
    for statement in (
        f"INSERT INTO t SELECT 1, {value}",
        f"INSERT INTO t PARTITION (p={value}) VALUES (1)",
        f"ALTER TABLE t ADD PARTITION (p={value})",
    ):
        with pytest.raises(e.UnsupportedFeatureError, match="cannot have a partition p="):
            acid.sql(statement)
    acid.sql("INSERT INTO t VALUES (2, NULL)")
    assert rows(acid) == [(2, None)]
    assert names(acid) == [f"p={DEFAULT}"]


def test_numbers_whose_text_is_longer_in_some_versions_of_java(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p DOUBLE) {ACID}")
    for number in (1, 2):
        acid.sql(f"INSERT INTO t VALUES ({number}, 1e23), ({number}, 4.9E-324), ({number}, 0.5)")
    acid.sql("UPDATE t SET id = 3 WHERE id = 1")
    acid.sql("SET hiveacid.small.changes.max.bytes=0")
    acid.sql("DELETE FROM t WHERE p > 1 AND id = 2")
    assert sorted(map(tuple, acid.sql("SELECT p, id FROM t").collect())) == [
        (5e-324, 2), (5e-324, 3), (0.5, 2), (0.5, 3), (1e23, 3),
    ]  # fmt: skip
    assert len(names(acid)) == 3


def test_an_existing_partition_of_a_far_year_can_be_emptied(acid: AcidSession, tmp_path: Path) -> None:
    adopted(acid, tmp_path, "DATE", "+20245-05-01", "2024-05-01")
    acid.sql("INSERT INTO t VALUES (2, DATE'2024-05-01')")
    acid.sql("DELETE FROM t WHERE year(p) > 9999")
    assert acid.sql("SELECT id FROM t").collect() == [(1,), (2,)]
    acid.sql("ALTER TABLE t DROP PARTITION (p > '9999-12-31')")
    assert names(acid) == ["p=2024-05-01"]


def test_texts_are_read_as_spark_casts_them(spark: SparkSession) -> None:
    texts = {
        "INT": ["06", "+8", " 9 ", "-0", "2147483648", "1_0", "x", "0x1", "1.0"],
        "TINYINT": ["-128", "128"],
        "BIGINT": ["-9223372036854775808", "9223372036854775808"],
        "BOOLEAN": ["TRUE", "t", "Yes", "n", "0", "1", "2", "on"],
        "DECIMAL(5,2)": ["1.5", "-1.555", "+.5", "1.", "999.994", "999.995", "1e2", "-0.001", "1e-30", "x"],
        "DECIMAL(20,8)": ["0", "1e-8", "-0.00000001", "123456789012"],
        "DOUBLE": ["1e3", "1", "0.0001", "12345678", "NaN", "Infinity", "-0", "x"],
        "FLOAT": ["0.1", "16777217", "1e-3"],
        "DATE": ["2024-1-5", "2024-01-05", "2024-02-30", "0001-01-01", "9999-12-31", "+20245-05-01", "0000-01-01"],
        "TIMESTAMP": ["2024-1-5", "2024-01-05 7:8:9", "2024-01-05T07:08:09.120", "2024-01-05 00:00:00.1234567", "x"],
    }  # fmt: skip
    spark.sql("SET TIME ZONE 'UTC'")
    for kind, values in texts.items():
        column = Column("p", kind.lower())
        frame = spark.createDataFrame([(text,) for text in values], "text STRING")
        typed = frame.select("text", frame.text.try_cast(column_type(column)).alias("p"))
        found = {row[0]: row[1] for row in typed.selectExpr("text", value_text(column)).collect()}
        for text in values:
            expected = canonical_text(text, column.type)
            if kind in ("FLOAT", "DOUBLE") and found[text] is not None:
                assert expected is not None
                assert float(found[text]) == pytest.approx(float(expected), nan_ok=True, rel=1e-7)
            else:
                # What only Spark reads (1.0 in an INT column) is None: rows of such a partition are not changed.
                assert expected in (found[text], None), (kind, text)
                assert expected is not None or text in ("1.0", "on") or found[text] is None, (kind, text)


@pytest.mark.parametrize("column", ["_p", ".p"])
def test_adopt_takes_partition_columns_with_names_of_hidden_files(
    acid: AcidSession, tmp_path: Path, column: str
) -> None:
    acid.sql(f"CREATE TABLE source (id INT) PARTITIONED BY (`{column}` STRING) {ACID}")
    acid.sql("INSERT INTO source VALUES (1, 'a'), (2, NULL)")
    place = tmp_path / "t"
    shutil.copytree(acid.table("source").definition.location, place)
    acid.adopt(f"CREATE TABLE t (id INT) PARTITIONED BY (`{column}` STRING) {ACID}", str(place))
    acid.sql("INSERT INTO t VALUES (3, 'a')")
    assert rows(acid) == [(1, "a"), (2, None), (3, "a")]
    acid.table("t").compact("major", wait=True)
    assert {item.state for item in acid.table("t").inspect.files().collect()} == {"used", "side file"}
    assert not acid.table("t").inspect.check()


def test_adopt_names_the_data_that_it_does_not_take(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    acid.sql(f"CREATE TABLE source (id INT) PARTITIONED BY (p INT, q INT) {ACID}")
    acid.sql("INSERT INTO source VALUES (1, 1, 1), (2, 1, 2)")
    place = tmp_path / "t"
    shutil.copytree(acid.table("source").definition.location, place)
    for clause in ("", "PARTITIONED BY (p INT)", "PARTITIONED BY (q INT, p INT)"):
        with pytest.raises(e.CatalogError, match="p=1/q=1, p=1/q=2"):
            acid.adopt(f"CREATE TABLE t (id INT) {clause} {ACID}", str(place))
    shutil.copytree(place / "p=1", place / "odd" / "p=1")
    (place / ".staging").mkdir()
    (place / ".staging" / "bucket_00000").write_bytes(b"x")
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        acid.adopt(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT, q INT) {ACID}", str(place))
    assert "not adopted: odd/p=1/q=1, odd/p=1/q=2" in caplog.text
    assert ".staging" not in caplog.text
    assert rows(acid) == [(1, 1, 1), (2, 1, 2)]


def test_rows_are_fitted_to_the_table_that_has_the_name_under_the_lock(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an INSERT waits for its lock, another table may get the name; texts are cut to its columns."""
    acid.sql(f"CREATE TABLE t (v VARCHAR(9), k INT) PARTITIONED BY (p STRING) {ACID}")
    acid.sql(f"CREATE TABLE shorter (v VARCHAR(2), k INT) PARTITIONED BY (p INT) {ACID}")
    lock_of = insert.insert_lock

    def swapped_before_the_lock(*arguments: Any, **options: Any) -> LockComponent:
        monkeypatch.undo()
        acid.sql("ALTER TABLE t RENAME TO longer")
        acid.sql("ALTER TABLE shorter RENAME TO t")
        return lock_of(*arguments, **options)

    monkeypatch.setattr(insert, "insert_lock", swapped_before_the_lock)
    acid.sql("INSERT INTO t PARTITION (p='07') VALUES ('abc', 1)")
    assert rows(acid) == [("ab", 1, 7)]
    assert names(acid) == ["p=7"]

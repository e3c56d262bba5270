"""Time travel, history and changes in SQL: by ``acid.sql``, and by Spark's own on a native session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hiveacid
from hiveacid.cli import main
from hiveacid.errors import (
    ConfigError,
    HiveAcidError,
    NotEnoughHistoryError,
    StatementError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
Sql = Callable[..., "DataFrame"]


@pytest.fixture(params=["acid", "native"])
def sql(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Sql]:
    """Return either way to run a statement, on an empty warehouse."""
    if request.param == "acid":
        with hiveacid.connect(spark, warehouse=str(tmp_path / "warehouse")) as acid:
            yield acid.sql
        return
    session = hiveacid.configure(
        spark.builder, native=True, warehouse=str(tmp_path / "warehouse")
    ).getOrCreate()
    yield session.sql
    session.close()
    for name in ("d", "t"):
        spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.exhaustive("the script past.test stays")
def test_the_past_of_a_table(sql: Sql, tmp_path: Path) -> None:
    """Versions, times, changes and what is known about a table, wherever a table may stand."""
    times = filled(sql)
    travels(sql, times)
    changes(sql, times)
    tells(sql, tmp_path)


def filled(sql: Sql) -> dict[int, str]:
    """Make a table of three commits; return their times."""
    sql("CREATE DATABASE IF NOT EXISTS d")
    sql(f"CREATE TABLE d.t (id INT, v STRING) {ACID}")
    sql("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
    sql("UPDATE d.t SET v = 'x' WHERE id = 1")
    sql("DELETE FROM d.t WHERE id = 2")
    times = {
        row.write_id: row.at
        for row in sql(
            "SELECT write_id, date_format(committed_at, 'yyyy-MM-dd HH:mm:ss.SSS') at FROM d.t.history"
        ).collect()
    }
    assert sorted(times) == [0, 1, 2, 3]
    return times


def travels(sql: Sql, times: dict[int, str]) -> None:
    first, second, third = [(1, "a"), (2, "b")], [(1, "x"), (2, "b")], [(1, "x")]
    assert rows(sql("SELECT * FROM d.t VERSION AS OF 1")) == first
    assert rows(sql("SELECT * FROM d.t FOR SYSTEM_VERSION AS OF 2 AS old")) == second
    assert rows(sql(f"SELECT * FROM d.t TIMESTAMP AS OF '{times[1]}'")) == first
    assert (
        rows(sql(f"SELECT t.* FROM d.t FOR SYSTEM_TIME AS OF timestamp '{times[2]}' WHERE d.t.id > 0"))
        == second
    )
    assert (
        rows(sql("SELECT * FROM d.t FOR TIMESTAMP AS OF current_timestamp() - interval 0 seconds")) == third
    )
    assert rows(sql("SELECT * FROM d.t TIMESTAMP AS OF :at", args={"at": datetime.now(UTC)})) == third
    both = f"SELECT n.id FROM d.t VERSION AS OF 1 o JOIN d.t TIMESTAMP AS OF '{times[3]}' n ON o.id = n.id AND o.v <> n.v"
    assert rows(sql(both)) == [(1,)]
    assert rows(
        sql(
            "WITH o AS (SELECT * FROM d.t VERSION AS OF 1) SELECT count(*) FROM o WHERE id IN (SELECT id FROM d.t)"
        )
    ) == [(1,)]
    sql(f"CREATE TABLE d.back (id INT, v STRING) {ACID}")
    sql("INSERT INTO d.back SELECT * FROM d.t VERSION AS OF 1")
    sql(
        "MERGE INTO d.back b USING (SELECT * FROM d.t VERSION AS OF 2) o ON b.id = o.id WHEN MATCHED THEN UPDATE SET v = o.v"
    )
    assert rows(sql("SELECT * FROM d.back")) == second
    sql("CREATE TEMPORARY VIEW past AS SELECT * FROM d.t VERSION AS OF 1")
    assert rows(sql("SELECT * FROM past")) == first
    sql("DROP VIEW past")


def changes(sql: Sql, times: dict[int, str]) -> None:
    changed = [(1, "a", "delete", 2), (1, "x", "insert", 2), (2, "b", "delete", 3)]
    assert rows(sql("SELECT * FROM hiveacid_changes('d.t', 1)")) == changed
    assert rows(sql("SELECT * FROM table_changes('d.t', 2, 3) c WHERE c.id = 2")) == changed[2:]
    assert (
        rows(sql(f"SELECT * FROM table_changes('d.t', timestamp '{times[2]}', '{times[2]}')")) == changed[:2]
    )
    assert {row._change_type for row in sql("SELECT * FROM hiveacid_changes('d.t', 1, NULL, 'id')").collect()} == {
        "update_before", "update_after", "delete",
    }  # fmt: skip
    assert rows(sql("SELECT * FROM hiveacid_changes('d.t', after => 0, until => 3, net => true)")) == [
        (1, "x", "insert", 2)
    ]
    joined = (
        "WITH c AS (SELECT * FROM table_changes('d.t', 2)) SELECT c.id, t.v FROM c JOIN d.t ON c.id = t.id"
    )
    assert rows(sql(joined)) == [(1, "x"), (1, "x")]
    sql(
        "INSERT INTO d.back SELECT id, _change_type FROM hiveacid_changes(:t, ?)".replace("?", ":n"),
        args={"t": "d.t", "n": 2},
    )
    assert rows(sql("SELECT * FROM d.back WHERE v = 'delete'")) == [(2, "delete")]


def tells(sql: Sql, tmp_path: Path) -> None:
    history = sql("DESCRIBE HISTORY d.t LIMIT 2").collect()
    assert [(row.write_id, row.operation, row.statement) for row in history] == [
        (3, "DELETE", "DELETE FROM d.t WHERE id = 2"), (2, "UPDATE", "UPDATE d.t SET v = 'x' WHERE id = 1"),
    ]  # fmt: skip
    assert rows(sql("SELECT h.operation FROM d.back.history h WHERE h.write_id > 0")) == [
        ("INSERT",), ("INSERT",), ("MERGE",),
    ]  # fmt: skip
    assert rows(sql("SELECT count(*) FROM d.t.files WHERE state = 'used' AND bytes > 0")) == [(4,)]
    assert rows(sql("SELECT sum(files), count(*) FROM d.t.deltas")) == [(8, 4)]
    assert rows(sql("SELECT write_id, readable FROM d.t.snapshots WHERE write_id > 1")) == [
        (2, True),
        (3, True),
    ]
    assert rows(sql("SELECT partition, files FROM spark_catalog.d.t.partitions")) == [(None, 4)]
    arguments = ["table", "history", "d.t", "-n", "1", "-o", "json", "-w", str(tmp_path / "warehouse")]
    printed = CliRunner().invoke(main, arguments)
    assert (printed.exit_code, json.loads(printed.stdout)["operation"]) == (0, "DELETE")


@pytest.mark.exhaustive("the other SQL interface stays", cases=("acid]",))
def test_names_and_places(sql: Sql) -> None:
    """Tables called like what is known about them come first; what is wrong has its place."""
    sql("CREATE DATABASE IF NOT EXISTS t")
    sql(f"CREATE TABLE t (history INT) {ACID}")
    sql("INSERT INTO t VALUES (7)")
    assert rows(sql("SELECT history FROM t")) == [(7,)]
    assert rows(sql("SELECT max(write_id) FROM t.history")) == [(1,)]
    sql(f"CREATE TABLE t.history (id INT) {ACID}")
    sql("INSERT INTO t.history VALUES (8)")
    assert rows(sql("SELECT * FROM t.history")) == [(8,)]
    assert rows(sql("SELECT history.id FROM t.history")) == [(8,)]
    assert rows(sql("SELECT max(write_id) FROM default.t.history")) == [(1,)]
    assert rows(sql("SELECT max(write_id) FROM t.history.history")) == [(1,)]
    sql("CREATE TEMPORARY VIEW history AS SELECT 9 AS n")
    assert rows(sql("SELECT * FROM history")) == [(9,)]
    sql("DROP VIEW history")
    sql(f"CREATE TABLE `it's odd` (id INT) {ACID}")
    sql("INSERT INTO `it's odd` VALUES (1)")
    assert rows(sql("SELECT max(write_id) FROM default.`it's odd`.history")) == [(1,)]
    assert rows(sql("SELECT * FROM hiveacid_changes('it\\'s odd', 0)")) == [(1, "insert", 1)]
    assert rows(sql("SELECT * FROM `it's odd` VERSION AS OF 0")) == []

    wrong: list[tuple[str, type[HiveAcidError], str]] = [
        ("SELECT *\nFROM t VERSION AS OF 'soon'", NotEnoughHistoryError, "there is no such tag"),
        ("SELECT *\nFROM t TIMESTAMP AS OF 'soon'", StatementError, "line 2, column 24"),
        ("SELECT * FROM t TIMESTAMP AS OF NULL", StatementError, "line 1, column 33"),
        ("SELECT * FROM t TIMESTAMP AS OF nonsense(1)", HiveAcidError, "line 1, column 33"),
        ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", NotEnoughHistoryError, "its time begins later"),
        ("SELECT * FROM t VERSION AS OF 99", HiveAcidError, "99 is not between 0 and 1"),
        ("SELECT * FROM default.t.history VERSION AS OF 1", UnsupportedFeatureError, "line 1, column 33"),
        ("SELECT 1 FROM t,\n hiveacid_changes('nowhere', 1)", HiveAcidError, "line 2, column 2"),
        ("SELECT * FROM t, table_changes('t', array('a'))", HiveAcidError, "start is not a write id"),
        (
            "SELECT * FROM hiveacid_changes('t', 0, net => 'false')",
            HiveAcidError,
            "net is true or false, not 'false'",
        ),
        ("SELECT * FROM table_changes('t')", StatementError, "line 1, column 15"),
        ("SELECT * FROM hiveacid_changes('t', 0, NULL, 'nope')", HiveAcidError, "key names no column: nope"),
    ]
    for text, kind, said in wrong:
        with pytest.raises(kind, match=said):
            sql(text).collect()
    sql("DROP TABLE t.history")


def test_a_reader_takes_the_point_of_time_travel_and_no_other_option(native: NativeSession) -> None:
    sql = native.sql
    sql(f"CREATE TABLE t (id INT) {ACID}")
    for id_ in (1, 2):
        sql(f"INSERT INTO t VALUES ({id_})")
    sql("CREATE VIEW seen AS SELECT * FROM t")
    sql("SET spark.sql.session.timeZone=Asia/Tokyo")
    try:
        moment = sql("SELECT string(committed_at) FROM t.history WHERE write_id = 1").first()[0]
        assert rows(native.read.option("timestampAsOf", moment).table("t")) == [(1,)]
    finally:
        sql("RESET spark.sql.session.timeZone")
    for value in (1, "1"):
        assert rows(native.read.option("versionAsOf", value).table("default.t")) == [(1,)]
        assert rows(native.read.options(VERSIONASOF=value, format=None).table("t")) == [(1,)]
    assert rows(native.read.format("orc").option("versionAsOf", None).table("t")) == [(1,), (2,)]
    with pytest.raises(NotEnoughHistoryError, match="no such tag"):
        native.read.option("versionAsOf", "yesterday").table("t")
    with pytest.raises(ConfigError, match="a write_id, a timestamp or a tag"):
        native.read.options(versionAsOf=1, timestampAsOf="2026-01-01").table("t")
    for reader in (native.read.option("readChangeFeed", "true"), native.read.schema("id BIGINT")):
        for name in ("t", "seen", "t.history"):
            with pytest.raises(UnsupportedFeatureError, match="no effect"):
                reader.table(name)
    for name in ("seen", "t.history"):
        with pytest.raises(UnsupportedFeatureError, match=r"no past|no earlier states"):
            native.read.option("versionAsOf", 1).table(name)
    with pytest.raises(UnsupportedFeatureError, match="no past"):
        native.acid.table("seen").as_of(1).to_df()
    sql("CREATE TABLE own USING json AS SELECT 1 AS id")
    assert rows(native.read.option("mergeSchema", "true").table("own")) == [(1,)]

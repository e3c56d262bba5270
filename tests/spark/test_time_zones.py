"""Time zones of files and sessions: compared by their rules, and asked for once a value (issue 20, point 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.spark.formats.expressions import as_column
from hiveacid.spark.formats.file_columns import from_file, to_file
from hiveacid.spark.formats.flat_files import file_values
from hiveacid.spark.session import environment
from hiveacid.spark.session.environment import ExecutorTimeZones, SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_SETTING = "spark.sql.session.timeZone"


@pytest.fixture
def session_zone(spark: SparkSession) -> Iterator[SparkSession]:
    """Let a test change the session's time zone."""
    before = str(spark.conf.get(_SETTING))
    yield spark
    spark.conf.set(_SETTING, before)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("UTC", "Etc/UTC", True),
        ("UTC", "GMT", True),
        ("Z", "Etc/Zulu", True),
        ("UTC", "+00:00", True),
        ("America/New_York", "US/Eastern", True),
        ("Asia/Kolkata", "Asia/Calcutta", True),
        ("+05:30", "GMT+05:30", True),
        ("Europe/Berlin", "Europe/Paris", False),
        ("UTC", "Europe/London", False),
        ("Asia/Kolkata", "+05:30", False),  # other offsets before 1945
    ],
)
def test_zones_are_compared_by_their_rules(
    spark: SparkSession,
    one: str,
    other: str,
    alike: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert ExecutorTimeZones().are_alike(spark, one, other) is alike
    assert ExecutorTimeZones().are_alike(spark, other, one) is alike


def test_executors_may_name_one_zone_differently(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "driver_runs_tasks", lambda _: False)
    monkeypatch.setattr(environment, "_ask_executors", lambda _: ["UTC", "Etc/UTC", "UTC"])
    assert ExecutorTimeZones().zone(spark, "UTC") == "Etc/UTC"
    monkeypatch.setattr(environment, "_ask_executors", lambda _: ["UTC", "Etc/UTC", "Europe/London"])
    with pytest.raises(ConfigError, match="Etc/UTC, Europe/London, UTC"):
        ExecutorTimeZones().zone(spark, "UTC")


def test_a_session_that_names_the_zone_of_files_differently_moves_nothing(session_zone: SparkSession) -> None:
    env = SparkEnvironment(session_zone, zones=ExecutorTimeZones(fixed="America/New_York"))
    session_zone.conf.set(_SETTING, "US/Eastern")
    for hive in ("timestamp", "array<timestamp>"):
        assert from_file(env, "t", hive) == "t"
        assert to_file(env, "t", hive) == "t"
    session_zone.conf.set(_SETTING, "America/Chicago")
    noon = session_zone.sql("SELECT TIMESTAMP'2026-01-15 12:00:00' AS t")
    stored = noon.select(as_column(to_file(env, "t", "timestamp")).alias("t"))
    shown = stored.select("t", as_column(from_file(env, "t", "timestamp")).alias("shown"))
    texts = shown.selectExpr("CAST(t AS STRING)", "CAST(shown AS STRING)").collect()
    assert [tuple(row) for row in texts] == [("2026-01-15 11:00:00", "2026-01-15 12:00:00")]


def test_a_value_asks_for_its_zones_once(session_zone: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(name: str, zone: str) -> property:
        return property(lambda _: asked.append(name) or zone)

    monkeypatch.setattr(SparkEnvironment, "stored_time_zone", note("stored", "America/New_York"))
    monkeypatch.setattr(SparkEnvironment, "session_time_zone", note("session", "America/Chicago"))
    env = SparkEnvironment(session_zone)
    columns = (Column("a", "timestamp"), Column("b", "int"), Column("c", "array<timestamp>"))
    table = TableDefinition(TableName("default", "t"), columns, ORC, "/t")
    assert len(file_values(env, table)) == 3
    assert sorted(asked) == ["session"] * 2 + ["stored"] * 2
    asked.clear()
    from_file(replace(env, copies_timestamps=True), "a", "timestamp")
    from_file(env, "b", "int")
    assert asked == []


@pytest.fixture
def jvm_zone(session_zone: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test in a session and a JVM of another zone."""
    zone = str(request.param)
    zones = session_zone._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    session_zone.conf.set(_SETTING, zone)
    yield zone
    zones.setDefault(before)


_OLD_TIMES = (
    "0001-01-01 00:00:00", "1753-01-01 00:00:00", "1850-07-01 12:34:56.789012", "1899-12-31 23:59:59", "1900-01-01 00:00:00",
    "1900-06-01 00:00:00.5", "1910-01-01 00:00:00", "1913-06-01 00:00:00", "1969-12-31 12:00:00.5", "2024-07-01 00:00:00",
    "9999-12-31 23:59:59.999999",
)  # fmt: skip


@pytest.mark.parametrize("jvm_zone", ["Asia/Kolkata", "America/Sao_Paulo", "Europe/Paris"], indirect=True)
def test_old_times_of_another_zone_are_those_of_java_without_spark_and_after_an_update(
    spark: SparkSession, tmp_path: Path, jvm_zone: str
) -> None:
    """Before 1900 Java takes a zone's offset of today, Arrow the first one: an UPDATE in the driver shifted such times."""
    with hiveacid.connect(spark, warehouse=str(tmp_path)) as acid, hiveacid.open(str(tmp_path)) as warehouse:
        acid.sql(f"CREATE TABLE t (id INT, n INT, t TIMESTAMP) {ACID}")
        acid.sql(f"CREATE TABLE nested (s STRUCT<t: TIMESTAMP>) {ACID}")
        acid.set("hiveacid.changes.by", "job")
        rows = ", ".join(f"({number}, 1, TIMESTAMP'{text}')" for number, text in enumerate(_OLD_TIMES))
        acid.sql(f"INSERT INTO t SELECT * FROM VALUES {rows}")
        acid.sql("INSERT INTO nested SELECT named_struct('t', t) FROM t WHERE id = 4")
        acid.set("hiveacid.changes.by", "auto")

        def shown() -> list[str]:
            return [row[0] for row in acid.sql("SELECT CAST(t AS STRING) FROM t ORDER BY id").collect()]

        assert shown() == [*_OLD_TIMES], jvm_zone
        read = warehouse.table("t").to_arrow(where="id > 0").sort_by("id").column("t").to_pylist()
        assert read == [datetime.fromisoformat(text) for text in _OLD_TIMES[1:]]
        with pytest.raises(UnsupportedFeatureError, match=f"old times of the zone {jvm_zone} inside arrays"):
            warehouse.table("nested").to_arrow()
        acid.sql("UPDATE t SET n = 2 WHERE id > 0")
        assert shown() == [*_OLD_TIMES], jvm_zone

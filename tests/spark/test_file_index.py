"""Many files go to Spark as one list: the same rows as by its own listing, and never files that no snapshot reads."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyorc
import pytest

from hiveacid.errors import BadFileError
from hiveacid.spark.read import acid_rows
from hiveacid.table.read import table_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.spark.read.scan_source import FileGroup

ODD = ("plain", "a b", "c%20d", "e=f/g", "[x]*?{y}", "Zürich's", "100%", "h+i", "j#k", 'l"m\\n')


AHEAD = "hiveacid-file-index"
EVENT = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    "row:struct<id:int,v:string>>"
)


@pytest.fixture
def table(acid: AcidSession) -> str:
    acid.sql(
        "CREATE TABLE listed (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    rows = [(number, f"v{number}", odd) for number, odd in enumerate(ODD)]
    acid.table("listed").insert(acid.context.env.spark.createDataFrame(rows, "id INT, v STRING, p STRING"))
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
    monkeypatch.setattr(acid_rows, "MIN_FILES", 1)
    found = acid.sql(query)
    assert "MetadataLogFileIndex" in location(found)
    assert rows(found) == rows(expected)
    assert rows(found), table


def test_what_appears_beside_the_listed_files_is_never_read(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acid_rows, "MIN_FILES", 1)
    frame = acid.table(table).to_df().cache()
    before = rows(frame)
    acid.sql(f"INSERT INTO {table} PARTITION (p) VALUES (200, 'new', 'plain')")
    root = acid.table(table).definition.location
    acid.context.env.spark.catalog.refreshByPath(root)  # Spark lists the files of its own indexes again
    frame.unpersist()
    assert rows(frame) == before
    assert len(rows(acid.table(table).to_df())) == len(before) + 1


def test_the_list_leaves_no_file_behind(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(acid_rows, "MIN_FILES", 1)
    lists = tmp_path / "lists"
    lists.mkdir()
    monkeypatch.setattr(acid_rows.tempfile, "tempdir", str(lists))
    assert acid.table(table).to_df().count() == len(ODD) + 2
    assert not list(lists.iterdir())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let every first plan begin its index ahead; yield the threads in which an index was made."""
    threads: list[str] = []
    make = acid_rows.make_index

    def spy(env: object, group: FileGroup) -> object:
        threads.append(threading.current_thread().name)
        return make(env, group)

    monkeypatch.setattr(acid_rows, "MIN_FILES", 1)
    monkeypatch.setattr(table_snapshot, "MIN_FILES", 1)
    monkeypatch.setattr(acid_rows, "make_index", spy)
    monkeypatch.setattr(table_snapshot, "make_index", spy)
    yield threads
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(AHEAD)]


def test_the_index_of_a_first_plan_is_made_ahead_in_another_thread(
    acid: AcidSession, table: str, made: list[str]
) -> None:
    frame = acid.table(table).to_df()
    assert [name.startswith(AHEAD) for name in made] == [True]
    assert "MetadataLogFileIndex" in location(frame)
    assert len(rows(frame)) == len(ODD) + 2


def test_an_index_of_other_files_than_a_scan_reads_is_not_used(
    acid: AcidSession, table: str, made: list[str]
) -> None:
    acid.set("hiveacid.read.file.records", "false")
    file = next(Path(acid.table(table).definition.location).glob("p=plain/delta*_0000001_*/bucket_*"))
    with file.open("wb") as target, pyorc.Writer(target, EVENT) as writer:
        writer.set_user_metadata(**{"hive.acid.version": b"2"})  # no rows, so that no scan reads the file
    frame = acid.table(table).to_df()
    assert [name.startswith(AHEAD) for name in made] == [True, False]
    assert sorted(row.id for row in frame.collect()) == [*range(1, len(ODD)), 100, 101]


def test_files_that_delete_events_may_match_have_an_index_of_their_own(
    acid: AcidSession, table: str, made: list[str]
) -> None:
    acid.sql(f"DELETE FROM {table} WHERE id IN (3, 101)")
    made.clear()
    frame = acid.table(table).to_df()
    assert [name.startswith(AHEAD) for name in made] == [True, False]
    assert len(rows(frame)) == len(ODD)


def test_a_bad_footer_is_an_error_beside_an_index_made_ahead(
    acid: AcidSession, table: str, made: list[str]
) -> None:
    acid.set("hiveacid.read.file.records", "false")
    file = min(Path(acid.table(table).definition.location).rglob("bucket_*"))
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(BadFileError, match=re.escape(file.name)):
        acid.table(table).to_df()
    assert [name.startswith(AHEAD) for name in made] == [True]

"""Kept listings give the rows that new listings give, whatever changes a table, and only changed places are listed."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.spark.read import acid_rows
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.connection_caches import StampedListings
from support.clock import LaterClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

CREATE = "CREATE TABLE kept (id INT, v STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'{})"
READS = (
    "SELECT id, v, p, ROW__ID FROM {0}",
    "SELECT id, v FROM {0} WHERE p = 1",
    "SELECT v, INPUT__FILE__NAME FROM {0} WHERE id > 2",
)
# Three scans in one job; a count is answered by footers.
QUERIES = (
    " UNION ALL ".join(
        f"SELECT {n} AS n, to_json(struct(*)) AS row FROM ({read})" for n, read in enumerate(READS)
    ),
    "SELECT count(*) FROM {0}",
)


@dataclass
class Beside:
    """Two connections to one warehouse: one keeps listings, the other lists for every query."""

    keeping: AcidSession
    listing: AcidSession

    def require_equal_rows(self, table: str = "kept") -> None:
        for query in QUERIES:
            expected = sorted(self.listing.sql(query.format(table)).collect())
            for _ in range(2):
                assert sorted(self.keeping.sql(query.format(table)).collect()) == expected, query
        assert len(self.keeping.context.listings.locations._values)

    def root(self) -> Path:
        return Path(self.keeping.table("kept").definition.location)


@pytest.fixture
def beside(acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    if StampedListings.begin(acid.context.fs, 0) is None:
        pytest.skip("the directory for temporary files is on no local file system that is known")
    monkeypatch.setattr(acid_rows, "MIN_FILES", 2)  # the index is kept, too
    acid.context = replace(acid.context, clock=LaterClock())
    other = hiveacid.connect(spark, warehouse=acid.context.warehouse)
    other.set("hiveacid.read.keep.listings", "false")
    yield Beside(acid, other)
    assert not len(other.context.listings.locations._values)
    other.close()


def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every listing of a directory tree adds its last component."""
    found: list[str] = []
    whole = LocalFileSystem.list_with_status

    def spy(fs: LocalFileSystem, root: str) -> object:
        found.append(root.rpartition("/")[2])
        return whole(fs, root)

    monkeypatch.setattr(LocalFileSystem, "list_with_status", spy)
    return found


def filled(beside: Beside, properties: str = "") -> AcidSession:
    acid = beside.listing
    acid.sql(CREATE.format(properties))
    acid.sql("INSERT INTO kept VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    acid.sql("INSERT INTO kept VALUES (4, 'd', 1), (5, 'e', 2)")
    return acid


STATEMENTS = (
    "INSERT INTO kept VALUES (6, 'f', 2)",
    "UPDATE kept SET v = 'x' WHERE id < 3",
    "DELETE FROM kept WHERE id = 4",
    (
        "MERGE INTO kept t USING (SELECT 5 id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new', 4)"
    ),
    "ALTER TABLE kept PARTITION (p = 1) COMPACT 'minor'",
    "INSERT OVERWRITE TABLE kept PARTITION (p = 2) VALUES (7, 'g')",
    "ALTER TABLE kept ADD COLUMNS (w INT)",
    "ALTER TABLE kept PARTITION (p = 1) COMPACT 'major'",
    "ALTER TABLE kept DROP PARTITION (p = 3)",
    "TRUNCATE TABLE kept",
)


@pytest.mark.exhaustive("changes of files, and random histories with kept listings, stay")
def test_every_statement_of_another_connection_is_seen(beside: Beside) -> None:
    acid = filled(beside)
    beside.require_equal_rows()
    for statement in STATEMENTS:
        acid.sql(statement)
        beside.require_equal_rows()
        if "COMPACT" in statement:
            acid.clean()
            beside.require_equal_rows()
    acid.sql("DROP TABLE kept")
    filled(beside)
    beside.require_equal_rows()


@pytest.mark.exhaustive("tables with row ids stay, and insert-only ones without kept listings")
def test_insert_only_tables_are_kept_too(beside: Beside) -> None:
    acid = filled(beside, ", 'transactional_properties'='insert_only'")
    query = "SELECT id, v, p FROM kept"
    for statement in ("SELECT 1", STATEMENTS[0], STATEMENTS[5], STATEMENTS[8]):
        acid.sql(statement)
        for _ in range(2):
            assert sorted(beside.keeping.sql(query).collect()) == sorted(acid.sql(query).collect())
    assert len(beside.keeping.context.listings.locations._values) >= 2


def test_only_changed_partitions_are_listed_again(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(beside)
    found = listed(monkeypatch)
    query = "SELECT * FROM kept"
    beside.keeping.sql(query).collect()
    assert sorted(found) == ["p=1", "p=2", "p=3"]
    found.clear()
    beside.keeping.sql(query).collect()
    beside.keeping.sql("SELECT * FROM kept WHERE p = 3").collect()
    assert found == []
    beside.listing.sql("INSERT INTO kept VALUES (10, 'j', 2)")
    found.clear()
    assert len(beside.keeping.sql(query).collect()) == 6
    assert found == ["p=2"]


@pytest.mark.exhaustive("speed only; the rows of kept listings are compared by other tests")
def test_a_repeated_plan_passes_the_same_files_without_making_their_list_again(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(beside)
    made: list[object] = []
    whole = acid_rows.make_index
    monkeypatch.setattr(acid_rows, "make_index", lambda *given: made.append(given) or whole(*given))
    first = beside.keeping.sql("SELECT * FROM kept")
    second = beside.keeping.sql("SELECT v FROM kept")
    assert len(made) == 1
    joined = first.alias("a").join(second.alias("b"), first.v == second.v)
    assert joined.count() == 5
    beside.listing.sql("DELETE FROM kept WHERE id = 1")
    assert len(beside.keeping.sql("SELECT * FROM kept").collect()) == 4
    assert len(first.collect()) == 5


def test_rows_of_an_open_transaction_are_not_kept(beside: Beside) -> None:
    filled(beside)
    with beside.keeping.transaction() as txn:
        txn.sql("INSERT INTO kept VALUES (20, 't', 1)")
        assert len(txn.sql("SELECT * FROM kept").collect()) == 6
        assert len(beside.keeping.sql("SELECT * FROM kept").collect()) == 5
        txn.sql("DELETE FROM kept WHERE id = 20")
        assert len(txn.sql("SELECT * FROM kept").collect()) == 5
    beside.require_equal_rows()


@pytest.mark.exhaustive("a file that others put beside stays", cases=("directory", "partition"))
@pytest.mark.parametrize("change", ["file", "directory", "partition"])
def test_files_that_others_put_beside_are_seen(beside: Beside, change: str) -> None:
    filled(beside)
    beside.require_equal_rows()
    time.sleep(0.05)  # the clock of a file system ticks every few milliseconds
    partition = beside.root() / "p=1"
    delta = next(partition.glob("delta_*1_0000"))
    if change == "file":
        shutil.copy2(next(delta.glob("bucket_*")), delta / "bucket_00077")
    elif change == "directory":
        shutil.rmtree(delta)
    else:
        other = beside.root() / "other"
        shutil.copytree(beside.root() / "p=2", other)
        shutil.rmtree(partition)
        other.rename(partition)
    beside.require_equal_rows()

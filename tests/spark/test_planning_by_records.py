"""Plans by the records of commits give the rows that listings give, whatever changes a table, and list and read nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.spark.read import acid_rows
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.read import footers
from support.clock import LaterClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.orc.footer_summary import FileSummary
    from hiveacid.ports.file_system import FileSystem

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
    """Two connections to one warehouse: one plans by the records of commits, the other lists for every query."""

    recorded: AcidSession
    listing: AcidSession

    def require_equal_rows(self, table: str = "kept") -> None:
        for query in QUERIES:
            expected = sorted(self.listing.sql(query.format(table)).collect())
            for _ in range(2):
                assert sorted(self.recorded.sql(query.format(table)).collect()) == expected, query
        assert len(self.recorded.context.kept.locations._values)

    def root(self) -> Path:
        return Path(self.recorded.table("kept").definition.location)


@pytest.fixture
def beside(acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    monkeypatch.setattr(acid_rows, "MIN_FILES", 2)  # the index is kept, too
    acid.context = replace(acid.context, clock=LaterClock())
    other = hiveacid.connect(spark, warehouse=acid.context.warehouse)
    other.set("hiveacid.read.file.records", "false")
    yield Beside(acid, other)
    assert not len(other.context.kept.locations._values)
    other.close()


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every listing of a directory tree adds its last component, and every footer its file."""
    found: list[str] = []
    listing, footer = LocalFileSystem.list_tree, footers.read_summary

    def listed(fs: LocalFileSystem, root: str) -> object:
        found.append(root.rpartition("/")[2])
        return listing(fs, root)

    def read(fs: FileSystem, path: str, size: int) -> FileSummary:
        found.append(path.rpartition("/")[2])
        return footer(fs, path, size)

    monkeypatch.setattr(LocalFileSystem, "list_tree", listed)
    monkeypatch.setattr(footers, "read_summary", read)
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
            assert sorted(beside.recorded.sql(query).collect()) == sorted(acid.sql(query).collect())
    assert len(beside.recorded.context.kept.locations._values) >= 2


def test_a_plan_lists_no_directory_and_reads_no_footer(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(beside)
    found = asked(monkeypatch)
    query = "SELECT * FROM kept"
    assert len(beside.recorded.sql(query).collect()) == 5
    beside.listing.sql("INSERT INTO kept VALUES (10, 'j', 2)")
    found.clear()
    assert len(beside.recorded.sql(query).collect()) == 6
    assert beside.recorded.sql("SELECT * FROM kept WHERE p = 3 AND id > 5").collect() == []
    assert found == []
    assert len(beside.listing.sql(query).collect()) == 6
    assert {"p=1", "p=2", "p=3", "bucket_00000"} <= set(found)


@pytest.mark.exhaustive("speed only; the rows of kept listings are compared by other tests")
def test_a_repeated_plan_passes_the_same_files_without_making_their_list_again(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(beside)
    made: list[object] = []
    whole = acid_rows.make_index
    monkeypatch.setattr(acid_rows, "make_index", lambda *given: made.append(given) or whole(*given))
    first = beside.recorded.sql("SELECT * FROM kept")
    second = beside.recorded.sql("SELECT v FROM kept")
    assert len(made) == 1
    joined = first.alias("a").join(second.alias("b"), first.v == second.v)
    assert joined.count() == 5
    beside.listing.sql("DELETE FROM kept WHERE id = 1")
    assert len(beside.recorded.sql("SELECT * FROM kept").collect()) == 4
    assert len(first.collect()) == 5


def test_rows_of_an_open_transaction_are_not_kept(beside: Beside) -> None:
    filled(beside)
    with beside.recorded.transaction() as txn:
        txn.sql("INSERT INTO kept VALUES (20, 't', 1)")
        assert len(txn.sql("SELECT * FROM kept").collect()) == 6
        assert len(beside.recorded.sql("SELECT * FROM kept").collect()) == 5
        txn.sql("DELETE FROM kept WHERE id = 20")
        assert len(txn.sql("SELECT * FROM kept").collect()) == 5
    beside.require_equal_rows()


def test_a_recorded_file_that_is_gone_is_an_error(beside: Beside) -> None:
    """By a listing its rows would be missing, and nobody would notice."""
    filled(beside)
    (lost,) = (beside.root() / "p=3").glob("delta_*/bucket_*")
    lost.unlink()
    with pytest.raises(Exception, match=lost.name):
        beside.recorded.sql("SELECT * FROM kept").collect()
    assert len(beside.listing.sql("SELECT * FROM kept").collect()) == 4

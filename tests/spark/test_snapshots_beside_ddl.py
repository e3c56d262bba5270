"""Reads beside DROP PARTITION, DROP TABLE and the cleaner: each returns the rows of its snapshot, or raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import HiveAcidError, WriteConflictError
from hiveacid.storage import snapshot_locations
from hiveacid.table.read import visible_locations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.model import TableDefinition

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
DROP = "ALTER TABLE t DROP PARTITION (p='a')"


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[AcidSession, AcidSession]]:
    import hiveacid  # noqa: PLC0415

    with (
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as one,
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as other,
    ):
        one.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING) {ACID}")
        one.sql("INSERT INTO t VALUES (1,'a'),(2,'a'),(3,'b')")
        yield one, other


READS: dict[str, Callable[[AcidSession], object]] = {
    "SELECT": lambda acid: acid.sql("SELECT * FROM t").collect(),
    "count": lambda acid: acid.sql("SELECT count(*) FROM t").first(),
    "DataFrame": lambda acid: acid.table("t").to_df(),
    "changes": lambda acid: acid.table("t").changes(after=0).to_df(),
    "INSERT SELECT": lambda acid: acid.sql("INSERT INTO copy SELECT id, p FROM t"),
}


def drop_before_listing(
    other: AcidSession, monkeypatch: pytest.MonkeyPatch, statement: str = DROP
) -> list[object]:
    """Let the partition go after a reader has taken its snapshot, and before it lists the files; return what is still to do."""
    list_all, look_up = snapshot_locations.for_each_location, visible_locations.read_records
    acts: list[object] = [statement]

    def drop(table: TableDefinition) -> None:
        if acts and table.name.name == "t":
            other.sql(str(acts.pop()))

    def listed(table: TableDefinition, *arguments: Any) -> Any:
        drop(table)
        return list_all(table, *arguments)

    def recorded(context: Any, table: TableDefinition, *arguments: Any) -> Any:
        drop(table)
        return look_up(context, table, *arguments)

    monkeypatch.setattr(snapshot_locations, "for_each_location", listed)
    monkeypatch.setattr(visible_locations, "read_records", recorded)
    return acts


@pytest.mark.parametrize("read", READS)
def test_a_statement_that_reads_beside_drop_partition_raises_and_writes_nothing(
    sessions: tuple[AcidSession, AcidSession], monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    acid, other = sessions
    acid.sql(f"CREATE TABLE copy (id INT, p STRING) {ACID}")
    READS["count"](acid)
    waiting = drop_before_listing(other, monkeypatch)
    with pytest.raises(WriteConflictError, match="were dropped"):
        READS[read](acid)
    assert waiting == []
    assert acid.sql("SELECT count(*) FROM copy").first()[0] == 0
    assert [tuple(row) for row in acid.sql("SELECT * FROM t").collect()] == [(3, "b")]


@pytest.mark.parametrize("read", READS)
def test_a_statement_that_reads_beside_drop_table_raises_and_writes_nothing(
    sessions: tuple[AcidSession, AcidSession], monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """HIVE-26165: DROP TABLE does not wait for readers, and they never see a part of the rows."""
    acid, other = sessions
    acid.sql(f"CREATE TABLE copy (id INT, p STRING) {ACID}")
    READS["count"](acid)
    waiting = drop_before_listing(other, monkeypatch, "DROP TABLE t")
    with pytest.raises(WriteConflictError, match=r"default\.t"):
        READS[read](acid)
    assert waiting == []
    assert acid.sql("SELECT count(*) FROM copy").first()[0] == 0


def test_what_was_read_before_drop_table_raises_after_it(sessions: tuple[AcidSession, AcidSession]) -> None:
    """HIVE-26165: a frame, and the second read of a transaction; neither is an empty result."""
    acid, other = sessions
    frame = acid.sql("SELECT * FROM t")
    with acid.transaction() as txn:
        assert txn.sql("SELECT count(*) FROM t").first()[0] == 3
        other.sql("DROP TABLE t")
        with pytest.raises(HiveAcidError, match="does not exist"):
            txn.sql("SELECT * FROM t")
    with pytest.raises(Exception, match=r"(?i)not exist|not found"):
        frame.collect()


def test_a_merge_from_a_table_beside_drop_partition_runs_again(
    sessions: tuple[AcidSession, AcidSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    acid, other = sessions
    acid.sql(f"CREATE TABLE copy (id INT, p STRING) {ACID}")
    waiting = drop_before_listing(other, monkeypatch)
    merge = "MERGE INTO copy c USING t ON c.id = t.id WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.p)"
    row = acid.sql(merge).first()
    assert waiting == []
    assert row["num_retries"] == 1
    assert [tuple(row) for row in acid.sql("SELECT * FROM copy").collect()] == [(3, "b")]


def test_a_second_read_of_a_transaction_returns_its_snapshot_or_raises(
    sessions: tuple[AcidSession, AcidSession],
) -> None:
    acid, other = sessions
    query = "SELECT count(*) FROM t"
    with acid.transaction() as txn:
        assert txn.sql(query).first()[0] == 3
        other.sql("INSERT INTO t VALUES (4,'a')")
        assert txn.sql(query).first()[0] == 3
        other.sql(DROP)
        other.sql("INSERT INTO t VALUES (1,'c'),(2,'c'),(4,'c')")
        with pytest.raises(WriteConflictError, match="were dropped"):
            txn.sql(query)
    with acid.transaction() as txn:
        assert txn.sql(query).first()[0] == 4


@pytest.mark.parametrize("write", [False, True])
def test_a_frame_of_a_transaction_keeps_the_files_of_its_snapshot_after_its_end(
    sessions: tuple[AcidSession, AcidSession], *, write: bool
) -> None:
    """A compaction has replaced them before the frame was made."""
    acid, other = sessions
    acid.sql(f"CREATE TABLE u (id INT) {ACID}")
    for number in range(3):
        acid.sql(f"INSERT INTO u VALUES ({number})")
    with acid.transaction() as txn:
        if write:
            txn.sql("INSERT INTO t VALUES (9,'b')")
        assert txn.sql("SELECT count(*) FROM u").first()[0] == 3
        other.table("u").compact("major", wait=True)
        frame = txn.table("u").to_df()
    assert other.clean("u") == []
    assert sorted(row.id for row in frame.collect()) == [0, 1, 2]


def test_a_frame_of_a_sql_transaction_keeps_its_files_too(sessions: tuple[AcidSession, AcidSession]) -> None:
    acid, other = sessions
    acid.sql(f"CREATE TABLE u (id INT) {ACID}")
    for number in range(3):
        acid.sql(f"INSERT INTO u VALUES ({number})")
    acid.sql("START TRANSACTION")
    acid.sql("SELECT count(*) FROM u").collect()
    other.table("u").compact("major", wait=True)
    frame = acid.sql("SELECT * FROM u")
    acid.sql("ROLLBACK")
    assert other.clean("u") == []
    assert frame.count() == 3

"""The pending commit of a transaction."""

from __future__ import annotations

from hiveacid.core.model import Column, Partition, StorageFormat, TableDefinition, TableName
from hiveacid.core.transactions.commit_records import NewFiles, OperationSummary
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.transactions.pending_commit import PendingCommit

NAME = TableName("default", "t")
TABLE = TableDefinition(NAME, (Column("id", "int"),), StorageFormat("serde", "in", "out"), "/w/t")
PARTITION = Partition(("1",), "/w/t/p=1")


def test_new_tables_and_partitions_go_with_an_altered_definition() -> None:
    pending = PendingCommit()
    assert pending.catalog_changes() == CatalogChanges()
    pending.add_written([], [NewPartition(NAME, PARTITION)], [TABLE])
    pending.alter_table(TABLE, skipped=3)
    changes = pending.catalog_changes()
    assert changes.tables == changes.altered == (TABLE,)
    assert (changes.partitions, changes.skipped) == ((NewPartition(NAME, PARTITION),), ((NAME, 3),))
    assert pending.creates_table(NAME)
    assert not pending.creates_table(TableName("default", "other"))
    assert pending.new_partitions(NAME) == [NewPartition(NAME, PARTITION)]


def test_statements_on_one_table_are_one_entry_of_its_history() -> None:
    pending = PendingCommit()
    pending.add_summary(NAME, OperationSummary("INSERT", "first", inserted=1))
    pending.add_summary(NAME, OperationSummary("INSERT", "second", inserted=2))
    (entry,) = pending.operations()
    assert (entry.table, entry.summary.inserted) == (NAME, 3)


def test_overwritten_partitions_of_several_statements_are_kept_together() -> None:
    pending = PendingCommit()
    pending.add_overwritten(NAME, [("1",)])
    pending.add_overwritten(NAME, [("2",)])
    assert pending.overwritten == {NAME: {("1",), ("2",)}}


def test_a_withdrawn_table_is_not_in_the_commit() -> None:
    """It is a directory with files, which a metastore has never heard of."""
    pending, other = PendingCommit(), TableName("default", "other")
    kept, made = NewFiles(other, (), ("/w/o/f",)), NewFiles(NAME, ("1",), ("/w/t/p=1/f",))
    pending.add_written([], [NewPartition(NAME, PARTITION)], [TABLE], [made, kept])
    assert pending.withdraw(NAME) == [NewPartition(NAME, PARTITION)]
    assert pending.catalog_changes() == CatalogChanges()
    assert pending.catalog_changes().files == (kept,)

"""A move between two stores: beside a reader that begins in the middle of it, and what it tells meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.config.property_definitions import MIGRATION
from hiveacid.core.model import Column, DatabaseDefinition, Partition, TableDefinition, TableName
from hiveacid.errors import TransactionStateError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import TxnKind
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT, ORC

T = TableName("shop", "t")


class _ReaderBeforeTheMark(SqlStore):
    """A store in which a reader begins just before the table is marked: it has the definition without the mark."""

    reads = True

    def alter_table(
        self, name: TableName, table: TableDefinition, *, replacing: TableDefinition | None = None
    ) -> None:
        if self.reads and MIGRATION.of(table) is not None:
            self.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
        super().alter_table(name, table, replacing=replacing)


def test_a_reader_that_begins_before_the_mark_is_waited_for(tmp_path: Path) -> None:
    """The new store's cleaner would not know of its snapshot. Nothing is changed."""
    (tmp_path / "t").mkdir()
    source = _ReaderBeforeTheMark(f"sqlite:///{tmp_path}/old.db")
    target = SqlStore(f"sqlite:///{tmp_path}/new.db")
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    made = TableDefinition(
        T, (Column("id", "int"),), ORC, str(tmp_path / "t"), properties=(("transactional", "true"),)
    )
    source.create_table(made)
    before = source.get_table(T)
    files = LocalFileSystem(durable=False)
    migration = Migration(MigrationStore(source, "old"), MigrationStore(target, "new"), files, SystemClock())
    with pytest.raises(TransactionStateError, match="1 transactions are open in old"):
        migration.move(T)
    assert source.get_table(T) == before
    assert target.get_table(T) is None
    source.abort_txns(source.valid_txns().open, "ended")
    source.reads = False
    assert migration.move(T) is not None
    assert source.get_table(T) is None
    assert target.get_table(T) is not None
    for store in (source, target):
        store.close()


def test_a_move_tells_what_it_does(tmp_path: Path) -> None:
    """The directories that it looks at, and then that only the stores have work."""
    source, target = (SqlStore(f"sqlite:///{tmp_path}/{name}.db") for name in ("old", "new"))
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    made = TableDefinition(
        T, (Column("id", "int"),), ORC, str(tmp_path / "t"), (Column("p", "int"),), properties=(("transactional", "true"),)
    )  # fmt: skip
    source.create_table(made)
    source.add_partitions(T, [Partition((str(p),), str(tmp_path / "t" / f"p={p}")) for p in range(3)])
    told: list[tuple[object, ...]] = []
    migration = Migration(
        MigrationStore(source, "old"), MigrationStore(target, "new"), LocalFileSystem(durable=False), SystemClock(),
        lambda *what: told.append(what),
    )  # fmt: skip
    assert migration.move(T) is not None
    assert told == [*((T, "listed", number, 3) for number in range(3)), (T, "", 0, 0)]
    for store in (source, target):
        store.close()

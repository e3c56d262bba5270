"""A move between two stores: beside a reader that begins in the middle of it, and what it tells meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.catalog.convert import convert
from hiveacid.catalog.ddl import create_table
from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.config.property_definitions import ADOPTED_TXN, CONVERSION, MIGRATION
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import (
    Column,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    WriteId,
)
from hiveacid.core.snapshot.tags import Tag, format_tags
from hiveacid.errors import (
    TransactionAbortedError,
    TransactionStateError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Start, TxnKind, current_write_ids_of
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.store import SqlStore
from hiveacid.table.read.visible_locations import may_have_acid_v1_events
from support.contexts import open_context
from support.samples import CLIENT, ORC

T = TableName("shop", "t")


class _ReaderBeforeTheMark(SqlStore):
    """A store in which a reader begins just before the table is marked: it has the definition without the mark."""

    reads = True

    def alter_table(
        self,
        name: TableName,
        table: TableDefinition,
        *,
        replacing: TableDefinition | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        if self.reads and MIGRATION.of(table) is not None:
            self.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
        super().alter_table(name, table, replacing=replacing, seen=seen)


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


@pytest.mark.parametrize("alters", [False, True])
def test_what_others_did_during_a_pause_is_not_lost(tmp_path: Path, alters: bool) -> None:  # noqa: FBT001
    """The lock was lost after the state had been read: the move ends, and the table stays where it is."""
    (tmp_path / "t").mkdir()
    source, target = (SqlStore(f"sqlite:///{tmp_path}/{name}.db") for name in ("old", "new"))
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    columns, properties = (Column("id", "int"),), (("transactional", "true"),)
    source.create_table(TableDefinition(T, columns, ORC, str(tmp_path / "t"), properties=properties))

    def pause(_table: TableName, work: str, *_: int) -> None:
        if work:
            return
        source.abort_txns(source.valid_txns().open, "no heartbeat")
        table = source.get_table(T)
        if alters and table is not None:
            source.alter_table(T, table.with_properties({"owner": "bo"}), seen=table)
        writer = source.begin_txn(CLIENT, Start(writes=(T,)))
        source.commit_txn(writer.txn_id)

    migration = Migration(
        MigrationStore(source, "old"), MigrationStore(target, "new"), LocalFileSystem(), SystemClock(), pause
    )
    with pytest.raises(WriteConflictError if alters else TransactionAbortedError):
        migration.move(T)
    left = source.get_table(T)
    assert left is not None
    assert (left.property("owner"), MIGRATION.of(left)) == ("bo" if alters else None, None)
    assert current_write_ids_of(source, T).high_watermark == 1
    assert target.get_table(T) is None
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


class _Metastore(SqlStore):
    def maintained_by_hiveacid(self) -> bool:
        return False


def test_what_a_partition_hides_does_not_go_to_a_metastore(tmp_path: Path) -> None:
    """A DROP that died before it deleted the files leaves rows, which the partition that was made later hides in stores of ours only."""
    source = SqlStore(f"sqlite:///{tmp_path}/old.db")
    metastore, own = _Metastore(f"sqlite:///{tmp_path}/hms.db"), SqlStore(f"sqlite:///{tmp_path}/new.db")
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    made = TableDefinition(
        T, (Column("id", "int"),), ORC, str(tmp_path / "t"), (Column("p", "int"),), properties=(("transactional", "true"),)
    )  # fmt: skip
    source.create_table(made)
    home = tmp_path / "t" / "p=1"
    source.add_partitions(T, [Partition(("1",), str(home), min_write_id=5)])
    source.seed_write_ids(T, WriteId(7), ())
    for number in (4, 5):
        (home / f"delta_{number:07}_{number:07}_0000").mkdir(parents=True)
        (home / f"delta_{number:07}_{number:07}_0000" / "bucket_00000").touch()
    files, clock = LocalFileSystem(durable=False), SystemClock()
    before = source.get_table(T)
    for _ in range(2):
        with pytest.raises(UnsupportedFeatureError, match="delta_0000004_0000004_0000 is older"):
            Migration(MigrationStore(source, "old"), MigrationStore(metastore, "hms"), files, clock).move(T)
    assert (source.get_table(T), metastore.get_table(T)) == (before, None)
    Migration(MigrationStore(source, "old"), MigrationStore(own, "new"), files, clock).move(T)
    assert [partition.min_write_id for partition in own.list_partitions(T)] == [5]
    for store in (source, metastore, own):
        store.close()


def test_an_adopted_table_is_one_after_a_move(tmp_path: Path) -> None:
    """Or rows could be added beside update events of ACID v1, which a metastore of Hive 3 or 4 does not have."""
    source, target = (SqlStore(f"sqlite:///{tmp_path}/{name}.db") for name in ("old", "new"))
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    columns, properties = (Column("id", "int"),), ((ADOPTED_TXN.name, "0"), ("transactional", "true"))
    source.create_table(TableDefinition(T, columns, ORC, str(tmp_path / "t"), properties=properties))
    migration = Migration(
        MigrationStore(source, "old"), MigrationStore(target, "new"), LocalFileSystem(), SystemClock()
    )
    assert migration.move(T) is not None
    moved = target.get_table(T)
    assert moved is not None
    assert may_have_acid_v1_events(moved)
    for store in (source, target):
        store.close()


def test_a_table_with_tags_does_not_go_to_a_metastore(tmp_path: Path) -> None:
    source, metastore = SqlStore(f"sqlite:///{tmp_path}/old.db"), _Metastore(f"sqlite:///{tmp_path}/hms.db")
    own = SqlStore(f"sqlite:///{tmp_path}/new.db")
    source.create_database(DatabaseDefinition("shop", str(tmp_path / "shop.db")))
    tags = format_tags([Tag("kept", ValidWriteIdList(None, WriteId(1)))])
    properties = (("hiveacid.tags", tags), ("transactional", "true"))
    source.create_table(
        TableDefinition(T, (Column("id", "int"),), ORC, str(tmp_path / "t"), properties=properties)
    )
    files, clock = LocalFileSystem(durable=False), SystemClock()
    with pytest.raises(UnsupportedFeatureError, match="DROP TAG IF EXISTS kept first"):
        Migration(MigrationStore(source, "old"), MigrationStore(metastore, "hms"), files, clock).move(T)
    assert metastore.get_table(T) is None
    Migration(MigrationStore(source, "old"), MigrationStore(own, "new"), files, clock).move(T)
    moved = own.get_table(T)
    assert moved is not None
    assert moved.property("hiveacid.tags") == tags
    for store in (source, metastore, own):
        store.close()


def test_a_table_that_was_converted_to_insert_only_moves(tmp_path: Path) -> None:
    """It counted as being converted for ever. Files that the conversion has left would be read by Hive, too."""
    context = open_context(tmp_path / "wh")
    create_table(context, TableDefinition(TableName("default", "t"), (Column("id", "int"),), ORC, ""))
    table = context.require(TableName("default", "t"))
    place = Path(table.location)
    (place / "000000_0").write_bytes(b"x")
    convert(context, table.name, {"transactional": "true", "transactional_properties": "insert_only"})
    assert CONVERSION.of(context.require(table.name)) == "1"
    own, files = SqlStore(f"sqlite:///{tmp_path}/new.db"), LocalFileSystem(durable=False)
    migration = Migration(
        MigrationStore(context.store, "old"), MigrationStore(own, "new"), files, SystemClock()
    )
    left = place / "000000_0"  # as by a process that was killed before it had deleted it
    left.hardlink_to(place / "delta_0000001_0000001_0000" / "000000_0")
    with pytest.raises(UnsupportedFeatureError, match=f"{left} was left by the conversion"):
        migration.move(table.name)
    left.unlink()
    migration.move(table.name)
    moved = own.get_table(table.name)
    assert moved is not None
    assert (moved.kind, CONVERSION.of(moved)) == (TableKind.INSERT_ONLY, None)
    context.close()
    own.close()

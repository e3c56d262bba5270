"""Tables on disk with a store in memory and without Spark: what looking into tables needs, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.core.model import DatabaseDefinition, Partition, TableDefinition, TableName, TxnId
from hiveacid.core.schema.partitions import parse_partition_values
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.read.inventory import StandaloneAccess, TableInventory, inventory_of
from support.corpus.golden_tables import Golden, unpack
from support.memory_store.store import MemoryStore

ADOPTED = 1_000_000
"""A visibility transaction id that no golden table has: all theirs count as committed."""


@dataclass(frozen=True)
class MemoryShelf:
    """File system, store and catalog."""

    fs: LocalFileSystem = field(default_factory=lambda: LocalFileSystem(durable=False))
    store: MemoryStore = field(default_factory=MemoryStore)

    @property
    def catalog(self) -> MemoryStore:
        """Return the store: it is the catalog, too."""
        return self.store

    def add(self, table: TableDefinition, partitions: Sequence[Partition], valid_write_ids: str) -> None:
        """Register a table whose directory lies there; open write ids count as aborted."""
        if self.store.get_database(table.name.database) is None:
            self.store.create_database(DatabaseDefinition(table.name.database, "/nowhere"))
        self.store.create_table(table)
        self.store.add_partitions(table.name, partitions)
        ids = parse_write_id_list(valid_write_ids)
        self.store.seed_txns(TxnId(ADOPTED))
        if ids.high_watermark:
            self.store.seed_write_ids(
                table.name, ids.high_watermark, tuple(sorted({*ids.open, *ids.aborted}))
            )

    def inventory(self, name: TableName) -> TableInventory:
        """Look at a table."""
        table = self.store.get_table(name)
        assert table is not None
        partitions = self.store.list_partitions(name) if table.partition_columns else None
        access = StandaloneAccess(self.fs, self.store, self.store)
        return inventory_of(access, table, partitions)


def definition(create_table: str, location: str) -> TableDefinition:
    """Return the table of a SHOW CREATE TABLE of Hive or Trino."""
    statement = parse(create_table)
    assert isinstance(statement, CreateTable)
    name = statement.table.resolve("default")
    made = statement.definition(name, location="", storage=statement.storage or ORC)
    return replace(made, location=location).with_properties({ADOPTED_TXN.name: str(ADOPTED)})


def partitions_below(table: TableDefinition) -> list[Partition]:
    """Find a table's partitions by their directories."""
    names = table.partition_column_names
    if not names:
        return []
    root = Path(table.location)
    folders = sorted(path for path in root.glob("/".join(["*=*"] * len(names))) if path.is_dir())
    return [
        Partition(parse_partition_values(names, path.relative_to(root).as_posix()), str(path))
        for path in folders
    ]


def shelve(shelf: MemoryShelf, golden: Golden, target: Path) -> TableDefinition:
    """Unpack a golden table and register it."""
    table = definition(golden.show_create_table, str(unpack(golden, target)))
    ids = golden.valid_write_ids or f"{table.name}:0:9223372036854775807::"
    shelf.add(table, partitions_below(table), ids)
    return table

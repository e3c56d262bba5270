"""Tables without Spark for tests of streams: made from SQL text, read by the second reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.ports.clock import SystemClock
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.store import SqlStore
from hiveacid.streaming import Connection
from hiveacid.table.check_files import check_quick
from hiveacid.table.read.inventory import StandaloneAccess
from support.corpus.sort_merge_reader import read_table

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true','bucketing_version'='2')"


@dataclass
class Warehouse:
    """A warehouse directory with an open store."""

    root: Path
    store: SqlStore

    def create(self, sql: str) -> TableDefinition:
        """Make a table of a CREATE TABLE."""
        statement = parse(sql)
        assert isinstance(statement, CreateTable)
        name = statement.table.resolve("default")
        location = str(self.root / name.name)
        made = statement.definition(name, location=location, storage=statement.storage or ORC)
        made = replace(made, location=location)
        Path(location).mkdir()
        self.store.create_table(made)
        return made

    def connect(self, table: str, **options: Any) -> Connection:
        """Open a stream."""
        return Connection(table, store=self.store, **options)

    def events(self, table: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return what a reader sees now by partition: write id, bucket property, row id, values."""
        name = TableName("default", table)
        found = self.store.get_table(name)
        assert found is not None
        valid = self.store.valid_write_ids(self.store.valid_txns(), [name])[name]
        return read_table(self.root / table, valid.to_string(), len(found.partition_columns))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the values of all rows in the order of their keys."""
        return [event[3] for events in self.events(table).values() for event in events]

    def files(self, table: str) -> list[str]:
        """Return the files below the table."""
        root = self.root / table
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())

    def findings(self, table: str) -> list[str]:
        """Return what ``hiveacid check --quick`` finds."""
        shelf = StandaloneAccess(LocalFileSystem(durable=False), self.store, self.store)
        return [
            f"{one.kind.code} {one.path}: {one.message}"
            for one in check_quick(shelf, *shelf.find(table), None)
        ]


@contextmanager
def opened(root: Path) -> Iterator[Warehouse]:
    """Open a warehouse."""
    store, path = open_store(str(root), None, Settings(), SystemClock())
    try:
        yield Warehouse(Path(path), store)
    finally:
        store.close()

"""Small values that the store contracts and other tests share."""

from __future__ import annotations

from typing import Protocol

from hiveacid.core.model import (
    Bucketing,
    Column,
    DatabaseDefinition,
    StorageFormat,
    TableDefinition,
    TableName,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.store import OwnStore
from hiveacid.ports.transactions import Client, Operation, Written

CLIENT = Client("ann", "host-1", "tests")
ORDERS = TableName("shop", "orders")
STOCK = TableName("shop", "stock")
ORC = StorageFormat(
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
    (("serialization.format", "1"),),
)
# SQL: 128 characters of a row's id that do not compress, for a fraction of the CPU of a cryptographic hash.
INCOMPRESSIBLE = f"concat({', '.join(f'hex(xxhash64(id, {salt}))' for salt in range(8))})"


class Store(OwnStore, Catalog, Protocol):
    """A transaction store that is the catalog too, as all of ours are."""


def wrote(table: TableName, operation: Operation, partition: str | None = None) -> Written:
    """Return what a transaction wrote."""
    return Written(table, partition, operation)


def lock_on(type_: LockType, table: str | None = None, partition: str | None = None) -> LockComponent:
    """Return a lock in the database ``shop``."""
    return LockComponent(type_, "shop", table, partition)


def database(name: str = "shop") -> DatabaseDefinition:
    """Return a database."""
    return DatabaseDefinition(name, f"file:/wh/{name}.db", "all we sell", (("owner", "ann"),))


def table(name: TableName = ORDERS, location: str | None = None) -> TableDefinition:
    """Return a partitioned, bucketed, transactional table with something in every field."""
    return TableDefinition(
        name=name,
        columns=(Column("id", "int"), Column("item", "struct<a:int,b:array<string>>", "what was sold")),
        storage=ORC,
        location=location or f"file:/wh/{name.database}.db/{name.name}",
        partition_columns=(Column("dt", "date"), Column("city", "string")),
        bucketing=Bucketing(("id",), 4, ("item", "id"), ("item",)),
        properties=(("transactional", "true"), ("note", "a 'quoted' \"note\"; — ünï\0code")),
        comment="it's; DROP TABLE x --",
        owner="ann",
        created_at=1_700_000_000,
    )

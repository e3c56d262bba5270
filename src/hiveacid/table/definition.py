"""Changes of a table's definition: rules that every definition keeps, and edits under an exclusive lock.

Rules: Hive's ``TransactionalValidationListener``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hiveacid.core.format.names import RESERVED_NAMES
from hiveacid.core.model import Column, TableDefinition, TableKind, TableName
from hiveacid.core.schema.location_overlap import on_any_hdfs
from hiveacid.core.schema.storage_formats import FileKind, file_kind, is_orc
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import (
    CatalogError,
    SchemaMismatchError,
    TransactionStateError,
    UnsupportedFeatureError,
    already_exists,
)
from hiveacid.spark.formats.text import text_layout
from hiveacid.spark.formats.types import column_type
from hiveacid.storage.paths import absolute, real_path
from hiveacid.table.cleaning.remove_files import history_retention
from hiveacid.table.context import Context, StoreContext
from hiveacid.transactions.transaction import Transaction

_RESERVED_PREFIX = "__hiveacid"


def check_definition(table: TableDefinition) -> None:
    """Raise SchemaMismatchError, UnsupportedFeatureError, ConfigError or CatalogError for an invalid definition."""
    _check_columns(table)
    _check_bucketing(table)
    history_retention(table)
    if file_kind(table.storage) is FileKind.TEXTFILE:
        text_layout(table)  # refuses what no statement could read or write
    if table.kind is TableKind.PLAIN:
        return
    if table.external:
        raise CatalogError(f"{table.name}: an external table cannot be transactional; leave out EXTERNAL")
    if table.kind is TableKind.FULL_ACID:
        if not is_orc(table.storage):
            raise CatalogError(
                f"{table.name}: a transactional table with UPDATE and DELETE must be STORED AS ORC; other formats "
                "need TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
            )
        # Spark's ORC reader passes on the wanted schema as text without escaping, so the field would read as NULL. Columns
        # with such names are read by position; fields of structs cannot be.
        for column in table.columns:
            if "``" in column.type:
                raise UnsupportedFeatureError(
                    f"{table.name}: column {column.name}: a field's name in a full ACID table cannot hold a back-quote"
                )
        if table.bucketing and table.bucketing.sort_columns:
            raise CatalogError(f"{table.name}: a transactional table cannot be SORTED BY (Hive 10298)")


def _check_columns(table: TableDefinition) -> None:
    if not table.columns:
        raise SchemaMismatchError(
            f"{table.name}: a table needs at least one column besides partition columns"
        )
    names: set[str] = set()
    for number, column in enumerate(table.all_columns, start=1):
        if not column.name.strip():
            raise SchemaMismatchError(f"{table.name}: column {number} has no name")
        if column.name in names:
            raise SchemaMismatchError(f"{table.name}: column {column.name} is named twice")
        if column.name.startswith(_RESERVED_PREFIX) or column.name in RESERVED_NAMES:
            raise SchemaMismatchError(f"{table.name}: {column.name} is a reserved column name")
        names.add(column.name)
        column_type(column)
    for column in table.partition_columns:
        if "<" in column.type or column.type == "binary":
            raise UnsupportedFeatureError(
                f"{table.name}: partition column {column.name} must be of a primitive type"
            )


def _check_bucketing(table: TableDefinition) -> None:
    if table.bucketing is None:
        return
    if table.bucketing.count < 1:
        raise CatalogError(f"{table.name}: INTO {table.bucketing.count} BUCKETS: at least one is needed")
    names = {c.name for c in table.columns}
    for column in table.bucketing.columns:
        if column not in names:
            raise SchemaMismatchError(f"{table.name}: CLUSTERED BY {column}: no such column")


def lock_of_location(location: str) -> LockComponent:
    """Return a lock for which statements wait that would take the same directory; its name is no table's.

    Of two CREATE TABLE AS SELECT with one location, the second then finds the first one's table there. Of two LOAD DATA that
    move the same files, the second finds no files.
    """
    digest = hashlib.sha256(on_any_hdfs(real_path(absolute(location))).encode()).hexdigest()[:16]
    # a name that a metastore accepts
    return LockComponent(LockType.EXCLUSIVE, "default", f"location_{digest}")


@contextmanager
def exclusive_name(context: StoreContext, *names: TableName) -> Iterator[Transaction]:
    """Lock names in one request: statements that create, change or drop a table or view of such a name wait."""
    with context.transactions.scope(context.settings) as txn:
        txn.lock([LockComponent(LockType.EXCLUSIVE, name.database, name.name) for name in names])
        yield txn


@contextmanager
def exclusive_table(
    context: Context, name: TableName, *others: TableName
) -> Iterator[tuple[TableDefinition, Transaction]]:
    """Lock a table and ``others`` exclusively; yield its definition, read under the lock, and the transaction.

    Raises NoSuchTableError.
    """
    context.require(name)  # nobody waits for the lock of a missing table
    with exclusive_name(context, name, *others) as txn:
        yield context.require(name), txn


def put_definition(
    context: Context, table: TableDefinition, edited: TableDefinition, txn: Transaction
) -> None:
    """Check an edited definition, and put it in the place of a table's, under the lock of `exclusive_table` (``txn``).

    Lock the new name as well, if the edit changes it: statements may wait for it already, and the next one must wait for the
    renaming.
    """
    check_definition(edited)
    if edited.name != table.name and context.catalog.get_table(edited.name) is not None:
        raise already_exists("table", edited.name)
    txn.require_open_in_store()  # without the lock, another client may have changed the definition meanwhile
    context.catalog.alter_table(table.name, edited, seen=table)


def add_missing_columns(
    context: Context,
    name: TableName,
    missing: Callable[[TableDefinition], Sequence[Column]],
    check: Callable[[TableDefinition], object] = lambda _: None,
    joined: Transaction | None = None,
) -> None:
    """Append the columns that a definition is ``missing``; rows written before have NULL in them.

    Another writer may be adding columns at the same time. ``check``: raises an error for an edited definition that the statement
    cannot use; the table then stays as it is. ``joined``: the open transaction of the statement. Raises TransactionStateError
    in such a one, whose snapshot and locks belong to the old definition.
    """
    table = context.require(name)
    new = missing(table)
    if not new:
        return
    if joined is not None:
        names = ", ".join(column.name for column in new)
        raise TransactionStateError(
            f"{name} would get the columns {names}, which a transaction cannot add: ALTER TABLE {name} ADD COLUMNS before it begins"
        )
    edited = replace(table, columns=(*table.columns, *new))
    check_definition(edited)
    check(edited)
    with exclusive_table(context, name) as (table, txn):
        new = missing(table)
        if new:
            put_definition(context, table, replace(table, columns=(*table.columns, *new)), txn)

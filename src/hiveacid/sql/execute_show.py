"""SHOW ... with Hive's columns, and no-value texts as Hive prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config.keys import REGISTRY
from hiveacid.core.ddl import show_create_table, show_create_view
from hiveacid.errors import ConfigError, NoSuchPartitionError
from hiveacid.sql import store_rows
from hiveacid.sql.execute_insert import partition_values
from hiveacid.sql.patterns import matching
from hiveacid.sql.rows import Row, texts
from hiveacid.sql.view_text import view_of_ours
from hiveacid.table.insert import static_values
from hiveacid.table.layout import partition_name
from hiveacid.table.read import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.sql import statements as s
    from hiveacid.sql.session import AcidSession
    from hiveacid.sql.values import PartitionSpec, Properties


def databases(session: AcidSession, statement: s.ShowDatabases) -> DataFrame:
    """SHOW DATABASES."""
    names = matching(session.context.catalog.list_databases(), statement.pattern)
    return texts(session.context.facts, ("database_name",), [(name,) for name in names])


def tables(session: AcidSession, statement: s.ShowTables) -> DataFrame:
    """SHOW TABLES."""
    database = statement.database or session.context.database
    rows = store_rows.table_rows(session.context.catalog, database, statement.pattern)
    return texts(session.context.facts, store_rows.TABLE_COLUMNS, rows)


def partitions(session: AcidSession, statement: s.ShowPartitions) -> DataFrame:
    """SHOW PARTITIONS: names as their directories are called, values escaped."""
    context = session.context
    table = context.require(session.find(statement.table))
    if not table.partition_columns:
        raise NoSuchPartitionError(f"table {table.name} is not partitioned")
    static = static_values(context, table, partition_values(session, statement.partition))
    columns = [c.name for c in table.partition_columns]
    found = [
        partition.values
        for partition in partitions_of(context, table, session.joined) or ()
        if static.items() <= dict(zip(columns, partition.values, strict=True)).items()
    ]
    rows = sorted((partition_name(table, values),) for values in found)
    return texts(context.facts, ("partition",), rows)


def create_table(session: AcidSession, statement: s.ShowCreateTable) -> DataFrame:
    """SHOW CREATE TABLE: one row a line."""
    with_database = statement.table.database is not None
    view = view_of_ours(session.context, statement.table)
    if view is not None:
        text = show_create_view(view, with_database=with_database)
    else:
        table = session.context.require(session.find(statement.table))
        text = show_create_table(table, with_database=with_database)
    return texts(session.context.facts, ("createtab_stmt",), [(line,) for line in text.split("\n")])


def properties(session: AcidSession, statement: s.ShowTableProperties) -> DataFrame:
    """SHOW TBLPROPERTIES."""
    found = view_of_ours(session.context, statement.table)
    table = found or session.context.require(session.find(statement.table))
    rows: list[Row] = list(table.properties)
    if statement.key is not None:
        missing = f"Table {table.name} does not have property: {statement.key}"
        rows = [(statement.key, _property(table.properties, statement.key, missing))]
    return texts(session.context.facts, ("prpt_name", "prpt_value"), rows)


def _property(properties: Properties, key: str, missing: str) -> str:
    """Look a property up, its key compared without case."""
    return next((value for name, value in properties if name.lower() == key.lower()), missing)


def columns(session: AcidSession, statement: s.ShowColumns) -> DataFrame:
    """SHOW COLUMNS: partition columns last."""
    view = view_of_ours(session.context, statement.table)
    if view is not None:
        names = [c.name for c in view.columns]
    else:
        table = session.context.require(session.find(statement.table))
        names = [c.name for c in (*table.columns, *table.partition_columns)]
    return texts(session.context.facts, ("field",), [(n,) for n in matching(names, statement.pattern)])


def transactions(session: AcidSession, _: s.ShowTransactions) -> DataFrame:
    """SHOW TRANSACTIONS: open and aborted ones; times in milliseconds since the epoch."""
    rows = store_rows.transaction_rows(session.context.store)
    return texts(session.context.facts, store_rows.TRANSACTION_COLUMNS, rows)


def locks(session: AcidSession, statement: s.ShowLocks) -> DataFrame:
    """SHOW LOCKS, in Hive's new format."""
    wanted = statement.table.resolve(session.context.database) if statement.table else None
    partition = named_partition(session, wanted, statement.partition) if wanted else None
    found = [
        lock
        for lock in session.context.store.show_locks()
        if statement.database in (None, lock.database)
        and (wanted is None or (lock.database, lock.table) == (wanted.database, wanted.name))
        and partition in (None, lock.partition)
    ]
    return texts(session.context.facts, store_rows.LOCK_COLUMNS, store_rows.lock_rows(found))


def named_partition(session: AcidSession, name: TableName, spec: PartitionSpec) -> str | None:
    """Return Hive's name of a specified partition, None for none."""
    if not spec:
        return None
    table = session.context.require(name)
    static = static_values(session.context, table, partition_values(session, spec))
    return partition_name(table, tuple(static.get(c.name) for c in table.partition_columns))


def conf(session: AcidSession, statement: s.ShowConf) -> DataFrame:
    """SHOW CONF: a setting's default, type and meaning."""
    setting = REGISTRY.get(statement.key)
    if setting is None:
        raise ConfigError(f"{statement.key} is not a setting; hiveacid knows those of docs/settings.md")
    rows = [(setting.default, setting.kind, setting.doc)]
    return texts(session.context.facts, ("default", "type", "desc"), rows)

"""SHOW ... with Hive's columns and Hive's texts for missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config.keys import REGISTRY
from hiveacid.core.model import TableDefinition, TableName, ViewDefinition
from hiveacid.core.schema.partitions import matching_partitions
from hiveacid.core.schema.show_create import show_create_table, show_create_view
from hiveacid.errors import ConfigError, NoSuchPartitionError
from hiveacid.sql.binding.view_text import find_hiveacid_view
from hiveacid.sql.execute import store_rows
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.execute.small_results import Row, string_rows
from hiveacid.sql.statements import queries
from hiveacid.sql.statements.values import PartitionSpec, Properties, TableRef
from hiveacid.table.partitions import partition_name, partitions_of, static_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def databases(execution: ExecutionContext, statement: queries.ShowDatabases) -> DataFrame:
    """SHOW DATABASES."""
    names = store_rows.matching(execution.context.catalog.list_databases(), statement.pattern)
    return string_rows(execution.context.facts, ("database_name",), [(name,) for name in names])


def tables(execution: ExecutionContext, statement: queries.ShowTables) -> DataFrame:
    """SHOW TABLES."""
    database = statement.database or execution.context.database
    rows = store_rows.table_rows(execution.context.catalog, database, statement.pattern)
    return string_rows(execution.context.facts, store_rows.TABLE_COLUMNS, rows)


def partitions(execution: ExecutionContext, statement: queries.ShowPartitions) -> DataFrame:
    """SHOW PARTITIONS: the names of partitions as in directories, with escaped values."""
    context = execution.context
    table = context.require(execution.find(statement.table))
    if not table.partition_columns:
        raise NoSuchPartitionError(f"table {table.name} is not partitioned")
    static = static_values(context, table, partition_values(execution, statement.partition))
    partitions = partitions_of(context, table, execution.joined) or ()
    matches = matching_partitions(table, partitions, static)
    rows = sorted((partition_name(table, partition.values),) for partition in matches)
    return string_rows(context.facts, ("partition",), rows)


def create_table(execution: ExecutionContext, statement: queries.ShowCreateTable) -> DataFrame:
    """SHOW CREATE TABLE: one row per line of the statement."""
    with_database = statement.table.database is not None
    relation = _find(execution, statement.table)
    if isinstance(relation, TableDefinition):
        text = show_create_table(relation, with_database=with_database)
    else:
        text = show_create_view(relation, with_database=with_database)
    return string_rows(execution.context.facts, ("createtab_stmt",), [(line,) for line in text.split("\n")])


def properties(execution: ExecutionContext, statement: queries.ShowTableProperties) -> DataFrame:
    """SHOW TBLPROPERTIES."""
    relation = _find(execution, statement.table)
    rows: list[Row] = list(relation.properties)
    if statement.key is not None:
        missing = f"Table {relation.name} does not have property: {statement.key}"
        rows = [(statement.key, _property(relation.properties, statement.key, missing))]
    return string_rows(execution.context.facts, ("prpt_name", "prpt_value"), rows)


def _property(properties: Properties, key: str, missing: str) -> str:
    """Return a property's value, by its key compared without case; ``missing`` if there is none."""
    return next((value for name, value in properties if name.lower() == key.lower()), missing)


def columns(execution: ExecutionContext, statement: queries.ShowColumns) -> DataFrame:
    """SHOW COLUMNS: partition columns last."""
    relation = _find(execution, statement.table)
    names = [column.name for column in relation.columns]
    if isinstance(relation, TableDefinition):
        names += [column.name for column in relation.partition_columns]
    rows = [(name,) for name in store_rows.matching(names, statement.pattern)]
    return string_rows(execution.context.facts, ("field",), rows)


def _find(execution: ExecutionContext, ref: TableRef) -> TableDefinition | ViewDefinition:
    return find_hiveacid_view(execution.context, ref) or execution.context.require(execution.find(ref))


def transactions(execution: ExecutionContext, _: queries.ShowTransactions) -> DataFrame:
    """SHOW TRANSACTIONS: open and aborted ones; times in milliseconds since the epoch."""
    rows = store_rows.transaction_rows(execution.context.store)
    return string_rows(execution.context.facts, store_rows.TRANSACTION_COLUMNS, rows)


def locks(execution: ExecutionContext, statement: queries.ShowLocks) -> DataFrame:
    """SHOW LOCKS, in Hive's new format."""
    wanted = statement.table.resolve(execution.context.database) if statement.table else None
    partition = named_partition(execution, wanted, statement.partition) if wanted else None
    execution.context.store.abort_timed_out()
    matches = [
        lock
        for lock in execution.context.store.show_locks()
        if statement.database in (None, lock.database)
        and (wanted is None or (lock.database, lock.table) == (wanted.database, wanted.name))
        and partition in (None, lock.partition)
    ]
    return string_rows(execution.context.facts, store_rows.LOCK_COLUMNS, store_rows.lock_rows(matches))


def named_partition(execution: ExecutionContext, name: TableName, spec: PartitionSpec) -> str | None:
    """Return Hive's name of the partition in a specification, None if the specification is empty."""
    if not spec:
        return None
    table = execution.context.require(name)
    static = static_values(execution.context, table, partition_values(execution, spec))
    return partition_name(table, tuple(static.get(c.name) for c in table.partition_columns))


def conf(execution: ExecutionContext, statement: queries.ShowConf) -> DataFrame:
    """SHOW CONF: a setting's default, type and meaning."""
    setting = REGISTRY.get(statement.key)
    if setting is None:
        raise ConfigError(f"{statement.key} is not a setting; hiveacid knows those of docs/settings.md")
    rows = [(setting.default, setting.kind, setting.doc)]
    return string_rows(execution.context.facts, ("default", "type", "desc"), rows)

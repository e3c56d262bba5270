"""Databases, tables and partitions: create, drop, alter, truncate."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hiveacid.catalog import databases_and_views, tables
from hiveacid.core.model import DatabaseDefinition
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.statements import administration, definitions


def create_database(execution: ExecutionContext, statement: definitions.CreateDatabase) -> None:
    """CREATE DATABASE."""
    database = DatabaseDefinition(
        statement.name, statement.location or "", statement.comment, statement.properties
    )
    databases_and_views.create_database(execution.context, database, if_not_exists=statement.if_not_exists)


def drop_database(execution: ExecutionContext, statement: definitions.DropDatabase) -> None:
    """DROP DATABASE; if it was the current one, ``default`` becomes the current database."""
    context = execution.context
    databases_and_views.drop_database(
        context, statement.name, if_exists=statement.if_exists, cascade=statement.cascade
    )
    if context.database == statement.name:
        execution.use("default")


def use(execution: ExecutionContext, statement: administration.UseDatabase) -> None:
    """USE."""
    execution.use(statement.name)


def drop_table(execution: ExecutionContext, statement: definitions.DropTable) -> None:
    """DROP TABLE."""
    name = statement.table.resolve(execution.context.database)
    if not statement.if_exists:
        execution.find(statement.table)
    tables.drop_table(execution.context, name, if_exists=statement.if_exists)


def rename_table(execution: ExecutionContext, statement: definitions.RenameTable) -> None:
    """ALTER TABLE RENAME; a new name without a database stays in the table's own."""
    name = execution.find(statement.table)
    tables.rename_table(execution.context, name, statement.new_name.resolve(name.database))


def add_columns(execution: ExecutionContext, statement: definitions.AddColumns) -> None:
    """ALTER TABLE ADD COLUMNS."""
    tables.add_columns(execution.context, execution.find(statement.table), statement.columns)


def set_properties(execution: ExecutionContext, statement: definitions.SetTableProperties) -> None:
    """ALTER TABLE SET TBLPROPERTIES."""
    tables.set_properties(execution.context, execution.find(statement.table), dict(statement.properties))


def unset_properties(execution: ExecutionContext, statement: definitions.UnsetTableProperties) -> None:
    """ALTER TABLE UNSET TBLPROPERTIES."""
    name = execution.find(statement.table)
    tables.unset_properties(execution.context, name, statement.keys, if_exists=statement.if_exists)


def truncate(execution: ExecutionContext, statement: definitions.TruncateTable) -> None:
    """TRUNCATE, of a table or of the partitions of a specification."""
    spec = partition_values(execution, statement.partition)
    tables.truncate(execution.context, execution.find(statement.table), spec, execution.joined)


def add_partitions(execution: ExecutionContext, statement: definitions.AddPartitions) -> None:
    """ALTER TABLE ADD PARTITION."""
    specs = [
        (partition_values(execution, partition.spec) or {}, partition.location)
        for partition in statement.partitions
    ]
    name = execution.find(statement.table)
    tables.add_partitions(execution.context, name, specs, if_not_exists=statement.if_not_exists)


def unsupported(_: ExecutionContext, statement: administration.UnsupportedStatement) -> DataFrame:
    """Refuse an unsupported statement, with the alternative."""
    raise UnsupportedFeatureError(statement.advice)

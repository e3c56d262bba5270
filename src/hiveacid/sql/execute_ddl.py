"""Databases, tables and partitions: create, drop, alter, truncate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from hiveacid.catalog import ddl
from hiveacid.core.model import Column, DatabaseDefinition, Partition, TableDefinition
from hiveacid.core.types import Primitive, parse_type
from hiveacid.errors import NoSuchColumnError, StatementError, UnsupportedFeatureError
from hiveacid.sql.execute_insert import partition_values
from hiveacid.sql.rows import nothing
from hiveacid.sql.values import PartitionItem, PartitionSpec
from hiveacid.table.insert import static_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql import statements as s
    from hiveacid.sql.session import AcidSession

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})


def create_database(session: AcidSession, statement: s.CreateDatabase) -> DataFrame:
    """CREATE DATABASE."""
    made = DatabaseDefinition(
        statement.name, statement.location or "", statement.comment, statement.properties
    )
    ddl.create_database(session.context, made, if_not_exists=statement.if_not_exists)
    return nothing(session.context.facts)


def drop_database(session: AcidSession, statement: s.DropDatabase) -> DataFrame:
    """DROP DATABASE; the session goes on in ``default`` if it was the current one."""
    context = session.context
    ddl.drop_database(context, statement.name, if_exists=statement.if_exists, cascade=statement.cascade)
    if context.database == statement.name:
        session.use("default")
    return nothing(context.facts)


def use(session: AcidSession, statement: s.UseDatabase) -> DataFrame:
    """USE."""
    session.use(statement.name)
    return nothing(session.context.facts)


def drop_table(session: AcidSession, statement: s.DropTable) -> DataFrame:
    """DROP TABLE."""
    name = statement.table.resolve(session.context.database)
    if not statement.if_exists:
        session.find(statement.table)
    ddl.drop_table(session.context, name, if_exists=statement.if_exists)
    return nothing(session.context.facts)


def rename_table(session: AcidSession, statement: s.RenameTable) -> DataFrame:
    """ALTER TABLE RENAME; a new name without a database stays in the table's own."""
    name = session.find(statement.table)
    ddl.rename_table(session.context, name, statement.new_name.resolve(name.database))
    return nothing(session.context.facts)


def add_columns(session: AcidSession, statement: s.AddColumns) -> DataFrame:
    """ALTER TABLE ADD COLUMNS."""
    ddl.add_columns(session.context, session.find(statement.table), statement.columns)
    return nothing(session.context.facts)


def set_properties(session: AcidSession, statement: s.SetTableProperties) -> DataFrame:
    """ALTER TABLE SET TBLPROPERTIES."""
    ddl.set_properties(session.context, session.find(statement.table), dict(statement.properties))
    return nothing(session.context.facts)


def unset_properties(session: AcidSession, statement: s.UnsetTableProperties) -> DataFrame:
    """ALTER TABLE UNSET TBLPROPERTIES."""
    name = session.find(statement.table)
    ddl.unset_properties(session.context, name, statement.keys, if_exists=statement.if_exists)
    return nothing(session.context.facts)


def truncate(session: AcidSession, statement: s.TruncateTable) -> DataFrame:
    """TRUNCATE, of a table or of the partitions of a specification."""
    spec = partition_values(session, statement.partition)
    ddl.truncate(session.context, session.find(statement.table), spec, session.joined)
    return nothing(session.context.facts)


def add_partitions(session: AcidSession, statement: s.AddPartitions) -> DataFrame:
    """ALTER TABLE ADD PARTITION."""
    specs = [(partition_values(session, new.spec) or {}, new.location) for new in statement.partitions]
    name = session.find(statement.table)
    ddl.add_partitions(session.context, name, specs, if_not_exists=statement.if_not_exists)
    return nothing(session.context.facts)


def drop_partitions(session: AcidSession, statement: s.DropPartitions) -> DataFrame:
    """ALTER TABLE DROP PARTITION; each specification may match several partitions, none of them is an error."""
    context = session.context
    name = session.find(statement.table)
    table = context.require(name)
    tests = [_test(session, table, spec) for spec in statement.specs]

    def choose(partitions: Sequence[Partition]) -> Sequence[Partition]:
        if not statement.if_exists and not all(any(map(test, partitions)) for test in tests):
            return []
        return [partition for partition in partitions if any(test(partition) for test in tests)]

    ddl.drop_partitions(context, name, choose, if_exists=statement.if_exists)
    return nothing(context.facts)


def _test(session: AcidSession, table: TableDefinition, spec: PartitionSpec) -> Callable[[Partition], bool]:
    """Return the condition of one PARTITION (...)."""
    conditions = [_condition(session, table, item) for item in spec]
    return lambda partition: all(condition(partition) for condition in conditions)


def _condition(
    session: AcidSession, table: TableDefinition, item: PartitionItem
) -> Callable[[Partition], bool]:
    names = [c.name for c in table.partition_columns]
    if item.column not in names:
        raise NoSuchColumnError(
            f"{table.name} has no partition column {item.column}; it has {', '.join(names) or 'none'} "
            f"(line {item.line}, column {item.at_column})"
        )
    place = names.index(item.column)
    column = table.partition_columns[place]
    wanted = _one_value(session, table, item)
    holds = _COMPARISONS[item.operator]

    def condition(partition: Partition) -> bool:
        has = partition.values[place]
        if has is None or wanted is None:
            return has is None and wanted is None and item.operator == "="
        return holds(_comparable(column, has), _comparable(column, wanted))

    return condition


def _one_value(session: AcidSession, table: TableDefinition, item: PartitionItem) -> str | None:
    given = partition_values(session, (item,)) or {}
    own = TableDefinition(table.name, (), table.storage, "", _only(table, item.column))
    return static_values(session.context, own, given)[item.column]


def _only(table: TableDefinition, column: str) -> tuple[Column, ...]:
    return tuple(c for c in table.partition_columns if c.name == column)


def _comparable(column: Column, text: str) -> Decimal | str:
    kind = parse_type(column.type)
    if isinstance(kind, Primitive) and kind.name in _NUMBERS:
        try:
            return Decimal(text)
        except InvalidOperation as error:
            raise StatementError(f"partition value {text} of column {column.name} is no number") from error
    return text


def unsupported(_: AcidSession, statement: s.Statement) -> DataFrame:
    """Refuse what this version cannot do, and say what to do instead."""
    raise UnsupportedFeatureError(_ADVICE[type(statement).__name__])


_ADVICE: Mapping[str, str] = {
    "ReplaceColumns": "ALTER TABLE REPLACE COLUMNS is not supported yet: CREATE TABLE ... AS SELECT a new table",
    "ChangeColumn": "ALTER TABLE CHANGE COLUMN is not supported yet: CREATE TABLE ... AS SELECT a new table",
    "RenamePartition": "ALTER TABLE ... PARTITION RENAME is not supported yet: INSERT the rows into the new "
    "partition and DROP the old one",
    "SetDatabaseProperties": "ALTER DATABASE is not supported yet: give DBPROPERTIES to CREATE DATABASE",
    "RepairTable": "MSCK is not supported yet: ALTER TABLE ADD PARTITION, or acid.adopt(...) for a whole table",
    "AnalyzeTable": "ANALYZE TABLE is not needed: files carry their own statistics, and Spark reads these",
}

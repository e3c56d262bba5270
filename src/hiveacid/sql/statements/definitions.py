"""Statements that define databases, tables, partitions and views."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiveacid.core.model import (
    Bucketing,
    Column,
    Constraint,
    ConstraintKind,
    StorageFormat,
    TableDefinition,
    TableName,
)
from hiveacid.core.schema.evolution import ColumnChange
from hiveacid.sql.statements import PartitionSpec, Properties, Slice, Statement, TableRef, TableStatement


def in_database(constraint: Constraint, database: str) -> Constraint:
    """Return a constraint whose parent table is in ``database``, if the text names no other."""
    parent = constraint.parent
    return (
        constraint
        if parent is None
        else replace(constraint, parent=TableName(parent.database or database, parent.name))
    )


@dataclass(frozen=True)
class CreateTable(TableStatement):
    """CREATE TABLE, as users write it and as Hive's SHOW CREATE TABLE prints it.

    ``storage`` is None where the text says nothing about it. ``query`` is set for CREATE TABLE AS; then
    ``columns`` is empty and ``partition_columns`` may have the empty type (PARTITIONED BY names only).
    ``properties``: those of the text, and ``transactional`` for CREATE TRANSACTIONAL TABLE. ``has_spark_provider``: the text
    names the format as Spark does (USING orc). Where Spark has tables of its own, the new table is one of them.
    """

    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    bucketing: Bucketing | None = None
    storage: StorageFormat | None = None
    location: str | None = None
    comment: str | None = None
    properties: Properties = ()
    external: bool = False
    if_not_exists: bool = False
    query: Slice | None = None
    has_spark_provider: bool = False
    constraints: tuple[Constraint, ...] = ()

    def definition(
        self, name: TableName, *, location: str, storage: StorageFormat, owner: str = "", created_at: int = 0
    ) -> TableDefinition:
        """Return the definition for the catalog; ``location`` and ``storage``: used if the statement names none."""
        return TableDefinition(
            name=name,
            columns=self.columns,
            storage=self.storage or storage,
            location=self.location or location,
            partition_columns=self.partition_columns,
            bucketing=self.bucketing,
            properties=self.properties,
            external=self.external,
            comment=self.comment,
            owner=owner,
            created_at=created_at,
            constraints=tuple(in_database(constraint, name.database) for constraint in self.constraints),
        )

    def with_columns(self, columns: tuple[Column, ...]) -> CreateTable:
        """Return a copy with the columns of a query; the statement's partition columns take theirs by name."""
        by_name = {column.name: column for column in columns}
        partitions = tuple(by_name.get(column.name, column) for column in self.partition_columns)
        names = {column.name for column in partitions}
        remaining = tuple(column for column in columns if column.name not in names)
        return replace(self, columns=remaining, partition_columns=partitions)


@dataclass(frozen=True)
class CreateTableLike(TableStatement):
    """CREATE TABLE t LIKE source."""

    source: TableRef
    storage: StorageFormat | None = None
    location: str | None = None
    properties: Properties = ()
    external: bool = False
    if_not_exists: bool = False
    has_spark_provider: bool = False


@dataclass(frozen=True)
class DropTable(TableStatement):
    """DROP TABLE."""

    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class TruncateTable(TableStatement):
    """TRUNCATE [TABLE] t [PARTITION (...)]; a partial specification names several partitions."""

    partition: PartitionSpec = ()


@dataclass(frozen=True)
class RenameTable(TableStatement):
    """ALTER TABLE t RENAME TO u."""

    new_name: TableRef


@dataclass(frozen=True)
class AddColumns(TableStatement):
    """ALTER TABLE t ADD COLUMNS (...) [RESTRICT | CASCADE]; partitions get the columns with either word."""

    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ChangeColumn(TableStatement):
    """ALTER TABLE t CHANGE | ALTER [COLUMN] c ..., and RENAME COLUMN c TO d. ``constraint``: a new one of the column."""

    change: ColumnChange
    constraint: Constraint | None = None


@dataclass(frozen=True)
class AddConstraint(TableStatement):
    """ALTER TABLE t ADD [CONSTRAINT c] PRIMARY KEY | FOREIGN KEY | UNIQUE | CHECK ..."""

    constraint: Constraint


@dataclass(frozen=True)
class DropConstraint(TableStatement):
    """ALTER TABLE t DROP CONSTRAINT [IF EXISTS] c."""

    constraint: str
    if_exists: bool = False


@dataclass(frozen=True)
class DropColumnConstraint(TableStatement):
    """ALTER TABLE t ALTER [COLUMN] c DROP NOT NULL | DEFAULT (Spark)."""

    column: str
    kind: ConstraintKind


@dataclass(frozen=True)
class ReplaceColumns(TableStatement):
    """ALTER TABLE t REPLACE COLUMNS (...) [RESTRICT | CASCADE]; partitions get the columns with either word."""

    columns: tuple[Column, ...]


@dataclass(frozen=True)
class DropColumns(TableStatement):
    """ALTER TABLE t DROP COLUMN[S] [IF EXISTS] c, ..."""

    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class SetTableProperties(TableStatement):
    """ALTER TABLE t SET TBLPROPERTIES (...)."""

    properties: Properties


@dataclass(frozen=True)
class SetTableOwner(TableStatement):
    """ALTER TABLE t SET OWNER USER u."""

    owner: str


@dataclass(frozen=True)
class UnsetTableProperties(TableStatement):
    """ALTER TABLE t UNSET TBLPROPERTIES [IF EXISTS] ('key', ...)."""

    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class AddedPartition:
    """One PARTITION (...) [LOCATION ''] of ALTER TABLE ADD."""

    spec: PartitionSpec
    location: str | None = None


@dataclass(frozen=True)
class AddPartitions(TableStatement):
    """ALTER TABLE t ADD [IF NOT EXISTS] PARTITION (...) [LOCATION ''] ..."""

    partitions: tuple[AddedPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropPartitions(TableStatement):
    """ALTER TABLE t DROP [IF EXISTS] PARTITION (...), ... [PURGE]: each specification may match several."""

    specs: tuple[PartitionSpec, ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class RepairTable(TableStatement):
    """MSCK [REPAIR] TABLE t [ADD | DROP | SYNC PARTITIONS [PARTITION (...)]], and ALTER TABLE t RECOVER PARTITIONS.

    ``add``: take in directories without a partition. ``drop``: drop partitions without a directory. Neither: only report.
    """

    add: bool = False
    drop: bool = False
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class RenamePartition(TableStatement):
    """ALTER TABLE t PARTITION (...) RENAME TO PARTITION (...): both with all columns."""

    spec: PartitionSpec
    new_spec: PartitionSpec


@dataclass(frozen=True)
class CreateTag(TableStatement):
    """ALTER TABLE t CREATE [OR REPLACE] TAG; at the version, moment or other tag, else at the present. ``retain``: seconds."""

    tag: str
    version: int | str | None = None
    moment: Slice | None = None
    retain: float | None = None
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTag(TableStatement):
    """ALTER TABLE t DROP TAG [IF EXISTS] name."""

    tag: str
    if_exists: bool = False


@dataclass(frozen=True)
class CreateTemporaryView(Statement):
    """CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query."""

    name: TableRef
    query: Slice
    columns: tuple[str, ...] = ()
    replace: bool = False
    is_global: bool = False


@dataclass(frozen=True)
class ViewColumn:
    """A column in the column list of a view: name and comment."""

    name: str
    comment: str | None = None


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(column [COMMENT ''], ...)] [COMMENT ''] [TBLPROPERTIES (...)] AS query."""

    view: TableRef
    query: Slice
    columns: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    properties: Properties = ()
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class AlterView(Statement):
    """ALTER VIEW v AS query."""

    view: TableRef
    query: Slice


@dataclass(frozen=True)
class RenameView(Statement):
    """ALTER VIEW v RENAME TO w."""

    view: TableRef
    new_name: TableRef


@dataclass(frozen=True)
class SetViewProperties(Statement):
    """ALTER VIEW v SET TBLPROPERTIES (...)."""

    view: TableRef
    properties: Properties


@dataclass(frozen=True)
class UnsetViewProperties(Statement):
    """ALTER VIEW v UNSET TBLPROPERTIES [IF EXISTS] ('key', ...)."""

    view: TableRef
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class DropView(Statement):
    """DROP VIEW."""

    name: TableRef
    if_exists: bool = False


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """CREATE DATABASE | SCHEMA."""

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Properties = ()


@dataclass(frozen=True)
class AlterDatabase(Statement):
    """ALTER DATABASE d SET DBPROPERTIES | OWNER | LOCATION, and COMMENT ON DATABASE (``comment`` is empty for NULL)."""

    name: str
    properties: Properties = ()
    comment: str | None = None
    owner: str | None = None
    location: str | None = None


@dataclass(frozen=True)
class DropDatabase(Statement):
    """DROP DATABASE | SCHEMA [CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False

"""Statements that only read: queries, EXPLAIN, DESCRIBE, SHOW."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.sql.statements.values import PartitionSpec, Slice, Statement, TableRef, TableStatement


@dataclass(frozen=True)
class Query(Statement):
    """Anything that only reads: SELECT, WITH, FROM ... SELECT, VALUES, TABLE, or in parentheses."""

    text: Slice


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [options] statement; options are upper-case words. The inner statement is not to be run."""

    statement: Statement
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class DescribeTable(TableStatement):
    """DESCRIBE [EXTENDED | FORMATTED] t [PARTITION (...)] [column]; ``style`` is '', extended or formatted."""

    style: str = ""
    partition: PartitionSpec = ()
    column: str | None = None


@dataclass(frozen=True)
class DescribeDatabase(Statement):
    """DESCRIBE DATABASE [EXTENDED] d."""

    name: str
    extended: bool = False


@dataclass(frozen=True)
class DescribeHistory(TableStatement):
    """DESCRIBE HISTORY t [LIMIT n]."""

    limit: int | None = None


@dataclass(frozen=True)
class ShowDatabases(Statement):
    """SHOW DATABASES [LIKE 'pattern']."""

    pattern: str | None = None


@dataclass(frozen=True)
class ShowTables(Statement):
    """SHOW TABLES [IN d] [LIKE 'pattern']."""

    database: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class ShowTableExtended(ShowTables):
    """SHOW TABLE EXTENDED [IN d] LIKE 'pattern' [PARTITION (...)]; with a partition, the pattern is a table's name."""

    partition: PartitionSpec = ()


class ShowViews(ShowTables):
    """SHOW VIEWS [IN d] [LIKE 'pattern']."""


@dataclass(frozen=True)
class ShowPartitions(TableStatement):
    """SHOW PARTITIONS t [PARTITION (...)]."""

    partition: PartitionSpec = ()


class ShowCreateTable(TableStatement):
    """SHOW CREATE TABLE t."""


@dataclass(frozen=True)
class ShowTableProperties(TableStatement):
    """SHOW TBLPROPERTIES t [('key')]."""

    key: str | None = None


@dataclass(frozen=True)
class ShowColumns(TableStatement):
    """SHOW COLUMNS IN t [IN d] [LIKE 'pattern']."""

    pattern: str | None = None


class ShowTransactions(Statement):
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True)
class ShowLocks(Statement):
    """SHOW LOCKS [t [PARTITION (...)] | DATABASE d] [EXTENDED]."""

    table: TableRef | None = None
    partition: PartitionSpec = ()
    database: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class ShowCompactions(Statement):
    """SHOW COMPACTIONS with the filters of Hive 4; ``order_by``: the text behind ORDER BY."""

    compaction_id: int | None = None
    database: str | None = None
    table: TableRef | None = None
    partition: PartitionSpec = ()
    pool: str | None = None
    kind: str | None = None
    status: str | None = None
    order_by: Slice | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ShowConf(Statement):
    """SHOW CONF 'key'."""

    key: str

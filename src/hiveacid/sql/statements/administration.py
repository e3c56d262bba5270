"""SHOW and DESCRIBE, and statements about transactions, settings, upkeep and compaction."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.sql.statements import PartitionSpec, Properties, Slice, Statement, TableRef, TableStatement


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


class DescribeDetail(TableStatement):
    """DESCRIBE DETAIL t."""


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
class ShowTableTypes(Statement):
    """SHOW [EXTENDED] TABLES [IN d] [LIKE 'pattern'] [WHERE TABLE_TYPE = 'kind']; ``extended``: with the types."""

    database: str | None = None
    pattern: str | None = None
    kind: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class ShowTableExtended(ShowTables):
    """SHOW TABLE EXTENDED [IN d] LIKE 'pattern' [PARTITION (...)]; with a partition, the pattern is a table's name."""

    partition: PartitionSpec = ()


class ShowViews(ShowTables):
    """SHOW VIEWS [IN d] [LIKE 'pattern']."""


@dataclass(frozen=True)
class RowChoice:
    """[WHERE condition] [ORDER BY columns] [LIMIT n] of a SHOW; ``order_by``: the text behind ORDER BY."""

    where: Slice | None = None
    order_by: Slice | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ShowPartitions(TableStatement):
    """SHOW PARTITIONS t [PARTITION (...)] [WHERE condition] [ORDER BY columns] [LIMIT n]."""

    partition: PartitionSpec = ()
    choice: RowChoice = RowChoice()


@dataclass(frozen=True)
class ShowCreateDatabase(Statement):
    """SHOW CREATE DATABASE d."""

    name: str


class ShowCreateTable(TableStatement):
    """SHOW CREATE TABLE t."""


@dataclass(frozen=True)
class ShowTableProperties(TableStatement):
    """SHOW TBLPROPERTIES t [('key')]."""

    key: str | None = None


@dataclass(frozen=True)
class ShowColumns(TableStatement):
    """SHOW [SORTED] COLUMNS IN t [IN d] [LIKE 'pattern']."""

    pattern: str | None = None
    is_sorted: bool = False


@dataclass(frozen=True)
class ShowTransactions(Statement):
    """SHOW TRANSACTIONS [WHERE condition] [ORDER BY columns] [LIMIT n]."""

    choice: RowChoice = RowChoice()


@dataclass(frozen=True)
class ShowLocks(Statement):
    """SHOW LOCKS [t [PARTITION (...)] | DATABASE d] [EXTENDED]."""

    table: TableRef | None = None
    partition: PartitionSpec = ()
    database: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class ShowCompactions(Statement):
    """SHOW COMPACTIONS with the filters of Hive 4, and WHERE."""

    compaction_id: int | None = None
    database: str | None = None
    table: TableRef | None = None
    partition: PartitionSpec = ()
    pool: str | None = None
    kind: str | None = None
    status: str | None = None
    choice: RowChoice = RowChoice()


@dataclass(frozen=True)
class ShowConf(Statement):
    """SHOW CONF 'key'."""

    key: str


@dataclass(frozen=True)
class StartTransaction(Statement):
    """START TRANSACTION [READ ONLY | READ WRITE] or BEGIN."""

    read_only: bool = False


class Commit(Statement):
    """COMMIT [WORK]."""


class Rollback(Statement):
    """ROLLBACK [WORK]."""


@dataclass(frozen=True)
class AbortTransactions(Statement):
    """ABORT TRANSACTIONS id ..."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class SetOption(Statement):
    """SET (all: ``key`` None), SET key (show it: ``value`` None) or SET key=value."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ResetOption(Statement):
    """RESET (all: ``key`` None) or RESET key."""

    key: str | None = None


@dataclass(frozen=True)
class UseDatabase(Statement):
    """USE d."""

    name: str


class RefreshTable(TableStatement):
    """REFRESH [TABLE] t."""


@dataclass(frozen=True)
class UnsupportedStatement(Statement):
    """A statement of Hive's that is refused, with its alternative; ``table``: the table that it names."""

    advice: str
    table: TableRef | None = None


@dataclass(frozen=True)
class Compact(TableStatement):
    """ALTER TABLE t [PARTITION (...)] COMPACT 'kind' ...; ``kind`` is minor, major or rebalance.

    ``order_by`` is in the spelling of `format_sort_order`.
    """

    kind: str
    partition: PartitionSpec = ()
    wait: bool = False
    buckets: int | None = None
    order_by: str | None = None
    pool: str | None = None
    properties: Properties = ()


@dataclass(frozen=True)
class Analyze(TableStatement):
    """ANALYZE TABLE t [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS [a, b]]."""

    partition: PartitionSpec = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Optimize(TableStatement):
    """OPTIMIZE t, and ALTER TABLE t [PARTITION (...)] CONCATENATE: COMPACT 'major' AND WAIT that may find nothing to do."""

    partition: PartitionSpec = ()


class Vacuum(TableStatement):
    """VACUUM t, which is ``acid.clean("t")``."""


@dataclass(frozen=True)
class AbortCompactions(Statement):
    """ABORT COMPACTIONS id ..."""

    ids: tuple[int, ...]

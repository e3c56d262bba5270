"""Statements that show something, and those for transactions, settings and upkeep."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.sql.statements.values import PartitionSpec, Slice, TableRef


@dataclass(frozen=True)
class DescribeTable:
    """DESCRIBE [EXTENDED | FORMATTED] t [PARTITION (...)] [column]; ``style`` is '', extended or formatted."""

    table: TableRef
    style: str = ""
    partition: PartitionSpec = ()
    column: str | None = None


@dataclass(frozen=True)
class DescribeDatabase:
    """DESCRIBE DATABASE [EXTENDED] d."""

    name: str
    extended: bool = False


@dataclass(frozen=True)
class DescribeHistory:
    """DESCRIBE HISTORY t [LIMIT n]."""

    table: TableRef
    limit: int | None = None


@dataclass(frozen=True)
class ShowDatabases:
    """SHOW DATABASES [LIKE 'pattern']."""

    pattern: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES [IN d] [LIKE 'pattern']."""

    database: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class ShowPartitions:
    """SHOW PARTITIONS t [PARTITION (...)]."""

    table: TableRef
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class ShowCreateTable:
    """SHOW CREATE TABLE t."""

    table: TableRef


@dataclass(frozen=True)
class ShowTableProperties:
    """SHOW TBLPROPERTIES t [('key')]."""

    table: TableRef
    key: str | None = None


@dataclass(frozen=True)
class ShowColumns:
    """SHOW COLUMNS IN t [IN d] [LIKE 'pattern']."""

    table: TableRef
    pattern: str | None = None


@dataclass(frozen=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True)
class ShowLocks:
    """SHOW LOCKS [t [PARTITION (...)] | DATABASE d] [EXTENDED]."""

    table: TableRef | None = None
    partition: PartitionSpec = ()
    database: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class ShowCompactions:
    """SHOW COMPACTIONS with Hive 4's filters; ``order_by`` is the text of its list."""

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
class ShowConf:
    """SHOW CONF 'key'."""

    key: str


@dataclass(frozen=True)
class AbortTransactions:
    """ABORT TRANSACTIONS id ..."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class AbortCompactions:
    """ABORT COMPACTIONS id ..."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class StartTransaction:
    """START TRANSACTION [READ ONLY | READ WRITE] or BEGIN."""

    read_only: bool = False


@dataclass(frozen=True)
class Commit:
    """COMMIT [WORK]."""


@dataclass(frozen=True)
class Rollback:
    """ROLLBACK [WORK]."""


@dataclass(frozen=True)
class SetOption:
    """SET (all: ``key`` None), SET key (show it: ``value`` None) or SET key=value."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ResetOption:
    """RESET (all: ``key`` None) or RESET key."""

    key: str | None = None


@dataclass(frozen=True)
class RefreshTable:
    """REFRESH [TABLE] t: nothing is cached that could be old."""

    table: TableRef


@dataclass(frozen=True)
class RepairTable:
    """MSCK [REPAIR] TABLE t [ADD | DROP | SYNC PARTITIONS]; ``mode`` is add, drop or sync."""

    table: TableRef
    mode: str = "add"


@dataclass(frozen=True)
class AnalyzeTable:
    """ANALYZE TABLE t [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR [ALL] COLUMNS [a, ...]].

    ``columns`` is None without FOR COLUMNS, empty for all columns.
    """

    table: TableRef
    partition: PartitionSpec = ()
    columns: tuple[str, ...] | None = None
    noscan: bool = False

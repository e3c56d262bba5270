"""Statements about transactions, settings, upkeep and compaction."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.sql.statements.values import PartitionSpec, Properties, Statement, TableRef, TableStatement


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
class AbortCompactions(Statement):
    """ABORT COMPACTIONS id ..."""

    ids: tuple[int, ...]

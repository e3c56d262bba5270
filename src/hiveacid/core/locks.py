"""Lock types and who waits for whom, as data (``TxnHandler.checkLock``, internals §3.8)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LockType(StrEnum):
    """Hive's four lock types."""

    SHARED_READ = "SHARED_READ"
    SHARED_WRITE = "SHARED_WRITE"
    EXCL_WRITE = "EXCL_WRITE"
    EXCLUSIVE = "EXCLUSIVE"


class LockState(StrEnum):
    """State of a lock request."""

    ACQUIRED = "ACQUIRED"
    WAITING = "WAITING"
    NOT_ACQUIRED = "NOT_ACQUIRED"


@dataclass(frozen=True)
class LockComponent:
    """One lock: on a database, a table (``partition`` None) or a partition ('p=1/q=2')."""

    type: LockType
    database: str
    table: str | None = None
    partition: str | None = None

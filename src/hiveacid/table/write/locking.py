"""Lock types of inserting statements. Needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.transactions.locks import LockType

if TYPE_CHECKING:
    from hiveacid.config import Settings


def overwriting_lock(settings: Settings) -> LockType:
    """Return the lock type of INSERT OVERWRITE into a transactional table or partition."""
    exclusive = settings.get(keys.XLOCK_WRITE) and settings.get(keys.XLOCK_OVERWRITE)
    return LockType.EXCLUSIVE if exclusive else LockType.EXCL_WRITE


def appending_lock(settings: Settings) -> LockType:
    """Return the lock type of INSERT INTO and of streams into a transactional table."""
    # SHARED_READ does not block EXCL_WRITE; the rows would be lost below an overwrite with a higher write id
    exclusive = settings.get(keys.XLOCK_WRITE) and settings.get(keys.XLOCK_OVERWRITE)
    return LockType.SHARED_READ if exclusive else LockType.SHARED_WRITE

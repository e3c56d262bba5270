"""Lock types of inserting statements. Needs no Spark."""

from __future__ import annotations

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.transactions.locks import LockType


def insert_lock_type(settings: Settings, *, overwrite: bool) -> LockType:
    """Return the lock type of INSERT and of streams into a transactional table or partition."""
    exclusive = settings.get(setting_definitions.XLOCK_WRITE) and settings.get(
        setting_definitions.XLOCK_OVERWRITE
    )
    if overwrite:
        return LockType.EXCLUSIVE if exclusive else LockType.EXCL_WRITE
    # SHARED_READ does not block EXCL_WRITE; the rows would be lost below an overwrite with a higher write id
    return LockType.SHARED_READ if exclusive else LockType.SHARED_WRITE

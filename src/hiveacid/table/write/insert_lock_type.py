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
    # An overwrite that takes EXCL_WRITE does not wait for SHARED_READ. The base of one with a higher write id would hide
    # the rows that this statement commits.
    return LockType.SHARED_READ if exclusive else LockType.SHARED_WRITE

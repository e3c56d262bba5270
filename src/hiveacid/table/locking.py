"""Which locks verbs take, where Spark has no part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.locks import LockType

if TYPE_CHECKING:
    from hiveacid.config import Settings


def overwriting_lock(settings: Settings) -> LockType:
    """Return the lock of one who replaces what a transactional table or partition holds: INSERT OVERWRITE."""
    exclusive = settings.get(keys.XLOCK_WRITE) and settings.get(keys.XLOCK_OVERWRITE)
    return LockType.EXCLUSIVE if exclusive else LockType.EXCL_WRITE


def appending_lock(settings: Settings) -> LockType:
    """Return the lock of one who adds rows to a transactional table: INSERT INTO, a stream."""
    # SHARED_READ lets EXCL_WRITE pass, and rows beside an overwrite of a higher write id would be lost
    exclusive = settings.get(keys.XLOCK_WRITE) and settings.get(keys.XLOCK_OVERWRITE)
    return LockType.SHARED_READ if exclusive else LockType.SHARED_WRITE

"""Lock types of inserting and overwriting statements. Needs no Spark."""

from __future__ import annotations

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.ports.store import TransactionStore


def insert_lock_type(settings: Settings, store: TransactionStore, *, overwrite: bool) -> LockType:
    """Return the lock type of INSERT, LOAD and streams, or of their overwriting forms and TRUNCATE (``overwrite``).

    The base of an overwrite hides rows that commit later with a lower write id. Both kinds therefore wait for each
    other, whatever the settings of the two sessions: the settings only make the lock of the overwrite stronger.

    Beside a metastore an overwrite is EXCLUSIVE. With ``hive.txn.xlock.write=true`` Hive's INSERT takes SHARED_READ, for
    which no other type waits.
    """
    if not overwrite:
        return LockType.SHARED_WRITE
    exclusive = settings.get(setting_definitions.XLOCK_WRITE) and settings.get(
        setting_definitions.XLOCK_OVERWRITE
    )
    return LockType.EXCLUSIVE if exclusive or not store.maintained_by_hiveacid() else LockType.EXCL_WRITE

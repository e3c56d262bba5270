"""Housekeeper: aborts silent transactions and drops old rows of the store (Hive's ``AcidHouseKeeper``)."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.core.model import TxnId
from hiveacid.ports.store import own_store
from hiveacid.table.context import Context


@dataclass
class Housekeeper:
    """Housekeeper of a context."""

    context: Context

    def step(self) -> tuple[TxnId, ...]:
        """Do one turn; return the transactions that were aborted because their heartbeats stopped."""
        store = own_store(self.context.store)
        aborted = store.abort_timed_out()
        store.housekeep()
        return aborted

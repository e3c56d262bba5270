"""The reference store passes the contract."""

from __future__ import annotations

import pytest

from hiveacid.stores.memory import MemoryStore
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.contracts import CatalogContract, TransactionStoreContract


class TestMemory(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock)

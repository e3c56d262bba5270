"""The reference store passes the contract."""

from __future__ import annotations

import pytest

from hiveacid.stores.memory.store import MemoryStore
from support.clock import ManualClock
from support.contract.suites import CatalogContract, TransactionStoreContract


class TestMemory(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock)

"""The reference store passes the contract."""

from __future__ import annotations

import pytest

from support.clock import ManualClock
from support.contract.suites import CatalogContract, TransactionStoreContract
from support.memory_store.store import MemoryStore


class TestMemory(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock)

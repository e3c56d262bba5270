"""The reference store passes the contract."""

from __future__ import annotations

import pytest

from support.clock import ManualClock
from support.contract.metastore_cannot import CANNOT
from support.contract.suites import CatalogContract, TransactionStoreContract
from support.memory_store.store import MemoryStore


class TestMemory(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock)


def test_what_a_metastore_cannot_do_are_tests_of_the_contract() -> None:
    """Beside the quick tests: those on a real metastore run in interop only."""
    assert [name for name in CANNOT if not hasattr(TransactionStoreContract, name)] == []

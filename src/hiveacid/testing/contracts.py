"""The contract of every store: subclass in a test module and give a fixture ``store``.

    class TestMemory(TransactionStoreContract, CatalogContract):
        @pytest.fixture
        def store(self, clock):
            return MemoryStore(clock=clock)

``clock`` is a :class:`hiveacid.testing.clock.ManualClock`, which the contract turns by hand; the store has
the default limits (``hive.txn.timeout`` 300 s).
"""

from __future__ import annotations

import pytest

from hiveacid.testing.clock import ManualClock
from hiveacid.testing.contract_aborts import AbortContract
from hiveacid.testing.contract_catalog import CatalogRules, ViewRules
from hiveacid.testing.contract_changes import CatalogChangesContract
from hiveacid.testing.contract_commits import CommitContract
from hiveacid.testing.contract_compactions import CompactionContract
from hiveacid.testing.contract_locks import LockContract
from hiveacid.testing.contract_past import PastContract
from hiveacid.testing.contract_queue import ChangedPlacesContract, QueueContract
from hiveacid.testing.contract_starts import StartContract
from hiveacid.testing.contract_streams import StreamCatalogContract, StreamContract
from hiveacid.testing.contract_transactions import TransactionContract
from hiveacid.testing.contract_walks import WalkContract
from hiveacid.testing.contract_write_ids import WriteIdContract


class _TurnedClock:
    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the store is to use."""
        return ManualClock()


class TransactionStoreContract(
    _TurnedClock,
    TransactionContract,
    StartContract,
    WriteIdContract,
    LockContract,
    CommitContract,
    StreamContract,
    AbortContract,
    CompactionContract,
    WalkContract,
    QueueContract,
):
    """What every :class:`hiveacid.ports.TransactionStore` does."""


class CatalogContract(
    _TurnedClock,
    CatalogRules,
    ViewRules,
    CatalogChangesContract,
    ChangedPlacesContract,
    StreamCatalogContract,
    PastContract,
):
    """What every :class:`hiveacid.ports.Catalog` does, alone and together with transactions."""

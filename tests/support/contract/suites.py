"""The contract of every store: subclass in a test module and give a fixture ``store``.

    class TestMemory(TransactionStoreContract, CatalogContract):
        @pytest.fixture
        def store(self, clock):
            return MemoryStore(clock=clock)

``clock`` is a :class:`support.clock.ManualClock`, which the contract turns by hand; the store has
the default limits (``hive.txn.timeout`` 300 s).
"""

from __future__ import annotations

import pytest

from support.clock import ManualClock
from support.contract.aborts import AbortContract
from support.contract.catalog import CatalogRules, ViewRules
from support.contract.changes import CatalogChangesContract
from support.contract.commits import CommitContract
from support.contract.compactions import CompactionContract
from support.contract.figures import FigureHistoryContract
from support.contract.file_records import FileRecordsContract
from support.contract.locks import LockContract
from support.contract.past import PastContract
from support.contract.queue import ChangedPlacesContract, QueueContract
from support.contract.starts import StartContract
from support.contract.streams import StreamCatalogContract, StreamContract
from support.contract.transactions import TransactionContract
from support.contract.walks import WalkContract
from support.contract.write_ids import WriteIdContract


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
    """What every :class:`hiveacid.ports.store.TransactionStore` does."""


class CatalogContract(
    _TurnedClock,
    CatalogRules,
    ViewRules,
    CatalogChangesContract,
    FileRecordsContract,
    FigureHistoryContract,
    ChangedPlacesContract,
    StreamCatalogContract,
    PastContract,
):
    """What every :class:`hiveacid.ports.catalog.Catalog` does, alone and together with transactions."""

"""The SQL store on SQLite passes the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.contract.suites import CatalogContract, TransactionStoreContract


class TestSqlite(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock, tmp_path: Path) -> Iterator[SqlStore]:
        made = SqlStore(f"sqlite:///{tmp_path}/store.db", clock=clock)
        yield made
        made.close()

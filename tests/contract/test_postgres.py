"""The SQL store on a real PostgreSQL passes the contract, and what is special about a server."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from postgres_server import PASSWORD, PostgresServer, why_not
from sqlalchemy import create_engine, text

from hiveacid.core.locks import LockState, LockType
from hiveacid.core.model import TxnId
from hiveacid.core.write_ids import ValidTxnList
from hiveacid.errors import StoreError, StoreUnavailableError
from hiveacid.ports import Clock
from hiveacid.stores.sql.store import SqlStore
from hiveacid.stores.sql.tables import METADATA
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.contracts import CatalogContract, TransactionStoreContract
from hiveacid.testing.samples import CLIENT, Store, lock_on
from hiveacid.testing.store_machine import StoreMachine

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.xdist_group("postgres"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    made.start()
    SqlStore(made.url()).close()
    yield made
    made.remove()


def empty(server: PostgresServer) -> None:
    """Bring the schema back to its first day."""
    names = ", ".join(
        name for name in METADATA.tables if name not in ("hiveacid_schema", "hiveacid_counters")
    )
    engine = create_engine(server.url())
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
        connection.execute(text("UPDATE hiveacid_counters SET value = 0"))
    engine.dispose()


class TestPostgres(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock, server: PostgresServer) -> Iterator[SqlStore]:
        empty(server)
        made = SqlStore(server.url(), clock=clock, own_time=False)
        yield made
        made.close()

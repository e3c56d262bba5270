"""Transactions that are to live longer than their metastore's time-out, while one of its two servers hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers

from hiveacid.core.model import TxnId
from hiveacid.ports.transactions import Client, TransactionRow
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.transactions.heartbeats import Heartbeats
from support.servers.databases import Server

TIMEOUT = 15  # seconds


@pytest.fixture(params=VERSIONS)
def servers(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[HiveServers]:
    """Return servers whose metastore ends silent transactions soon."""
    if not is_installed(request.param) or java_home() is None:
        pytest.skip(f"Hive {request.param} is not installed: make interop-hive fetches it")
    made = HiveServers(request.param, postgres_server, timeout=TIMEOUT)  # type: ignore[arg-type]
    try:
        made.start_metastore()
        yield made
    finally:
        made.remove()


def until(reached: Callable[[], bool]) -> None:
    while not reached():
        time.sleep(0.1)


def row(store: MetastoreStore, txn_id: TxnId) -> TransactionRow:
    found = next(one for one in store.show_transactions() if one.txn_id == txn_id)
    assert found.state == "OPEN"
    return found


def test_the_next_server_hears_of_them(servers: HiveServers) -> None:
    """With Hive's default of 300 s, as a session that does not know better has it."""
    other = servers.start_another_metastore()
    store = MetastoreStore(f"thrift://127.0.0.1:{servers.hms_port},127.0.0.1:{other}")
    witness = MetastoreStore(f"thrift://127.0.0.1:{other}?timeout=60")
    assert store.txn_timeout() == TIMEOUT
    heartbeats = Heartbeats(store, 150.0)
    (txn_id,) = store.open_txns(Client("ann", "localhost", "interop"))
    heartbeats.track(txn_id)
    with servers.hanging_metastore():
        until(lambda: (one := row(witness, txn_id)).last_heartbeat > one.started + 1000 * TIMEOUT)
    heartbeats.close()
    store.close()
    witness.close()

"""Several real processes on one SQLite store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from histories import anomalies, needless_conflicts, run_clients
from sqlalchemy import create_engine, text

from hiveacid.config import Settings
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.ports.clock import SystemClock
from hiveacid.stores.sql.store import MIGRATIONS, SqlStore
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transactions
from support.clock import ManualClock
from support.samples import CLIENT, lock_on

HOLDER = """
import sys
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT, lock_on
from hiveacid.core.transactions.locks_and_conflicts import LockType
store = SqlStore(sys.argv[1])
(txn_id,) = store.open_txns(CLIENT)
store.lock(txn_id, [lock_on(LockType.EXCLUSIVE, "orders")])
with store._database._engine.connect() as connection:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    connection.exec_driver_sql("DELETE FROM hiveacid_txns WHERE id < 0")
    print(txn_id, flush=True)
    sys.stdin.read()
"""


def test_eight_processes(tmp_path: Path) -> None:
    """They make the store together; no id twice, no gap, no lost conflict, no dirty read."""
    url = f"sqlite:///{tmp_path}/store.db"
    history = run_clients(url, processes=8, transactions=20)
    assert len(history) == 160
    assert anomalies(history) == []
    assert needless_conflicts(history) == []
    assert {one["outcome"] for one in history} == {"committed", "aborted", "conflict"}
    store = SqlStore(url)
    states = {one["txn"]: store.txn_state(one["txn"]) for one in history}
    assert {one["txn"] for one in history if states[one["txn"]] == "committed"} == {
        one["txn"] for one in history if one["outcome"] == "committed"
    }
    assert store.show_locks() == ()
    store.close()


def test_the_checker_sees_what_it_should() -> None:
    """Histories with a lost update, a dirty read, a gap and an id given twice."""
    one = {
        "txn": 1, "lock": 1, "snapshot": "2:1:1-2:", "seen": "shop.orders:0:9223372036854775807::",
        "write_id": 1, "partition": "p=1", "operation": "u", "outcome": "committed",
    }  # fmt: skip
    two = one | {"txn": 2, "lock": 2, "write_id": 2}
    assert anomalies([one]) == []
    assert "both changed p=1" in anomalies([one, two])[0]
    assert anomalies([one, two | {"operation": "i"}]) == []
    assert anomalies([one, two | {"outcome": "conflict"}]) == []
    assert "against its snapshot" in anomalies([one | {"seen": "shop.orders:1:9223372036854775807::"}])[0]
    assert anomalies([one | {"write_id": 2}]) == ["write ids have gaps"]
    assert "a txn id was given twice" in anomalies([one, two | {"txn": 1, "operation": "i"}])
    assert needless_conflicts([one | {"outcome": "conflict"}]) == ["1 lost for no reason"]


def test_a_killed_client_is_in_nobodys_way(tmp_path: Path) -> None:
    """Killed with the database locked and a lock held: others go on, the reaper frees the lock."""
    url = f"sqlite:///{tmp_path}/store.db"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    lost = int(holder.stdout.readline())
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    clock = ManualClock(SystemClock().now())
    store = SqlStore(url, clock=clock)
    (mine,) = store.open_txns(CLIENT)
    answer = store.lock(mine, [lock_on(LockType.SHARED_READ, "orders")])
    assert answer.state is LockState.WAITING
    clock.advance(301)
    store.heartbeat([mine])
    assert store.abort_timed_out() == (lost,)
    assert store.check_lock(answer.lock_id).state is LockState.ACQUIRED
    store.close()


READER = """
import sys
from hiveacid.config import Settings
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.ports.clock import SystemClock
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT
from hiveacid.transactions.transaction import Transactions
store = SqlStore(sys.argv[1])
leases = ReadLeases(Transactions(store, Heartbeats(store, 0.1), SystemClock(), CLIENT))
with leases.acquire(Settings()) as reader:
    print(reader.txn_id, flush=True)
    sys.stdin.read()
"""


def test_a_killed_reader_frees_the_cleaner(tmp_path: Path) -> None:
    """As long as it lives, its heartbeat holds what it reads; killed, for the time-out and no longer."""
    url = f"sqlite:///{tmp_path}/store.db"
    clock = ManualClock(SystemClock().now())
    store = SqlStore(url, clock=clock)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    held = int(reader.stdout.readline())
    while (row := store.show_transactions()[0]).last_heartbeat == row.started:
        assert reader.poll() is None
        time.sleep(0.05)
    assert store.abort_timed_out() == ()
    assert store.min_open_txn_id() == held
    reader.send_signal(signal.SIGKILL)
    reader.wait()
    clock.advance(400)  # the reader's clock is the machine's, which went on
    assert store.abort_timed_out() == (held,)
    assert store.min_open_txn_id() == held + 1
    store.close()


WAITER = """
import sys
from hiveacid.config import Settings
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.ports.transactions import Start
from hiveacid.ports.clock import SystemClock
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT, lock_on
from hiveacid.transactions.transaction import Transactions
store = SqlStore(sys.argv[1])
transactions = Transactions(store, Heartbeats(store, 150.0), SystemClock(), CLIENT)
transactions.begin(Settings(), start=Start((lock_on(LockType.EXCLUSIVE, "orders"),)))
"""


def test_ctrl_c_while_waiting_for_a_lock(tmp_path: Path) -> None:
    """The process ends, and nothing of it is in the way: neither its request nor its transaction."""
    url = f"sqlite:///{tmp_path}/store.db"
    store = SqlStore(url)
    (mine,) = store.open_txns(CLIENT)
    store.lock(mine, [lock_on(LockType.EXCLUSIVE, "orders")])
    waiter = subprocess.Popen([sys.executable, "-c", WAITER, url], stderr=subprocess.PIPE, text=True)
    while len(store.show_locks()) < 2:
        assert waiter.poll() is None
        time.sleep(0.05)
    time.sleep(0.2)
    waiter.send_signal(signal.SIGINT)
    _, said = waiter.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert [row.txn_id for row in store.show_locks()] == [mine]
    assert [row.state for row in store.show_transactions()] == ["OPEN", "ABORTED"]
    store.close()


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    """Two processes never talk over one connection."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    store.open_txns(CLIENT)
    child = os.fork()
    if child == 0:
        os._exit(0 if store.open_txns(CLIENT) == (2,) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.open_txns(CLIENT) == (3,)
    store.close()


def test_the_schema_is_made_once(tmp_path: Path) -> None:
    """Whoever comes first."""
    url = f"sqlite:///{tmp_path}/store.db"
    code = "import sys; from hiveacid.stores.sql.store import SqlStore; SqlStore(sys.argv[1]).close()"
    started = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(6)]
    assert [process.wait(120) for process in started] == [0] * 6
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT version FROM hiveacid_schema")).all() == list(
            range(1, len(MIGRATIONS) + 1)
        )
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
    engine.dispose()


def test_a_forked_child_has_heartbeats(tmp_path: Path) -> None:
    """Threads do not run in a child; it shares no transaction with its parent, and ends none of it, either."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    transactions = Transactions(store, Heartbeats(store, 0.05), SystemClock(), CLIENT)
    leases = ReadLeases(transactions)
    with leases.acquire(Settings()) as parents:
        child = os.fork()
        if child == 0:
            with leases.acquire(Settings()) as mine:
                started = store.show_transactions()[-1].last_heartbeat
                while store.show_transactions()[-1].last_heartbeat == started:
                    time.sleep(0.01)
                os._exit(0 if mine.txn_id != parents.txn_id else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert store.txn_state(parents.txn_id) == "open"
        child = os.fork()
        if child == 0:  # what a client's copy of the leases holds is swept, too
            with leases.of_client(transactions).acquire(Settings()) as mine:
                held = leases.sweep()
            leases.sweep()
            os._exit(0 if (held, store.txn_state(mine.txn_id)) == (1, "committed") else 1)
        assert os.waitpid(child, 0)[1] == 0
        child = os.fork()
        if child == 0:
            leases.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert store.txn_state(parents.txn_id) == "open"
    transactions.heartbeats.close()
    store.close()

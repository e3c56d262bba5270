"""Measure the transaction stores: write transactions a second, snapshots of many transactions, round trips.

make bench PROGRAM=stores ARGS="--seconds 5 --json figures.json"

A write transaction opens, takes a shared lock on a table, its snapshot, valid write ids and a write id, and
commits what it inserted; 1, 4 and 16 client processes do so on one table. ``bare`` is the same number of
processes inserting one row a transaction into a table of the same database with nothing of hiveacid between:
what the machine gives at that moment. Servers wait for the disk, as real ones do. What is not installed is
left out and said. A shared machine is noisy: the load is printed, trust ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console
from rich.table import Table
from sqlalchemy import insert

from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.transactions import Client, Operation, Start, Written
from hiveacid.stores.sql.database import parse_store_url
from hiveacid.stores.sql.dialects import dialect_of
from hiveacid.stores.sql.schema import txns
from hiveacid.stores.sql.store import SqlStore
from support.servers.databases import MariadbServer, MysqlServer, PostgresServer, Server
from support.servers.wire import Wire

TABLE = TableName("shop", "orders")
START = Start((LockComponent(LockType.SHARED_WRITE, "shop", "orders"),), (TABLE,), (TABLE,))
CLIENT = Client("bench", "here", "bench")
CLIENTS = (1, 4, 16)
OPEN, ABORTED = 10_000, 100_000
WARM_UP = 8  # transactions; drivers prepare a statement after five


@dataclass(frozen=True)
class Throughput:
    """Transactions a second of all clients together."""

    store: str
    clients: int
    inserts: float
    updates: float
    bare: float

    @property
    def ratio(self) -> float:
        """Return what is left of a bare insert."""
        return self.inserts / self.bare


@dataclass(frozen=True)
class Single:
    """One client's view: milliseconds of a snapshot with many transactions about, round trips of one transaction."""

    store: str
    snapshot_ms: float
    round_trips_insert: int | None
    round_trips_update: int | None


def writer(url: str, kind: Operation) -> Callable[[], None]:
    """Return what runs one write transaction; updates go to a partition of this process's own."""
    store = SqlStore(url)
    partition = None if kind is Operation.INSERT else f"p={os.getpid()}"

    def run() -> None:
        begun = store.begin_txn(CLIENT, START)
        store.commit_txn(begun.txn_id, written=[Written(TABLE, partition, kind)])

    return run


def bare(url: str) -> Callable[[], None]:
    """Return what inserts one row and commits, in the driver's own words."""
    address = parse_store_url(url, os.environ)
    connection = dialect_of(address.url).engine(address.url).connect()
    driver: Any = connection.connection.driver_connection
    if address.url.get_backend_name() == "sqlite":
        return lambda: driver.execute("INSERT INTO bare (a) VALUES (1)")
    cursor = driver.cursor()
    return lambda: cursor.execute("INSERT INTO bare (a) VALUES (1)")


def client(url: str, what: str, seconds: float) -> None:
    """Be a client process: warm up, wait for a line, work for so many seconds, print how often."""
    run = bare(url) if what == "bare" else writer(url, Operation(what))
    for _ in range(WARM_UP):
        run()
    print("ready", flush=True)
    sys.stdin.readline()
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()
        count += 1
    print(count, flush=True)


def together(url: str, what: str, clients: int, seconds: float) -> float:
    """Let client processes work at the same time; return transactions a second."""
    command = [sys.executable, __file__, "--client", what, "--seconds", str(seconds)]
    environment = {**os.environ, "HIVEACID_STORE": url}
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(clients)
    ]
    for one in started:
        cast("IO[str]", one.stdout).readline()
    for one in started:
        orders = cast("IO[str]", one.stdin)
        orders.write("go\n")
        orders.flush()
    return sum(int(one.communicate()[0]) for one in started) / seconds


def snapshot_ms(url: str) -> float:
    """Fill a store with open and aborted transactions; return the median of a snapshot's time."""
    store = SqlStore(url)
    engine = dialect_of(parse_store_url(url, {}).url).engine(parse_store_url(url, {}).url)
    now = time.time_ns() // 1_000_000
    row = {"kind": "default", "started": now, "heartbeat": now, "timeout": 300_000, "moment": 0, "min_open": 1,
           "user_name": "", "host": "", "agent": ""}  # fmt: skip
    states = ["aborted"] * ABORTED + ["open"] * OPEN
    first = store.valid_txns().high_watermark + 1
    rows = [{**row, "id": first + place, "state": state} for place, state in enumerate(states)]
    level = "SERIALIZABLE" if engine.name == "sqlite" else "READ COMMITTED"
    with engine.connect().execution_options(isolation_level=level) as connection, connection.begin():
        for start in range(0, len(rows), 1000):
            connection.execute(insert(txns), rows[start : start + 1000])
    store.seed_txns(TxnId(first + len(rows)))
    (mine,) = store.open_txns(CLIENT)
    times = []
    for _ in range(15):
        start_time = time.perf_counter()
        seen = store.take_snapshot(mine)
        times.append(time.perf_counter() - start_time)
    store.close()
    if len(seen.open) <= OPEN or len(seen.aborted) != ABORTED:
        raise RuntimeError("the store was not filled as it should be")
    return statistics.median(times) * 1000


def round_trips(server: Server, database: str, kind: Operation) -> int:
    """Count the round trips of one write transaction on the wire."""
    wire = Wire(server.port)
    run = writer(server.url(database, port=wire.port), kind)
    for _ in range(WARM_UP):
        run()
    wire.start()
    run()
    count = wire.turns
    wire.close()
    return count


@contextlib.contextmanager
def places(only: str | None) -> Iterator[list[tuple[str, str, Server | None]]]:
    """Yield name, URL and server of each store there is."""
    found: list[tuple[str, str, Server | None]] = []
    with contextlib.ExitStack() as stack:
        kinds = [one for one in (PostgresServer, MariadbServer, MysqlServer) if only in (None, one.name)]
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-bench-"))
        if only in (None, "SQLite"):
            found.append(("SQLite", f"sqlite:///{Path(directory)}/store.db", None))
        for kind in kinds:
            reason = kind.why_not()
            if reason is not None:
                print(f"left out: {reason}", file=sys.stderr)
                continue
            server = kind(durable=True)
            stack.callback(server.remove)
            server.start()
            found.append((server.name, server.make_database("bench"), server))
        yield found


def make_bare(url: str) -> None:
    """Make the table for the bare inserts."""
    address = parse_store_url(url, {})
    SqlStore(url).close()
    engine = dialect_of(address.url).engine(address.url)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE bare (a BIGINT)")
    engine.dispose()


def show(console: Console, throughputs: list[Throughput], singles: list[Single]) -> None:
    """Print the figures as one table."""
    table = Table(title=f"write transactions a second; load average {os.getloadavg()[0]:.1f}")
    for heading in ("store", "clients", "inserts", "updates", "bare", "ratio", "snapshot ms", "round trips"):
        table.add_column(heading, justify="left" if heading == "store" else "right")
    by_store = {one.store: one for one in singles}
    for one in throughputs:
        single = by_store[one.store]
        trips = (
            ""
            if single.round_trips_insert is None
            else f"{single.round_trips_insert} / {single.round_trips_update}"
        )
        rest = (
            (f"{single.snapshot_ms:.1f}", trips)
            if one.clients == min(other.clients for other in throughputs)
            else ("", "")
        )
        figures = (f"{one.inserts:.0f}", f"{one.updates:.0f}", f"{one.bare:.0f}", f"{one.ratio:.2f}")
        table.add_row(one.store, str(one.clients), *figures, *rest)
    console.print(table)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each measurement runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--only", help="one store: SQLite, PostgreSQL, MariaDB or MySQL")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="how many client processes")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        client(os.environ["HIVEACID_STORE"], arguments.client, arguments.seconds)
        return
    throughputs, singles = [], []
    load = os.getloadavg()[0]
    with places(arguments.only) as found:
        for name, url, server in found:
            make_bare(url)
            for clients in arguments.clients:
                rates = {what: together(url, what, clients, arguments.seconds) for what in ("i", "u", "bare")}
                throughputs.append(Throughput(name, clients, rates["i"], rates["u"], rates["bare"]))
            trips = [None, None] if server is None else [
                round_trips(server, "bench", kind) for kind in (Operation.INSERT, Operation.UPDATE)
            ]  # fmt: skip
            fresh = f"{url}-many" if server is None else server.make_database("many")
            singles.append(Single(name, snapshot_ms(fresh), *trips))
    show(Console(width=110), throughputs, singles)
    if arguments.json:
        figures = {
            "load_at_start": load,
            "throughput": [{**asdict(one), "ratio": one.ratio} for one in throughputs],
            "single": [asdict(one) for one in singles],
        }
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

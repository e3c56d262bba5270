"""A history of clients that are threads of this process: for stores that live in one process."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hiveacid.ports.store import WarehouseStore, own_store
from hiveacid.transactions.transaction import Transaction
from support.crash.faults import SimulatedCrash
from support.history.client import HistoryClient, Workload
from support.history.records import History, read_lines
from support.history.tables import Tables
from support.history.verdict import history_of


@dataclass
class ThreadedRun:
    """Clients share a store; now and then one dies, or sleeps past the time-out of ``timeout`` seconds."""

    store: WarehouseStore
    directory: Path
    transactions: int
    clients: int = 4
    seed: int = 0
    timeout: float = 0.5
    misfortune: float = 0.004  # of each kind, at each operation
    workload: Workload = field(default_factory=lambda: Workload(seconds_asleep=0.002))

    def run(self) -> History:
        """Run them all and return what they recorded."""
        self._left = self.transactions
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self._reaped: set[int] = set()
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(self.clients)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            self._reaped |= {int(one) for one in self.store.abort_timed_out()}
            own_store(self.store).housekeep()
            time.sleep(self.timeout / 4)
        self.store.abort_txns([one.txn_id for one in self.store.show_transactions()], "the run is over")
        records = read_lines(self._lines)
        return history_of(self.store, Tables(self.directory), records, self.workload, self._reaped)

    def _work(self, number: int) -> None:
        random = Random(f"{self.seed} {number}")
        lives = 0
        while self._take():
            lives += 1
            client = self._client(f"{number}.{lives}", random)
            with suppress(SimulatedCrash):
                client.run()
                while self._take():
                    client.run()
            client.heartbeats.close()

    def _take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _client(self, name: str, random: Random) -> HistoryClient:
        def interrupt(txn: Transaction) -> None:
            chance = random.random()
            if chance < self.misfortune:
                client.heartbeats.close()
                raise SimulatedCrash
            if chance < 2 * self.misfortune:
                client.heartbeats.forget(txn.txn_id)
                time.sleep(1.5 * self.timeout)
                client.heartbeats.track(txn.txn_id)

        tables = Tables(self.directory)
        client = HistoryClient(
            name, self.store, tables, self._lines.append, random, self.timeout, self.workload, interrupt
        )
        return client

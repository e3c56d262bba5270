"""A client that runs random transactions through ``hiveacid.transactions.transaction`` and records what it saw."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from hiveacid.config import Settings
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import (
    AlreadyExistsError,
    HiveAcidError,
    StoreError,
    TransactionAbortedError,
    TransactionError,
    WriteConflictError,
)
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import Client, Operation, Start, TxnKind, Written
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.transaction import Transaction, Transactions
from support.history.records import (
    Append,
    Element,
    Key,
    Kind,
    Moment,
    Outcome,
    Read,
    Record,
    to_line,
)
from support.history.tables import Row, Tables
from support.samples import table as sample

DATABASE = "history"
PARTITIONS = ("p=1", "p=2")


@dataclass(frozen=True)
class Workload:
    """What clients do. A generation is a set of tables for so many transactions; then come new, empty ones.

    ``at_once``: how many begin with locks, snapshot and write ids in one call. ``seconds_asleep``: the longest pause between two operations.
    """

    tables: int = 3
    transactions_a_generation: int = 120
    operations: int = 4
    read_only: float = 0.25
    gives_up: float = 0.08
    exclusive: float = 0.03
    at_once: float = 0.5
    seconds_asleep: float = 0.005

    def tables_of(self, txn_id: int) -> tuple[str, ...]:
        """Return the tables that a transaction works on."""
        generation = txn_id // self.transactions_a_generation
        return tuple(f"t{generation}_{number}" for number in range(self.tables))


def all_keys(table: str) -> Iterator[Key]:
    """Return the lists and bags of a table."""
    return (Key(table, partition, kind) for partition in PARTITIONS for kind in Kind)


def now() -> int:
    """Return the time that all processes of this machine share, in nanoseconds."""
    return time.monotonic_ns()


Log = Callable[[str], object]
Interrupt = Callable[[Transaction], None]


def _nothing(_txn: Transaction) -> None:
    """Let a transaction go on."""


@dataclass
class HistoryClient:
    """One client of a store. ``log`` takes a line at a time; ``interrupt`` is called between operations."""

    name: str
    store: WarehouseStore
    tables: Tables
    log: Log
    random: Random
    timeout: float
    workload: Workload = field(default_factory=Workload)
    interrupt: Interrupt = _nothing

    def __post_init__(self) -> None:
        """Make what begins transactions."""
        self._known: set[str] = set()
        self._newest = max((one.txn_id for one in self.store.show_transactions()), default=1)
        self.heartbeats = Heartbeats(self.store, self.timeout / 2)
        self._transactions = Transactions(
            self.store, self.heartbeats, SystemClock(), Client("history", "localhost", self.name)
        )
        self._settings = Settings.of({"hive.lock.numretries": "12", "hive.lock.sleep.between.retries": "1s"})

    def run(self) -> Record | None:
        """Run one transaction; None where not even an id could be had."""
        writes = self.random.random() >= self.workload.read_only
        kind = TxnKind.DEFAULT if writes else TxnKind.READ_ONLY
        keys, start = self._choose(writes=writes), None
        if self.random.random() < self.workload.at_once:
            tables = tuple(dict.fromkeys(TableName(DATABASE, key.table) for key in keys))
            start = Start(self._locks(keys, writes=writes), tables, tables if writes else ())
        asked = now()
        try:
            txn = self._transactions.begin(self._settings, kind, start=start)
        except (StoreError, TransactionError):
            return None
        self._newest = int(txn.txn_id)
        running = Running(self, txn, Record(self._newest, self.name))
        running.note()
        locks = self._locks(keys, writes=writes) if start is None else ()
        return running.run(keys, locks, asked, writes=writes)

    def _choose(self, *, writes: bool) -> list[Key]:
        """Choose keys of the newest generation that this client knows of."""
        tables = self.workload.tables_of(self._newest)
        self._make(tables)
        keys = [key for table in tables for key in all_keys(table)]
        count = self.random.randint(1, self.workload.operations)
        return self.random.choices(keys, k=count) if writes else self.random.sample(keys, count)

    def _make(self, tables: Sequence[str]) -> None:
        """Create tables that are not there: the ids of a table that is not in the catalog are forgotten."""
        for table in tables:
            if table in self._known:
                continue
            with suppress(AlreadyExistsError):
                self.store.create_database(DatabaseDefinition(DATABASE, f"file:/{DATABASE}"))
            with suppress(AlreadyExistsError):
                self.store.create_table(sample(TableName(DATABASE, table), f"file:/{DATABASE}/{table}"))
            self._known.add(table)

    def _locks(self, keys: list[Key], *, writes: bool) -> tuple[LockComponent, ...]:
        kind = LockType.SHARED_WRITE if writes else LockType.SHARED_READ
        if writes and self.random.random() < self.workload.exclusive:
            kind = LockType.EXCL_WRITE
        places = sorted({(key.table, key.partition) for key in keys})
        return tuple(LockComponent(kind, DATABASE, table, partition) for table, partition in places)

    def read_all(self, tables: list[str]) -> Record:
        """Read every key of some tables in one transaction, when everything has ended."""
        txn = self._transactions.begin(self._settings, TxnKind.READ_ONLY)
        running = Running(self, txn, Record(int(txn.txn_id), self.name))
        running.snapshot(now())
        for table in tables:
            for key in all_keys(table):
                running.read(key)
        running.commit()
        return running.record


@dataclass
class Running:
    """A transaction under way."""

    client: HistoryClient
    txn: Transaction
    record: Record
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, keys: list[Key], locks: tuple[LockComponent, ...], asked: int, *, writes: bool) -> Record:
        """Lock, look, work, commit, as a writer does; record what happened.

        No locks: it began with them, and perhaps with its snapshot, asked for at ``asked``.
        """
        random, workload = self.client.random, self.client.workload
        try:
            if locks:
                self.txn.lock(locks)
            self.snapshot(now() if locks else asked)
            for key in keys:
                self.client.interrupt(self.txn)
                time.sleep(random.random() ** 4 * workload.seconds_asleep)
                self._work(key, writes=writes)
            self.client.interrupt(self.txn)
            if random.random() < workload.gives_up:
                self.txn.abort("changed my mind")
                self._end(Outcome.ABORTED)
            else:
                self.commit()
        except (HiveAcidError, OSError):
            self._give_up()
        self.note()
        return self.record

    def snapshot(self, asked: int) -> None:
        """Take the snapshot, unless it came with the start, and note when."""
        self.txn.snapshot()
        self.record = replace(self.record, snapshot=Moment(asked, now()))

    def read(self, key: Key) -> tuple[Row, ...]:
        """Read a key and record it; return its rows."""
        rows = self._rows(key)
        found = tuple(element for row in rows for element in row.elements)
        self._did(Read(key, found))
        return rows

    def commit(self) -> None:
        """Commit, and record the answer."""
        asked = now()
        self.record = replace(self.record, commit=Moment(asked))
        self.note()
        try:
            self.txn.commit()
        except TransactionAbortedError as error:
            self._end(Outcome.ABORTED, conflict=isinstance(error, WriteConflictError))
        else:
            self.record = replace(self.record, commit=Moment(asked, now()))
            self._end(Outcome.COMMITTED)

    def note(self) -> None:
        """Write the record down as it is now."""
        self.client.log(to_line(self.record) + "\n")

    def _work(self, key: Key, *, writes: bool) -> None:
        rows = self.read(key)
        if writes and self.client.random.random() < 0.6:
            self._append(key, rows)
            if self.client.random.random() < 0.3:
                self.read(key)
        elif self.client.random.random() < 0.3:
            self.read(key)

    def _append(self, key: Key, rows: tuple[Row, ...]) -> None:
        """Files first; then the store is told what was written."""
        element = (self.record.txn_id, next(self._numbers))
        self._did(Append(key, element))
        table = TableName(DATABASE, key.table)
        write_id = self.txn.write_id(table)
        given = {**self.record.write_ids, key.table: int(write_id)}
        self.record = replace(self.record, write_ids=given)
        if key.kind is Kind.BAG:
            (statement,) = self.txn.next_statements(1)
            self.client.tables.insert(key, write_id, statement, [element])
            operation = Operation.INSERT
        else:
            first, second = self.txn.next_statements(2)
            before: list[Element] = [one for row in rows for one in row.elements]
            if rows:
                self.client.tables.delete(key, write_id, first, rows)
            self.client.tables.insert(key, write_id, second, [*before, element])
            operation = self.client.random.choice((Operation.UPDATE, Operation.DELETE))
        self.txn.pending.add_written([Written(table, key.partition, operation)])

    def _rows(self, key: Key) -> tuple[Row, ...]:
        write_ids = self.txn.valid_write_ids(TableName(DATABASE, key.table))
        rows = self.client.tables.rows(key.table, key.partition, write_ids, self.txn.snapshot())
        self.txn.require_open_in_store()  # as every read does when it has listed: a reaped one may believe too much
        return tuple(row for row in rows if row.kind is key.kind)

    def _did(self, operation: Read | Append) -> None:
        self.record = replace(self.record, operations=(*self.record.operations, operation))

    def _end(self, outcome: Outcome, *, conflict: bool = False) -> None:
        self.record = replace(self.record, outcome=outcome, conflict=conflict)

    def _give_up(self) -> None:
        """Abort after an error; where even that fails, or a commit was under way, the store knows better."""
        with suppress(HiveAcidError):
            self.txn.abort("its client gave up")
        if self.record.commit is None:
            self._end(Outcome.ABORTED)
            return
        with suppress(HiveAcidError):
            state = self.client.store.txn_state(self.txn.txn_id)
            if state in ("committed", "aborted"):
                self._end(Outcome(state))

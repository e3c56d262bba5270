"""A simulated process's own end of things: its context, its heart, and what it may fail of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, TxnId
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    LockTimeoutError,
    NoSuchTransactionError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from hiveacid.ports.transactions import Client
from hiveacid.storage.snapshot_locations import Location
from hiveacid.storage.staging import staging_name
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.visible_locations import list_visible
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transaction, Transactions
from support.simulation.rows import Event, Reading, Row, files_of, to_bytes
from support.simulation.scheduler import Process
from support.simulation.watch import InjectedStorageError, WatchedFiles, WatchedStore
from support.simulation.world import TIMEOUT, WAREHOUSE, World

_MAY_HAPPEN = (
    TransactionAbortedError,
    NoSuchTransactionError,
    LockTimeoutError,
    StoreUnavailableError,
    CommitStateUnknownError,
    InjectedStorageError,
)

Wrap = Callable[[str, Any], Any]
"""Puts a bug in front of the store of a process, given its role; or does not."""


class _Heart(Heartbeats):
    """Beats when the scheduler says so, not from a thread."""

    def track(self, txn_id: TxnId) -> None:
        """Beat for a transaction from now on."""
        with self._lock:
            self._open[txn_id] = threading.get_ident()


class _ProcessClock:
    """The world's clock; sleeping lets others go on."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def now(self) -> int:
        return self._world.scheduler.clock.now()

    def sleep(self, seconds: float) -> None:
        self._world.scheduler.sleep(self._process, seconds)


@dataclass(frozen=True)
class Found:
    """A location as a snapshot lists it, and the rows that are to be read there."""

    location: Location
    write_ids: ValidWriteIdList
    expected: Counter[Row]


@dataclass
class Session:
    """What a process works with."""

    world: World
    process: Process
    context: Context
    _staged: int = 0

    @classmethod
    def make(cls, world: World, name: str, role: str, wrap: Wrap) -> Session:
        """Make a process of a role; the caller gives it work."""
        process = Process(name, _idle, _idle)
        store: Any = WatchedStore(world, process, wrap(role, world.store))
        files: Any = WatchedFiles(world, process, world.files)
        clock = _ProcessClock(world, process)
        heart = _Heart(store, TIMEOUT / 2)
        process.beat = heart.beat
        transactions = Transactions(store, heart, clock, Client("sim", "here", name))
        context = Context(
            facts=cast("Any", None), fs=files, store=store, catalog=store, transactions=transactions,
            read_leases=ReadLeases(transactions), clock=clock, warehouse=WAREHOUSE, settings=world.settings,
            database="shop",
        )  # fmt: skip
        return cls(world, process, context)

    @property
    def random(self) -> Random:
        """Return the run's one source of chance."""
        return self.world.scheduler.random

    # --- reading ------------------------------------------------------------------------------------

    def list_visible(self, name: TableName, txn: Transaction) -> list[Found]:
        """List a table as a read does: valid write ids, partitions, directories, selection."""
        table = self.context.require(name)
        write_ids = txn.valid_write_ids(name)
        partitions = partitions_of(self.context, table, txn)
        places = [None] if partitions is None else [[one] for one in partitions]
        locations = [
            one for place in places for one in list_visible(self.context, table, place, write_ids, txn)
        ]
        ledger = self.world.ledger
        holding = ledger.holdings[txn.txn_id]  # it was open a moment ago, or list_visible had refused
        for one in locations:
            holding.needs.update(f"{one.root}/{file.path}" for file in files_of(one.state))
        return [
            Found(one, write_ids, ledger.own(txn.txn_id, one.root, ledger.rows(one.root, holding.moment)))
            for one in locations
        ]

    def read(self, txn: Transaction, found: Found) -> Counter[Row]:
        """Read the files of a location one by one; what comes out must be what the snapshot shows."""
        rows = self.reading(found.location, found.write_ids).rows(found.location.state)
        self.world.check_read(txn.txn_id, found.location.root, found.expected, rows)
        return rows

    def reading(self, location: Location, write_ids: ValidWriteIdList) -> Reading:
        """Return what reads the files of a location, a step each."""
        return Reading(write_ids, lambda path: self.context.fs.read_bytes(f"{location.root}/{path}"))

    # --- writing ------------------------------------------------------------------------------------

    @contextmanager
    def staging(self, table: TableDefinition, txn: Transaction) -> Iterator[str]:
        """Give a staging directory and remove it afterwards, as ``table.layout.staging`` does."""
        self._staged += 1
        directory = f"{table.location}/{staging_name(txn.txn_id, f'{self._staged:x}')}"
        try:
            yield directory
        finally:
            self.context.fs.delete_tree(directory)

    def publish(self, staging: str, directory: str, events: Sequence[Event]) -> None:
        """Stage a file of events and move it to its place."""
        scratch = f"{staging}/{directory.rpartition('/')[2]}"
        self.context.fs.write_bytes(scratch, to_bytes(events))
        self.context.fs.move_file(scratch, f"{directory}/bucket_00000")

    # --- failing ------------------------------------------------------------------------------------

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Let pass what may happen to a process: lost races, time-outs, faults that were injected."""
        try:
            yield
        except _MAY_HAPPEN as error:
            self.world.scheduler.note(f"{type(error).__name__}: {str(error)[:100]}")
        except HiveAcidError as error:
            raise self.world.scheduler.broken(f"{type(error).__name__}: {error}") from error


def _idle() -> None:
    """Do nothing yet."""

"""A simulated process's own end of things: its context, its heart, and what it may fail of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, TxnId
from hiveacid.errors import (
    CatalogError,
    CommitStateUnknownError,
    HiveAcidError,
    LockTimeoutError,
    MissingDirectoryError,
    NoSuchPartitionError,
    NoSuchTableError,
    NoSuchTransactionError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Client
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context, SessionState
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.visible_locations import list_visible
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transaction, Transactions
from support.simulation.ledger import Place
from support.simulation.rows import Reading, Row, files_of
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
    NoSuchTableError,
    NoSuchPartitionError,
)

_FLAG = ("true", "false")

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
    table: TableDefinition
    moment: int


@dataclass
class Session:
    """What a process works with."""

    world: World
    process: Process
    context: Context

    @classmethod
    def make(cls, world: World, name: str, role: str, wrap: Wrap) -> Session:
        """Make a process of a role; the caller gives it work."""
        process = Process(name, _idle, _idle)
        store: Any = WatchedStore(world, process, wrap(role, world.store))
        files: Any = WatchedFiles(world, process, world.files)
        clock = _ProcessClock(world, process)
        heart = _Heart(store, TIMEOUT / 2)
        process.beat = heart.beat
        choice = world.scheduler.random.choice
        locks = {"hive.txn.xlock.write": choice(_FLAG), "hive.txn.xlock.iow": choice(_FLAG)}
        settings = Settings.of(
            {"hive.txn.timeout": f"{TIMEOUT:g}s", "hive.lock.sleep.between.retries": "8s", **locks}
        )
        transactions = Transactions(store, heart, clock, Client("sim", "here", name))
        context = Context(
            env=cast("Any", None), fs=files, store=store, catalog=store, transactions=transactions,
            read_leases=ReadLeases(transactions), clock=clock, warehouse=WAREHOUSE, session=SessionState(settings, "shop"),
        )  # fmt: skip
        return cls(world, process, context)

    @property
    def random(self) -> Random:
        """Return the run's one source of chance."""
        return self.world.scheduler.random

    # --- reading ------------------------------------------------------------------------------------

    def list_visible(self, name: TableName, txn: Transaction) -> list[Found]:
        """List a table as a read does: valid write ids, partitions, directories, selection."""
        world, ledger = self.world, self.world.ledger
        table = self.context.require(name)
        write_ids = txn.valid_write_ids(name)
        partitions = partitions_of(self.context, table, txn)
        moment = ledger.holdings[txn.txn_id].moment if txn.txn_id in ledger.holdings else None
        try:
            locations = list_visible(self.context, table, partitions, write_ids, txn)
        except WriteConflictError as error:
            if moment is not None and ledger.changed.get(name, 0) <= moment:
                raise world.scheduler.broken(f"a reader met no DROP, and yet: {error}") from error
            raise
        holding = ledger.holdings.get(txn.txn_id)  # it was open a moment ago, or list_visible had refused
        if holding is None:
            raise world.scheduler.broken(f"transaction {txn.txn_id} has ended and reads on")
        places = {one.root: Place(table.incarnation, one.root) for one in locations}
        for place in ledger.places_of(table.incarnation, holding.moment) - set(places.values()):
            raise world.scheduler.broken(f"transaction {txn.txn_id} passes over {place.root}, which has rows")
        found = []
        for one in locations:
            place = places[one.root]
            if ledger.is_exact(place, holding.moment):
                holding.needs.update({f"{one.root}/{file.path}": place for file in files_of(one.state)})
            rows = ledger.rows(place, holding.moment)
            if not ledger.is_exact(
                place, holding.moment
            ):  # rows of an adopted table are older than all snapshots
                rows = Counter(
                    {row: n for row, n in rows.items() if row.id.write_id <= write_ids.high_watermark}
                )
            found.append(Found(one, write_ids, ledger.own(txn.txn_id, place, rows), table, holding.moment))
        return found

    def read(self, txn: Transaction, found: Found) -> Counter[Row]:
        """Read the files of a location one by one; what comes out must be what the snapshot shows, or an error.

        That files are missing is an error that may happen once the table or partition was dropped. The files of a table that
        was made again at the same place are not noticed (docs/read.md).
        """
        ledger, root = self.world.ledger, found.location.root
        place = Place(found.table.incarnation, root)
        try:
            rows = self.reading(found.location, found.write_ids).rows(found.location.state)
        except StorageError as error:
            if self.world.store.txn_state(txn.txn_id) == "open" and ledger.is_exact(place, found.moment):
                raise
            raise TransactionAbortedError(
                "files of a reader that was reaped, or of a DROP, are gone"
            ) from error
        if place.table in ledger.tables:
            self.world.check_read(txn.txn_id, root, found.expected, rows)
        return rows

    def reading(self, location: Location, write_ids: ValidWriteIdList) -> Reading:
        """Return what reads the files of a location, a step each."""
        return Reading(write_ids, lambda path: self.context.fs.read_bytes(f"{location.root}/{path}"))

    # --- failing ------------------------------------------------------------------------------------

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Let pass what may happen to a process: lost races, time-outs, faults that were injected.

        Missing files are the error of a transaction that was aborted meanwhile, where the store does not say that it was.
        """
        store = cast("WatchedStore", self.context.store)
        store.state_unknown = False
        try:
            yield
        except _MAY_HAPPEN as error:
            self.world.scheduler.note(f"{type(error).__name__}: {str(error)[:100]}")
        except MissingDirectoryError as error:
            self.world.check_empty(error.path or "")
            self.world.scheduler.note(str(error)[:100])
        except CatalogError as error:
            if "holds rows already" not in str(
                error
            ):  # files of a DROP PARTITION that was killed; told to the user
                raise self.world.scheduler.broken(f"{type(error).__name__}: {error}") from error
            self.world.scheduler.note(str(error)[:100])
        except HiveAcidError as error:
            if not (isinstance(error, StorageError) and store.state_unknown):
                raise self.world.scheduler.broken(f"{type(error).__name__}: {error}") from error
            self.world.scheduler.note(str(error)[:100])


def _idle() -> None:
    """Do nothing yet."""

"""Store, files, clock and ledger of one run, and the checks that follow every step that changes something."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Column, DatabaseDefinition, Partition, TableDefinition, TableName, TxnId
from hiveacid.core.snapshot.directory_listing import FileEntry, metadata_paths
from hiveacid.core.snapshot.selection import AcidState, select
from hiveacid.errors import HiveAcidError
from hiveacid.ports.transactions import TxnKind
from hiveacid.stores.limits import Limits
from support.memory_store.store import MemoryStore
from support.samples import ORC
from support.simulation.files import MemoryFileSystem
from support.simulation.ledger import Holding, Ledger, difference, strange
from support.simulation.rows import Reading, Row
from support.simulation.scheduler import Scheduler

WAREHOUSE = "/wh"
WHOLE, PARTED = TableName("shop", "whole"), TableName("shop", "parted")
TIMEOUT = 30.0  # seconds


class World:
    """What all processes of a run share. The store is the real one in memory, unwrapped."""

    def __init__(self, scheduler: Scheduler, *, exclusive_writes: bool) -> None:
        self.scheduler = scheduler
        self.settings = Settings.of(
            {"hive.txn.timeout": f"{TIMEOUT:g}s", "hive.txn.xlock.write": str(exclusive_writes).lower()}
        )
        limits = replace(Limits.of(self.settings), worker_timeout=8 * TIMEOUT)
        self.store = MemoryStore(limits=limits, clock=scheduler.clock)
        self.files = MemoryFileSystem()
        self.ledger = Ledger()
        self.reads = 0
        self.compactions = 0
        self._keys = itertools.count()
        self.store.create_database(DatabaseDefinition("shop", f"{WAREHOUSE}/shop.db"))
        for name in (WHOLE, PARTED):
            self._make_table(name)

    def _make_table(self, name: TableName) -> None:
        location = f"{WAREHOUSE}/shop.db/{name.name}"
        parted = (Column("day", "int"),) if name == PARTED else ()
        columns = (Column("key", "int"), Column("updates", "int"))
        table = TableDefinition(name, columns, ORC, location, parted, properties=(("transactional", "true"),))
        self.files.make_directory(location)
        self.store.create_table(table)
        if parted:
            first = Partition(("0",), f"{location}/day=0")
            self.files.make_directory(first.location)
            self.store.add_partitions(name, [first])
        self.ledger.tables[f"{location}/day=0" if parted else location] = name

    def new_keys(self, count: int) -> list[int]:
        """Return keys that no row has."""
        return list(itertools.islice(self._keys, count))

    # --- what has to be true ----------------------------------------------------------------------

    def check_now(self, locations: Iterable[str]) -> None:
        """Check what a snapshot taken this instant reads: what is committed, and nothing else."""
        txns = self.store.valid_txns()
        for location in sorted(locations):
            table = self.ledger.tables[location]
            write_ids = self.store.valid_write_ids(txns, [table])[table]
            found = self._read(location, txns, write_ids, "a new snapshot")
            self._compare(location, "a new snapshot", self.ledger.rows(location), found)
            wrong = strange(found)
            if wrong:
                raise self.scheduler.broken(f"{location}: {wrong}")

    def check_held(self, locations: Iterable[str]) -> None:
        """Check what the snapshots in use read: what they read when they were taken."""
        for location in sorted(locations):
            for holding in list(self.ledger.holdings.values()):
                if self.store.txn_state(holding.txn_id) == "open":
                    self._check_holding(location, holding)

    def _check_holding(self, location: str, holding: Holding) -> None:
        table = self.ledger.tables[location]
        write_ids = holding.lists.get(table)
        if write_ids is None:
            write_ids = self.store.valid_write_ids(holding.snapshot, [table])[table]
        who = f"the snapshot of transaction {holding.txn_id}"
        found = self._read(location, holding.snapshot, write_ids, who)
        self._compare(location, who, self.ledger.rows(location, holding.moment), found)

    def check_read(self, txn_id: TxnId, location: str, expected: Counter[Row], found: Counter[Row]) -> None:
        """Check what a client read in steps of its own."""
        self.reads += 1
        self._compare(location, f"transaction {txn_id}", expected, found)

    def check_needs(self, path: str) -> None:
        """Check that nothing is being deleted that an open transaction is about to read."""
        for holding in self.ledger.holdings.values():
            needed = next((one for one in holding.needs if one == path or one.startswith(path + "/")), None)
            if needed is not None and self.store.txn_state(holding.txn_id) == "open":
                raise self.scheduler.broken(f"transaction {holding.txn_id} still needs {needed}")

    def location_of(self, path: str) -> str | None:
        """Return the location whose directories a path changes; None for staging and other places."""
        owner = max((one for one in self.ledger.tables if path.startswith(one + "/")), key=len, default=None)
        if owner is None or path[len(owner) + 1 :].startswith("."):
            return None
        return owner

    def state(self, location: str, txns: ValidTxnList, write_ids: ValidWriteIdList) -> AcidState:
        """Select what a snapshot reads of a location."""
        entries: Sequence[FileEntry] = ()
        if self.files.exists(location):
            entries = self.files.list_tree(location)
        metadata = {
            path.rpartition("/")[0]: self.files.read_bytes(f"{location}/{path}").decode()
            for path in metadata_paths(entries)
        }
        return select(entries, write_ids, txns, metadata)

    def _read(self, location: str, txns: ValidTxnList, write_ids: ValidWriteIdList, who: str) -> Counter[Row]:
        try:
            state = self.state(location, txns, write_ids)
        except HiveAcidError as error:
            raise self.scheduler.broken(f"{who} cannot read {location}: {error}") from error
        return Reading(write_ids, lambda path: self.files.files[f"{location}/{path}"]).rows(state)

    def _compare(self, location: str, who: str, expected: Counter[Row], found: Counter[Row]) -> None:
        if expected != found:
            raise self.scheduler.broken(f"{who} reads {location} wrong: {difference(expected, found)}")

    def all_locations(self) -> list[str]:
        """Return every location there ever was."""
        return sorted(self.ledger.tables)

    def after_commit(self, txn_id: TxnId) -> None:
        """Write a commit down; check what it shows, or, for a compaction, that it shows nothing new."""
        changed = self.ledger.commit(txn_id)
        compaction = any(job.txn_id == txn_id for job in self.store.show_compactions())
        self.compactions += compaction
        self.check_now(self.all_locations() if compaction else changed)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the program's own log still: faults are many here, and all of them are meant."""
    logger = logging.getLogger("hiveacid")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def brief(values: Iterable[Any]) -> str:
    """Return arguments of a call as a trace shows them."""
    return ", ".join(_brief(value) for value in values)


def _brief(value: Any) -> str:
    if isinstance(value, ValidTxnList):
        return f"<{value.to_string()}>"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, TxnKind):
        return value.value
    text = str(value).removeprefix(f"{WAREHOUSE}/shop.db/")
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


_LONG = 70

"""Store, files, clock and ledger of one run, and the checks that follow every step that changes something."""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Column, DatabaseDefinition, Partition, TableDefinition, TableName, TxnId
from hiveacid.core.schema.location_overlap import overlap
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.file_records import first_difference, listed_entries
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.errors import HiveAcidError
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.transactions import TxnKind
from hiveacid.storage.snapshot_locations import select_location
from hiveacid.stores.limits import Limits
from support.memory_store.store import MemoryStore
from support.samples import ORC
from support.simulation.files import MemoryFileSystem
from support.simulation.ledger import Holding, Ledger, Place, difference, strange
from support.simulation.profiles import PARTED, WHOLE, Profile
from support.simulation.rows import Reading, Row
from support.simulation.scheduler import Scheduler

WAREHOUSE = "/wh"
TIMEOUT = 30.0  # seconds


class Spot(NamedTuple):
    """A place that is in the catalog."""

    place: Place
    table: TableDefinition
    partition: Partition | None


class World:
    """What all processes of a run share. The store is the real one in memory, unwrapped."""

    def __init__(self, scheduler: Scheduler, profile: Profile) -> None:
        self.scheduler = scheduler
        self.profile = profile
        local = scheduler.random.random() < 0.6 if profile.local is None else profile.local
        self.settings = Settings.of({"hive.txn.timeout": f"{TIMEOUT:g}s"})
        limits = replace(Limits.of(self.settings), worker_timeout=8 * TIMEOUT)
        self.store = MemoryStore(limits=limits, clock=scheduler.clock)
        self.files = MemoryFileSystem(scheduler.clock, local=local)
        self.ledger = Ledger()
        self.reads = 0
        self.compactions = 0
        self.done: Counter[str] = Counter()
        self._keys = itertools.count()
        self.store.create_database(DatabaseDefinition("shop", f"{WAREHOUSE}/shop.db"))
        for name in (WHOLE, PARTED):
            table = definition(name, f"{WAREHOUSE}/shop.db/{name.name}")
            self.files.make_directory(table.location)
            self.store.create_table(table, unoccupied=True)
            self.after_create(name)
        first = Partition(("0",), f"{WAREHOUSE}/shop.db/parted/day=0")
        self.files.make_directory(first.location)
        self.store.add_partitions(PARTED, [first])

    def name(self) -> TableName:
        """Return a table at random."""
        return self.scheduler.random.choice(self.profile.names)

    def new_keys(self, count: int) -> list[int]:
        """Return keys that no row has."""
        return list(itertools.islice(self._keys, count))

    def spots(self) -> dict[str, Spot]:
        """Return all places in the catalog by their roots."""
        found: dict[str, Spot] = {}
        for name in map(partial(TableName, "shop"), self.store.list_tables("shop")):
            table = self.store.get_table(name)
            assert table is not None
            partitions = self.store.list_partitions(name) if table.partition_columns else (None,)
            for one in partitions:
                root = table.location if one is None else one.location
                found[root] = Spot(Place(table.incarnation, root), table, one)
        return found

    # --- what has to be true ----------------------------------------------------------------------

    def check_now(self, places: Iterable[Place] | None = None) -> None:
        """Check what a snapshot taken this instant reads of places (None: all): what is committed, and nothing else."""
        txns, spots = self.store.valid_txns(), self.spots()
        wanted = None if places is None else set(places)
        for root, spot in sorted(spots.items()):
            if wanted is not None and spot.place not in wanted:
                continue
            name = spot.table.name
            write_ids = self.store.valid_write_ids(txns, [name])[name]
            found = self._read(spot, txns, write_ids, "a new snapshot")
            self._compare(root, "a new snapshot", self.ledger.rows(spot.place), found)
            wrong = strange(found)
            if wrong:
                raise self.scheduler.broken(f"{root}: {wrong}")
        if wanted is None:
            there = {spot.place for spot in spots.values()}
            for table in self.ledger.tables:
                for place in self.ledger.places_of(table) - there:
                    raise self.scheduler.broken(f"{place.root} has rows and is not in the catalog")

    def check_held(self, places: Iterable[Place] | None = None) -> None:
        """Check what the snapshots in use read: what they read when they were taken."""
        wanted = None if places is None else set(places)
        for _, spot in sorted(self.spots().items()):
            for holding in list(self.ledger.holdings.values()):
                if (
                    (wanted is None or spot.place in wanted)
                    and self.ledger.is_exact(spot.place, holding.moment)
                    and self.store.txn_state(holding.txn_id) == "open"
                ):
                    self._check_holding(spot, holding)

    def _check_holding(self, spot: Spot, holding: Holding) -> None:
        name = spot.table.name
        write_ids = holding.lists.get(name)
        if write_ids is None:
            write_ids = self.store.valid_write_ids(holding.snapshot, [name])[name]
        who = f"the snapshot of transaction {holding.txn_id}"
        found = self._read(spot, holding.snapshot, write_ids, who)
        self._compare(spot.place.root, who, self.ledger.rows(spot.place, holding.moment), found)

    def check_read(self, txn_id: TxnId, root: str, expected: Counter[Row], found: Counter[Row]) -> None:
        """Check what a client read in steps of its own."""
        self.reads += 1
        self._compare(root, f"transaction {txn_id}", expected, found)

    def check_needs(self, deleted: AbstractSet[str]) -> None:
        """Check that no file was deleted that an open transaction is about to read."""
        for holding in self.ledger.holdings.values():
            needed = sorted(deleted & holding.needs.keys())
            if needed and self.store.txn_state(holding.txn_id) == "open":
                raise self.scheduler.broken(f"transaction {holding.txn_id} still needs {needed[0]}")

    def check_empty(self, path: str) -> None:
        """Check that a directory that is missing has held no rows.

        A DROP that was paused after its last question takes away the empty directory of a table that was made again meanwhile.
        """
        for spot in self.spots().values():
            if self.ledger.rows(spot.place) and spot.place in self.places_at(path):
                raise self.scheduler.broken(f"{path} is missing, and rows with it")

    def check_owners(self) -> None:
        """Check that no directory has two owners."""
        owners = [place for place in self.store.places() if not place.holds_others]
        for one, other in itertools.combinations(owners, 2):
            if one.location == other.location or (
                one.table != other.table and overlap(one.location, other.location)
            ):
                raise self.scheduler.broken(f"{one.location} belongs to {one.owner} and to {other.owner}")

    def check_forgotten(self, txn_ids: Iterable[TxnId]) -> None:
        """Check that transactions that leave nothing burden no later snapshot."""
        for spot in self.spots().values():
            aborted = set(self.store.aborted_write_ids(spot.table.name))
            for txn_id in txn_ids:
                own = self.ledger.write_id_of(spot.place.table, txn_id)
                if own in aborted and self.store.txn_state(txn_id) == "aborted":
                    raise self.scheduler.broken(
                        f"write id {own} of {spot.table.name} left nothing and stays aborted"
                    )

    def places_at(self, path: str) -> list[Place]:
        """Return the places that a change of a path concerns; none for staging and directories of nobody."""
        found = []
        for root, spot in self.spots().items():
            inside = path.startswith(f"{root}/") and path[len(root) + 1] != "."
            if inside or root == path or root.startswith(f"{path}/"):
                found.append(spot.place)
        return sorted(found, key=lambda place: place.root)

    def state(self, spot: Spot, txns: ValidTxnList, write_ids: ValidWriteIdList) -> AcidState:
        """Select what a snapshot reads of a place."""
        root = spot.place.root
        entries: Sequence[FileEntry] = self.files.list_tree(root) if self.files.exists(root) else ()
        return select_location(self.files, spot.table, root, spot.partition, entries, write_ids, txns).state  # type: ignore[arg-type]

    def _read(self, spot: Spot, txns: ValidTxnList, write_ids: ValidWriteIdList, who: str) -> Counter[Row]:
        try:
            state = self.state(spot, txns, write_ids)
        except HiveAcidError as error:
            raise self.scheduler.broken(f"{who} cannot read {spot.place.root}: {error}") from error
        self._require_recorded(spot, txns, write_ids, state, who)
        try:
            return Reading(write_ids, lambda path: self.files.files[f"{spot.place.root}/{path}"]).rows(state)
        except ValueError as error:  # of the lines' JSON
            raise self.scheduler.broken(
                f"{who} finds a damaged file in {spot.place.root}: {error}"
            ) from error

    def _require_recorded(
        self, spot: Spot, txns: ValidTxnList, write_ids: ValidWriteIdList, listed: AcidState, who: str
    ) -> None:
        """Check that the snapshot reads the same by the records of the store, if these are complete."""
        key = () if spot.partition is None else spot.partition.key
        partitions = None if spot.partition is None else [spot.partition]
        records = self.store.recorded_files(spot.table.name, partitions)
        if records is None:
            self.done["not recorded"] += 1
            return
        self.done["recorded"] += 1
        entries, root = listed_entries(records[key]), spot.place.root
        recorded = select_location(self.files, spot.table, root, spot.partition, entries, write_ids, txns)  # type: ignore[arg-type]
        different = first_difference(listed, recorded.state)
        if different is not None:
            raise self.scheduler.broken(f"{who}, {root}/{different[0]}: {different[1]}")

    def _compare(self, root: str, who: str, expected: Counter[Row], found: Counter[Row]) -> None:
        if expected != found:
            raise self.scheduler.broken(f"{who} reads {root} wrong: {difference(expected, found)}")

    # --- what happened ------------------------------------------------------------------------------

    def after_commit(self, txn_id: TxnId, changes: CatalogChanges) -> None:
        """Write a commit down; check what it shows, or, for a compaction, that it shows nothing new."""
        dropped = []
        for name, partition in changes.dropped:
            table = self.store.get_table(name)
            assert table is not None
            dropped.append((name, Place(table.incarnation, partition.location)))
        for adopted in changes.tables:
            self.after_create(adopted.name)
        changed = self.ledger.commit(txn_id, dropped)
        compaction = any(job.txn_id == txn_id for job in self.store.show_compactions())
        self.compactions += compaction
        self.check_now(None if compaction else changed)

    def after_create(self, name: TableName) -> None:
        """Write a new table down."""
        table = self.store.get_table(name)
        assert table is not None
        self.ledger.created(table)
        if table.location in self.ledger.adopting:
            self.ledger.adopted(table)
        self.check_owners()


def definition(name: TableName, location: str) -> TableDefinition:
    """Return the definition of a table of the run."""
    parted = (Column("day", "int"),) if name == PARTED else ()
    columns = (Column("key", "int"), Column("updates", "int"))
    return TableDefinition(name, columns, ORC, location, parted, properties=(("transactional", "true"),))


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
    text = _RANDOM.sub(r"\1", str(value)).removeprefix(f"{WAREHOUSE}/shop.db/")
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


_LONG = 70
_RANDOM = re.compile(r"(staging-\d+)-[0-9a-f]+")

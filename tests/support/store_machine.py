"""Random walks over all verbs of a store, every answer compared with the reference store's.

Subclass :class:`StoreMachine`, say in ``make_store`` how the store is made, and hand its ``TestCase`` to
pytest. Besides the comparison the walk keeps a ledger of its own: who was given which write id. From that
alone it knows which ids a snapshot may believe, whatever either store says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import LockId, Partition, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import HiveAcidError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.clock import Clock
from hiveacid.ports.transactions import Begun, Operation, Start, TxnKind, Written
from support.clock import ManualClock
from support.memory_store.store import MemoryStore
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table

OTHER = TableName("shop", "o'ther \"; %")
TABLES = st.sampled_from([ORDERS, ORDERS, STOCK, OTHER])
PARTITIONS = st.sampled_from([None, "p=1", "p=2"])
CHANGES = st.lists(st.builds(Written, TABLES, PARTITIONS, st.sampled_from(Operation)), max_size=4)
LOCKS = st.lists(
    st.one_of(
        st.builds(LockComponent, st.sampled_from(LockType), st.sampled_from(["shop", "bank"])),
        st.builds(
            lambda kind, name, partition: LockComponent(kind, name.database, name.name, partition),
            st.sampled_from(LockType),
            TABLES,
            PARTITIONS,
        ),
    ),
    max_size=3,
)
DAYS = st.lists(
    st.builds(
        lambda day, at: Partition((day, "oslo"), at),
        st.sampled_from([None, "", "1", "2"]),
        st.text(max_size=2),
    ),
    max_size=3,
)
PICK = st.integers(0, 7)
"""Picks one of the newest ids: 0 the newest, then older ones."""
ENDS = ("ready for cleaning", "succeeded", "failed", "refused", "did not initiate", "aborted", "working")

POOLS = st.sampled_from(["default", "default", "night"])
WORKERS = st.sampled_from(["w-1", "w-2"])

Answer = tuple[str, object]


def _make_table(name: TableName, store: Store) -> object:
    store.create_table(table(name))
    return None


def _partitions(name: TableName, store: Store) -> object:
    return store.list_partitions(name)


class StoreMachine(RuleBasedStateMachine):
    """Walks over two stores at once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model: Store = MemoryStore(clock=self.clock)
        self.store = self.make_store(self.clock)
        self.last_txn = 0
        self.last_lock = 0
        self.last_compaction = 0
        self.ledger: dict[TableName, dict[int, TxnId]] = {}
        self.forgotten: set[tuple[TableName, int]] = set()
        self.held: dict[TxnId, ValidTxnList] = {}
        self.both(lambda store: store.create_database(database()))
        for name in (ORDERS, STOCK):
            self.both(partial(_make_table, name))

    def make_store(self, clock: Clock) -> Store:
        """Return the store to compare, with the default limits and this clock."""
        raise NotImplementedError

    def both(self, verb: Callable[[Store], object]) -> Answer:
        """Let both stores do something and compare what they answer or raise."""
        expected, found = _outcome(verb, self.model), _outcome(verb, self.store)
        assert found == expected
        return expected

    def txn(self, pick: int) -> TxnId:
        """Return one of the newest transaction ids, or the next one, that nobody has."""
        return TxnId(max(1, self.last_txn + 1 - pick))

    # --- transactions

    @rule(count=st.integers(1, 3), kind=st.sampled_from(TxnKind))
    def open(self, count: int, kind: TxnKind) -> None:
        """Open a batch."""
        self.both(lambda store: store.open_txns(CLIENT, count, kind))
        self.last_txn += count

    @rule(
        locks=LOCKS, tables=st.lists(TABLES, max_size=2), writing=st.booleans(), kind=st.sampled_from(TxnKind)
    )
    def begin(
        self, locks: list[LockComponent], tables: list[TableName], kind: TxnKind, *, writing: bool
    ) -> None:
        """Open with everything at once."""
        start = Start(tuple(locks), tuple(tables), tuple(tables) if writing else ())
        answer, begun = self.both(lambda store: store.begin_txn(CLIENT, start, kind))
        if answer == "answer" and isinstance(begun, Begun):
            self.last_txn += 1
            self.last_lock = max([self.last_lock, *self._lock_ids()])
            for name, write_id in begun.allocated.items():
                self.ledger.setdefault(name, {})[write_id] = begun.txn_id
            if begun.snapshot is not None:
                self.held[begun.txn_id] = begun.snapshot

    @rule(pick=PICK)
    def snapshot(self, pick: int) -> None:
        """Take a snapshot and hold it while its transaction is open."""
        kind, found = self.both(lambda store: store.take_snapshot(self.txn(pick)))
        if kind == "answer" and isinstance(found, ValidTxnList):
            self.held[self.txn(pick)] = found

    @rule(pick=PICK, changes=CHANGES)
    def write(self, pick: int, changes: list[Written]) -> None:
        """Record writes."""
        self.both(lambda store: store.add_written(self.txn(pick), changes))

    @rule(pick=PICK, name=TABLES, days=DAYS, ctas=st.booleans())
    def commit(self, pick: int, name: TableName, days: list[Partition], *, ctas: bool) -> None:
        """Commit, sometimes with changes of the catalog."""
        made = (table(name),) if ctas else ()
        changes = CatalogChanges(made, tuple(NewPartition(name, day) for day in days))
        self.both(lambda store: store.commit_txn(self.txn(pick), changes))

    @rule(pick=PICK, written=CHANGES)
    def commit_plainly(self, pick: int, written: list[Written]) -> None:
        """Commit with the last of what was written."""
        self.both(lambda store: store.commit_txn(self.txn(pick), written=written))

    @rule(picks=st.lists(PICK, max_size=3))
    def abort(self, picks: list[int]) -> None:
        """Abort some."""
        self.both(lambda store: store.abort_txns([self.txn(pick) for pick in picks], "why\0 not"))

    @rule(picks=st.lists(PICK, max_size=4))
    def beat(self, picks: list[int]) -> None:
        """Send heartbeats."""
        self.both(lambda store: store.heartbeat([self.txn(pick) for pick in picks]))

    @rule(seconds=st.sampled_from([1, 100, 299, 301, 90_000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    @rule()
    def reap(self) -> None:
        """Abort the silent."""
        self.both(lambda store: store.abort_timed_out())

    @rule()
    def housekeep(self) -> None:
        """Drop what is not needed."""
        self.both(lambda store: store.housekeep())

    @precondition(lambda self: self.last_txn < 40)
    @rule(step=st.integers(0, 3))
    def seed_txns(self, step: int) -> None:
        """Pass over ids."""
        top = TxnId(self.last_txn + step)
        self.both(lambda store: store.seed_txns(top))
        self.last_txn = top

    # --- write ids

    @rule(picks=st.lists(PICK, min_size=1, max_size=3), name=TABLES)
    def allocate(self, picks: list[int], name: TableName) -> None:
        """Give out write ids and enter them in the ledger."""
        txn_ids = [self.txn(pick) for pick in picks]
        kind, found = self.both(lambda store: store.allocate_write_ids(txn_ids, name))
        if kind == "answer" and isinstance(found, tuple):
            given = self.ledger.setdefault(name, {})
            for txn_id, write_id in zip(txn_ids, found, strict=True):
                assert given.setdefault(write_id, txn_id) == txn_id
            assert sorted(given) == list(range(min(given), max(given) + 1))

    @rule(name=TABLES, top=st.integers(0, 4), aborted=st.lists(st.integers(0, 4).map(WriteId), max_size=2))
    def seed(self, name: TableName, top: int, aborted: list[WriteId]) -> None:
        """Take over ids of another engine."""
        self.both(lambda store: store.seed_write_ids(name, WriteId(top), aborted))

    @rule(name=TABLES, partition=PARTITIONS, up_to=st.integers(0, 12))
    def forget(self, name: TableName, partition: str | None, up_to: int) -> None:
        """Clean up after aborted ones."""
        _, before = self.both(lambda store: store.aborted_write_ids(name))
        self.both(lambda store: store.forget_aborted(name, partition, WriteId(up_to)))
        _, after = self.both(lambda store: store.aborted_write_ids(name))
        if isinstance(before, tuple) and isinstance(after, tuple):
            self.forgotten |= {(name, write_id) for write_id in set(before) - set(after)}

    # --- locks

    @rule(pick=PICK, request=LOCKS, zero_wait=st.booleans())
    def lock(self, pick: int, request: list[LockComponent], *, zero_wait: bool) -> None:
        """Ask for locks."""
        self.both(lambda store: store.lock(self.txn(pick), request, zero_wait=zero_wait))
        self.last_lock = max([self.last_lock, *self._lock_ids()])

    @rule(pick=PICK)
    def check_lock(self, pick: int) -> None:
        """Ask again."""
        self.both(lambda store: store.check_lock(LockId(self.last_lock + 1 - pick)))

    @rule(pick=PICK)
    def unlock(self, pick: int) -> None:
        """Withdraw a request."""
        self.both(lambda store: store.unlock(LockId(self.last_lock + 1 - pick)))

    def _lock_ids(self) -> list[int]:
        return [int(row.lock_id.split(".")[0]) for row in self.model.show_locks()]

    # --- compactions

    @rule(
        name=TABLES,
        partition=PARTITIONS,
        kind=st.sampled_from(["minor", "major", "tiny"]),
        pool=POOLS,
        priority=st.integers(0, 1),
        declined=st.booleans(),
    )
    def enqueue(
        self, name: TableName, partition: str | None, kind: str, pool: str, priority: int, *, declined: bool
    ) -> None:
        """Queue a job, or note that it was not."""
        request = CompactionRequest(name, partition, kind, pool, priority)
        if declined:
            self.both(lambda store: store.decline_compaction(request, "walk", "why\0 not"))
        else:
            self.both(lambda store: store.enqueue_compaction(request, "walk"))
        self.last_compaction = max((one.id for one in self.model.show_compactions()), default=0)

    @rule(pick=st.none() | PICK, pool=POOLS, worker=WORKERS)
    def claim(self, pick: int | None, pool: str, worker: str) -> None:
        """Take a job."""
        number = None if pick is None else self.last_compaction + 1 - pick
        self.both(lambda store: store.claim_compaction(worker, number, pool))

    @rule(pick=PICK, txn=PICK, top=st.integers(0, 9), worker=st.none() | WORKERS)
    def start(self, pick: int, txn: int, top: int, worker: str | None) -> None:
        """Start a job."""
        number = self.last_compaction + 1 - pick
        self.both(lambda store: store.start_compaction(number, self.txn(txn), WriteId(top), worker))

    @rule(pick=PICK, worker=WORKERS)
    def release(self, pick: int, worker: str) -> None:
        """Give a job back."""
        self.both(lambda store: store.release_compaction(self.last_compaction + 1 - pick, worker))

    @rule(pick=PICK, state=st.sampled_from(ENDS), worker=st.none() | WORKERS)
    def end(self, pick: int, state: str, worker: str | None) -> None:
        """Move a job on."""
        number = self.last_compaction + 1 - pick
        self.both(lambda store: store.end_compaction(number, state, "err\0or", worker))

    @rule(pick=PICK, wait=st.sampled_from([0, 300]), noting=st.booleans())
    def put_off(self, pick: int, wait: float, *, noting: bool) -> None:
        """Put cleaning off, or note something."""
        number = self.last_compaction + 1 - pick
        if noting:
            self.both(lambda store: store.note_compaction(number, "de\0tails"))
        else:
            self.both(lambda store: store.retry_cleaning(number, "err\0or", wait))

    # --- catalog

    @rule(name=TABLES)
    def create(self, name: TableName) -> None:
        """Create a table."""
        self.both(lambda store: store.create_table(table(name)))

    @rule(name=TABLES)
    def drop(self, name: TableName) -> None:
        """Drop a table and what the ledger says of it."""
        kind, _ = self.both(lambda store: store.drop_table(name))
        if kind == "answer":
            self._forget_table(name)

    @rule(name=TABLES, new=TABLES, location=st.text(max_size=3))
    def alter(self, name: TableName, new: TableName, location: str) -> None:
        """Change or rename a table."""
        kind, _ = self.both(lambda store: store.alter_table(name, replace(table(new), location=location)))
        if kind == "answer" and name != new:
            self._forget_table(new)
            self.ledger[new] = self.ledger.pop(name, {})
            moved = {(new, write_id) for old, write_id in self.forgotten if old == name}
            self._forget_table(name)
            self.forgotten |= moved

    def _forget_table(self, name: TableName) -> None:
        self.ledger.pop(name, None)
        self.forgotten = {one for one in self.forgotten if one[0] != name}

    @rule(name=TABLES, days=DAYS, adding=st.booleans())
    def partition(self, name: TableName, days: list[Partition], *, adding: bool) -> None:
        """Add or drop partitions."""
        if adding:
            self.both(lambda store: store.add_partitions(name, days))
        else:
            self.both(lambda store: store.drop_partitions(name, days))

    # --- what must hold after every step

    @invariant()
    def same_state(self) -> None:
        """Everything that can be asked for is the same in both."""
        self.both(lambda store: store.show_transactions())
        self.both(lambda store: store.show_locks())
        self.both(lambda store: store.show_compactions())
        self.both(lambda store: [store.ready_to_clean(delay) for delay in (0, 100)])
        self.both(lambda store: [store.changed_partitions(since) for since in (0, self.clock.now() - 99_000)])
        self.both(lambda store: store.min_open_txn_id())
        self.both(lambda store: [store.txn_state(TxnId(n)) for n in range(self.last_txn + 2)])
        names = (ORDERS, STOCK, OTHER)
        self.both(lambda store: [store.aborted_write_ids(name) for name in names])
        self.both(
            lambda store: [
                (one, store.get_table(TableName("shop", one))) for one in store.list_tables("shop")
            ]
        )
        for name in names:
            self.both(partial(_partitions, name))

    @invariant()
    def snapshots_believe_the_ledger(self) -> None:
        """Compare what snapshots, new and held ones, make visible: committed ids always, others never."""
        kind, now = self.both(lambda store: store.valid_txns())
        assert kind == "answer"
        self.held = {one: seen for one, seen in self.held.items() if self.model.txn_state(one) == "open"}
        for seen in [now, *self.held.values()]:
            if isinstance(seen, ValidTxnList):
                self._believe(seen)

    def _believe(self, seen: ValidTxnList) -> None:
        self.both(lambda store: store.valid_write_ids(seen, [ORDERS, STOCK, OTHER]))
        lists = self.store.valid_write_ids(seen, list(self.ledger))
        for name, given in self.ledger.items():
            for write_id, txn_id in given.items():
                if (name, write_id) not in self.forgotten:
                    assert lists[name].is_valid(write_id) == seen.is_valid(txn_id), (str(name), write_id)


def _outcome(verb: Callable[[Store], object], store: Store) -> Answer:
    try:
        answer = verb(store)
    except HiveAcidError as error:
        return type(error).__name__, str(error)
    return "answer", tuple(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else answer

"""Contract: files that commits record, and when a store takes the records of a table for complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FooterFacts
from hiveacid.core.snapshot.file_records import (
    NewDirectory,
    RecordedDirectory,
    RecordedFile,
    TableRecords,
)
from hiveacid.errors import NoSuchTransactionError, TransactionAbortedError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Start, TxnKind
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

DAY, NIGHT = (
    Partition(values, f"file:/wh/shop.db/orders/{n}")
    for n, values in enumerate((("2026-01-01", "oslo"), ("2026-01-02", None)))
)
FACTS = FooterFacts(
    3, "struct<`a b`:int,name:string>", True, False, (1, 9, 5, 5, 0, 2), (b"\0\1", b"", b"x" * 300)
)
WHOLE = RecordedDirectory(
    "delta_0000001_0000001_0000", (RecordedFile("bucket_00000", 700, FACTS),), True, 1_790_000_000_123
)
FLAT = RecordedDirectory(
    "delta_0000002_0000002_0000",
    (RecordedFile("000000_0", 12), RecordedFile("000001_0", 9, FooterFacts(1, "struct<a:int>"))),
)
EMPTY = RecordedDirectory("base_0000003")


def records(
    *directories: RecordedDirectory, of: Partition | None = None, name: TableName = ORDERS
) -> CatalogChanges:
    """Return the records of a transaction; ``of``: a partition of the table."""
    values = () if of is None else of.values
    return CatalogChanges(
        records=(TableRecords(name, tuple(NewDirectory(values, one) for one in directories)),)
    )


def _make(store: Store, definition: TableDefinition | None = None) -> TableDefinition:
    made = definition or replace(table(), partition_columns=())
    store.create_database(database())
    store.create_table(made, unoccupied=True)
    return made


def _begin(store: Store, name: TableName = ORDERS) -> TxnId:
    return store.begin_txn(CLIENT, Start((), (name,), (name,))).txn_id


def _commit(store: Store, changes: CatalogChanges, operation: Operation = Operation.INSERT) -> None:
    store.commit_txn(_begin(store), changes, [wrote(ORDERS, operation)])


def _found(
    store: Store, partitions: Sequence[Partition] | None = None, name: TableName = ORDERS
) -> dict[tuple[str, ...], list[RecordedDirectory]] | None:
    found = store.recorded_files(name, partitions)
    return None if found is None else {key: sorted(some, key=str) for key, some in found.items()}


class FileRecordsContract:
    """A mark tells that nothing can be in a table that is not recorded."""

    @pytest.mark.parametrize("operation", Operation)
    def test_commits_record_their_files(self, store: Store, operation: Operation) -> None:
        """Each, with all facts, and a commit that made nothing says so."""
        _make(store)
        assert _found(store) == {(): []}
        _commit(store, records(WHOLE, EMPTY), operation)
        _commit(store, records(FLAT), operation)
        _commit(store, records(), operation)
        assert _found(store) == {(): [EMPTY, WHOLE, FLAT]}

    @pytest.mark.parametrize("operation", Operation)
    def test_a_commit_that_tells_nothing_takes_the_mark(self, store: Store, operation: Operation) -> None:
        """Also in a transaction that tells about another table, and later commits do not give it back."""
        _make(store)
        store.create_table(table(STOCK), unoccupied=True)
        _commit(store, records(WHOLE))
        _commit(store, records(FLAT, name=STOCK), operation)
        assert _found(store) is None
        _commit(store, records(EMPTY))
        assert _found(store) is None
        assert _found(store, [DAY], STOCK) == {DAY.key: []}, "it had no write id there"

    def test_who_reads_or_aborts_takes_nothing(self, store: Store) -> None:
        """A transaction without a write id in the table tells nothing of it, and nobody sees what an aborted one made."""
        _make(store)
        _commit(store, records(WHOLE))
        store.commit_txn(store.begin_txn(CLIENT, Start((), (ORDERS,)), TxnKind.READ_ONLY).txn_id)
        store.commit_txn(store.begin_txn(CLIENT, Start((), (ORDERS,))).txn_id)
        store.abort_txns([_begin(store)], "no more")
        assert _found(store) == {(): [WHOLE]}

    def test_partitions_are_apart(self, store: Store) -> None:
        """DROP PARTITION forgets what lay in it."""
        _make(store, table())
        made = (NewDirectory(DAY.values, WHOLE), NewDirectory(NIGHT.values, FLAT))
        places = tuple(NewPartition(ORDERS, one) for one in (DAY, NIGHT))
        _commit(store, CatalogChanges(partitions=places, records=(TableRecords(ORDERS, made),)))
        assert _found(store, [DAY, NIGHT]) == {DAY.key: [WHOLE], NIGHT.key: [FLAT]}
        assert _found(store, [NIGHT]) == {NIGHT.key: [FLAT]}
        assert _found(store, []) == {}
        store.drop_partitions(ORDERS, [DAY])
        store.add_partitions(ORDERS, [DAY])
        assert _found(store, [DAY, NIGHT]) == {DAY.key: [], NIGHT.key: [FLAT]}
        others = [Partition(("2026-01-03", str(n)), f"file:/wh/shop.db/orders/{n}") for n in range(2300)]
        assert _found(store, [*others, NIGHT]) == {NIGHT.key: [FLAT]} | {one.key: [] for one in others}

    def test_what_a_reader_knows_is_not_read_again(self, store: Store) -> None:
        """Unless a directory of the name was made at another time, as in a store that was restored and went on."""
        _make(store, table())
        made = (NewDirectory(DAY.values, WHOLE), NewDirectory(NIGHT.values, FLAT))
        places = tuple(NewPartition(ORDERS, one) for one in (DAY, NIGHT))
        _commit(store, CatalogChanges(partitions=places, records=(TableRecords(ORDERS, made),)))
        other = replace(FLAT, made=FLAT.made + 1, files=())
        known = {DAY.key: (WHOLE, EMPTY), NIGHT.key: (other,)}
        found = store.recorded_files(ORDERS, [DAY, NIGHT], known)
        assert found == {DAY.key: [WHOLE], NIGHT.key: [FLAT]}
        assert found[DAY.key][0] is WHOLE
        _commit(store, records(EMPTY, of=DAY))
        again = store.recorded_files(ORDERS, [DAY, NIGHT], found)
        assert again == {DAY.key: sorted((WHOLE, EMPTY), key=lambda one: one.name), NIGHT.key: [FLAT]}
        assert again[NIGHT.key][0] is found[NIGHT.key][0]
        assert store.recorded_files(STOCK, None, {(): (WHOLE,)}) is None

    def test_only_new_tables_are_marked(self, store: Store) -> None:
        """Not one that is adopted, plain, external, or made where files may be; one AS SELECT is."""
        store.create_database(database())
        for number, (definition, unoccupied) in enumerate(
            (
                (table(), False),
                (replace(table(), properties=()), True),
                (replace(table(), external=True), True),
            )
        ):
            name = TableName("shop", f"t{number}")
            store.create_table(
                replace(definition, name=name, location=f"file:/wh/t{number}"), unoccupied=unoccupied
            )
            assert store.recorded_files(name, []) is None
        store.commit_txn(_begin(store), CatalogChanges(tables=(table(),)))
        assert store.recorded_files(ORDERS, []) is None
        changes = replace(records(WHOLE, of=DAY, name=STOCK), tables=(table(STOCK),))
        store.commit_txn(_begin(store, STOCK), changes)
        assert _found(store, [DAY], STOCK) == {DAY.key: [WHOLE]}

    @pytest.mark.parametrize(
        "change",
        [
            lambda one: replace(one, location="file:/wh/elsewhere"),
            lambda one: replace(one, external=True),
            lambda one: one.with_properties({"transactional_properties": "insert_only"}),
        ],
    )
    def test_a_table_that_is_made_another_one_loses_the_mark(
        self, store: Store, change: Callable[[TableDefinition], TableDefinition]
    ) -> None:
        """By its place, its kind, or as others may write into it; other changes keep it."""
        made = _make(store)
        store.alter_table(ORDERS, replace(made, comment="other"))
        _commit(store, records(WHOLE))
        assert _found(store) == {(): [WHOLE]}
        store.alter_table(ORDERS, change(made))
        assert _found(store) is None

    def test_records_follow_the_table(self, store: Store) -> None:
        """RENAME takes them along, DROP deletes them; a table of the name begins anew."""
        made = _make(store)
        _commit(store, records(WHOLE))
        store.alter_table(ORDERS, replace(made, name=STOCK))
        assert (_found(store), _found(store, name=STOCK)) == (None, {(): [WHOLE]})
        late = _begin(store, STOCK)
        store.drop_table(STOCK)
        assert _found(store, name=STOCK) is None
        store.create_table(replace(made, name=STOCK), unoccupied=True)
        store.commit_txn(late, records(FLAT, name=STOCK), [wrote(STOCK, Operation.INSERT)])
        assert _found(store, name=STOCK) == {(): []}, "the write ids went with the table that was dropped"

    @pytest.mark.parametrize("tells", [True, False])
    def test_a_compaction_records_its_result(self, store: Store, tells: bool) -> None:  # noqa: FBT001
        """It has no write id, but its job names the table."""
        _make(store)
        _commit(store, records(WHOLE))
        job = store.enqueue_compaction(CompactionRequest(ORDERS, None, "major"), "manual")
        store.claim_compaction("worker", job.id)
        (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
        store.start_compaction(job.id, txn_id, WriteId(1), "worker")
        base = RecordedDirectory("base_0000001_v0000002", (RecordedFile("bucket_00000", 5),), True)
        store.commit_txn(txn_id, records(base) if tells else CatalogChanges())
        assert _found(store) == ({(): [base, WHOLE]} if tells else None)

    def test_a_cleaner_forgets_what_it_deletes(self, store: Store) -> None:
        """Only while it has its lock."""
        _make(store)
        _commit(store, records(WHOLE, FLAT, EMPTY))
        (held,) = store.open_txns(CLIENT)
        store.forget_directories(ORDERS, None, [WHOLE.name, "delta_0000009_0000009_0000"], held)
        assert _found(store) == {(): [EMPTY, FLAT]}
        store.abort_txns([held], "timed out")
        for ended in (held, TxnId(99)):
            with pytest.raises((TransactionAbortedError, NoSuchTransactionError)):
                store.forget_directories(ORDERS, None, [FLAT.name], ended)
        assert _found(store) == {(): [EMPTY, FLAT]}

    def test_records_end_before_a_directory_that_counts_without_a_commit(self, store: Store) -> None:
        """As that of a compaction for Hive 3; later commits do not begin them again."""
        _make(store)
        (held,) = store.open_txns(CLIENT)
        store.end_records(STOCK, held)
        _commit(store, records(WHOLE))
        assert _found(store) == {(): [WHOLE]}
        store.end_records(ORDERS, held)
        _commit(store, records(FLAT))
        assert _found(store) is None
        store.abort_txns([held], "timed out")
        with pytest.raises(TransactionAbortedError):
            store.end_records(ORDERS, held)

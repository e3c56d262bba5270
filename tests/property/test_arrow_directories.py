"""Random legal locations read without Spark: the committed rows and row ids, with and without a condition or threads.

Each table's partitions are random locations under one list of write ids. Stripes of one row make pruning and
delete events work across stripes, too.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.arrow.table import select
from hiveacid.arrow.warehouse import ArrowWarehouse, open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.model import Partition, TableDefinition, TableName
from hiveacid.datasource.change_feed_task import read_file_changes
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.file_system_routing import OpenedBefore
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.arrow_read import record_batches, row_tasks
from hiveacid.table.arrow_read.files_to_open import Snapshot, take_snapshot
from hiveacid.table.arrow_read.record_batches import Selection, read_batches, read_tasks
from hiveacid.table.arrow_read.row_tasks import RowTask, divide_files
from support.directories.files import write_location
from support.directories.maker import make_location
from support.directories.model import Ids, Key, make_ids
from support.directories.shelves import definition
from support.exhaustive import examples

if TYPE_CHECKING:
    from hiveacid.transactions.transaction import Transaction

PARTITIONS = 4
CREATE = (
    "CREATE TABLE t (v STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)
Row = tuple[int, Key, str]


@pytest.fixture(scope="module")
def wh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArrowWarehouse]:
    root = tmp_path_factory.mktemp("warehouse")
    open_store(str(root), None, Settings(), SystemClock())[0].close()
    with open_warehouse(str(root)) as warehouse:
        yield warehouse


def register(wh: ArrowWarehouse, name: str, root: Path, random: Random, ids: Ids) -> set[Row]:
    """Make a table of random locations; return the rows that a reader of these write ids sees."""
    table = definition(CREATE, str(root))
    properties = tuple((key, value) for key, value in table.properties if key != ADOPTED_TXN.name)
    partitions: list[Partition] = []
    rows: set[Row] = set()
    while len(partitions) < PARTITIONS:
        location = make_location(random, ids)
        if location.too_new:
            continue
        number = len(partitions)
        options = random.choice(({}, {"batch_size": 1, "stripe_size": 1, "row_index_stride": 1}))
        where = write_location(root / f"p={number}", location, random, **options)
        partitions.append(Partition((str(number),), str(where)))
        rows |= {(number, key, value) for key, value in location.rows.items()}
    made = replace(table, name=TableName("default", name), properties=properties)
    wh.context.catalog.create_table(made)
    wh.context.catalog.add_partitions(made.name, partitions)
    return rows


@contextmanager
def reader_of(wh: ArrowWarehouse, table: TableDefinition, ids: Ids) -> Iterator[Transaction]:
    """Yield a transaction that sees the given write ids and transactions."""
    with wh.context.read_leases.acquire(wh.context.settings) as txn:
        yield replace(txn, _snapshot=ids.txns, _valid_write_ids={table.name: ids.write_ids})


def rows_by_format(wh: ArrowWarehouse, table: TableDefinition, ids: Ids) -> list[tuple[int, str]]:
    """Return partition and value of each row that the tasks of ``format("hiveacid")`` read."""
    partitions = wh.context.catalog.list_partitions(table.name)
    source = ChangeSource(ChangeOptions("t", None, None))
    return sorted(
        (row["p"], row["v"])
        for location in list_locations(source.fs, table, partitions, ids.write_ids, ids.txns)
        for file in source.file_changes(table, location, ids.write_ids, None)
        for batch in read_file_changes(file)
        for row in batch.to_pylist()
    )


def rows_by_tasks(found: Snapshot, selection: Selection, tasks: int) -> list[Any]:
    """Return the rows that tasks on executors read of parts of files, by partition, as they would come from there."""
    with patch.object(row_tasks, "_MIN_PART", 1):
        divided = divide_files(found, tasks)
    made = [RowTask.of(found, parts, selection, 1_000_000, 1 << 30, OpenedBefore()) for parts in divided]
    results = [task() for task in pickle.loads(pickle.dumps(made))]  # noqa: S301 - written here
    assert all(isinstance(result, list) for result in results), results
    parts = [part for result in results for part in pickle.loads(pickle.dumps(result))]  # noqa: S301
    return [row for part in parts for batch in part.batches() for row in batch.to_pylist()]


def conditions(random: Random, rows: set[Row]) -> Iterator[tuple[str, Callable[[int, str], bool]]]:
    """Yield conditions in SQL, and the same for a row's partition and value."""
    known = sorted(value for _, _, value in rows) or ["v1"]
    some = random.sample(known, min(3, len(known)))
    low, number = some[0], random.randrange(PARTITIONS)
    listed = ", ".join(f"'{one}'" for one in some)
    yield f"v IN ({listed})", lambda _, v: v in some
    yield f"v > '{low}' AND p <> {number}", lambda p, v: v > low and p != number
    yield f"NOT (v <= '{low}' OR p = {number})", lambda p, v: not (v <= low or p == number)
    yield f"v = '{low}' OR p = {number}", lambda p, v: v == low or p == number
    yield f"p = {number}", lambda p, _: p == number
    yield "v IS NULL", lambda _p, _v: False


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**48))
def test_committed_rows_are_read_from_any_legal_location(wh: ArrowWarehouse, seed: int) -> None:
    random = Random(seed)
    ids = make_ids(random)
    name = f"t{len(wh.tables())}"
    with tempfile.TemporaryDirectory() as root:
        rows = register(wh, name, Path(root), random, ids)
        table = wh.table(name)

        def read(columns: list[str] | None, where: str | None, *, row_ids: bool = False) -> list[Any]:
            selection = select(table.definition, columns, where, row_ids=row_ids)
            with reader_of(wh, table.definition, ids) as txn:
                found = take_snapshot(wh.context, table.definition, txn, predicate=selection.predicate)
                with patch.object(record_batches, "FEW_ROWS", 0):  # threads also for few rows
                    batches = [*read_batches(wh.context, found, selection, random.choice((1, 2, 8)))]
                sent = pickle.dumps([*read_tasks(wh.context.fs, found, selection)])
            tasks = pickle.loads(sent)  # noqa: S301 - written above
            by_tasks = [batch for task in tasks for batch in task.to_batches()]
            assert [*map(pa.RecordBatch.to_pylist, by_tasks)] == [*map(pa.RecordBatch.to_pylist, batches)]
            if row_ids:
                parts = rows_by_tasks(found, selection, random.choice((1, 3, 40)))
                assert parts == [row for batch in batches for row in batch.to_pylist()]
            return batches

        def listed(where: str | None) -> list[Row]:
            events = [row for batch in read(None, where, row_ids=True) for row in batch.to_pylist()]
            return sorted((row["p"], tuple(row["ROW__ID"].values()), row["v"]) for row in events)

        assert listed(None) == sorted(rows)
        assert sum(batch.num_rows for batch in read([], None)) == len(rows)
        assert rows_by_format(wh, table.definition, ids) == sorted((row[0], row[2]) for row in rows)
        for where, holds in conditions(random, rows):
            expected = sorted(row for row in rows if holds(row[0], row[2]))
            assert listed(where) == expected, where
            assert sum(batch.num_rows for batch in read([], where)) == len(expected), where
            only = Counter(row["p"] for batch in read(["p"], where) for row in batch.to_pylist())
            assert only == Counter(row[0] for row in expected), where

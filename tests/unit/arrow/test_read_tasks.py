"""Tasks of a plan, read in another process: the same rows as in this one, of every kind of table."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from hiveacid.arrow.table import ArrowTable
from hiveacid.arrow.warehouse import ArrowWarehouse, open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.model import Partition, TableName
from hiveacid.errors import StorageError
from hiveacid.orc.tail import read_tail
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.arrow_read import record_batches
from support.corpus.acid_files import (
    acid_bytes,
    bucket_property,
    deletes,
    flush_lengths,
    inserts,
    orc_bytes,
    put,
)
from support.directories.shelves import definition
from support.samples import CLIENT

B0 = bucket_property(0)
COLUMNS = "id:int,v:string"
READ = """
import pickle, sys
tasks = pickle.load(sys.stdin.buffer)
pickle.dump([task.to_arrow() for task in tasks], sys.stdout.buffer)
"""


def rows(start: int, count: int = 3) -> list[tuple[int, str]]:
    return [(number, f"v{number}") for number in range(start, start + count)]


def acid(write_id: int, start: int) -> bytes:
    return acid_bytes(inserts(write_id, rows(start)), COLUMNS)


def delta(write_id: int, *, delete: bool = False) -> str:
    return f"{'delete_' if delete else ''}delta_{write_id:07d}_{write_id:07d}_0000"


def gone(write_id: int, *keys: tuple[int, int, int]) -> bytes:
    return acid_bytes(deletes(write_id, keys), COLUMNS)


def plain(start: int) -> bytes:
    return orc_bytes(rows(start), f"struct<{COLUMNS}>")


def as_parquet(start: int) -> bytes:
    sink = pa.BufferOutputStream()
    ids, values = zip(*rows(start), strict=True)
    parquet.write_table(pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(values)}), sink)
    return bytes(sink.getvalue())


FULL, INSERT_ONLY = (
    "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "STORED AS {} TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
)
BUCKET = "bucket_00000"
UPDATES = [(1, 1, B0, 0, 2, (0, "newer")), *inserts(2, rows(10))]
_FLUSHED = acid(1, 0)
TABLES: dict[str, tuple[str, dict[str, bytes]]] = {
    "deletes": (
        f"PARTITIONED BY (p INT) {FULL}",
        {
            f"p=1/{delta(1)}/{BUCKET}": acid(1, 0),
            f"p=1/{delta(2, delete=True)}/{BUCKET}": gone(2, (1, B0, 1)),
            f"p=2/{delta(1)}/{BUCKET}": acid(1, 10),
            f"p=2/{delta(2)}/{BUCKET}": acid(2, 20),
        },
    ),
    "originals": (
        FULL,
        {"000000_0": plain(0), "000000_0_copy_1": plain(10)}
        | {f"{delta(1, delete=True)}/{BUCKET}": gone(1, (0, B0, 1), (0, B0, 4))},
    ),
    "flushed": (
        FULL,
        {
            f"delta_0000001_0000002/{BUCKET}": _FLUSHED + b"torn",
            f"delta_0000001_0000002/{BUCKET}_flush_length": flush_lengths(len(_FLUSHED)),
        },
    ),
    "versions": (
        FULL,
        {f"{delta(1)}/{BUCKET}": acid(1, 0), f"{delta(2)}/{BUCKET}": acid_bytes(UPDATES, COLUMNS)},
    ),
    "stripes": (
        FULL,
        {
            f"{delta(1)}/{BUCKET}": acid_bytes(
                inserts(1, rows(0, 30_000)), COLUMNS, batch_size=100, stripe_size=1
            )
        },
    ),
    "insert_only": (
        INSERT_ONLY.format("ORC"),
        {f"{delta(1)}/000000_0": plain(0), f"{delta(2)}/000000_0": plain(10)},
    ),
    "parquet": (
        f"PARTITIONED BY (p INT) {INSERT_ONLY.format('PARQUET')}",
        {f"p=1/{delta(1)}/000000_0": as_parquet(0), f"p=2/{delta(2)}/000000_0": as_parquet(10)},
    ),
    "plain": ("STORED AS PARQUET", {"000000_0": as_parquet(0)}),
    "empty": (FULL, {}),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArrowWarehouse]:
    root = tmp_path_factory.mktemp("warehouse")
    store, _ = open_store(str(root), None, Settings(), SystemClock())
    for name, (text, files) in TABLES.items():
        table = definition(f"CREATE TABLE {name} (id INT, v STRING) {text}", str(root / name))
        properties = tuple(entry for entry in table.properties if entry[0] != ADOPTED_TXN.name)
        store.create_table(replace(table, properties=properties))
        (root / name).mkdir(exist_ok=True)
        if table.partition_columns:
            values = sorted({path.split("/")[0].removeprefix("p=") for path in files})
            places = [Partition((value,), str(root / name / f"p={value}")) for value in values]
            store.add_partitions(table.name, places)
        for _ in range(2 if "transactional" in text else 0):
            (txn_id,) = store.open_txns(CLIENT)
            store.allocate_write_ids([txn_id], TableName("default", name))
            store.commit_txn(txn_id)
        put(root / name, files)
    store.close()
    with open_warehouse(str(root)) as opened:
        yield opened


READS: dict[str, dict[str, Any]] = {
    "all": {},
    "some": {"columns": ["v"], "where": "id >= 2 AND id <> 11"},
    "by_expression": {"columns": ["id"], "where": pc.field("v") == "v11"},
    "past": {"as_of": 1},
    "none": {"where": "id < 0"},
}


def in_another_process(tasks: list[record_batches.ReadTask]) -> list[pa.Table]:
    done = subprocess.run(
        [sys.executable, "-c", READ], input=pickle.dumps(tasks), capture_output=True, check=True
    )
    read: list[pa.Table] = pickle.loads(done.stdout)  # noqa: S301 - written above
    return read


def joined(plan: Any, tables: list[pa.Table]) -> Any:
    return pa.concat_tables([plan.schema.empty_table(), *tables])


def test_another_process_reads_the_same_rows_of_every_kind_of_table(warehouse: ArrowWarehouse) -> None:
    plans, expected = [], []
    for name in TABLES:
        table, full = (
            warehouse.table(name),
            name in ("deletes", "originals", "flushed", "versions", "stripes"),
        )
        reads = {key: options for key, options in READS.items() if key != "past" or name != "plain"}
        for options in (*reads.values(), *([{"row_ids": True}] if full else [])):
            plans.append(table.plan(**options))
            expected.append(table.to_arrow(**options))
    read = iter(in_another_process([task for plan in plans for task in plan]))
    for plan, rows_here in zip(plans, expected, strict=True):
        assert joined(plan, [next(read) for _ in plan]).equals(rows_here)
        plan.close()
    sizes = {name: warehouse.table(name).count() for name in TABLES}
    assert list(sizes.values()) == [8, 4, 3, 6, 30_000, 6, 6, 3, 0]


def test_a_task_is_a_file_or_some_of_its_stripes_without_those_that_the_filter_excludes(
    warehouse: ArrowWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("stripes")

    def tasks(name: str, **options: Any) -> list[tuple[int | None, tuple[int, ...] | None]]:
        with warehouse.table(name).plan(**options) as plan:
            return [(task.rows, task.stripes) for task in plan]

    path = Path(table.definition.location, delta(1), BUCKET)
    stripes = read_tail(LocalFileSystem(), str(path), path.stat().st_size).stripes
    assert len(stripes) > 2
    assert tasks("stripes") == [(30_000, tuple(range(len(stripes))))]
    assert tasks("stripes", where=f"id = {stripes[0].rows}") == [(stripes[1].rows, (1,))]
    assert tasks("deletes") == [(3, (0,))] * 3
    assert tasks("deletes", where="p = 2") == [(3, (0,))] * 2
    assert tasks("versions") == [(7, None)]  # one process must know all versions of a row
    monkeypatch.setattr(record_batches, "_TASK_BYTES", 1)
    assert tasks("stripes") == [(stripe.rows, (number,)) for number, stripe in enumerate(stripes)]
    with table.plan() as plan:
        assert joined(plan, [task.to_arrow() for task in plan]).equals(table.to_arrow())


def test_the_plan_keeps_the_files_until_it_is_closed(warehouse: ArrowWarehouse, tmp_path: Path) -> None:
    table: ArrowTable = warehouse.table("insert_only")
    plan = table.plan()
    assert warehouse.context.read_leases.sweep() == 1
    with pytest.raises(TypeError, match="pickle its tasks"):
        pickle.dumps(plan)
    plan.close()
    plan.close()
    assert warehouse.context.read_leases.sweep() == 0
    assert plan[0].to_arrow().num_rows == 3  # as long as nobody deletes its file
    (file,) = plan[0].snapshot.partitions[0].rows
    away = Path(file.path).rename(tmp_path / "away")
    with pytest.raises(StorageError, match=delta(1)):
        plan[0].to_arrow()
    away.rename(file.path)

"""Batch writes and reads of ``format("hiveacid")``, as the driver and its tasks do them, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import types as T
from stream_tables import ACID, Warehouse, opened

from hiveacid.errors import SchemaMismatchError, UnsupportedFeatureError

batch = pytest.importorskip("hiveacid.datasource.data_source", reason="Spark 3.5 has no Python data sources")
SCHEMA = T.StructType().add("id", "long").add("v", "string").add("p", "integer")


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with opened(tmp_path) as made:
        made.create(f"CREATE TABLE t (id BIGINT, v STRING) PARTITIONED BY (p INT) {ACID}")
        yield made


def options(warehouse: Warehouse, table: str = "t", **more: str) -> dict[str, str]:
    return {"table": table, "warehouse": str(warehouse.root), **more}


def arrow(*rows: dict[str, Any]) -> Any:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def row(number: int, value: str, place: int) -> dict[str, Any]:
    return {"id": number, "v": value, "p": place}


def write(warehouse: Warehouse, *tasks: Any, overwrite: bool = False) -> None:
    writer = batch.batch_writer(options(warehouse), SCHEMA, overwrite=overwrite)
    writer.commit([writer.write(iter([task])) for task in tasks])


def read(warehouse: Warehouse, **more: str) -> list[dict[str, Any]]:
    reader = batch.BatchReader(options(warehouse, **more), SCHEMA)
    found = [one for part in reader.partitions() for some in reader.read(part) for one in some.to_pylist()]
    return sorted(found, key=lambda one: int(one["id"]))


def damage(warehouse: Warehouse, table: str) -> list[str]:
    return [
        one for one in warehouse.findings(table) if not one.startswith("obsolete")
    ]  # what was overwritten


def staged(warehouse: Warehouse) -> list[Path]:
    return list((warehouse.root / "t").glob(".hiveacid-*"))


def test_append_overwrite_read(warehouse: Warehouse) -> None:
    first = [row(1, "a", 1), row(2, "b", 1), row(3, "c", 2)]
    write(warehouse, arrow(*first[:2]), arrow(first[2]), arrow())
    assert read(warehouse) == first
    write(warehouse, arrow(row(9, "z", 2), row(8, "y", 5)), overwrite=True)
    assert read(warehouse) == [*first[:2], row(8, "y", 5), row(9, "z", 2)]
    assert sorted(warehouse.rows("t")) == [(1, "a"), (2, "b"), (8, "y"), (9, "z")]
    assert read(warehouse, as_of="1") == first
    write(warehouse, arrow(), overwrite=True)  # no rows, no partition replaced
    assert len(read(warehouse)) == 4
    assert damage(warehouse, "t") == []
    assert staged(warehouse) == []


def test_overwriting_with_no_rows_empties_a_table(warehouse: Warehouse) -> None:
    warehouse.create(f"CREATE TABLE u (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}")
    schema = T.StructType().add("id", "long")
    for rows in ([1, 2, 3], [], [4]):
        writer = batch.batch_writer(options(warehouse, "u"), schema, overwrite=not rows)
        writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"id": pa.array(rows, pa.int64())})]))])
        assert sorted(value for (value,) in warehouse.rows("u")) == rows
        assert damage(warehouse, "u") == []


def test_both_kinds_of_timestamp(warehouse: Warehouse) -> None:
    warehouse.create(f"CREATE TABLE u (at TIMESTAMP, exact TIMESTAMP WITH LOCAL TIME ZONE) {ACID}")
    schema = T.StructType().add("at", "timestamp").add("exact", "timestamp")
    noon = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    task = pa.RecordBatch.from_pydict(
        {name: pa.array([noon], pa.timestamp("us", "Asia/Tokyo")) for name in ("at", "exact")}
    )
    for overwrite in (False, True):
        writer = batch.batch_writer(options(warehouse, "u"), schema, overwrite=overwrite)
        writer.commit([writer.write(iter([task]))])
        assert warehouse.rows("u") == [
            (noon.replace(tzinfo=UTC), noon)
        ]  # a wall clock is stored as one in UTC


def test_no_filter_is_accepted(warehouse: Warehouse) -> None:
    """Spark 4.1 to 4.3 would keep a filtered reader for the other queries of a DataFrame or view."""
    reader = batch.BatchReader(options(warehouse), SCHEMA)
    accepts = getattr(type(reader), "pushFilters", None)
    assert accepts is getattr(batch.DataSourceReader, "pushFilters", None)


def test_lost_attempts_and_lost_jobs(warehouse: Warehouse) -> None:
    writer = batch.batch_writer(options(warehouse), SCHEMA, overwrite=False)
    writer.write(iter([arrow(row(1, "twice", 1))]))

    def dying() -> Iterator[Any]:
        yield arrow(row(2, "half", 1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer.write(dying())
    assert read(warehouse) == []
    writer.commit([writer.write(iter([arrow(row(1, "once", 1))])), None])
    assert read(warehouse) == [row(1, "once", 1)]
    assert staged(warehouse) == []
    lost = batch.batch_writer(options(warehouse), SCHEMA, overwrite=True)
    lost.abort([lost.write(iter([arrow(row(5, "lost", 1))]))])
    assert read(warehouse) == [row(1, "once", 1)]
    assert staged(warehouse) == []


def test_a_read_keeps_its_files_from_the_cleaner(warehouse: Warehouse) -> None:
    write(warehouse, arrow(row(1, "a", 1)))
    before = warehouse.store.valid_txns().open
    batch.BatchReader(options(warehouse), SCHEMA).partitions()
    assert len(warehouse.store.valid_txns().open) == len(before) + 1


def test_what_does_not_fit_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(SchemaMismatchError, match="columns"):
        batch.batch_writer(options(warehouse), T.StructType().add("id", "long"), overwrite=False)
    warehouse.create("CREATE TABLE plain (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    with pytest.raises(UnsupportedFeatureError):
        batch.batch_writer(options(warehouse, "plain"), T.StructType().add("id", "long"), overwrite=False)

"""The static partition of a stream: values become the texts of partition names, or are refused."""

from __future__ import annotations

import shutil
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.model import TableName
from hiveacid.errors import SchemaMismatchError, UnsupportedFeatureError
from hiveacid.streaming.stream_target import StreamTarget
from support.corpus.acid_files import acid_bytes, bucket_property, inserts

NOON = datetime(2024, 1, 2, 12)  # noqa: DTZ001 - Hive's timestamps have no zone


@pytest.mark.parametrize(
    ("hive", "good", "text", "bad"),
    [
        ("INT", ["01", 1.0, Decimal(1)], "1", [1.5, Decimal("1.5"), "1.5", float("inf"), 1 << 40, 1 << 70]),
        ("DATE", ["2024-01-02", date(2024, 1, 2)], "2024-01-02", [NOON, 5]),
        ("STRING", ["x"], "x", [5]),
        ("DOUBLE", ["0.50", 0.5], "0.5", ["1e400"]),
    ],
)
def test_static_partition_values_lose_nothing(
    wh: Warehouse, hive: str, good: Any, text: str, bad: Any
) -> None:
    table = wh.create(f"CREATE TABLE t (id INT) PARTITIONED BY (p {hive}) {ACID}")
    for value in good:
        assert StreamTarget.of(table, {"p": value}, Settings()).static == (text,)
    for value in bad:
        with pytest.raises(SchemaMismatchError, match="partition column p"):
            StreamTarget.of(table, {"p": value}, Settings())


def with_update_events(wh: Warehouse) -> None:
    """Make a table that looks adopted, whose only file holds an insert of write id 1 and an update of it (ACID v1)."""
    wh.create(f"CREATE TABLE t (id INT) {ACID[:-1]},'{ADOPTED_TXN.name}'='0')")
    with wh.connect("t") as stream, stream.transaction():
        stream.write([{"id": 1}])
    (file,) = (wh.root / "t").glob("delta_*/bucket_00000")
    rows = [*inserts(1, [(1,)]), (1, 1, bucket_property(0), 1, 1, (2,))]
    file.write_bytes(acid_bytes(rows, "id:int"))


def test_rows_are_not_added_beside_update_events(wh: Warehouse) -> None:
    """Neither by a new stream nor by one whose table was dropped and adopted again; an overwrite replaces the events."""
    wh.create(f"CREATE TABLE t (id INT) {ACID}")
    older = wh.connect("t")
    with older.transaction():
        older.write([{"id": 7}])
    wh.store.drop_table(TableName("default", "t"))
    shutil.rmtree(wh.root / "t")
    with_update_events(wh)
    for connect in (older.begin_transaction, lambda: wh.connect("t")):
        with pytest.raises(UnsupportedFeatureError, match="update events"):
            connect()
    with wh.connect("t", overwrite=True) as stream, stream.transaction():
        stream.write([{"id": 3}])
    assert wh.rows("t") == [(3,)]
    with older.transaction():
        older.write([{"id": 4}])
    older.close()
    assert sorted(wh.rows("t")) == [(3,), (4,)]

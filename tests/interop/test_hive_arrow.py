"""``hiveacid.open`` beside real Hive: reads and appends through its metastore, without Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hive_client import Hive, row_id
from hive_server import HiveServers

import hiveacid
from hiveacid.datasource.data_source import HiveAcidDataSource
from hiveacid.errors import HiveAcidError
from hiveacid.stores.hms.store import MetastoreStore

pl = pytest.importorskip("polars", reason="polars is not installed: pip install 'hiveacid[polars]'")

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones
COLUMNS = "id INT, item STRING, price DECIMAL(10,2), at TIMESTAMP"
NOON = dt.datetime(2026, 1, 1, 12, 0)  # noqa: DTZ001 - a wall-clock time


def _same_rows(session: Hive, table: Any) -> int:
    """Compare rows and row ids with Hive's; return their number."""
    name = table.name.name  # texts of times, which Hive 3 does not return as values of this protocol
    theirs = session.sql(
        f"SELECT ROW__ID, id, item, price, CAST(at AS STRING), CAST(day AS STRING) FROM {name}"
    )
    ours = [tuple(row.values()) for row in table.to_arrow(row_ids=True).to_pylist()]
    wanted = {(row_id(row[0]), *map(str, row[1:])) for row in theirs}
    assert {(tuple(row[0].values()), *map(str, row[1:])) for row in ours} == wanted
    assert session.sql(f"SELECT count(*) FROM {name}") == [(table.count(),)]
    assert len(ours) == len(theirs)
    return len(ours)


def test_a_partitioned_and_bucketed_table(hive: HiveServers, session: Hive) -> None:
    session.sql(
        f"CREATE TABLE sold ({COLUMNS}) PARTITIONED BY (day DATE) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    for day in ("2026-01-01", "2026-01-02"):
        session.sql(
            f"INSERT INTO sold PARTITION (day='{day}') VALUES (1, 'tea', 1.50, '2026-01-01 12:00:00'), "
            "(2, 'jam', 2, '2026-01-01 12:00:00'), (3, NULL, 3, '2026-01-01 12:00:00')"
        )
    session.sql("UPDATE sold SET item = 'rye' WHERE id = 2")
    session.sql("DELETE FROM sold WHERE id = 3 AND day = '2026-01-02'")
    with hiveacid.open(store=hive.url) as warehouse:
        assert "sold" in warehouse.tables()
        table = warehouse.table("sold")
        assert _same_rows(session, table) == 5
        running = table.to_batches(["id", "item"], where="day = DATE '2026-01-01'")
        session.sql("UPDATE sold SET item = 'later' WHERE day = '2026-01-01'")
        assert sorted(map(str, running.read_all()["item"].to_pylist())) == ["None", "rye", "tea"]
        assert table.count("item = 'later'") == 3
        days = [dt.date(2026, 1, 2), dt.date(2026, 1, 3)]
        more = pa.table(
            {
                "id": [4, 5],
                "item": ["oil", "gin"],
                "price": [Decimal("4.00"), None],
                "at": [NOON] * 2,
                "day": days,
            }
        )
        assert table.append(more) == 2
        assert session.sql("SELECT id, item FROM sold WHERE day = '2026-01-03'") == [(5, "gin")]
        session.sql("UPDATE sold SET price = 5 WHERE id = 5")
        assert _same_rows(session, table) == 7
        session.sql("ALTER TABLE sold PARTITION (day='2026-01-02') COMPACT 'major' AND WAIT")
        session.sql("ALTER TABLE sold ADD COLUMNS (note STRING)")
        lazy = table.to_polars().filter(pl.col("day") == dt.date(2026, 1, 2)).select("id", "note").sort("id")
        assert lazy.collect().rows() == [(1, None), (2, None), (4, None)]
    store = MetastoreStore(hive.url)
    assert [row for row in store.show_transactions() if row.state == "OPEN"] == []
    assert store.show_locks() == ()
    store.close()


def test_an_insert_only_and_a_plain_table(hive: HiveServers, session: Hive) -> None:
    session.sql(
        "CREATE TABLE noted (a INT, b STRING) STORED AS PARQUET TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    session.sql("CREATE EXTERNAL TABLE outside (a INT, b STRING) STORED AS ORC")
    for name in ("noted", "outside"):
        session.sql(f"INSERT INTO {name} VALUES (1, 'x')")
        session.sql(f"INSERT INTO {name} VALUES (2, NULL)")
    with hiveacid.open(store=hive.url) as warehouse:
        for name in ("noted", "outside"):
            rows = warehouse.table(name).to_arrow().to_pylist()
            assert sorted((row["a"], row["b"]) for row in rows) == [(1, "x"), (2, None)], name
            source = HiveAcidDataSource({"table": name, "store": hive.url})
            reader = source.reader(source.schema())
            parts = [pa.Table.from_batches(reader.read(part)) for part in reader.partitions()]
            assert pa.concat_tables(parts).to_pylist() == rows, name
        with pytest.raises(HiveAcidError, match="not stored as ORC"):
            warehouse.table("noted").append(pa.table({"a": [3], "b": ["y"]}))
        with pytest.raises(HiveAcidError, match="not transactional"):
            warehouse.table("outside").append(pa.table({"a": [3], "b": ["y"]}))

"""MSCK on a real metastore: partitions come and go there, and no rows of deltas become visible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hive_server import HiveServers
from pyarrow import orc

from hiveacid.catalog.ddl import create_table
from hiveacid.catalog.repair_partitions import repair_partitions
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.errors import CatalogError
from hiveacid.ports.clock import SystemClock
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.transactions.heartbeats import Heartbeats
from support.contexts import context_of
from support.samples import ORC

NAMES = {kind: TableName("repaired", kind) for kind in ("plain", "acid")}


def test_partitions_follow_their_directories(hive: HiveServers) -> None:
    store = MetastoreStore(hive.url, owner="ann")
    place = Path(f"{hive.place}/repaired.db")
    context = context_of(store, str(hive.place), SystemClock(), Heartbeats(store, 600.0))
    store.create_database(DatabaseDefinition("repaired", str(place)))
    table = TableDefinition(NAMES["plain"], (Column("id", "int"),), ORC, "", (Column("day", "string"),))
    create_table(context, replace(table, external=True))
    create_table(context, replace(table, name=NAMES["acid"], properties=(("transactional", "true"),)))
    for name in NAMES.values():
        root = Path(context.require(name).location)
        for day in ("a", "b%2Fc", "empty"):
            (root / f"day={day}").mkdir(parents=True)
        for day in ("a", "b%2Fc"):
            orc.write_table(pa.table({"id": pa.array([1], pa.int32())}), root / f"day={day}/000000_0")
        assert len(repair_partitions(context, name, list, add=True, drop=False)) == 4
        found = store.list_partitions(name)
        assert [one.values for one in found] == [("a",), ("b/c",), ("empty",)]
        assert {one.location for one in found} == {f"{root}/day={day}" for day in ("a", "b%2Fc", "empty")}
        (root / "day=empty").rmdir()
        repair_partitions(context, name, list, add=False, drop=True)
        assert [one.values for one in store.list_partitions(name)] == [("a",), ("b/c",)]
    (root / "day=d" / "delta_0000001_0000001_0000").mkdir(parents=True)
    with pytest.raises(CatalogError, match=r"aborted transaction"):
        repair_partitions(context, NAMES["acid"], list, add=True, drop=False)
    context.close()

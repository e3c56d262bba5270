"""Locations in a metastore: some calls for each database, not one for each table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hiveacid.core.model import TableName
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift_structs import ExceptionMessage
from support.clock import ManualClock
from support.samples import database
from support.samples import table as sample
from support.servers.thrift_server import Answer, Server

_COUNT = 1200


class Metastore:
    """Has two databases, one of which this user may not read."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, name: str, arguments: Any) -> Any:
        self.calls.append(name)
        if name == "get_all_databases":
            return {"success": ["secret", "shop"]}
        if name == "get_database" and arguments.name == "secret":
            return {"o1": ExceptionMessage(message="no database secret")}
        if name == "get_database":
            return {"success": definitions.raw_database(replace(database(), location="/wh/shop.db"), "ann")}
        if name == "get_tables_by_type" and arguments.db_name == "secret":
            return {"success": []}
        if name == "get_tables_by_type":
            is_managed = arguments.tableType == definitions.MANAGED
            return {"success": [f"t{n}" for n in range(_COUNT)] if is_managed else []}
        if name == "get_table_objects_by_name_req":
            raws = [self._raw(one) for one in arguments.req.tblNames]
            return {"success": protocol.GetTablesResult(tables=raws)}
        if name == "get_config_value":
            return {"success": arguments.defaultValue}
        return {"success": "4.0.1" if name == "getVersion" else []}

    def _raw(self, name: str) -> Any:
        return definitions.raw_table(sample(TableName("shop", name), f"/wh/shop.db/{name}"))


def test_places_of_many_tables_take_few_calls(start: Callable[[Answer], Server]) -> None:
    metastore = Metastore()
    server = start(metastore)
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}", clock=ManualClock())
    try:
        places = {place.owner: place.location for place in store.places()}
    finally:
        store.close()
    assert len(places) == _COUNT + 1
    assert (places["database shop"], places["table shop.t7"]) == ("/wh/shop.db", "/wh/shop.db/t7")
    assert metastore.calls.count("get_table_objects_by_name_req") == 3
    assert "get_table_req" not in metastore.calls

"""New partitions of a metastore: many in one call, and never rows where nobody looks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.core.model import Partition, TxnId
from hiveacid.core.schema.storage_formats import ORC, TEXTFILE
from hiveacid.errors import UnsupportedFeatureError, WriteConflictError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.store import MetastoreStore
from support.clock import ManualClock
from support.samples import ORDERS
from support.samples import table as sample
from support.servers.thrift_server import Answer, Server

_COUNT = 1200
_NEW = [Partition((f"{day}", "a/b"), f"/wh/orders/{day}") for day in range(_COUNT)]


class Metastore:
    """Has partitions by Hive's names; ``meanwhile``: what another client adds just before our first own."""

    def __init__(
        self, there: dict[str, str], meanwhile: dict[str, str] | None = None, of_table: Any = None
    ) -> None:
        self.of_table = of_table or definitions.raw_table(sample())
        self.of_partitions: dict[str, Any] = {}  # what their storage has instead of the table's
        self.there, self.meanwhile = there, meanwhile or {}
        self.asked: list[list[str]] = []
        self.added: list[int] = []
        self.aborted: list[int] = []

    def __call__(self, name: str, arguments: Any) -> Any:
        if name == "get_table_req":
            return {"success": protocol.GetTableResult(table=self.of_table)}
        if name == "get_partitions_by_names":
            self.asked.append(arguments.names)
            return {"success": [self._raw(one) for one in arguments.names if one in self.there]}
        if name == "get_partitions":
            return {"success": [self._raw(one) for one in self.there]}
        if name == "get_partition_names":
            return {"success": list(self.there)}
        if name == "add_partitions":
            return self._add({self._name(one): one.sd.location for one in arguments.new_parts})
        if name == "commit_txn":
            return {}
        if name == "abort_txn":
            self.aborted.append(arguments.rqst.txnid)
            return {}
        if name == "get_open_txns":
            return {"success": protocol.GetOpenTxnsResponse(txn_high_water_mark=3, open_txns=[3])}
        return {"success": "4.0.1" if name == "getVersion" else []}

    def _add(self, new: dict[str, str]) -> dict[str, object]:
        self.there |= self.meanwhile
        self.added.append(len(new))
        if new.keys() & self.there.keys():
            kind = METHODS["add_partitions"].answer.thrift_spec[2][3][0]
            return {"o2": kind(message="it exists")}
        self.there |= new
        return {"success": len(new)}

    @staticmethod
    def _name(one: Any) -> str:
        return f"dt={one.values[0]}/city={one.values[1].replace('/', '%2F')}"

    def _raw(self, name: str) -> Any:
        day = name.removeprefix("dt=").partition("/")[0]
        one = Partition((day, "a/b"), self.there[name])
        raw = definitions.raw_partition(self.of_table, one, 0)
        vars(raw.sd).update(self.of_partitions)
        return raw


def _text(properties: dict[str, str]) -> Any:
    return protocol.SerDeInfo(serializationLib=TEXTFILE.serde, parameters=properties)


def _store(server: Server) -> MetastoreStore:
    return MetastoreStore(f"thrift://127.0.0.1:{server.port}", clock=ManualClock())


def test_new_ones_are_looked_for_by_name_and_added_many_at_a_time(start: Callable[[Answer], Server]) -> None:
    """Of 1,200 one is there; the others come by three calls, and nothing is asked about any other partition."""
    metastore = Metastore({"dt=7/city=a%2Fb": "file:/wh/orders/7/"})
    server = start(metastore)
    _store(server).add_partitions(ORDERS, [*_NEW, _NEW[5]])
    assert [len(names) for names in metastore.asked] == [1000, 200]
    assert metastore.added == [500, 500, 199]
    assert len(metastore.there) == _COUNT
    assert "get_partitions" not in server.calls


def test_names_are_asked_for_without_definitions(start: Callable[[Answer], Server]) -> None:
    server = start(Metastore({"dt=7/city=a%2Fb": "file:/wh/orders/7/"}))
    assert _store(server).list_partition_names(ORDERS) == {"dt=7/city=a%2Fb"}
    assert "get_partitions" not in server.calls


def test_what_another_client_adds_meanwhile_keeps_nobody_from_adding_the_others(
    start: Callable[[Answer], Server],
) -> None:
    """The call that met one is made again, one by one; his stays as it is, and the client is told where it lies."""
    metastore = Metastore({}, {"dt=3/city=a%2Fb": "file:/elsewhere"})
    with pytest.raises(WriteConflictError, match="lies in /elsewhere"):
        _store(start(metastore)).add_partitions(ORDERS, _NEW[:600])
    assert metastore.added == [500, *[1] * 500, 100]
    assert len(metastore.there) == 600
    assert metastore.there["dt=3/city=a%2Fb"] == "file:/elsewhere"


@pytest.mark.parametrize("meanwhile", [True, False])
@pytest.mark.parametrize("place", ["file:/elsewhere", "file:///wh/orders/3/"])
def test_rows_are_not_committed_to_a_place_that_nobody_reads(
    start: Callable[[Answer], Server], place: str, *, meanwhile: bool
) -> None:
    """Another client made the partition since the statement looked: before it commits, or while it adds its own."""
    other = {"dt=3/city=a%2Fb": place}
    metastore = Metastore({}, other) if meanwhile else Metastore(other)
    server = start(metastore)
    changes = CatalogChanges(partitions=tuple(NewPartition(ORDERS, one) for one in _NEW[:5]))
    if place == "file:/elsewhere":
        with pytest.raises(WriteConflictError, match=r"lies in /elsewhere: .* run the statement again"):
            _store(server).commit_txn(TxnId(3), changes)
        assert metastore.aborted == [3]
    else:
        _store(server).commit_txn(TxnId(3), changes)
    assert ("commit_txn" in server.calls) is (place != "file:/elsewhere")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"inputFormat": ORC.input_format}, True),
        ({"serdeInfo": protocol.SerDeInfo(serializationLib=ORC.serde)}, True),
        ({"serdeInfo": _text({"field.delim": ";"})}, True),
        ({"serdeInfo": _text({})}, True),
        ({"serdeInfo": _text({"FIELD.delim": ",", "path": "/x", "serialization.format": ","})}, False),
    ],
)
def test_partitions_of_another_format(
    start: Callable[[Answer], Server], change: dict[str, Any], *, refused: bool
) -> None:
    """SET SERDEPROPERTIES in Hive leaves partitions as they were: their rows must not be cut by the table's delimiter."""
    text = replace(sample(), storage=replace(TEXTFILE, serde_properties=(("field.delim", ","),)))
    metastore = Metastore({"dt=7/city=a%2Fb": "file:/wh/orders/7/"}, of_table=definitions.raw_table(text))
    metastore.of_partitions = change
    store = _store(start(metastore))
    if refused:
        with pytest.raises(
            UnsupportedFeatureError, match=r"partition dt=7/city=a%2Fb .*has another file format"
        ):
            store.list_partitions(ORDERS)
    else:
        assert [partition.values for partition in store.list_partitions(ORDERS)] == [("7", "a/b")]
    store.close()

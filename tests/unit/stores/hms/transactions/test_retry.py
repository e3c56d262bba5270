"""Answers that are lost before a commit: the step is done again, or the commit does not come about; no doubt is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from hiveacid.core.model import Partition, TxnId
from hiveacid.errors import CommitStateUnknownError, StoreError, StoreUnavailableError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Written
from hiveacid.stores.hms.catalog import definitions
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.thrift.protocol import METHODS
from hiveacid.stores.hms.thrift.structs import ExceptionMessage
from support.samples import ORDERS
from support.samples import table as sample
from support.servers.thrift_server import HANG_UP, Answer, Server

_ALWAYS = 100
NEW = replace(
    sample(ORDERS),
    name=replace(ORDERS, name="made"),
    location="/wh/made",
    properties=(("transactional", "true"),),
)
THERE = Partition(("2026-11-21", "Bern"), "/wh/orders/there")
PLACE = Partition(("2026-11-22", "Bern"), "/wh/orders/new")
WRITTEN = (Written(ORDERS, "dt=2026-11-21/city=Bern", Operation.INSERT),)
CHANGES = {
    "create_table_req": CatalogChanges(tables=(NEW,)),
    "add_partitions": CatalogChanges(partitions=(NewPartition(ORDERS, PLACE),)),
    "alter_table_req": CatalogChanges(altered=(sample(ORDERS),)),
    "alter_partitions_req": CatalogChanges(),
}


class Metastore:
    """Keeps tables by name, and loses the first answers to a call; ``deaf``: it has not carried them out either."""

    def __init__(self, loses: str, times: int, *, deaf: bool = False) -> None:
        self.loses, self.times, self.deaf = loses, times, deaf
        self.tables = {"orders": definitions.raw_table(sample(ORDERS))}
        counted = definitions.raw_partition(self.tables["orders"], THERE, 0)
        counted.parameters = {"numRows": "1"}
        self.partitions = {"dt=2026-11-21/city=Bern": counted}

    def __call__(self, name: str, arguments: Any) -> Any:
        lost = name == self.loses and self.times > 0
        self.times -= lost
        if lost and self.deaf:
            return HANG_UP
        said = self._said(name, arguments)
        return HANG_UP if lost else said

    def _said(self, name: str, arguments: Any) -> Any:
        if name == "get_table_req":
            found = self.tables.get(arguments.req.tblName)
            number = next(n for n, kind in METHODS[name].errors.items() if kind.startswith("NoSuch"))
            gone = {f"o{number}": ExceptionMessage(message="no such table")}
            return gone if found is None else {"success": protocol.GetTableResult(table=found)}
        if name == "create_table_req":
            self.tables[arguments.request.table.tableName] = arguments.request.table
            return {}
        if name.startswith("drop_table"):
            del self.tables[arguments.name]
            return {}
        if name == "allocate_table_write_ids":
            given = protocol.TxnToWriteId(txnId=arguments.rqst.txnIds[0], writeId=7)
            return {"success": protocol.AllocateTableWriteIdsResponse(txnToWriteIds=[given])}
        if name == "get_partitions_by_names":
            return {"success": [self.partitions[one] for one in arguments.names if one in self.partitions]}
        if name == "add_partitions":
            self.partitions["dt=2026-11-22/city=Bern"] = arguments.new_parts[0]
        values = {
            "getVersion": "4.0.1",
            "get_config_value": "",
            "add_partitions": 1,
            "get_database": protocol.Database(name="shop", locationUri="/wh"),
            "alter_table_req": protocol.AlterTableResponse(),
        }
        return {"success": values.get(name, [])} if name in values or name.startswith("get_") else {}


def committed(start: Callable[[Answer], Server], metastore: Metastore, changes: CatalogChanges) -> Server:
    server = start(metastore)
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}?timeout=20")
    try:
        store.commit_txn(TxnId(3), changes, WRITTEN)
    except BaseException:
        assert "commit_txn" not in server.calls
        raise
    finally:
        store.close()
    return server


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("call", CHANGES)
def test_a_step_whose_answer_was_lost_is_done_again(
    start: Callable[[Answer], Server], call: str, *, deaf: bool
) -> None:
    metastore = Metastore(call, 1, deaf=deaf)
    server = committed(start, metastore, CHANGES[call])
    assert server.calls[-1] == "commit_txn"
    assert metastore.times == 0
    assert ("made" in metastore.tables) == (call == "create_table_req")


@pytest.mark.parametrize("call", CHANGES)
def test_without_an_answer_nothing_is_committed_and_the_error_says_so(
    start: Callable[[Answer], Server], call: str
) -> None:
    metastore = Metastore(call, _ALWAYS, deaf=True)
    with pytest.raises(StoreUnavailableError, match="nothing was committed"):
        committed(start, metastore, CHANGES[call])
    assert sorted(metastore.tables) == ["orders"]


def test_a_table_goes_again_where_a_later_step_has_no_answer(start: Callable[[Answer], Server]) -> None:
    metastore = Metastore("add_partitions", _ALWAYS, deaf=True)
    both = replace(CHANGES["add_partitions"], tables=(NEW,))
    with pytest.raises(StoreUnavailableError):
        committed(start, metastore, both)
    assert sorted(metastore.tables) == ["orders"]


@pytest.mark.parametrize(
    ("open_txns", "expected"), [((), None), ((3,), StoreError), (None, CommitStateUnknownError)]
)
def test_an_internal_error_may_come_after_the_commit(
    start: Callable[[Answer], Server], open_txns: tuple[int, ...] | None, expected: type[Exception] | None
) -> None:
    """A listener of the metastore fails: whether rows are committed, only the transaction's state tells."""
    failure = TApplicationException(
        TApplicationException.INTERNAL_ERROR, "Internal error processing commit_txn"
    )

    def answer(name: str, _: Any) -> Any:
        if name == "commit_txn" or (name == "get_open_txns" and open_txns is None):
            return failure
        if name == "get_open_txns":
            txns = protocol.GetOpenTxnsResponse(txn_high_water_mark=3, open_txns=list(open_txns or ()))
            return {"success": txns}
        return {"success": "4.0.1" if name == "getVersion" else ""} if name.startswith("get") else {}

    store = MetastoreStore(f"thrift://127.0.0.1:{start(answer).port}?timeout=20")
    with pytest.raises(expected) if expected else nullcontext() as raised:
        store.commit_txn(TxnId(3))
    assert raised is None or type(raised.value) is expected
    store.close()

"""Answers that are lost before a commit: the step is done again, or the commit does not come about; no doubt is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from hiveacid.config import Settings
from hiveacid.core.model import Partition, TableName, TxnId
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    StoreError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Written
from hiveacid.stores.hms import commit_steps, definitions, protocol
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift_structs import ExceptionMessage
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
NEW_TABLES = {
    "create_table_req": CatalogChanges(tables=(NEW,)),
    "add_partitions": CatalogChanges(partitions=(NewPartition(ORDERS, PLACE),)),
    "alter_table_req": CatalogChanges(altered=(sample(ORDERS),)),
    "alter_partitions_req": CatalogChanges(),
}


class ForgetfulMetastore:
    """Keeps tables by name, and loses the first answers to a call; ``deaf``: it has not carried them out either."""

    def __init__(self, loses: str, times: int, *, deaf: bool = False) -> None:
        self.loses, self.times, self.deaf = loses, times, deaf
        self.is_open = True  # transaction 3
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
        if name == "get_open_txns":
            open_ids = [3] if self.is_open else []
            return {"success": protocol.GetOpenTxnsResponse(txn_high_water_mark=3, open_txns=open_ids)}
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


def committed(
    start: Callable[[Answer], Server], metastore: ForgetfulMetastore, changes: CatalogChanges
) -> Server:
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
@pytest.mark.parametrize("call", NEW_TABLES)
def test_a_step_whose_answer_was_lost_is_done_again(
    start: Callable[[Answer], Server], call: str, *, deaf: bool
) -> None:
    metastore = ForgetfulMetastore(call, 1, deaf=deaf)
    server = committed(start, metastore, NEW_TABLES[call])
    assert server.calls[-1] == "commit_txn"
    assert metastore.times == 0
    assert ("made" in metastore.tables) == (call == "create_table_req")


@pytest.mark.parametrize("call", NEW_TABLES)
def test_without_an_answer_nothing_is_committed_and_the_error_says_so(
    start: Callable[[Answer], Server], call: str
) -> None:
    metastore = ForgetfulMetastore(call, _ALWAYS, deaf=True)
    with pytest.raises(StoreUnavailableError, match="nothing was committed"):
        committed(start, metastore, NEW_TABLES[call])
    assert sorted(metastore.tables) == ["orders"]


def test_a_table_goes_again_where_a_later_step_has_no_answer(start: Callable[[Answer], Server]) -> None:
    metastore = ForgetfulMetastore("add_partitions", _ALWAYS, deaf=True)
    both = replace(NEW_TABLES["add_partitions"], tables=(NEW,))
    with pytest.raises(StoreUnavailableError):
        committed(start, metastore, both)
    assert sorted(metastore.tables) == ["orders"]


class _Slow(ForgetfulMetastore):
    """Does not answer to a call until the client's transaction has timed out, and another client has made the table anew."""

    def _said(self, name: str, arguments: Any) -> Any:
        if name == "add_partitions":
            self.tables["made"] = definitions.raw_table(NEW)
            self.tables["made"].id = 8
            number = next(n for n, kind in METHODS[name].errors.items() if kind == "MetaException")
            return {f"o{number}": ExceptionMessage(message="too late")}
        said = super()._said(name, arguments)
        if name == "create_table_req":
            self.tables["made"].id = 7
        return said


def test_a_table_that_another_client_has_made_since_stays(start: Callable[[Answer], Server]) -> None:
    metastore = _Slow("", 0)
    with pytest.raises(StoreError, match="too late"):
        committed(start, metastore, replace(NEW_TABLES["add_partitions"], tables=(NEW,)))
    assert metastore.tables["made"].id == 8


@pytest.mark.parametrize("call", ["create_table_req", "alter_table_req"])
def test_a_transaction_that_has_timed_out_changes_no_definition(
    start: Callable[[Answer], Server], call: str
) -> None:
    """It has lost its lock, and what it would put there is older than what another client has put there since."""
    metastore = ForgetfulMetastore("", 0)
    metastore.is_open = False
    server = start(metastore)
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}?timeout=20")
    with pytest.raises(TransactionAbortedError):
        store.commit_txn(TxnId(3), NEW_TABLES[call])
    store.close()
    assert call not in server.calls
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


PLAIN = TableName("shop", "plain")
_NEW = ("2026-11-22", "Zürich")
_PATHS = (
    "/wh/orders/dt=x/city=y/delta_0000007_0000007_0000/bucket_00000",
    "/wh/orders/base_0000007/bucket_00001",
)
FILES = (
    NewFiles(ORDERS, ("2026-11-21", None), _PATHS[:1]),
    NewFiles(ORDERS, ("2026-11-21", None), _PATHS, replaced=True),
    NewFiles(ORDERS, _NEW, ("/wh/orders/new/delta_0000007_0000007_0000/bucket_00000",)),
    NewFiles(ORDERS, ("2026-11-20", "Bern"), ()),
    NewFiles(PLAIN, (), ("/wh/plain/000000_0",)),
)
CHANGES = CatalogChanges(partitions=(NewPartition(ORDERS, Partition(_NEW, "/wh/orders/new")),), files=FILES)


class ListenedMetastore:
    """Answers what a commit asks for; ``said``: the requests that are not about the catalog."""

    def __init__(self, version: str, events: str, *, failing: bool = False) -> None:
        self.version, self.events, self.failing = version, events, failing
        self.said: list[tuple[str, Any]] = []

    def __call__(self, name: str, arguments: Any) -> Any:
        if name in ("fire_listener_event", "add_write_notification_log", "commit_txn"):
            self.said.append((name, arguments.rqst))
            return TApplicationException(message="no disk") if self.failing else {}
        if name == "get_table_req":
            wanted = TableName(arguments.req.dbName, arguments.req.tblName)
            made = definitions.raw_table(sample(wanted))
            if wanted == PLAIN:
                made.parameters, made.partitionKeys = {}, []
            return {"success": protocol.GetTableResult(table=made)}
        if name == "allocate_table_write_ids":
            given = protocol.TxnToWriteId(txnId=arguments.rqst.txnIds[0], writeId=7)
            return {"success": protocol.AllocateTableWriteIdsResponse(txnToWriteIds=[given])}
        values = {"getVersion": self.version, "get_config_value": self.events, "add_partitions": 1}
        return {"success": values.get(name, [])}


def _committed(server: Server, events: str | None = None) -> None:
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}")
    if events is not None:
        store.apply_settings(Settings.of({"hive.metastore.dml.events": events}))
    try:
        store.commit_txn(TxnId(3), CHANGES)
    finally:
        store.close()


def test_hive_4_hears_of_transactional_files_with_their_write_id(start: Callable[[Answer], Server]) -> None:
    metastore = ListenedMetastore("4.0.1", "true")
    _committed(start(metastore))
    kinds = [name for name, _ in metastore.said]
    assert kinds == ["add_write_notification_log"] * 2 + ["fire_listener_event", "commit_txn"]
    first, second, plain = (request for _, request in metastore.said[:3])
    assert (first.txnId, first.writeId, first.db, first.table) == (3, 7, "shop", "orders")
    assert first.partitionVals == ["2026-11-21", "__HIVE_DEFAULT_PARTITION__"]
    assert first.fileInfo.filesAdded == [f"file:{path}" for path in _PATHS]
    assert first.fileInfo.filesAddedChecksum == ["", ""]
    assert first.fileInfo.subDirectoryList == ["delta_0000007_0000007_0000", "base_0000007"]
    assert second.partitionVals == list(_NEW)
    assert plain.partitionVals is None
    assert plain.data.insertData.filesAdded == ["file:/wh/plain/000000_0"]
    assert (plain.data.insertData.replace, plain.data.insertData.subDirectoryList) == (False, None)


def test_hive_3_hears_of_inserts_but_not_into_new_partitions(start: Callable[[Answer], Server]) -> None:
    metastore = ListenedMetastore("3.0", "true")
    _committed(start(metastore))
    assert [name for name, _ in metastore.said] == ["fire_listener_event"] * 2 + ["commit_txn"]
    event = metastore.said[0][1]
    assert (event.successful, event.data.insertData.replace) == (True, False)  # a base, as Hive says it
    assert event.partitionVals == ["2026-11-21", "__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("false", None, False),
        ("", None, False),
        ("TRUE", None, True),
        ("true", "false", False),
        ("false", "true", True),
    ],
)
def test_the_metastore_is_asked_unless_the_session_says(
    start: Callable[[Answer], Server], theirs: str, ours: str, *, told: bool
) -> None:
    metastore = ListenedMetastore("4.0.1", theirs)
    _committed(start(metastore), ours)
    assert (len(metastore.said) > 1, metastore.said[-1][0]) == (told, "commit_txn")


def test_what_cannot_be_told_is_not_committed(start: Callable[[Answer], Server]) -> None:
    metastore = ListenedMetastore("4.0.1", "true", failing=True)
    with pytest.raises(HiveAcidError, match="no disk"):
        _committed(start(metastore))
    assert [name for name, _ in metastore.said] == ["add_write_notification_log"]


def test_a_table_that_is_called_like_a_directory_of_rows() -> None:
    (place,) = commit_steps.group_by_partition(
        [NewFiles(PLAIN, (), ("/wh/base_camp/x/000000_0", "/wh/base_camp/x/000000_0"))]
    )
    assert place[2].paths == ("/wh/base_camp/x/000000_0",)
    assert commit_steps._acid_directory("/wh/base_camp/x/000000_0") is None
    assert commit_steps._acid_directory("/wh/base_camp/delta_1_1_0/sub/000000_0") == "delta_1_1_0"


@pytest.mark.parametrize("version", ["3.1.3", "3.1.3000.7.1.9.0-387", "4.0.1"])
def test_whoever_knows_of_it_is_told_to_look_for_conflicts(
    start: Callable[[Answer], Server], version: str
) -> None:
    """Vendors' builds of "3.1" look for none where they are not told."""
    metastore = ListenedMetastore(version, "false")
    _committed(start(metastore))
    assert [request.exclWriteEnabled for name, request in metastore.said if name == "commit_txn"] == [False]

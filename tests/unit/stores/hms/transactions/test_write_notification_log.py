"""What a metastore is told of files before a commit, and that a commit does not come about where that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from hiveacid.config import Settings
from hiveacid.core.model import Partition, TableName, TxnId
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.errors import HiveAcidError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.stores.hms.catalog import definitions
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.transactions import write_notification_log
from support.samples import ORDERS
from support.samples import table as sample
from support.servers.thrift_server import Answer, Server

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


class Metastore:
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
    metastore = Metastore("4.0.1", "true")
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
    metastore = Metastore("3.0", "true")
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
    metastore = Metastore("4.0.1", theirs)
    _committed(start(metastore), ours)
    assert (len(metastore.said) > 1, metastore.said[-1][0]) == (told, "commit_txn")


def test_what_cannot_be_told_is_not_committed(start: Callable[[Answer], Server]) -> None:
    metastore = Metastore("4.0.1", "true", failing=True)
    with pytest.raises(HiveAcidError, match="no disk"):
        _committed(start(metastore))
    assert [name for name, _ in metastore.said] == ["add_write_notification_log"]


def test_a_table_that_is_called_like_a_directory_of_rows() -> None:
    (place,) = write_notification_log.group_by_partition(
        [NewFiles(PLAIN, (), ("/wh/base_camp/x/000000_0", "/wh/base_camp/x/000000_0"))]
    )
    assert place[2].paths == ("/wh/base_camp/x/000000_0",)
    assert write_notification_log._acid_directory("/wh/base_camp/x/000000_0") is None
    assert write_notification_log._acid_directory("/wh/base_camp/delta_1_1_0/sub/000000_0") == "delta_1_1_0"


@pytest.mark.parametrize("version", ["3.1.3", "3.1.3000.7.1.9.0-387", "4.0.1"])
def test_whoever_knows_of_it_is_told_to_look_for_conflicts(
    start: Callable[[Answer], Server], version: str
) -> None:
    """Vendors' builds of "3.1" look for none where they are not told."""
    metastore = Metastore(version, "false")
    _committed(start(metastore))
    assert [request.exclWriteEnabled for name, request in metastore.said if name == "commit_txn"] == [False]

"""What a commit tells a metastore of its counts: that they hold no more, and with Hive 4 since which write id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hiveacid.core.model import Partition, TxnId
from hiveacid.core.transactions.locks import LockType
from hiveacid.ports.transactions import Operation
from hiveacid.stores.hms.catalog import definitions
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift import protocol
from support.clock import ManualClock
from support.samples import ORDERS, lock_on, wrote
from support.samples import table as sample
from support.servers.thrift_server import HANG_UP, Answer, Server

_MARKED = {"numRows": "5", definitions.ACCURATE: '{"BASIC_STATS":"true"}', "kept": "1"}


class Metastore:
    """Has one table, with one partition or none; ``lose``: answers to changes that get lost."""

    def __init__(self, version: str, *, partitioned: bool, marked: bool, lose: int = 0) -> None:
        made = sample()
        self.version, self.lose = version, lose
        self.table = definitions.raw_table(made if partitioned else replace(made, partition_columns=()))
        one = Partition(("1", "oslo"), "file:/wh/orders/1")
        self.partition = definitions.raw_partition(self.table, one, 0)
        if marked:
            holder = self.partition if partitioned else self.table
            holder.parameters = dict(holder.parameters) | _MARKED
        self.said: list[tuple[str, Any]] = []

    def __call__(self, name: str, arguments: Any) -> Any:
        if name == "get_table_req":
            return {"success": protocol.GetTableResult(table=self.table)}
        if name == "get_partitions_by_names":
            return {"success": [self.partition]}
        if name.startswith("alter_"):
            self.said.append((name, arguments))
            self.lose -= 1
            return HANG_UP if self.lose >= 0 else {}
        if name == "allocate_table_write_ids":
            given = protocol.TxnToWriteId(txnId=arguments.rqst.txnIds[0], writeId=7)
            return {"success": protocol.AllocateTableWriteIdsResponse(txnToWriteIds=[given])}
        if name == "lock":
            return {"success": protocol.LockResponse(lockid=1, state=1)}
        return {"success": self.version} if name == "getVersion" else {}


def _committed(server: Server, partition: str | None) -> None:
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}", clock=ManualClock())
    store.commit_txn(TxnId(3), written=[wrote(ORDERS, Operation.INSERT, partition)])
    store.close()


def test_hive_4_keeps_the_writers_id_with_a_table(start: Callable[[Answer], Server]) -> None:
    """Even where no count is: one that is under way would be believed. The last word before the commit."""
    for marked in (True, False):
        metastore = Metastore("4.0.1", partitioned=False, marked=marked)
        server = start(metastore)
        _committed(server, None)
        ((name, arguments),) = metastore.said
        assert (name, arguments.req.writeId, arguments.req.table.writeId) == ("alter_table_req", 7, 7)
        assert arguments.req.validWriteIdList.startswith("shop.orders:7:")
        assert not arguments.req.table.parameters.keys() & {"numRows", definitions.ACCURATE}
        assert arguments.req.table.parameters.get("kept") == ("1" if marked else None)
        assert server.calls[-2:] == ["alter_table_req", "commit_txn"]


def test_hive_4_keeps_the_writers_id_with_the_partitions_written(start: Callable[[Answer], Server]) -> None:
    """In one call, and the table, of which Hive keeps no count then, is left alone."""
    metastore = Metastore("4.0.1", partitioned=True, marked=False)
    _committed(start(metastore), "dt=1/city=oslo")
    ((name, arguments),) = metastore.said
    assert (name, arguments.req.writeId) == ("alter_partitions_req", 7)
    assert arguments.req.validWriteIdList.startswith("shop.orders:7:")
    assert [one.writeId for one in arguments.req.partitions] == [7]


def test_hive_3_hears_of_a_change_where_a_count_is(start: Callable[[Answer], Server]) -> None:
    """It keeps no write ids."""
    for partition in (None, "dt=1/city=oslo"):
        metastore = Metastore("3.1.3", partitioned=partition is not None, marked=True)
        _committed(start(metastore), partition)
        assert len(metastore.said) == 1
        metastore = Metastore("3.1.3", partitioned=partition is not None, marked=False)
        _committed(start(metastore), partition)
        assert metastore.said == []


def test_a_lost_answer_leaves_no_doubt(start: Callable[[Answer], Server]) -> None:
    """The same is said once more, and then the transaction commits."""
    for partition in (None, "dt=1/city=oslo"):
        metastore = Metastore("4.0.1", partitioned=partition is not None, marked=True, lose=1)
        server = start(metastore)
        _committed(server, partition)
        assert len(metastore.said) == 2
        assert server.calls[-1] == "commit_txn"


def test_a_count_that_came_while_we_waited_for_a_plain_table_goes_too(
    start: Callable[[Answer], Server],
) -> None:
    """Plain tables have no write ids: what is believed is what was said last."""
    metastore = Metastore("4.0.1", partitioned=False, marked=True)
    metastore.table.parameters.pop("transactional")
    server = start(metastore)
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}", clock=ManualClock())
    store.lock(TxnId(3), [replace(lock_on(LockType.EXCL_WRITE, "orders"), operation=Operation.INSERT)])
    assert len(metastore.said) == 1
    store.commit_txn(TxnId(3))
    assert [arguments.req.writeId for _, arguments in metastore.said] == [None, None]
    assert server.calls[-2:] == ["alter_table_req", "commit_txn"]
    store.commit_txn(TxnId(3))
    assert len(metastore.said) == 2
    store.close()

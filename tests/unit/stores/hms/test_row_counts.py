"""What a commit tells a metastore of its counts: the rows that it added, and with Hive 4 since which write id."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.core.model import Partition, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import TransactionAbortedError
from hiveacid.ports.transactions import Operation
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift_structs import ExceptionMessage
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
            self.counted.parameters = dict(self.counted.parameters) | _MARKED
        self.said: list[tuple[str, Any]] = []
        self.takes = 0.0  # seconds to look at a table
        self.lock_state = 1  # acquired; 2: waiting
        self.refuses: dict[str, str] | None = None  # the commit, after others have changed these parameters

    @property
    def counted(self) -> Any:
        """The definition with the count."""
        return self.partition if self.table.partitionKeys else self.table

    def __call__(self, name: str, arguments: Any) -> Any:
        if name == "get_table_req":
            time.sleep(self.takes)
            return {"success": protocol.GetTableResult(table=self.table)}
        if name == "get_partitions_by_names":
            there = "dt=1/city=oslo" in arguments.names
            return {"success": [self.partition] if there else []}
        if name == "get_database":
            return {"success": protocol.Database(name="shop", locationUri="/wh")}
        if name in ("create_table_req", "add_partitions"):
            self.said.append((name, arguments))
            return {} if name == "create_table_req" else {"success": 1}
        if name.startswith("alter_"):
            self.said.append((name, arguments))
            if name == "alter_table_req":
                self.table = arguments.req.table
            elif name == "alter_partitions_req":
                (self.partition,) = arguments.req.partitions
            self.lose -= 1
            return HANG_UP if self.lose >= 0 else {}
        if name == "commit_txn" and self.refuses is not None:
            self.counted.parameters = self.counted.parameters | self.refuses
            return {"o2": ExceptionMessage(message="aborted")}
        if name == "allocate_table_write_ids":
            txn_id = arguments.rqst.txnIds[0]
            given = protocol.TxnToWriteId(txnId=txn_id, writeId=txn_id + 4)
            return {"success": protocol.AllocateTableWriteIdsResponse(txnToWriteIds=[given])}
        if name in ("lock", "check_lock"):
            return {"success": protocol.LockResponse(lockid=1, state=self.lock_state)}
        if name == "show_locks":
            return {"success": protocol.ShowLocksResponse(locks=[])}
        return {"success": self.version} if name == "getVersion" else {}


def _committed(
    server: Server, partition: str | None, *changes: tuple[int | None, bool], txn: int = 3
) -> None:
    """Commit writes that add some rows each, or replace all rows by some."""
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}", clock=ManualClock())
    wrote_rows = [
        replace(wrote(ORDERS, Operation.INSERT, partition), rows=rows, replaced=replaced)
        for rows, replaced in changes or [(None, False)]
    ]
    try:
        store.commit_txn(TxnId(txn), written=wrote_rows)
    finally:
        store.close()


@pytest.mark.parametrize("partition", [None, "dt=1/city=oslo"])
@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("5", [(3, False)], "8"),
        ("5", [(-5, False)], "0"),
        ("5", [(2, False), (-1, False)], "6"),  # two statements of one transaction
        ("5", [(2, True)], "2"),
        (None, [(2, True)], "2"),
        ("5", [(7, True), (1, False)], "8"),
        ("5", [(None, False), (4, True)], "4"),
        ("5", [(None, False)], None),
        ("5", [(1, False), (None, False)], None),
        (None, [(2, False)], None),
        ("5", [(-6, False)], None),
        ("-1", [(2, False)], None),
        ("many", [(2, False)], None),
    ],
)
def test_a_count_goes_on_from_the_one_before(
    start: Callable[[Answer], Server],
    partition: str | None,
    before: str | None,
    changes: list[tuple[int | None, bool]],
    after: str | None,
) -> None:
    metastore = Metastore("4.0.1", partitioned=partition is not None, marked=True)
    metastore.counted.parameters |= {"rawDataSize": "9", "numRows": before or ""}
    if before is None:
        del metastore.counted.parameters["numRows"]
    _committed(start(metastore), partition, *changes)
    found = metastore.counted.parameters
    assert (found.get("numRows"), found["kept"]) == (after, "1")
    assert not found.keys() & {"rawDataSize", definitions.ACCURATE}


@pytest.mark.parametrize("partition", [None, "dt=1/city=oslo"])
def test_a_commit_that_is_refused_takes_its_rows_back(
    start: Callable[[Answer], Server], partition: str | None
) -> None:
    """Unless others counted the rows since, which their mark says; rows that others added stay."""
    for changes, others, after in (
        ([(3, False)], {}, "5"),
        ([(0, True)], {}, "5"),
        ([(3, False)], {"numRows": "10"}, "7"),
        ([(3, False)], {"numRows": "10", definitions.ACCURATE: "{}"}, "10"),
    ):
        metastore = Metastore("4.0.1", partitioned=partition is not None, marked=True)
        metastore.refuses = others
        with pytest.raises(TransactionAbortedError):
            _committed(start(metastore), partition, *changes)
        assert metastore.counted.parameters["numRows"] == after


def test_threads_that_commit_at_once_add_all_their_rows(start: Callable[[Answer], Server]) -> None:
    metastore = Metastore("4.0.1", partitioned=False, marked=True)
    metastore.takes = 0.02
    store = MetastoreStore(f"thrift://127.0.0.1:{start(metastore).port}", clock=ManualClock())
    write = replace(wrote(ORDERS, Operation.INSERT), rows=1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda txn_id: store.commit_txn(TxnId(txn_id), written=[write]), range(10, 18)))
    assert metastore.table.parameters["numRows"] == "13"
    store.close()


def test_a_new_table_and_a_new_partition_begin_with_a_count(start: Callable[[Answer], Server]) -> None:
    """Hive 4 counts an empty directory itself; files of a transaction that has not committed are not empty."""
    metastore = Metastore("4.0.1", partitioned=True, marked=False)
    store = MetastoreStore(f"thrift://127.0.0.1:{start(metastore).port}", clock=ManualClock())
    flat = replace(sample(), partition_columns=())
    store.create_table(flat)
    store.create_table(flat, empty=True)
    store.create_table(sample())
    asked, filled, parts = (arguments.request.table for _, arguments in metastore.said)
    assert asked.dictionary.values == {"setStatsStateForCreateTable": [b'{"enabled":true}']}
    assert (asked.parameters.get("numRows"), filled.parameters["numRows"]) == (None, "0")
    assert parts.dictionary is None
    new = Partition(("2", "oslo"), "/wh/orders/2")
    store.add_partitions(ORDERS, [new])
    store.add_partitions(ORDERS, [new], empty=True)
    found = [arguments.new_parts[0].parameters.get("numRows") for _, arguments in metastore.said[3:]]
    assert found == [None, "0"]
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
        _committed(server, partition, (3, False))
        assert len(metastore.said) == 1  # the second look finds the own write id, so the rows are there
        assert metastore.counted.parameters["numRows"] == "8"
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
    metastore.table.parameters |= _MARKED
    store.commit_txn(TxnId(3))
    assert [arguments.req.writeId for _, arguments in metastore.said] == [None, None]
    assert server.calls[-2:] == ["alter_table_req", "commit_txn"]
    store.commit_txn(TxnId(3))
    assert len(metastore.said) == 2
    store.close()


def test_a_definition_that_another_client_alters_is_left_alone_without_the_lock(
    start: Callable[[Answer], Server],
) -> None:
    """The count goes with the whole definition, and would have taken back a column that ALTER TABLE was just adding."""
    metastore = Metastore("4.0.1", partitioned=False, marked=True)
    metastore.table.parameters.pop("transactional")
    metastore.lock_state = 2
    store = MetastoreStore(f"thrift://127.0.0.1:{start(metastore).port}", clock=ManualClock())
    answer = store.lock(
        TxnId(3), [replace(lock_on(LockType.EXCL_WRITE, "orders"), operation=Operation.INSERT)]
    )
    store.check_lock(answer.lock_id)
    assert metastore.said == []
    metastore.table.sd.cols.append(protocol.FieldSchema(name="added", type="int"))
    metastore.lock_state = 1
    store.check_lock(answer.lock_id)
    assert [column.name for column in metastore.said[0][1].req.table.sd.cols][-1] == "added"
    assert "numRows" not in metastore.table.parameters
    store.close()

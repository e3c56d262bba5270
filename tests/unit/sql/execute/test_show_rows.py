from __future__ import annotations

import pytest

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import TableName, TxnId
from hiveacid.errors import StatementError
from hiveacid.ports.transactions import TransactionRow
from hiveacid.sql.execute.show_rows import sorted_compactions, sorted_transactions

TRANSACTIONS = [
    TransactionRow(TxnId(number), state, started, started, user, "h")
    for number, state, started, user in [(9, "OPEN", 5, "b"), (10, "ABORTED", 5, "a"), (2, "OPEN", 7, "a")]
]
JOBS = [
    Compaction(number, CompactionRequest(TableName("d", name), None, "major"), "working", started=started)
    for number, name, started in [(9, "b", None), (10, "a", 3), (2, "a", 4)]
]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("txnid", [2, 9, 10]),
        ("TXNID desc", [10, 9, 2]),
        ("startedtime DESC, `user`", [2, 10, 9]),
        ("state, startedtime desc", [10, 2, 9]),
    ],
)
def test_transactions_are_sorted_by_numbers_and_texts(order: str, ids: list[int]) -> None:
    assert [txn.txn_id for txn in sorted_transactions(TRANSACTIONS, order)] == ids


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("starttime", [9, 10, 2]),
        ("cq_start DESC", [2, 10, 9]),
        ("tabname, compactionid DESC", [10, 2, 9]),
    ],
)
def test_compactions_without_a_value_come_first(order: str, ids: list[int]) -> None:
    assert [job.id for job in sorted_compactions(JOBS, order)] == ids


@pytest.mark.parametrize("order", ["nope", "txnid + 1", "txnid sideways", ""])
def test_an_unknown_order_names_the_columns(order: str) -> None:
    with pytest.raises(
        StatementError, match=r"SHOW TRANSACTIONS cannot be ordered .*: its columns are txnid, state"
    ):
        sorted_transactions(TRANSACTIONS, order)

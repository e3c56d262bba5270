"""ORDER BY of a rebalance cannot drop rows or run code: not from a statement, and not from the queue (issue 20, 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.errors import ParseError, StatementError
from hiveacid.services.steps import Worker

if TYPE_CHECKING:
    from hiveacid import AcidSession

_HOSTILE = (
    "a DESC LIMIT 1",
    "a OFFSET 4",
    "java_method('java.lang.System', 'setProperty', 'hiveacid.hostile', 'ran')",
    "a, (SELECT max(a) FROM t)",
)


def test_rebalance_order_takes_columns_only(acid: AcidSession) -> None:
    """COMPACT refuses the clause before it queues it; the worker does with one that another client queued."""
    acid.sql("CREATE TABLE t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    for part in ("(1), (2), (NULL)", "(4), (5)"):
        acid.sql(f"INSERT INTO t VALUES {part}")
    table, store = acid.table("t"), acid.context.store
    for order in _HOSTILE:
        with pytest.raises(ParseError, match="takes columns"):
            acid.sql(f"ALTER TABLE t COMPACT 'rebalance' ORDER BY {order} AND WAIT")
        with pytest.raises(StatementError, match="takes columns"):
            table.compact("rebalance", order_by=order)
        assert not store.show_compactions()
    for order in _HOSTILE:
        store.enqueue_compaction(
            CompactionRequest(table.name, None, "rebalance", order_by=order), "another client"
        )
        report = Worker(acid.context, "worker").step()
        assert report is not None
        assert report.state == "failed"
        assert "takes columns" in report.reason
    properties = acid.context.env.spark.sql("SELECT reflect('java.lang.System', 'getProperties')").first()
    assert properties is not None
    assert "hiveacid.hostile" not in properties[0]
    store.enqueue_compaction(
        CompactionRequest(table.name, None, "rebalance", order_by="a DESC NULLS FIRST"), "x"
    )
    report = Worker(acid.context, "worker").step()
    assert report is not None
    assert report.state == "ready for cleaning"
    ordered = acid.sql("SELECT a FROM t ORDER BY ROW__ID.rowid").collect()
    assert [row[0] for row in ordered] == [None, 5, 4, 2, 1]

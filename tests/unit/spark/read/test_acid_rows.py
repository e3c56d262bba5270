"""Expressions of a scan of ACID files."""

from __future__ import annotations

from hiveacid.spark.read.acid_rows import EVENT_COLUMNS


def test_a_row_without_an_operation_takes_its_kind_from_the_bucket() -> None:
    """A bucket property is 536870912 or more, which is no event; a write id may be 0 or 1, an insert or an update."""
    assert EVENT_COLUMNS == "operation, bucket, originalTransaction, rowId, currentTransaction"

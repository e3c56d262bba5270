"""Which table a name means while a transaction reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hiveacid
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.errors import WriteConflictError
from hiveacid.stores.clock import SystemClock
from hiveacid.table.read.visible_locations import require_same_table
from support.samples import ORC

T = TableName("default", "t")


def test_a_table_that_is_dropped_and_created_again_within_a_second_is_another_one(tmp_path: Path) -> None:
    """Its directories may have the same names, and the old write ids would show rows that are not committed."""
    open_store(str(tmp_path), None, Settings(), SystemClock())[0].close()
    with hiveacid.open(str(tmp_path)) as warehouse:
        context = warehouse.context
        made = TableDefinition(
            T,
            (Column("id", "int"),),
            ORC,
            str(tmp_path / "t"),
            properties=(("transactional", "true"),),
            created_at=7,
        )
        context.catalog.create_table(made)
        reader, later = (context.transactions.begin(context.settings) for _ in range(2))
        table = context.require(T)
        require_same_table(context, table, reader)
        context.catalog.drop_table(T)
        context.catalog.create_table(made)
        with pytest.raises(WriteConflictError, match="was dropped, renamed or replaced"):
            require_same_table(context, table, reader)
        assert reader.outdated
        with pytest.raises(WriteConflictError):  # nor does it read the new one
            require_same_table(context, context.require(T), reader)
        require_same_table(context, context.require(T), later)
        for txn in (reader, later):
            txn.abort("test")

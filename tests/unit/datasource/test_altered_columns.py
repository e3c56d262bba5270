"""A streaming query over ALTER TABLE: it stops with the reason, and the next one reads older rows under the new names."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.catalog.alter_table import alter_columns
from hiveacid.catalog.ddl import create_table
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.evolution import ColumnChange, change_column
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.datasource.data_source import HiveAcidDataSource
from hiveacid.errors import SchemaMismatchError
from support.contexts import open_context

T = TableName("default", "t")


@pytest.mark.parametrize("changes", ["false", "true"])
def test_a_query_ends_with_the_reason_and_can_begin_again(tmp_path: Path, changes: str) -> None:
    context = open_context(tmp_path)
    columns = (Column("a", "int"), Column("b", "int"))
    create_table(context, TableDefinition(T, columns, ORC, "", properties=(("transactional", "true"),)))
    with hiveacid.open(context.warehouse) as warehouse:
        warehouse.table("t").append(pa.table({"a": [1, 2], "b": [10, 20]}))
    options = {"table": "t", "warehouse": context.warehouse, "starting": "earliest", "changes": changes}
    source = HiveAcidDataSource(options)
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = (
        reader.latestOffset(start, None)
        if hasattr(reader, "prepareForTriggerAvailableNow")
        else reader.latestOffset()
    )
    assert len(reader.partitions(start, end)) == 1
    # a becomes b and b becomes a: a query that went on would mix them up
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        alter_columns(context, T, partial(change_column, change=ColumnChange(old, new)))
    with pytest.raises(
        SchemaMismatchError, match=r"has the columns b int, a int, .*start a streaming query again"
    ):
        reader.partitions(start, end)
    reader.stop()
    source = HiveAcidDataSource(options)
    reader = source.streamReader(source.schema())
    (part,) = reader.partitions(start, end)
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    reader.stop()
    assert [(row["b"], row["a"]) for row in rows] == [(1, 10), (2, 20)]
    context.close()

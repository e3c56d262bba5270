"""A table that is replaced by rows read from it keeps what others commit while these rows are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import hiveacid
from hiveacid.catalog.ddl import create_table
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import WriteConflictError
from hiveacid.sql.execute import catalog_statements
from hiveacid.sql.statements import TableRef
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.streaming import Connection
from support.contexts import open_context

T = TableName("default", "t")


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reads: bool, commits: bool
) -> None:
    context = open_context(tmp_path)
    table = TableDefinition(T, (Column("id", "int"),), ORC, "", properties=(("transactional", "true"),))
    create_table(context, table)

    def write_new(execution: Any, content: TableDefinition, frame: Any) -> None:
        del frame
        create_table(execution.context, content)  # and its rows, by Spark
        if commits:
            with Connection("t", warehouse=str(tmp_path)) as other, other.transaction():
                other.write([{"id": 1}])

    wider = (Column("id", "int"), Column("more", "int"))
    monkeypatch.setattr(catalog_statements, "hive_columns_of", lambda _: wider)
    monkeypatch.setattr(catalog_statements, "reads_table", lambda *_: reads)
    monkeypatch.setattr(catalog_statements, "write_new", write_new)

    def replace() -> None:
        statement = CreateTable(TableRef(None, "t"))
        catalog_statements.replace_with(Mock(context=context), context.require(T), statement, Mock())

    if reads and commits:
        with pytest.raises(WriteConflictError, match="lack that change"):
            replace()
        with hiveacid.open(str(tmp_path)) as warehouse:
            assert warehouse.table("t").to_arrow().to_pylist() == [{"id": 1}]
    else:
        replace()
        assert context.require(T).columns == wider
    assert set(context.catalog.list_tables("default")) == {"t"}
    context.close()

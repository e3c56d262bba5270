"""Dispatch of statements: the executor function of each type of statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from hiveacid.errors import TransactionStateError
from hiveacid.sql.binding.table_binder import is_view_of_session
from hiveacid.sql.execute import admin, catalog_statements, change_rows, queries_and_views, show_and_describe
from hiveacid.sql.execute.context import ExecutionContext, empty_result
from hiveacid.sql.execute.explain import explain
from hiveacid.sql.execute.show_and_describe import describe_database, describe_history, describe_table
from hiveacid.sql.statements import administration, definitions, dml, queries, values

Executor: TypeAlias = "Callable[[ExecutionContext, Any], DataFrame | None]"

_READING: Mapping[type, Executor] = {
    queries.Query: queries_and_views.query,
    definitions.CreateTemporaryView: queries_and_views.create_temporary_view,
    definitions.DropView: queries_and_views.drop_temporary_view,
    queries.Explain: explain,
    queries.DescribeTable: describe_table,
    queries.DescribeDatabase: describe_database,
    queries.DescribeHistory: describe_history,
    queries.ShowDatabases: show_and_describe.databases,
    queries.ShowTables: show_and_describe.tables,
    queries.ShowTableExtended: show_and_describe.table_extended,
    queries.ShowViews: queries_and_views.show_views,
    queries.ShowPartitions: show_and_describe.partitions,
    queries.ShowCreateTable: show_and_describe.create_table,
    queries.ShowTableProperties: show_and_describe.properties,
    queries.ShowColumns: show_and_describe.columns,
    queries.ShowTransactions: show_and_describe.transactions,
    queries.ShowLocks: show_and_describe.locks,
    queries.ShowCompactions: admin.show_compactions,
    queries.ShowConf: show_and_describe.conf,
    administration.SetOption: admin.set_option,
    administration.ResetOption: admin.reset_option,
    administration.RefreshTable: admin.refresh,
    administration.UseDatabase: catalog_statements.use,
    administration.StartTransaction: admin.start_transaction,
    administration.Commit: admin.commit,
    administration.Rollback: admin.rollback,
    administration.UnsupportedStatement: catalog_statements.unsupported,
}
_CHANGING_ROWS: Mapping[type, Executor] = {
    dml.Insert: change_rows.insert_rows,
    dml.MultiInsert: change_rows.multi_insert,
    dml.Update: change_rows.update,
    dml.Delete: change_rows.delete,
    dml.Merge: change_rows.merge,
    dml.LoadData: change_rows.load_data,
    definitions.TruncateTable: catalog_statements.truncate,
}
_ALONE: Mapping[type, Executor] = {
    definitions.CreateDatabase: catalog_statements.create_database,
    definitions.DropDatabase: catalog_statements.drop_database,
    definitions.CreateTable: catalog_statements.create_table,
    definitions.CreateTableLike: catalog_statements.create_like,
    definitions.DropTable: catalog_statements.drop_table,
    definitions.DropView: queries_and_views.drop_view,
    definitions.CreateView: queries_and_views.create_view,
    definitions.AlterView: queries_and_views.alter_view,
    definitions.RenameView: queries_and_views.rename_view,
    definitions.SetViewProperties: queries_and_views.set_view_properties,
    definitions.UnsetViewProperties: queries_and_views.unset_view_properties,
    definitions.RenameTable: catalog_statements.rename_table,
    definitions.AddColumns: catalog_statements.add_columns,
    definitions.SetTableProperties: catalog_statements.set_properties,
    definitions.UnsetTableProperties: catalog_statements.unset_properties,
    definitions.AddPartitions: catalog_statements.add_partitions,
    definitions.DropPartitions: catalog_statements.drop_partitions,
    administration.Compact: admin.compact,
    administration.AbortTransactions: admin.abort,
    administration.AbortCompactions: admin.abort_compactions,
}


def execute(execution: ExecutionContext, statement: values.Statement) -> DataFrame:
    """Carry out a statement; return its rows (none for definitions).

    Raises TransactionStateError for a statement that cannot be part of a transaction, or that writes in a snapshot.
    """
    rows = _executor(execution, statement)(execution, statement)
    return empty_result(execution.context.env) if rows is None else rows


def _executor(execution: ExecutionContext, statement: values.Statement) -> Executor:
    """Return the function of a statement's type, where the statement is possible now."""
    kind = type(statement)
    is_catalog_view = isinstance(statement, definitions.DropView) and not queries_and_views.is_temporary(
        execution, statement.name
    )
    if kind in _READING and not is_catalog_view:
        return _READING[kind]
    name = " ".join(_words(kind.__name__))
    execution.require_no_snapshot(name)
    _refuse_hidden_tables(execution, statement)
    if kind in _CHANGING_ROWS:
        return _CHANGING_ROWS[kind]
    if execution.joined is not None:
        raise TransactionStateError(f"{name} cannot be part of a transaction: COMMIT or ROLLBACK first")
    return _ALONE[kind]


def _refuse_hidden_tables(execution: ExecutionContext, statement: values.Statement) -> None:
    """Raise CatalogError for a table that a temporary view hides from the session's queries."""
    context = execution.context
    statements = statement.legs if isinstance(statement, dml.MultiInsert) else (statement,)
    for one in statements:
        creates = isinstance(one, definitions.CreateTable | definitions.CreateTableLike)
        if isinstance(one, values.TableStatement | dml.LoadData) and not creates:
            is_view_of_session(context, one.table)


def _words(name: str) -> list[str]:
    """Split a class name: CreateTable -> CREATE, TABLE."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return spaced.upper().split()

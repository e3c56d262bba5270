"""Statement to table verbs: one function for each kind of statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.errors import TransactionStateError
from hiveacid.sql import statements
from hiveacid.sql.execute import admin, change, create, ddl, insert, query, show, view
from hiveacid.sql.execute import compact as compaction
from hiveacid.sql.execute.describe import describe_database, describe_history, describe_table
from hiveacid.sql.execute.explain import explain
from hiveacid.sql.execute.load import load_data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.execute.context import ExecutionContext

_READING: Mapping[type, Callable[[ExecutionContext, Any], DataFrame]] = {
    statements.Query: query.query,
    statements.CreateTemporaryView: query.create_view,
    statements.DropView: query.drop_view,
    statements.Explain: explain,
    statements.DescribeTable: describe_table,
    statements.DescribeDatabase: describe_database,
    statements.DescribeHistory: describe_history,
    statements.ShowDatabases: show.databases,
    statements.ShowTables: show.tables,
    statements.ShowViews: view.show,
    statements.ShowPartitions: show.partitions,
    statements.ShowCreateTable: show.create_table,
    statements.ShowTableProperties: show.properties,
    statements.ShowColumns: show.columns,
    statements.ShowTransactions: show.transactions,
    statements.ShowLocks: show.locks,
    statements.ShowCompactions: compaction.show,
    statements.ShowConf: show.conf,
    statements.SetOption: admin.set_option,
    statements.ResetOption: admin.reset_option,
    statements.RefreshTable: admin.refresh,
    statements.UseDatabase: ddl.use,
    statements.StartTransaction: admin.start_transaction,
    statements.Commit: admin.commit,
    statements.Rollback: admin.rollback,
}
_CHANGING_ROWS: Mapping[type, Callable[[ExecutionContext, Any], DataFrame]] = {
    statements.Insert: insert.insert_rows,
    statements.MultiInsert: insert.multi_insert,
    statements.Update: change.update,
    statements.Delete: change.delete,
    statements.Merge: change.merge,
    statements.LoadData: load_data,
    statements.TruncateTable: ddl.truncate,
}
_ALONE: Mapping[type, Callable[[ExecutionContext, Any], DataFrame]] = {
    statements.CreateDatabase: ddl.create_database,
    statements.DropDatabase: ddl.drop_database,
    statements.CreateTable: create.create_table,
    statements.CreateTableLike: create.create_like,
    statements.DropTable: ddl.drop_table,
    statements.CreateView: view.create,
    statements.AlterView: view.alter,
    statements.RenameView: view.rename,
    statements.SetViewProperties: view.set_properties,
    statements.UnsetViewProperties: view.unset_properties,
    statements.RenameTable: ddl.rename_table,
    statements.AddColumns: ddl.add_columns,
    statements.SetTableProperties: ddl.set_properties,
    statements.UnsetTableProperties: ddl.unset_properties,
    statements.AddPartitions: ddl.add_partitions,
    statements.DropPartitions: ddl.drop_partitions,
    statements.Compact: compaction.compact,
    statements.AbortTransactions: admin.abort,
    statements.AbortCompactions: compaction.abort,
}


def execute(execution: ExecutionContext, statement: statements.Statement) -> DataFrame:
    """Carry out a statement; return its rows (none for definitions).

    Raises TransactionStateError for what cannot be part of a transaction, or of a snapshot.
    """
    kind = type(statement)
    if isinstance(statement, statements.DropView) and not query.is_temporary(execution, statement.name):
        execution.require_no_snapshot("DROP VIEW")
        if execution.joined is not None:
            raise TransactionStateError("DROP VIEW cannot be part of a transaction: COMMIT or ROLLBACK first")
        return view.drop(execution, statement)
    if kind in _READING:
        return _READING[kind](execution, statement)
    name = " ".join(_words(kind.__name__))
    execution.require_no_snapshot(name)
    if kind in _CHANGING_ROWS:
        return _CHANGING_ROWS[kind](execution, statement)
    if execution.joined is not None:
        raise TransactionStateError(f"{name} cannot be part of a transaction: COMMIT or ROLLBACK first")
    return _ALONE.get(kind, ddl.unsupported)(execution, statement)


def _words(name: str) -> list[str]:
    """Split a class name: CreateTable -> CREATE, TABLE."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return spaced.upper().split()

"""Statement to table verbs: one function for each kind of statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.errors import TransactionStateError
from hiveacid.sql import execute_admin as admin
from hiveacid.sql import execute_change as change
from hiveacid.sql import execute_compact as compaction
from hiveacid.sql import execute_create as create
from hiveacid.sql import execute_ddl as ddl
from hiveacid.sql import execute_insert as insert
from hiveacid.sql import execute_query as query
from hiveacid.sql import execute_show as show
from hiveacid.sql import execute_view as view
from hiveacid.sql import statements as s
from hiveacid.sql.execute_describe import describe_database, describe_history, describe_table
from hiveacid.sql.execute_explain import explain
from hiveacid.sql.execute_load import load_data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.session import AcidSession

_READING: Mapping[type, Callable[[AcidSession, Any], DataFrame]] = {
    s.Query: query.query,
    s.CreateTemporaryView: query.create_view,
    s.DropView: query.drop_view,
    s.Explain: explain,
    s.DescribeTable: describe_table,
    s.DescribeDatabase: describe_database,
    s.DescribeHistory: describe_history,
    s.ShowDatabases: show.databases,
    s.ShowTables: show.tables,
    s.ShowViews: view.show,
    s.ShowPartitions: show.partitions,
    s.ShowCreateTable: show.create_table,
    s.ShowTableProperties: show.properties,
    s.ShowColumns: show.columns,
    s.ShowTransactions: show.transactions,
    s.ShowLocks: show.locks,
    s.ShowCompactions: compaction.show,
    s.ShowConf: show.conf,
    s.SetOption: admin.set_option,
    s.ResetOption: admin.reset_option,
    s.RefreshTable: admin.refresh,
    s.UseDatabase: ddl.use,
    s.StartTransaction: admin.start_transaction,
    s.Commit: admin.commit,
    s.Rollback: admin.rollback,
}
_CHANGING_ROWS: Mapping[type, Callable[[AcidSession, Any], DataFrame]] = {
    s.Insert: insert.insert_rows,
    s.MultiInsert: insert.multi_insert,
    s.Update: change.update,
    s.Delete: change.delete,
    s.Merge: change.merge,
    s.LoadData: load_data,
    s.TruncateTable: ddl.truncate,
}
_ALONE: Mapping[type, Callable[[AcidSession, Any], DataFrame]] = {
    s.CreateDatabase: ddl.create_database,
    s.DropDatabase: ddl.drop_database,
    s.CreateTable: create.create_table,
    s.CreateTableLike: create.create_like,
    s.DropTable: ddl.drop_table,
    s.CreateView: view.create,
    s.AlterView: view.alter,
    s.RenameView: view.rename,
    s.SetViewProperties: view.set_properties,
    s.UnsetViewProperties: view.unset_properties,
    s.RenameTable: ddl.rename_table,
    s.AddColumns: ddl.add_columns,
    s.SetTableProperties: ddl.set_properties,
    s.UnsetTableProperties: ddl.unset_properties,
    s.AddPartitions: ddl.add_partitions,
    s.DropPartitions: ddl.drop_partitions,
    s.Compact: compaction.compact,
    s.AbortTransactions: admin.abort,
    s.AbortCompactions: compaction.abort,
}


def execute(session: AcidSession, statement: s.Statement) -> DataFrame:
    """Carry out a statement; return its rows (none for definitions).

    Raises TransactionStateError for what cannot be part of a transaction, or of a snapshot.
    """
    kind = type(statement)
    if isinstance(statement, s.DropView) and not query.is_temporary(session, statement.name):
        session.require_no_snapshot("DROP VIEW")
        if session.joined is not None:
            raise TransactionStateError("DROP VIEW cannot be part of a transaction: COMMIT or ROLLBACK first")
        return view.drop(session, statement)
    if kind in _READING:
        return _READING[kind](session, statement)
    name = " ".join(_words(kind.__name__))
    session.require_no_snapshot(name)
    if kind in _CHANGING_ROWS:
        return _CHANGING_ROWS[kind](session, statement)
    if session.joined is not None:
        raise TransactionStateError(f"{name} cannot be part of a transaction: COMMIT or ROLLBACK first")
    return _ALONE.get(kind, ddl.unsupported)(session, statement)


def _words(name: str) -> list[str]:
    """Split a class name: CreateTable -> CREATE, TABLE."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return spaced.upper().split()

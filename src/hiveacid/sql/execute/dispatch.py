"""Dispatch of statements: the executor function of each type; and EXPLAIN, which shows a statement's plan without running it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.errors import HiveAcidError, TransactionStateError, UnsupportedFeatureError
from hiveacid.sql.binding.table_binder import is_view_of_session
from hiveacid.sql.execute import (
    admin,
    catalog_statements,
    change_rows,
    export_and_import,
    queries_and_views,
    show_and_describe,
)
from hiveacid.sql.execute.catalog_statements import lock_of_new
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext, empty_result, string_rows
from hiveacid.sql.execute.queries_and_views import bound_frame
from hiveacid.sql.execute.show_and_describe import (
    describe_database,
    describe_detail,
    describe_history,
    describe_table,
)
from hiveacid.sql.statements import (
    Slice,
    Statement,
    TableRef,
    TableStatement,
    administration,
    definitions,
    dml,
)
from hiveacid.table.partitions import partitions_of, static_values
from hiveacid.table.read.visible_locations import require_same_table
from hiveacid.table.write.insert import insert_lock
from hiveacid.table.write.merge import is_exclusive
from hiveacid.table.write.write_conflicts import change_lock

# Spark's names of the modes; Hive's other options (VECTORIZATION, LOCKS ...) have no counterpart in Spark.
_MODES = frozenset({"EXTENDED", "FORMATTED", "CODEGEN", "COST"})


def explain(execution: ExecutionContext, statement: dml.Explain) -> DataFrame:
    """EXPLAIN: Spark's plan of a query; for a change also its target, lock and snapshot."""
    mode = next((option for option in statement.options if option in _MODES), "")
    lines = [*_lines(execution, statement.statement, mode)]
    return string_rows(execution.context.env, ("Explain",), [(line,) for line in lines])


def _lines(execution: ExecutionContext, statement: Statement, mode: str) -> list[str]:
    match statement:
        case dml.Query(text=text):
            return _plan(execution, text, mode)
        case dml.Insert():
            return _insert(execution, statement, statement.full_query, mode)
        case dml.MultiInsert(legs=legs):
            plans = [_insert(execution, leg, statement.leg_query(leg), mode) for leg in legs]
            return [line for plan in plans for line in plan]
        case dml.Update() | dml.Delete():
            return _change(execution, statement, mode)
        case dml.Merge():
            return _merge(execution, statement, mode)
        case definitions.CreateTable(query=Slice() as text):
            name = statement.table.resolve(execution.context.database)
            lock = lock_of_new(execution.context, name)
            return [f"CREATE TABLE AS SELECT {name}", f"Lock: {lock}", "Rows:", *_plan(execution, text, mode)]
    raise UnsupportedFeatureError("EXPLAIN takes queries, INSERT, UPDATE, DELETE and MERGE")


def _plan(execution: ExecutionContext, text: Slice, mode: str) -> list[str]:
    """Return Spark's physical plan of a query, without running it.

    Raises the errors of the query, which Spark's own EXPLAIN would print as rows.
    """
    with execution.binder() as binder:
        bound_frame(binder, text)  # raises the errors of the query
        row = bound_frame(binder, Slice(f"EXPLAIN {mode} {text}")).first()
    return [] if row is None else str(row[0]).rstrip("\n").split("\n")


def _head(execution: ExecutionContext, verb: str, table: TableDefinition, lock: LockComponent) -> list[str]:
    context = execution.context
    lines = [f"{verb} {table.name}", f"Table: {table.kind.value.replace('_', ' ')}", f"Lock: {lock}"]
    if table.kind is not TableKind.PLAIN:
        with context.read_leases.acquire(context.settings) as reader:
            txn = execution.joined or reader
            lines.append(f"Snapshot: {txn.valid_write_ids(table.name).to_string()}")
            require_same_table(context, table, txn)  # a transaction keeps these write ids
    partitions = partitions_of(context, table, execution.joined)
    return lines if partitions is None else [*lines, f"Partitions: {len(partitions)}"]


def _insert(execution: ExecutionContext, statement: dml.Insert, text: Slice, mode: str) -> list[str]:
    verb = "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO"
    table = execution.context.require(execution.find(statement.table))
    static = static_values(execution.context, table, spec_values(execution, statement.partition))
    lines = _head(
        execution, verb, table, insert_lock(execution.context, table, static, overwrite=statement.overwrite)
    )
    dynamic = [c.name for c in table.partition_columns if c.name not in static]
    lines += [f"Static partition: {name}={value}" for name, value in static.items()]
    lines += [f"Dynamic partitions: {', '.join(dynamic)}"] if dynamic else []
    return [*lines, "Rows:", *_plan(execution, text, mode)]


def _change(execution: ExecutionContext, statement: dml.Update | dml.Delete, mode: str) -> list[str]:
    assignments = statement.assignments if isinstance(statement, dml.Update) else ()
    verb = "UPDATE" if assignments else "DELETE"
    table = execution.context.require_full_acid(execution.find(statement.table), verb)
    lines = _head(execution, verb, table, change_lock(execution.context, table.name))
    assigned = ", ".join(f"{a.expression.text} AS {quote_name(a.column)}" for a in assignments) or "*"
    where = f" WHERE {statement.where.text}" if statement.where else ""
    target = _target(statement.table, statement.alias)
    pieces = [a.expression for a in assignments] + ([statement.where] if statement.where else [])
    with _in_user_text(execution, pieces, target):
        rows = _plan(execution, Slice(f"SELECT {assigned} FROM {target}{where}"), mode)
    return [*lines, "Rows:", *rows]


def _merge(execution: ExecutionContext, statement: dml.Merge, mode: str) -> list[str]:
    context = execution.context
    table = context.require_full_acid(execution.find(statement.table), "MERGE")
    alone = is_exclusive(context, inserts=statement.inserts)
    lines = _head(execution, "MERGE INTO", table, change_lock(context, table.name, exclusive=alone))
    lines += [
        f"Clause: {clause.match.value.replace('_', ' ')}: {clause.action}" for clause in statement.clauses
    ]
    alias = f" AS {quote_name(statement.source_alias)}" if statement.source_alias else ""
    if statement.source_columns:
        alias += f" ({', '.join(map(quote_name, statement.source_columns))})"
    target = _target(statement.table, statement.alias)
    source = f"{statement.source.text}{alias}"
    with _in_user_text(execution, [statement.condition], f"{target} CROSS JOIN {source}"):
        text = f"SELECT * FROM {target} FULL JOIN {source} ON {statement.condition.text}"
        rows = _plan(execution, Slice(text), mode)
    return [*lines, "Rows:", *rows]


@contextmanager
def _in_user_text(execution: ExecutionContext, pieces: Sequence[Slice], source: str) -> Iterator[None]:
    """Report errors of a query composed of a statement's pieces at their positions in the statement."""
    try:
        yield
    except HiveAcidError:
        select = "SELECT "
        for piece in pieces:
            column = piece.column - len(select)
            _plan(execution, Slice(f"{select}{piece.text} FROM {source}", line=piece.line, column=column), "")
        raise


def _target(ref: TableRef, alias: str | None) -> str:
    parts = [ref.name] if ref.database is None else [ref.database, ref.name]
    return ".".join(map(quote_name, parts)) + (f" AS {quote_name(alias)}" if alias else "")


Executor: TypeAlias = "Callable[[ExecutionContext, Any], DataFrame | None]"

_READING: Mapping[type, Executor] = {
    dml.Query: queries_and_views.query,
    definitions.CreateTemporaryView: queries_and_views.create_temporary_view,
    definitions.DropView: queries_and_views.drop_temporary_view,
    dml.Explain: explain,
    administration.DescribeTable: describe_table,
    administration.DescribeDatabase: describe_database,
    administration.DescribeHistory: describe_history,
    administration.DescribeDetail: describe_detail,
    administration.ShowDatabases: show_and_describe.databases,
    administration.ShowTables: show_and_describe.tables,
    administration.ShowTableTypes: show_and_describe.table_types,
    administration.ShowTableExtended: show_and_describe.table_extended,
    administration.ShowViews: queries_and_views.show_views,
    administration.ShowPartitions: show_and_describe.partitions,
    administration.ShowCreateDatabase: show_and_describe.create_database,
    administration.ShowCreateTable: show_and_describe.create_table,
    administration.ShowTableProperties: show_and_describe.properties,
    administration.ShowColumns: show_and_describe.columns,
    administration.ShowTransactions: show_and_describe.transactions,
    administration.ShowLocks: show_and_describe.locks,
    administration.ShowCompactions: show_and_describe.compactions,
    administration.ShowConf: show_and_describe.conf,
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
    dml.InsertDirectory: change_rows.insert_directory,
    dml.MultiInsert: change_rows.multi_insert,
    dml.Update: change_rows.update,
    dml.Delete: change_rows.delete,
    dml.Merge: change_rows.merge,
    dml.LoadData: change_rows.load_data,
    dml.Restore: change_rows.restore,
    definitions.TruncateTable: catalog_statements.truncate,
}
_ALONE: Mapping[type, Executor] = {
    definitions.CreateDatabase: catalog_statements.create_database,
    definitions.AlterDatabase: catalog_statements.alter_database,
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
    definitions.ChangeColumn: catalog_statements.change_column,
    definitions.AddConstraint: catalog_statements.add_constraint,
    definitions.DropConstraint: catalog_statements.drop_constraint,
    definitions.DropColumnConstraint: catalog_statements.drop_column_constraint,
    definitions.ReplaceColumns: catalog_statements.replace_columns,
    definitions.DropColumns: catalog_statements.drop_columns,
    definitions.SetTableOwner: catalog_statements.set_owner,
    definitions.SetTableProperties: catalog_statements.set_properties,
    definitions.UnsetTableProperties: catalog_statements.unset_properties,
    definitions.AddPartitions: catalog_statements.add_partitions,
    definitions.DropPartitions: catalog_statements.drop_partitions,
    definitions.RenamePartition: catalog_statements.rename_partition,
    definitions.RepairTable: catalog_statements.repair_table,
    definitions.CreateTag: catalog_statements.create_tag,
    definitions.DropTag: catalog_statements.drop_tag,
    dml.ExportTable: export_and_import.export_table,
    dml.ImportTable: export_and_import.import_table,
    administration.Compact: admin.compact,
    administration.Analyze: admin.analyze,
    administration.Optimize: admin.optimize,
    administration.Vacuum: admin.vacuum,
    administration.AbortTransactions: admin.abort,
    administration.AbortCompactions: admin.abort_compactions,
}


def execute(execution: ExecutionContext, statement: Statement) -> DataFrame:
    """Carry out a statement; return its rows (none for definitions).

    Raises TransactionStateError for a statement that cannot be part of a transaction, or that writes in a snapshot.
    """
    rows = _executor(execution, statement)(execution, statement)
    return empty_result(execution.context.env) if rows is None else rows


def _executor(execution: ExecutionContext, statement: Statement) -> Executor:
    """Return the function of a statement's type, where the statement is possible now."""
    kind = type(statement)
    is_catalog_view = isinstance(statement, definitions.DropView) and not queries_and_views.is_temporary(
        execution, statement.name
    )
    if kind in _READING and not is_catalog_view:
        return _READING[kind]
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).upper()  # CREATE TABLE
    execution.require_no_snapshot(name)
    _refuse_hidden_tables(execution, statement)
    if kind in _CHANGING_ROWS:
        return _CHANGING_ROWS[kind]
    if execution.joined is not None:
        raise TransactionStateError(f"{name} cannot be part of a transaction: COMMIT or ROLLBACK first")
    return _ALONE[kind]


def _refuse_hidden_tables(execution: ExecutionContext, statement: Statement) -> None:
    """Raise CatalogError for a table that a temporary view hides from the session's queries."""
    context = execution.context
    statements = statement.legs if isinstance(statement, dml.MultiInsert) else (statement,)
    for one in statements:
        creates = isinstance(one, definitions.CreateTable | definitions.CreateTableLike)
        if isinstance(one, TableStatement | dml.LoadData) and not creates:
            is_view_of_session(context, one.table)

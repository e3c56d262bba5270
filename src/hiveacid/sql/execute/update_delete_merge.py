"""UPDATE, DELETE and MERGE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import SchemaMismatchError, StatementError
from hiveacid.spark.formats.expressions import BEFORE_EXPRESSION, DEFAULT, BoundExpression, Expression
from hiveacid.spark.parser.lexer import mentions
from hiveacid.spark.session.bound_plans import bound_column
from hiveacid.sql.binding.source_positions import EditedText, errors_at, spark_errors_at_source
from hiveacid.sql.binding.table_binder import EXPRESSION, SOURCE, Binder
from hiveacid.sql.execute.context import ExecutionContext, write_result
from hiveacid.sql.statements.dml import Assignment, Delete, Merge, MergeClause, MergeMatch, Update, WhenClause
from hiveacid.sql.statements.values import Slice, table_ref
from hiveacid.table.write import update_delete as change
from hiveacid.table.write.conflict_retry import run_with_retry
from hiveacid.table.write.merge import Merge as TableMerge
from hiveacid.table.write.merge import is_exclusive
from hiveacid.table.write.report import WriteReport
from hiveacid.transactions.transaction import Transaction

Run = Callable[[Binder, "Transaction | None"], "WriteReport"]


def update(execution: ExecutionContext, statement: Update) -> DataFrame:
    """UPDATE t SET ... WHERE ..."""
    name = execution.find(statement.table)
    _check_columns(execution.context.require(name), statement.assignments)

    def run(binder: Binder, txn: Transaction | None) -> WriteReport:
        expressions = BoundExpressions(binder)
        values = expressions.assignments(statement.assignments)
        where = expressions.expression(statement.where)
        with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            return change.update(execution.context, name, values, where, txn, statement.alias)

    pieces = [statement.where, *(a.expression for a in statement.assignments)]
    return _run(execution, name, "UPDATE", pieces, run)


def delete(execution: ExecutionContext, statement: Delete) -> DataFrame:
    """DELETE FROM t WHERE ..."""
    name = execution.find(statement.table)

    def run(binder: Binder, txn: Transaction | None) -> WriteReport:
        expressions = BoundExpressions(binder)
        where = expressions.expression(statement.where)
        with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            return change.delete(execution.context, name, where, txn, statement.alias)

    return _run(execution, name, "DELETE", [statement.where], run)


def _check_columns(table: TableDefinition, assignments: Sequence[Assignment]) -> None:
    """Refuse columns that cannot be set, with their positions."""
    for assignment in assignments:
        with errors_at(assignment.line, assignment.at_column):
            change.check_assignments(table, {assignment.column: assignment.expression.text})


def _run(
    execution: ExecutionContext, name: TableName, verb: str, pieces: Sequence[Slice | None], run: Run
) -> DataFrame:
    """Run a change; one with subqueries runs in the transaction that reads them, so that both see one snapshot."""
    context, joined = execution.context, execution.joined
    has_subquery = any(
        piece is not None and mentions(piece.tokens, ("SELECT", "TABLE", "FROM")) for piece in pieces
    )
    if not has_subquery:
        return write_result(context.facts, run(Binder(context, joined, None), joined))

    def run_in_txn(_: TableDefinition, txn: Transaction) -> WriteReport:
        with execution.binder(txn) as binder:
            return run(binder, txn)

    return write_result(context.facts, run_with_retry(context, name, verb, joined, run_in_txn))


class BoundExpressions:
    """Translator of a statement's expressions for Spark; it keeps them, so that errors get their positions."""

    def __init__(self, binder: Binder) -> None:
        self.pieces: list[EditedText] = []
        self._binder = binder

    def expression(self, piece: Slice | None) -> Expression | None:
        """Return an expression with its subqueries bound; DEFAULT is NULL."""
        if piece is None:
            return None
        if piece.text.upper() == "DEFAULT":
            return DEFAULT
        bound = self._binder.bind(piece, EXPRESSION)
        self.pieces.append(bound)
        if not bound.edits:
            return bound.text
        facts, tables = self._binder.context.facts, self._binder.tables
        return BoundExpression(bound.text, lambda text: bound_column(facts, text, tables))

    def required(self, piece: Slice) -> Expression:
        """Return an expression that the grammar requires, as `expression` does."""
        expression = self.expression(piece)
        return "" if expression is None else expression

    def assignments(self, assignments: Sequence[Assignment]) -> dict[str, Expression]:
        """Return the bound expression of each assigned column."""
        return {a.column: self.required(a.expression) for a in assignments}


def merge(execution: ExecutionContext, statement: Merge) -> DataFrame:
    """MERGE INTO t USING s ON ... WHEN ..."""
    name = execution.find(statement.table)
    context = execution.context
    for clause in statement.clauses:
        _check_columns(context.require(name), clause.assignments)

    def run_in_txn(table: TableDefinition, txn: Transaction) -> WriteReport:
        with execution.binder(txn) as binder:
            source = _source(binder, statement)
            expressions = BoundExpressions(binder)
            table_merge = TableMerge(
                context,
                name,
                source,
                expressions.required(statement.condition),
                txn,
                statement.alias or name,
                _source_name(binder, statement),
            )
            for clause in statement.clauses:
                with errors_at(clause.line, clause.column):
                    table_merge = _with_clause(table_merge, clause, expressions, table)
            with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
                return table_merge.execute()

    exclusive = is_exclusive(context, inserts=statement.inserts)
    report = run_with_retry(context, name, "MERGE", execution.joined, run_in_txn, exclusive=exclusive)
    return write_result(context.facts, report)


def _source_name(binder: Binder, statement: Merge) -> str | TableName:
    """Return the source's alias; without one, its name."""
    if statement.source_alias is not None:
        return statement.source_alias
    table = table_ref([part.name.lower() for part in statement.source.tokens if part.is_name])
    if table is None or statement.source.text.endswith(")"):
        return statement.source.text.rpartition(".")[2].strip(" `").lower()
    return table.resolve(binder.context.database)


def _source(binder: Binder, statement: Merge) -> DataFrame:
    bound = binder.bind(statement.source, SOURCE)
    with spark_errors_at_source(bound, before=SOURCE):
        frame = binder.run(SOURCE + bound.text)
    if not statement.source_columns:
        return frame
    if len(statement.source_columns) != len(frame.columns):
        raise SchemaMismatchError(
            f"the source is given {len(statement.source_columns)} columns, but has {len(frame.columns)}"
        )
    return frame.toDF(*statement.source_columns)


def _with_clause(
    table_merge: TableMerge, clause: MergeClause, expressions: BoundExpressions, table: TableDefinition
) -> TableMerge:
    condition = expressions.expression(clause.condition)
    if clause.match is MergeMatch.NOT_MATCHED:
        return table_merge.when_not_matched_insert(_insert_values(clause, expressions, table), condition)
    by_source = clause.match is MergeMatch.NOT_MATCHED_BY_SOURCE
    if clause.action is WhenClause.DELETE:
        when = table_merge.when_not_matched_by_source_delete if by_source else table_merge.when_matched_delete
        return when(condition)
    values = expressions.assignments(clause.assignments)
    if by_source:
        return table_merge.when_not_matched_by_source_update(values, condition)
    return table_merge.when_matched_update(None if clause.star else values, condition)


def _insert_values(
    clause: MergeClause, expressions: BoundExpressions, table: TableDefinition
) -> Mapping[str, Expression] | None:
    if clause.star:
        return None
    columns = clause.columns or tuple(table.column_names)
    if len(columns) != len(clause.values):
        raise StatementError(
            f"{table.name} has {len(columns)} columns ({', '.join(columns)}), but there are {len(clause.values)} values",
            line=clause.line,
            column=clause.column,
        )
    return {column: expressions.required(value) for column, value in zip(columns, clause.values, strict=True)}

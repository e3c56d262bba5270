"""EXPLAIN: shows the plan of a statement without running it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.sql.execute.catalog_statements import lock_of_new
from hiveacid.sql.execute.change_rows import partition_values
from hiveacid.sql.execute.context import ExecutionContext, string_rows
from hiveacid.sql.execute.queries_and_views import bound_frame
from hiveacid.sql.statements import definitions, dml, queries
from hiveacid.sql.statements.values import Slice, Statement, TableRef
from hiveacid.table.partitions import partitions_of, static_values
from hiveacid.table.write.conflict_retry import change_lock
from hiveacid.table.write.insert import insert_lock
from hiveacid.table.write.merge import is_exclusive

# Spark's names of the modes; Hive's other options (VECTORIZATION, LOCKS ...) have no counterpart in Spark.
_MODES = frozenset({"EXTENDED", "FORMATTED", "CODEGEN", "COST"})


def explain(execution: ExecutionContext, statement: queries.Explain) -> DataFrame:
    """EXPLAIN: Spark's plan of a query; for a change also its target, lock and snapshot."""
    mode = next((option for option in statement.options if option in _MODES), "")
    lines = [*_lines(execution, statement.statement, mode)]
    return string_rows(execution.context.env, ("Explain",), [(line,) for line in lines])


def _lines(execution: ExecutionContext, statement: Statement, mode: str) -> list[str]:
    match statement:
        case queries.Query(text=text):
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
    partitions = partitions_of(context, table, execution.joined)
    return lines if partitions is None else [*lines, f"Partitions: {len(partitions)}"]


def _insert(execution: ExecutionContext, statement: dml.Insert, text: Slice, mode: str) -> list[str]:
    verb = "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO"
    table = execution.context.require(execution.find(statement.table))
    static = static_values(execution.context, table, partition_values(execution, statement.partition))
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

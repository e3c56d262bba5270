"""EXPLAIN: shows what a statement would do and does nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.core.model import TableKind
from hiveacid.core.types import quote_name
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.sql.execute_create import lock_of_new
from hiveacid.sql.execute_insert import partition_values
from hiveacid.sql.placing import placed
from hiveacid.sql.rows import texts
from hiveacid.sql.statements import (
    CreateTable,
    Delete,
    Explain,
    Insert,
    Merge,
    MultiInsert,
    Query,
    Slice,
    Statement,
    TableRef,
    Update,
)
from hiveacid.table.change import lock_of_change
from hiveacid.table.insert import lock_of, static_values
from hiveacid.table.merge import excludes
from hiveacid.table.read import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.locks import LockComponent
    from hiveacid.core.model import TableDefinition
    from hiveacid.sql.session import AcidSession

# What Spark calls them; Hive's other options (VECTORIZATION, LOCKS ...) have no counterpart there.
_MODES = {"EXTENDED": "EXTENDED", "FORMATTED": "FORMATTED", "CODEGEN": "CODEGEN", "COST": "COST"}


def explain(session: AcidSession, statement: Explain) -> DataFrame:
    """EXPLAIN: Spark's plan of a query; of a change also target, lock and snapshot."""
    mode = next((_MODES[option] for option in statement.options if option in _MODES), "")
    lines = [*_lines(session, statement.statement, mode)]
    return texts(session.context.facts, ("Explain",), [(line,) for line in lines])


def _lines(session: AcidSession, statement: Statement, mode: str) -> list[str]:
    match statement:
        case Query(text=text):
            return _plan(session, text, mode)
        case Insert():
            return _insert(session, statement, mode)
        case MultiInsert():
            return [line for leg in statement.legs for line in _insert(session, _leg(statement, leg), mode)]
        case Update() | Delete():
            return _change(session, statement, mode)
        case Merge():
            return _merge(session, statement, mode)
        case CreateTable(query=Slice() as text):
            name = statement.table.resolve(session.context.database)
            lock = lock_of_new(session.context, name)
            return [f"CREATE TABLE AS SELECT {name}", f"Lock: {lock}", "Rows:", *_plan(session, text, mode)]
    raise UnsupportedFeatureError("EXPLAIN takes queries, INSERT, UPDATE, DELETE and MERGE")


def _leg(statement: MultiInsert, leg: Insert) -> Insert:
    text = statement.leg_query(leg)
    return replace(leg, query=replace(leg.query, text=text))


def _plan(session: AcidSession, text: Slice, mode: str) -> list[str]:
    """Return Spark's physical plan of a query; nothing is run.

    Raises what is wrong with the query, which Spark's own EXPLAIN tells in its rows.
    """
    spark = session.context.facts.spark
    with session.binder() as binder:
        bound = binder.bind(text)
        with placed(bound):
            spark.sql(bound.text).schema  # noqa: B018 - it is looked at only now on Spark Connect
            row = spark.sql(f"EXPLAIN {mode} {bound.text}").first()
    return [] if row is None else str(row[0]).rstrip("\n").split("\n")


def _head(session: AcidSession, verb: str, table: TableDefinition, lock: LockComponent) -> list[str]:
    context = session.context
    lines = [f"{verb} {table.name}", f"Table: {table.kind.value.replace('_', ' ')}", f"Lock: {lock}"]
    if table.kind is not TableKind.PLAIN:
        with context.snapshots.taken(context.settings) as reader:
            txn = session.joined or reader
            lines.append(f"Snapshot: {txn.valid_write_ids(table.name).to_string()}")
    partitions = partitions_of(context, table, session.joined)
    return lines if partitions is None else [*lines, f"Partitions: {len(partitions)}"]


def _insert(session: AcidSession, statement: Insert, mode: str) -> list[str]:
    verb = "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO"
    table = session.context.require(session.find(statement.table))
    static = static_values(session.context, table, partition_values(session, statement.partition))
    lines = _head(
        session, verb, table, lock_of(session.context, table, static, overwrite=statement.overwrite)
    )
    dynamic = [c.name for c in table.partition_columns if c.name not in static]
    lines += [f"Static partition: {name}={value}" for name, value in static.items()]
    lines += [f"Dynamic partitions: {', '.join(dynamic)}"] if dynamic else []
    text = replace(statement.query, text=statement.full_query)
    return [*lines, "Rows:", *_plan(session, text, mode)]


def _change(session: AcidSession, statement: Update | Delete, mode: str) -> list[str]:
    verb = "UPDATE" if isinstance(statement, Update) else "DELETE"
    table = session.context.require_full_acid(session.find(statement.table), verb)
    lines = _head(session, verb, table, lock_of_change(session.context, table.name))
    chosen = "*"
    if isinstance(statement, Update):
        values = [f"{a.expression.text} AS {quote_name(a.column)}" for a in statement.assignments]
        chosen = ", ".join(values)
    where = f" WHERE {statement.where.text}" if statement.where else ""
    target = _target(statement.table, statement.alias)
    pieces = [a.expression for a in statement.assignments] if isinstance(statement, Update) else []
    pieces += [statement.where] if statement.where else []
    with _in_user_text(session, pieces, target):
        rows = _plan(session, Slice(f"SELECT {chosen} FROM {target}{where}"), mode)
    return [*lines, "Rows:", *rows]


def _merge(session: AcidSession, statement: Merge, mode: str) -> list[str]:
    context = session.context
    table = context.require_full_acid(session.find(statement.table), "MERGE")
    alone = excludes(context, inserts=statement.inserts)
    lines = _head(session, "MERGE INTO", table, lock_of_change(context, table.name, exclusive=alone))
    lines += [
        f"Clause: {clause.match.value.replace('_', ' ')}: {clause.action}" for clause in statement.clauses
    ]
    alias = f" AS {quote_name(statement.source_alias)}" if statement.source_alias else ""
    if statement.source_columns:
        alias += f" ({', '.join(map(quote_name, statement.source_columns))})"
    target = _target(statement.table, statement.alias)
    source = f"{statement.source.text}{alias}"
    with _in_user_text(session, [statement.condition], f"{target} CROSS JOIN {source}"):
        text = f"SELECT * FROM {target} FULL JOIN {source} ON {statement.condition.text}"
        rows = _plan(session, Slice(text), mode)
    return [*lines, "Rows:", *rows]


@contextmanager
def _in_user_text(session: AcidSession, pieces: Sequence[Slice], source: str) -> Iterator[None]:
    """Where a query put together of pieces is wrong, say where in the statement the wrong piece is."""
    try:
        yield
    except HiveAcidError:
        select = "SELECT "
        for piece in pieces:
            column = piece.column - len(select)
            _plan(session, Slice(f"{select}{piece.text} FROM {source}", line=piece.line, column=column), "")
        raise


def _target(ref: TableRef, alias: str | None) -> str:
    parts = [ref.name] if ref.database is None else [ref.database, ref.name]
    return ".".join(map(quote_name, parts)) + (f" AS {quote_name(alias)}" if alias else "")

"""INSERT, multi-insert, CREATE TABLE AS SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hiveacid.errors import OutputTwiceError, UnsupportedFeatureError
from hiveacid.sql.binding import Binder
from hiveacid.sql.execute_query import frame_of
from hiveacid.sql.hidden import without_hidden
from hiveacid.sql.placing import Edit, Placed, at, placed
from hiveacid.sql.rows import written
from hiveacid.sql.tokens import tokenize
from hiveacid.sql.values import PartitionSpec, Slice
from hiveacid.table.insert import InsertOptions, insert, lock_of, static_values
from hiveacid.table.layout import partition_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.locks import LockComponent
    from hiveacid.core.model import TableName
    from hiveacid.sql.session import AcidSession
    from hiveacid.sql.statements import Insert, MultiInsert
    from hiveacid.table.report import WriteReport
    from hiveacid.transaction import Transaction


def insert_rows(session: AcidSession, statement: Insert) -> DataFrame:
    """INSERT INTO or OVERWRITE with a query or VALUES."""
    name = session.find(statement.table)
    text = joined_text(statement.ctes, statement.query)
    return written(session.context.facts, _insert(session, statement, name, text, session.joined))


def _options(session: AcidSession, statement: Insert, text: Slice) -> InsertOptions:
    return InsertOptions(
        partition=partition_values(session, statement.partition),
        overwrite=statement.overwrite,
        columns=statement.columns,
        small=_is_values(text),
        if_not_exists=statement.if_not_exists,
    )


def _insert(
    session: AcidSession, statement: Insert, name: TableName, text: Slice, joined: Transaction | None
) -> WriteReport:
    options = _options(session, statement, text)

    def rows(txn: Transaction | None) -> DataFrame:
        with session.binder(txn) as binder:
            return _values(binder, text) if options.small else frame_of(binder, text)

    # What is overwritten is read under its lock: it may be the source, too.
    source = rows if statement.overwrite else rows(joined)
    with at(statement.table.line, statement.table.column), placed(Placed(text)):
        return insert(session.context, name, source, options, joined)


def multi_insert(session: AcidSession, statement: MultiInsert) -> DataFrame:
    """FROM ... INSERT ... INSERT ...: all legs in one transaction, reading one snapshot.

    Raises OutputTwiceError where two legs name the same table or static partition, as Hive does.
    """
    context = session.context
    _require_one_source(statement)
    names = [session.find(leg.table) for leg in statement.legs]
    locks = _locks(session, statement, names)
    with context.transactions.scope(context.settings, session.joined) as txn:
        txn.lock(locks)  # all at once, before the snapshot: what is overwritten may be a source, too
        texts = [_leg_text(statement, leg) for leg in statement.legs]
        # All are planned before the first is written: a transaction sees its own writes, a leg must not.
        frames = [_planned(session, text, txn) for text in texts]
        reports = []
        for name, leg, text, frame in zip(names, statement.legs, texts, frames, strict=True):
            with at(leg.table.line, leg.table.column), placed(Placed(text)):
                reports.append(insert(context, name, frame, _options(session, leg, text), txn))
    return written(context.facts, *reports)


def _planned(session: AcidSession, text: Slice, txn: Transaction) -> DataFrame:
    with session.binder(txn) as binder:
        return frame_of(binder, text)


def _require_one_source(statement: MultiInsert) -> None:
    """Refuse a source that gives other rows each time: every leg reads it anew."""
    for text in (statement.ctes, statement.source):
        tokens = tokenize(text.text) if text is not None else []
        for token, behind in pairwise(tokens):
            if token.keyword in _UNSTEADY and behind.keyword == "(":
                raise UnsupportedFeatureError(
                    f"{token.keyword.lower()}() in the source of a multi-insert gives other rows for each INSERT: "
                    "write the source into a table first"
                )


_UNSTEADY = frozenset({"RAND", "RANDN", "RANDOM", "UUID", "SHUFFLE", "RANDSTR", "UNIFORM"})


def _locks(session: AcidSession, statement: MultiInsert, names: list[TableName]) -> list[LockComponent]:
    """Return the legs' locks; refuse the same output twice."""
    seen: set[tuple[TableName, str | None]] = set()
    locks = []
    for name, leg in zip(names, statement.legs, strict=True):
        table = session.context.require(name)
        static = static_values(session.context, table, partition_values(session, leg.partition))
        locks.append(lock_of(session.context, table, static, overwrite=leg.overwrite))
        if len(static) < len(table.partition_columns):
            continue  # dynamic: what it writes to shows when it runs
        output = (name, partition_name(table, tuple(static[c.name] for c in table.partition_columns)))
        if output in seen:
            shown = str(name) if output[1] is None else f"{name}@{output[1]}"
            raise OutputTwiceError(
                f"the same output stands twice in one statement: {shown}",
                line=leg.table.line,
                column=leg.table.column,
            )
        seen.add(output)
    return locks


def _leg_text(statement: MultiInsert, leg: Insert) -> Slice:
    return joined_text(statement.ctes, joined_text(_source(statement), leg.query))


def _source(statement: MultiInsert) -> Slice:
    source = replace(statement.source, text=f"FROM {statement.source.text}")
    return replace(source, start=source.start - 5, column=max(1, source.column - 5))


def joined_text(first: Slice | None, second: Slice) -> Slice:
    """Put two pieces of a statement together; blanks between them keep every place where it was."""
    if first is None:
        return second
    line = first.line + first.text.count("\n")
    column = first.column if "\n" not in first.text else 1
    column += len(first.text) - (first.text.rfind("\n") + 1)
    if second.line > line:
        gap = "\n" * (second.line - line) + " " * (second.column - 1)
    else:
        gap = " " * max(1, second.column - column)
    return replace(first, text=first.text + gap + second.text)


def partition_values(session: AcidSession, spec: PartitionSpec) -> Mapping[str, object] | None:
    """Return PARTITION (...) as the table verbs take it: texts, None for NULL, ``...`` for dynamic columns.

    What is not a constant (``dt = current_date()``) is computed by Spark first.
    """
    if not spec:
        return None
    values: dict[str, object] = {}
    for item in spec:
        if item.expression is None:
            values[item.column] = ...
        elif item.literal is not None:
            values[item.column] = item.literal.value
        else:
            values[item.column] = _computed(session, item.expression)
    return values


def _computed(session: AcidSession, expression: Slice) -> object:
    with placed(Placed(expression), before="SELECT "):
        row = session.context.facts.spark.sql(f"SELECT {expression.text}").first()
    return None if row is None else row[0]


def _is_values(text: Slice) -> bool:
    return tokenize(text.text)[0].keyword == "VALUES"


def _values(binder: Binder, text: Slice) -> DataFrame:
    """Return the rows of VALUES; DEFAULT is NULL, as no column has another default."""
    bound = binder.bind(text)
    tokens = tokenize(text.text)
    defaults = [
        Edit(token.start, token.end, "NULL   ")
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.keyword == "DEFAULT" and before.keyword in {"(", ","} and after.keyword in {")", ","}
    ]
    bound = replace(bound, edits=(*bound.edits, *defaults))
    with placed(bound):
        return without_hidden(binder.run(bound.text))

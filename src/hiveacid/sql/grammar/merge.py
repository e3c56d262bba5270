"""MERGE: Hive's (``HiveParser.g``, mergeStatement), with Spark's BY SOURCE, ``UPDATE SET *`` and ``INSERT *``."""

from __future__ import annotations

from dataclasses import replace

from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.dml import assignments
from hiveacid.sql.statements.changes import Merge, MergeClause, MergeMatch, WhenClause
from hiveacid.sql.statements.values import Slice, TableRef

_CLAUSE_ENDS = frozenset({",", "WHEN"})


def merge(cursor: Cursor) -> Merge:
    """Parse behind MERGE."""
    cursor.expect("INTO")
    table = cursor.table()
    alias = cursor.alias()
    cursor.expect("USING")
    source = _source(cursor)
    source_alias = cursor.alias()
    source_columns = cursor.names("a column name") if source_alias and cursor.sees("(") else ()
    _check_names(cursor, table, alias, source, source_alias)
    cursor.expect("ON")
    condition = cursor.until(frozenset({"WHEN"}), "a condition")
    clauses: list[MergeClause] = []
    final: set[MergeMatch] = set()  # kinds of matches whose rows a clause without a condition has taken
    while cursor.sees("WHEN"):
        clauses.append(_clause(cursor, table, alias, final))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, source, condition, tuple(clauses), alias, source_alias, source_columns)


def _source(cursor: Cursor) -> Slice:
    """Take a table name, a table function, or a query in parentheses."""
    first = cursor.next
    if cursor.sees("("):
        return cursor.slice(first, cursor.skip_parentheses())
    cursor.dotted("a table or a query in parentheses")
    if cursor.sees("("):
        cursor.skip_parentheses()
    return cursor.slice(first, cursor.last)


def _check_names(
    cursor: Cursor, table: TableRef, alias: str | None, source: Slice, source_alias: str | None
) -> None:
    """Refuse a target and a source of the same name (Hive: "Target and source have the same name")."""
    if source_alias is None and source.text.startswith("("):
        cursor.fail("an alias for the source")
    source_name = source_alias or source.text.rpartition(".")[2].strip(" `").lower()
    if source_name == (alias or table.name):
        cursor.refuse(f"target and source are both called {source_name}: give one of them an alias")


def _clause(cursor: Cursor, table: TableRef, alias: str | None, final: set[MergeMatch]) -> MergeClause:
    token = cursor.next
    match = _match(cursor)
    condition = cursor.until(frozenset({"THEN"}), "a condition") if cursor.take("AND") else None
    if match in final:
        cursor.refuse(
            "this clause can never apply: one before it, without a condition, takes all its rows", token
        )
    if condition is None:
        final.add(match)
    cursor.expect("THEN")
    allowed = ("INSERT",) if match is MergeMatch.NOT_MATCHED else ("UPDATE", "DELETE")
    action = WhenClause(cursor.expect_one(*allowed).lower())
    clause = MergeClause(match, action, condition, line=token.line, column=token.column)
    if action is WhenClause.UPDATE:
        return _update(cursor, table, alias, clause)
    return clause if action is WhenClause.DELETE else _insert(cursor, clause)


def _match(cursor: Cursor) -> MergeMatch:
    cursor.expect("WHEN")
    if not cursor.take("NOT"):
        cursor.expect("MATCHED")
        return MergeMatch.MATCHED
    cursor.expect("MATCHED")
    if not cursor.take("BY"):
        return MergeMatch.NOT_MATCHED
    by_source = cursor.expect_one("TARGET", "SOURCE") == "SOURCE"
    return MergeMatch.NOT_MATCHED_BY_SOURCE if by_source else MergeMatch.NOT_MATCHED


def _update(cursor: Cursor, table: TableRef, alias: str | None, clause: MergeClause) -> MergeClause:
    cursor.expect("SET")
    if cursor.sees("*") and clause.match is MergeMatch.NOT_MATCHED_BY_SOURCE:
        cursor.refuse("UPDATE SET * needs a source row")
    if cursor.take("*"):
        return replace(clause, star=True)
    return replace(clause, assignments=assignments(cursor, table, alias, _CLAUSE_ENDS))


def _insert(cursor: Cursor, clause: MergeClause) -> MergeClause:
    if cursor.take("*"):
        return replace(clause, star=True)
    columns = cursor.names("a column name") if cursor.sees("(") else None
    cursor.expect("VALUES")
    opening = cursor.next
    values = cursor.list_of(lambda: cursor.until(frozenset({","}), "a value"))
    if columns is not None and len(columns) != len(values):
        cursor.refuse(f"{len(columns)} columns, but {len(values)} values", opening)
    return replace(clause, columns=columns, values=values)

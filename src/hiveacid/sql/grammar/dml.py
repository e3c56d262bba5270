"""INSERT, multi-insert, UPDATE, DELETE, LOAD DATA and queries."""

from __future__ import annotations

from hiveacid.sql.grammar.create import QUERY_WORDS
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.statements import changes, queries
from hiveacid.sql.statements.values import Slice, Statement, TableRef

_INSERTS = frozenset({"INSERT"})


def query(cursor: Cursor) -> Statement:
    """Parse a statement that begins like a query; one with FROM or WITH may turn out to be an INSERT."""
    whole = cursor.next
    ctes = _ctes(cursor) if cursor.take("WITH") else None
    if cursor.take("INSERT"):
        return insert(cursor, ctes)
    if cursor.take("FROM"):
        source = cursor.until(_INSERTS, "a table or query to read from")
        if cursor.sees("INSERT"):
            return _multi_insert(cursor, source, ctes)
    elif ctes is not None and not cursor.sees_any(QUERY_WORDS):
        cursor.fail("SELECT or INSERT behind WITH")
    else:
        cursor.rest("a query")
    cursor.expect_end()
    return queries.Query(cursor.slice(whole, cursor.last))


def _ctes(cursor: Cursor) -> Slice:
    """Parse behind WITH; return the whole clause."""
    first = cursor.last
    cursor.take("RECURSIVE")
    while True:
        cursor.name("the name of a common table expression")
        if cursor.sees("(") and not _opens_query(cursor):
            cursor.skip_parentheses()
        cursor.take("AS")
        if not cursor.sees("("):
            cursor.fail("'('")
        cursor.skip_parentheses()
        if not cursor.take(","):
            return cursor.slice(first, cursor.last)


def _opens_query(cursor: Cursor) -> bool:
    """Tell ``(SELECT ...`` from a list of columns, which may be called ``map`` or ``values``."""
    return cursor.ahead(1).keyword in QUERY_WORDS and cursor.ahead(2).keyword not in {",", ")"}


def insert(cursor: Cursor, ctes: Slice | None = None, stops: frozenset[str] = frozenset()) -> changes.Insert:
    """Parse behind INSERT; a leg of a multi-insert ends at the next INSERT (``stops``)."""
    overwrite = cursor.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
    if cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY"):
        cursor.refuse("INSERT OVERWRITE DIRECTORY is not supported: write the DataFrame of the query")
    cursor.take("TABLE")
    table = cursor.table()
    partition = cursor.partition(dynamic=True)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    columns: tuple[str, ...] | None = None
    if cursor.sees("(") and not _opens_query(cursor):
        columns = cursor.names("a column name")
    starts = frozenset({"SELECT", "MAP", "REDUCE"}) if stops else QUERY_WORDS
    if not cursor.sees_any(starts):
        cursor.fail("SELECT" if stops else "SELECT, VALUES or another query")
    text = cursor.until(stops, "a query") if stops else cursor.rest("a query")
    return changes.Insert(table, text, overwrite, partition, if_not_exists, columns, ctes)


def _multi_insert(cursor: Cursor, source: Slice, ctes: Slice | None) -> changes.MultiInsert:
    legs: list[changes.Insert] = []
    while cursor.take("INSERT"):
        legs.append(insert(cursor, stops=_INSERTS))
    cursor.expect_end()
    return changes.MultiInsert(source, tuple(legs), ctes)


def update(cursor: Cursor) -> changes.Update:
    """Parse behind UPDATE."""
    table = cursor.table()
    alias = cursor.alias()
    cursor.expect("SET")
    assigned = assignments(cursor, table, alias, frozenset({",", "WHERE"}))
    return changes.Update(table, assigned, _where(cursor), alias)


def delete(cursor: Cursor) -> changes.Delete:
    """Parse behind DELETE."""
    cursor.expect("FROM")
    table = cursor.table()
    alias = cursor.alias()
    return changes.Delete(table, _where(cursor), alias)


def _where(cursor: Cursor) -> Slice | None:
    if cursor.at_end:
        return None
    if not cursor.take("WHERE"):
        cursor.fail("WHERE or the end of the statement")
    return cursor.rest("a condition")


def assignments(
    cursor: Cursor, table: TableRef, alias: str | None, stops: frozenset[str]
) -> tuple[changes.Assignment, ...]:
    """Parse ``column = expression, ...``; a column may be written with the target's name or alias."""
    by_column: dict[str, changes.Assignment] = {}
    while not by_column or cursor.take(","):
        token = cursor.next
        *qualifier, column = cursor.dotted("a column name")
        if not _is_target(qualifier, table, alias):
            cursor.refuse(
                f"only columns of {alias or table} can be set, not {'.'.join((*qualifier, column))}", token
            )
        if column in by_column:
            cursor.refuse(f"column {column} is set twice", token)
        cursor.expect("=")
        expression = cursor.until(stops, "an expression")
        by_column[column] = changes.Assignment(column, expression, token.line, token.column)
    return tuple(by_column.values())


def _is_target(qualifier: list[str], table: TableRef, alias: str | None) -> bool:
    if alias is not None:
        return qualifier in ([], [alias])
    return qualifier in ([], [table.name], [table.database, table.name])


def load(cursor: Cursor) -> changes.LoadData:
    """Parse behind LOAD."""
    cursor.expect("DATA")
    local = cursor.take("LOCAL")
    cursor.expect("INPATH")
    path = cursor.string("a path in quotes")
    overwrite = cursor.take("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    return changes.LoadData(path, cursor.table(), cursor.partition(), local, overwrite)

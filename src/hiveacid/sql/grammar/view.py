"""CREATE VIEW and ALTER VIEW (``HiveParser.g``, createViewStatement; ``AlterClauseParser.g``, alterViewStatementSuffix)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.sql.grammar.create import QUERY_WORDS, query_of
from hiveacid.sql.statements import definitions

if TYPE_CHECKING:
    from hiveacid.sql.grammar.cursor import Cursor
    from hiveacid.sql.statements.values import Properties, Statement


def create_view(cursor: Cursor, *, replace: bool) -> Statement:
    """Parse behind CREATE [OR REPLACE], from GLOBAL, TEMPORARY or VIEW on."""
    shared = cursor.take("GLOBAL")
    if cursor.take_one("TEMPORARY", "TEMP"):
        cursor.expect("VIEW")
        name = cursor.table("the view's name")
        columns = cursor.names("a column name") if cursor.sees("(") else ()
        cursor.expect("AS")
        return definitions.CreateTemporaryView(name, query_of(cursor), columns, replace, shared)
    if shared:
        cursor.fail("TEMPORARY")
    cursor.expect("VIEW")
    start = cursor.next
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if if_not_exists and replace:
        cursor.refuse("a view is either replaced or left as it is", start)
    name = cursor.table("the view's name")
    named = _columns(cursor) if cursor.sees("(") else ()
    comment, properties = _clauses(cursor)
    cursor.expect("AS")
    return definitions.CreateView(name, query_of(cursor), named, comment, properties, if_not_exists, replace)


def _columns(cursor: Cursor) -> tuple[definitions.ViewColumn, ...]:
    taken: set[str] = set()

    def member() -> definitions.ViewColumn:
        token, name = cursor.next, cursor.name("a column name")
        if name in taken:
            cursor.refuse(f"{name} stands twice in the list", token)
        taken.add(name)
        comment = cursor.string("a comment in quotes") if cursor.take("COMMENT") else None
        return definitions.ViewColumn(name, comment)

    return cursor.list_of(member)


def _clauses(cursor: Cursor) -> tuple[str | None, Properties]:
    comment: str | None = None
    properties: Properties | None = None
    while not cursor.sees("AS"):
        token = cursor.next
        if cursor.take("COMMENT"):
            if comment is not None:
                cursor.refuse("COMMENT stands twice", token)
            comment = cursor.string("a comment in quotes")
            continue
        if not cursor.take("TBLPROPERTIES"):
            cursor.fail("COMMENT, TBLPROPERTIES or AS")
        if properties is not None:
            cursor.refuse("TBLPROPERTIES stands twice", token)
        properties = cursor.properties()
    return comment, properties or ()


def alter_view(cursor: Cursor) -> Statement:
    """Parse behind ALTER VIEW."""
    view = cursor.table("the view's name")
    if cursor.take("RENAME", "TO"):
        return definitions.RenameView(view, cursor.table("the new name"))
    if cursor.take("SET", "TBLPROPERTIES"):
        return definitions.SetViewProperties(view, cursor.properties())
    if cursor.take("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.take("IF", "EXISTS")
        keys = cursor.list_of(lambda: cursor.string("a property's name in quotes"))
        return definitions.UnsetViewProperties(view, keys, if_exists)
    if not cursor.take("AS") and not cursor.sees_any(QUERY_WORDS):
        cursor.fail("AS, RENAME TO, SET TBLPROPERTIES or UNSET TBLPROPERTIES")
    return definitions.AlterView(view, query_of(cursor))

"""Constraints of CREATE TABLE (``HiveParser.g``, columnConstraint and tableConstraint).

A constraint that no engine enforces has no effect on the data and is ignored. Hive enforces NOT NULL, DEFAULT and CHECK on
every write, unless DISABLE follows. They are refused, because hiveacid would write rows that violate them.
Trino prints NOT NULL for columns of tables that it does not check itself either.
"""

from __future__ import annotations

from typing import TypeAlias

from hiveacid.spark.parser.lexer import Token
from hiveacid.sql.grammar.cursor import Cursor

_ENDS = frozenset(
    {",", "COMMENT", "CONSTRAINT", "NOT", "ENABLE", "ENABLED", "DISABLE", "DISABLED", "ENFORCED", "VALIDATE"}
    | {"NOVALIDATE", "RELY", "NORELY", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES"}
)


Enforced: TypeAlias = list[tuple[str, Token]]
"""Enforced constraints of a table: their kinds and positions."""


def take_column_constraint(cursor: Cursor, enforced: Enforced) -> bool:
    """Take one constraint behind a column's type; False if none comes next."""
    token = cursor.next
    if cursor.take("CONSTRAINT"):
        cursor.name("the constraint's name")
    if cursor.take("NOT", "NULL"):
        kind = "NOT NULL"
    elif cursor.take("DEFAULT"):
        kind = "DEFAULT"
        cursor.until(_ENDS, "a default value")
    elif cursor.take("CHECK"):
        kind = "CHECK"
        _parenthesised(cursor)
    elif cursor.take("PRIMARY", "KEY") or cursor.take("UNIQUE"):
        kind = ""
    elif cursor.take("REFERENCES"):
        kind = ""
        cursor.table()
        cursor.names("a column name")
    elif cursor.next is token:
        return False
    else:
        cursor.fail("a constraint")
    _options(cursor, enforced, kind, token)
    return True


def take_table_constraint(cursor: Cursor, enforced: Enforced) -> bool:
    """Take one constraint among the columns; False if a column comes next."""
    token = cursor.next
    offset = 2 if cursor.sees("CONSTRAINT") else 0
    word, behind = cursor.ahead(offset).keyword, cursor.ahead(offset + 1).keyword
    if (word, behind) not in {("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE", "("), ("CHECK", "(")}:
        return False
    for _ in range(offset + 1):
        cursor.advance()
    if cursor.take("KEY") or word == "UNIQUE":
        cursor.names("a column name")
    else:
        _parenthesised(cursor)
    if cursor.take("REFERENCES"):
        cursor.table()
        cursor.names("a column name")
    _options(cursor, enforced, "CHECK" if word == "CHECK" else "", token)
    return True


def _parenthesised(cursor: Cursor) -> None:
    if not cursor.sees("("):
        cursor.fail("'('")
    cursor.skip_parentheses()


def _options(cursor: Cursor, enforced: Enforced, kind: str, token: Token) -> None:
    """Take ENABLE, DISABLE and similar options; record the constraint if it is enforced.

    Keys are informational unless ENABLE is written; NOT NULL, DEFAULT and CHECK are enforced unless DISABLE is.
    """
    disabled = enabled = False
    while True:
        if cursor.take_one("DISABLE", "DISABLED") or cursor.take("NOT", "ENFORCED"):
            disabled = True
        elif cursor.take_one("ENABLE", "ENABLED", "ENFORCED"):
            enabled = True
        elif not cursor.take_one("VALIDATE", "NOVALIDATE", "RELY", "NORELY"):
            break
    if enabled or (kind and not disabled):
        enforced.append((kind or "an enforced key", token))

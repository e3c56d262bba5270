"""Bounds of what a statement grows into inside Spark: grouping sets, and copies of common table expressions.

A text of some hundred bytes can fill the memory that all sessions of a process share. Spark's parser itself expands CUBE
inside GROUPING SETS, so the words of the text are counted, not the nodes of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hiveacid.errors import StatementTooLargeError

MAX_GROUPING_SETS = 4096
"""Grouping sets of a statement, PostgreSQL's limit. CUBE of n columns has 2^n, and Spark makes a list of them."""
MAX_COPIES = 5000
"""Copies of common table expressions: Spark puts one for each reference, also into those that refer to others."""
_WORDS = frozenset({"CUBE", "ROLLUP", "GROUPING", "WITH"})
_MANY = 64  # columns of a CUBE: 2^64 is too many, and more digits say nothing
_BEHIND_TABLES = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SET"}
)


class Token(Protocol):
    """Token of a text, with what is needed here of the lexer's; the lexer calls this module, which cannot import it."""

    @property
    def keyword(self) -> str:
        """The upper-case word or symbol."""

    @property
    def is_name(self) -> bool:
        """True for words and names in back-quotes."""

    @property
    def name(self) -> str:
        """The name without its back-quotes."""

    @property
    def line(self) -> int:
        """The line, from 1."""

    @property
    def column(self) -> int:
        """The column, from 1."""


@dataclass
class _Level:
    """Text between two parentheses. ``common_table``: its name, if it is the query of one."""

    kind: str = ""  # CUBE, ROLLUP or SETS
    common_table: str = ""
    names_tables: bool = False  # inside FROM
    in_group_by: bool = False
    elements: int = 1  # of the list between the parentheses, or of GROUP BY
    sets: int = 1  # of this GROUP BY: the product of its CUBE, ROLLUP and GROUPING SETS
    more_sets: int = 0  # of those inside GROUPING SETS, which count as one element each
    copies: int = 0
    name_before_list: str = ""  # ``a`` of ``a (x, y) AS (SELECT …)``


@dataclass
class _Growth:
    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    sets: int = 0
    copies_of: dict[str, int] = field(default_factory=dict)

    def open(self, tokens: Sequence[Token], index: int, *, expects_table: bool) -> None:
        before, two_before = _word(tokens, index - 1), _word(tokens, index - 2)
        level = _Level(names_tables=expects_table)
        if before in {"CUBE", "ROLLUP"} or (before, two_before) == ("SETS", "GROUPING"):
            level.kind = before
        elif before == "AS" and two_before == ")":
            level.common_table = self.levels[-1].name_before_list
        elif before == "AS" and index > 1:
            level.common_table = tokens[index - 2].name.lower()
        if index and tokens[index - 1].is_name:
            self.levels[-1].name_before_list = tokens[index - 1].name.lower()
        self.levels.append(level)

    def close(self) -> None:
        if len(self.levels) == 1:
            return
        level, outer = self.levels.pop(), self.levels[-1]
        if level.kind:
            self.add_sets(_sets(level), outer)
        if level.common_table:
            self.copies_of[level.common_table] = level.copies
        else:
            outer.copies += level.copies

    def add_sets(self, sets: int, level: _Level) -> None:
        if level.kind == "SETS":
            level.more_sets += sets - 1
            return
        self.sets += level.sets * (sets - 1)
        level.sets *= sets


def _sets(level: _Level) -> int:
    if level.kind == "CUBE":
        return 1 << min(level.elements, _MANY)
    return level.elements + (1 if level.kind == "ROLLUP" else level.more_sets)


def require_bounded_growth(tokens: Sequence[Token]) -> None:
    """Raise StatementTooLargeError for too many grouping sets, or copies of common table expressions."""
    if _WORDS.isdisjoint(token.keyword for token in tokens):
        return
    growth = _Growth()
    before = ""
    for index, token in enumerate(tokens):
        word, level = token.keyword, growth.levels[-1]
        expects_table = before in {"FROM", "JOIN", "TABLE"} or (before in {",", "("} and level.names_tables)
        if word == "(":
            growth.open(tokens, index, expects_table=expects_table)
        elif word == ")":
            growth.close()
        elif word == ",":
            level.elements += 1
        elif word == "CUBE" and before == "WITH" and level.in_group_by:
            growth.add_sets(1 << min(level.elements, _MANY), level)
        elif expects_table and token.is_name and _word(tokens, index + 1) not in {".", "("}:
            level.copies += _copies(growth, token)
        if word in _BEHIND_TABLES:
            level.names_tables = False
        elif word in {"FROM", "JOIN"}:
            level.names_tables = True
        if word in {"GROUP", "SELECT"}:
            level.in_group_by, level.elements, level.sets = word == "GROUP", 1, 1
        before = word
        _require_few(growth, level, token)


def _copies(growth: _Growth, token: Token) -> int:
    copies = growth.copies_of.get(token.name.lower())
    return 0 if copies is None else 1 + copies


def _require_few(growth: _Growth, level: _Level, token: Token) -> None:
    if growth.sets > MAX_GROUPING_SETS:
        message = (
            f"the statement has more than {MAX_GROUPING_SETS} grouping sets (CUBE of n columns has 2^n): group by fewer columns, "
            "or write the GROUPING SETS that you need"
        )
        raise StatementTooLargeError(message, line=token.line, column=token.column)
    if level.copies > MAX_COPIES:
        message = (
            f"common table expressions that refer to others would be copied more than {MAX_COPIES} times, because Spark puts a "
            "copy for each reference: write the rows of one of them into a table, and read that"
        )
        raise StatementTooLargeError(message, line=token.line, column=token.column)


def _word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].keyword if 0 <= index < len(tokens) else ""

"""Virtual columns: ``ROW__ID`` and ``INPUT__FILE__NAME``, which a query may name but ``*`` does not show.

They are hidden columns of the rows that stand for a table (`hiveacid.spark.session.bound_plans`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.sql.statements.values import Slice

VIRTUAL_COLUMNS = (ROW_ID, FILE_NAME)

_NAMES = frozenset(name.lower() for name in VIRTUAL_COLUMNS)
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_QUERY_STARTS = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE"})


@dataclass(frozen=True)
class Block:
    """A query block: the part of a text, from one offset to another, that one SELECT reaches."""

    start: int
    end: int

    def holds(self, offset: int) -> bool:
        """Tell whether an offset lies inside."""
        return self.start <= offset < self.end


class VirtualColumns:
    """The mentions of virtual columns in a text, and the tables that need them."""

    def __init__(self, piece: Slice) -> None:
        """Look at a query, or an expression, as the user wrote it."""
        tokens = piece.tokens
        self._places = [token.start for token in tokens if token.is_name and token.name.lower() in _NAMES]
        self._blocks = list(_blocks(tokens)) if self._places else []

    def needed_at(self, offset: int) -> bool:
        """Tell whether the table whose name begins at ``offset`` needs them."""
        around = [block for block in self._blocks if block.holds(offset)]
        innermost = min(around, key=lambda block: block.end - block.start, default=None)
        return innermost is not None and any(innermost.holds(mention) for mention in self._places)


def has_nested_query(tokens: Sequence[Token]) -> bool:
    """Tell whether a text has a query in parentheses."""
    return any(token.keyword == "(" and after.keyword in _QUERY_STARTS for token, after in pairwise(tokens))


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    """Yield the query blocks: all of the text, subqueries in parentheses, the members of set operations."""
    starts, closers = [0], [True]  # of open parentheses: where their block begins, whether they are one
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.END:
            yield Block(starts[0], token.end + 1)
        elif token.keyword == "(":
            first_word = next(behind.keyword for behind in tokens[index:] if behind.keyword != "(")
            is_query = first_word in _QUERY_STARTS
            starts.append(token.end if is_query else starts[-1])
            closers.append(is_query)
        elif token.keyword == ")" and len(starts) > 1:
            start = starts.pop()
            if closers.pop():
                yield Block(start, token.start)
        elif token.keyword in _SET_OPERATORS and not _is_star_except(tokens, index):
            yield Block(starts[-1], token.start)
            starts[-1] = token.end


def _is_star(tokens: Sequence[Token], index: int) -> bool:
    """Tell a star that means all columns from a multiplication."""
    if tokens[index].keyword != "*" or index == 0:
        return False
    before = tokens[index - 1]
    if before.kind is TokenKind.SYMBOL:
        return before.text in {",", "(", "."}
    return before.keyword in {"SELECT", "DISTINCT", "ALL"}


def _is_star_except(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].keyword == "EXCEPT" and _is_star(tokens, index - 1)

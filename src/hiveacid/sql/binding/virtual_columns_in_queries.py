"""Virtual columns: ``ROW__ID`` and ``INPUT__FILE__NAME``, which a query may name but ``*`` does not show.

Spark's views cannot hide columns. A view therefore gets them only if the query block that reads it names one of
them. They are its last columns, followed by a marker. `without_virtual_columns` removes them from the result where
``*`` added them. Operators that would use them unseen (SELECT DISTINCT *, NATURAL JOIN, ...) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.core.schema.virtual_columns import FILE_NAME, ROW_ID
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.sql.statements.values import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIRTUAL_COLUMNS = (ROW_ID, FILE_NAME)
# The marker's name ends in the number of columns before it that go with it.
MARKER = "__hiveacid_end_"

_NAMES = frozenset(name.lower() for name in VIRTUAL_COLUMNS)
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_QUERY_STARTS = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE"})
# Words before a parenthesis that do not make a function call of it.
_NO_FUNCTIONS = frozenset(
    {"ALL", "AND", "ANY", "AS", "BY", "EXISTS", "FROM", "IN", "JOIN", "LATERAL", "NOT", "ON", "OR", "SELECT"}
    | {"SOME", "UNION", "USING", "VALUES", "WHERE", "WITH", *_SET_OPERATORS}
)


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
        self._tokens = piece.tokens
        self._places = [
            token.start for token in self._tokens if token.is_name and token.name.lower() in _NAMES
        ]
        self._blocks = list(_blocks(self._tokens)) if self._places else []

    def needed_at(self, offset: int) -> bool:
        """Tell whether the table whose name begins at ``offset`` needs them."""
        inside = [block for block in self._blocks if block.holds(offset)]
        if not inside:
            return False
        innermost = min(inside, key=lambda block: block.end - block.start)
        return any(innermost.holds(mention) for mention in self._places)

    def refuse_unseen_use(self) -> None:
        """Raise UnsupportedFeatureError if an operator would use virtual columns that the user does not see."""
        if not self._places:
            return
        used = next((t for t in self._tokens if t.keyword in {"NATURAL", "PIVOT", "UNPIVOT"}), None)
        if used is None:
            star = _star_in_function(self._tokens)
            if star is None and any(_is_star(self._tokens, index) for index in range(len(self._tokens))):
                used = _duplicate_removal(self._tokens)
            else:
                used = star
        if used is not None:
            raise UnsupportedFeatureError(
                f"{used.keyword or used.text} cannot be used beside ROW__ID or INPUT__FILE__NAME "
                f"(line {used.line}, column {used.column}): name the columns instead of *"
            )

    def refuse_star(self) -> None:
        """Raise UnsupportedFeatureError if ``*`` would add virtual columns to the result of a statement of Spark.

        A pipe (``FROM t |> WHERE ...``) stands for all columns without a star.
        """
        for index, token in enumerate(self._tokens if self._places else ()):
            counts_rows = index > 1 and [t.keyword for t in self._tokens[index - 2 : index]] == ["COUNT", "("]
            piped = token.text == ">" and self._tokens[index - 1].text == "|"
            if piped or (_is_star(self._tokens, index) and not counts_rows):
                raise UnsupportedFeatureError(
                    f"{'|>' if piped else '*'} cannot be used beside ROW__ID or INPUT__FILE__NAME in what Spark carries out "
                    f"(line {token.line}, column {token.column}): name the columns"
                )


def without_virtual_columns(frame: DataFrame) -> DataFrame:
    """Remove the virtual columns that ``*`` added; a marker column ends each group of them."""
    names = frame.columns
    drop: set[int] = set()
    for index, name in enumerate(names):
        if name.startswith(MARKER):
            drop.update(range(index - int(name.removeprefix(MARKER)), index + 1))
    if not drop:
        return frame
    numbered = frame.toDF(*[f"c{index}" for index in range(len(names))])
    indexes = [index for index in range(len(names)) if index not in drop]
    return numbered.select(*[f"c{index}" for index in indexes]).toDF(*[names[index] for index in indexes])


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


def _duplicate_removal(tokens: Sequence[Token]) -> Token | None:
    """Return the first word that compares whole rows."""
    for before, token, after in zip([tokens[-1], *tokens], tokens, tokens[1:], strict=False):
        if token.keyword == "DISTINCT" and before.keyword == "SELECT":
            return token
        if token.keyword in _SET_OPERATORS and after.keyword != "ALL":
            return token
        if token.keyword == "ALL" and before.keyword == "BY":
            return token
    return None


def _star_in_function(tokens: Sequence[Token]) -> Token | None:
    """Return the name of a function that takes all columns; count(*) only counts rows."""
    callers: list[Token | None] = []
    for index, token in enumerate(tokens):
        if token.keyword == "(":
            before = tokens[index - 1] if index else token
            is_call = before.is_name and before.keyword not in _NO_FUNCTIONS
            callers.append(before if is_call else None)
        elif token.keyword == ")" and callers:
            callers.pop()
        elif _is_star(tokens, index) and callers and (caller := callers[-1]) is not None:
            counts_rows = caller.keyword == "COUNT" and tokens[index - 1].keyword == "("
            if not counts_rows:
                return caller
    return None

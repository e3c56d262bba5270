"""Statements: one frozen value per statement, made by `sql.grammar` and carried out by `sql.execute`.

The modules ``dml``, ``definitions`` and ``administration`` define them by area. Here are the base classes and the parts:
pieces of text with their position, table names, constants, partition specifications. Text that Spark will judge
(expressions, queries) is a ``Slice`` with its position and its tokens.

Invariants: values are compared without positions; names are in lower case, as Hive keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.core.model import TableName
from hiveacid.core.schema.types import position
from hiveacid.spark.parser.lexer import Token, end_token, moved_to_start, tokenize

if TYPE_CHECKING:
    from hiveacid.spark.parser.relations import QueryReads


Properties: TypeAlias = tuple[tuple[str, str], ...]

SPARK_CATALOG = "spark_catalog"
"""Spark's name of its session catalog; tables of the hiveacid catalog are found by that name, too."""


@dataclass(frozen=True)
class Statement:
    """A parsed statement, ready to be carried out."""


@dataclass(frozen=True)
class Slice:
    """A piece of the statement's text, exactly as written; offset from 0, line and column from 1.

    A piece is tokenised once: the grammar hands on the tokens of the statement, other pieces keep their own.
    Spark's parser reads it once, too: ``reads`` keeps the result (`hiveacid.sql.binding.table_binder.reads_of`).
    """

    text: str
    start: int = field(default=0, compare=False)
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)
    _source: Sequence[Token] = field(default=(), init=False, compare=False, repr=False)
    reads: dict[str, QueryReads] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of_tokens(cls, text: str, tokens: Sequence[Token]) -> Slice:
        """Return the piece of a statement's ``text`` that its ``tokens`` (at least one) make up."""
        first = tokens[0]
        piece = cls(text[first.start : tokens[-1].end], first.start, first.line, first.column)
        object.__setattr__(piece, "_source", tokens)
        return piece

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """The tokens, the last one of kind END; offsets, lines and columns count from the beginning of the piece.

        Raises ParseError and StatementTooLargeError as `tokenize`.
        """
        if not self._source:
            return tokenize(self.text)
        return [*moved_to_start(self._source), end_token(self.text)]

    def statement_position(self, line: int, column: int) -> tuple[int, int]:
        """Return line and column in the statement for those in the piece."""
        return line + self.line - 1, column + (self.column - 1 if line == 1 else 0)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column in the statement for an offset in the piece."""
        return self.statement_position(*position(self.text, offset))

    def part(self, start: int, end: int | None = None) -> Slice:
        """Return the part of the piece from one offset to another (excluded)."""
        return Slice(self.text[start:end], self.start + start, *self.position(start))

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class TableRef:
    """A table as named in a statement; ``database`` is None where the current one is meant."""

    database: str | None
    name: str
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    def resolve(self, current_database: str) -> TableName:
        """Return the full name."""
        return TableName(self.database or current_database, self.name)

    def __str__(self) -> str:
        """Return ``db.table`` or ``table``, for messages."""
        return self.name if self.database is None else f"{self.database}.{self.name}"


@dataclass(frozen=True)
class TableStatement(Statement):
    """A statement on one table, which it names first."""

    table: TableRef


def table_ref(parts: Sequence[str]) -> TableRef | None:
    """Return the table that a name's parts refer to (``spark_catalog`` may be first of three); None for other catalogs."""
    names = parts[1:] if len(parts) == 3 and parts[0] == SPARK_CATALOG else parts  # noqa: PLR2004 - catalog first
    if len(names) > 2:  # noqa: PLR2004 - database and table
        return None
    return TableRef(names[0] if len(names) > 1 else None, names[-1])


@dataclass(frozen=True)
class Literal:
    """A constant: ``value`` is its text as Hive would keep it in a partition's name, None for NULL.

    ``kind`` is string, number, boolean, date, timestamp or null.
    """

    value: str | None
    kind: str


@dataclass(frozen=True)
class PartitionItem:
    """One member of ``PARTITION (...)``.

    ``expression`` is None for a dynamic partition column (``PARTITION (p)``). ``literal`` is set where the
    expression is a constant; Spark evaluates everything else. ``operator`` is ``=``, except in DROP PARTITION
    (=, <>, <, <=, >, >=).
    """

    column: str
    expression: Slice | None = None
    literal: Literal | None = None
    operator: str = "="
    line: int = field(default=1, compare=False)
    at_column: int = field(default=1, compare=False)


PartitionSpec: TypeAlias = tuple[PartitionItem, ...]

"""What statements are made of: pieces of text with their place, table names, constants, partition specifications.

Names are lower case, as Hive keeps them. Places never take part in comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hiveacid.core.model import TableName

Properties: TypeAlias = tuple[tuple[str, str], ...]

SPARK_CATALOG = "spark_catalog"
"""What Spark calls the catalog that names without one are looked for in; ours are found by that name, too."""


@dataclass(frozen=True)
class Slice:
    """A piece of the statement's text, exactly as written; offset from 0, line and column from 1."""

    text: str
    start: int = field(default=0, compare=False)
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

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


def table_ref(parts: Sequence[str]) -> TableRef | None:
    """Return what the parts of a name mean, a first of three being Spark's own catalog; None for any other catalog."""
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
    expression is a constant; anything else Spark has to evaluate. ``operator`` is ``=`` but in DROP PARTITION
    (=, <>, <, <=, >, >=).
    """

    column: str
    expression: Slice | None = None
    literal: Literal | None = None
    operator: str = "="
    line: int = field(default=1, compare=False)
    at_column: int = field(default=1, compare=False)


PartitionSpec: TypeAlias = tuple[PartitionItem, ...]

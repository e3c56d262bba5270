"""Enabled constraints of a table: the writes that they concern, and the report of a violation.

Hive enforces NOT NULL and CHECK on new rows, and uses the DEFAULT of a column that an INSERT leaves out
(``SemanticAnalyzer.genConstraintsPlan``). Hive never enforces keys, and its SQL cannot enable them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hiveacid.core.model import TableName
from hiveacid.errors import UnsupportedFeatureError


class ConstraintKind(StrEnum):
    """The kinds of constraints that Hive enforces."""

    NOT_NULL = "NOT NULL"
    CHECK = "CHECK"
    DEFAULT = "DEFAULT"


@dataclass(frozen=True)
class Constraint:
    """An enabled constraint.

    ``column``: lower case; None for a CHECK of the table. ``expression``: of a CHECK or DEFAULT, in Hive's SQL.
    """

    kind: ConstraintKind
    name: str
    column: str | None = None
    expression: str = ""

    def __str__(self) -> str:
        """Return the kind with its name: ``constraint nn_a (NOT NULL)``, ``constraint c1 (CHECK a < b)``."""
        return f"constraint {self.name} ({' '.join(filter(None, (self.kind.value, self.expression)))})"


def require_no_check(table: TableName, constraints: Sequence[Constraint]) -> None:
    """Refuse to write into a table with a CHECK constraint. Raises UnsupportedFeatureError."""
    for constraint in constraints:
        if constraint.kind is ConstraintKind.CHECK:
            raise UnsupportedFeatureError(
                f"{table} has the enabled {constraint}, which hiveacid does not evaluate: write these rows by Hive, or "
                f"ALTER TABLE {table} DROP CONSTRAINT {constraint.name} in Hive"
            )


def require_no_default(
    table: TableName, constraints: Sequence[Constraint], left_out: Collection[str]
) -> None:
    """Refuse to leave out columns that have a default. Raises UnsupportedFeatureError."""
    for constraint in constraints:
        if constraint.kind is ConstraintKind.DEFAULT and constraint.column in left_out:
            raise UnsupportedFeatureError(
                f"column {constraint.column} of {table} has the enabled {constraint}, which hiveacid does not evaluate: "
                f"give {constraint.column} a value in the statement"
            )


def not_null_columns(constraints: Sequence[Constraint]) -> dict[str, Constraint]:
    """Return the columns that may not be NULL, with their constraints."""
    return {
        constraint.column: constraint
        for constraint in constraints
        if constraint.kind is ConstraintKind.NOT_NULL and constraint.column is not None
    }


def null_violation(table: TableName, constraint: Constraint) -> str:
    """Return the message for a row with NULL in a NOT NULL column; one line."""
    text = (
        f"column {constraint.column} of {table} is NULL in a new row, which the enabled {constraint} forbids"
    )
    return " ".join(f"{text}; nothing was written".split())

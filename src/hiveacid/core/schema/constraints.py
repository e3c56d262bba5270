"""Rules of constraints: which of them bind writers, what may be added, and their texts.

Hive enforces NOT NULL and CHECK on new rows, and uses the DEFAULT of a column that an INSERT leaves out
(``SemanticAnalyzer.genConstraintsPlan``). A CHECK that is NULL passes. Hive never enforces keys, and its SQL cannot enable them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from hiveacid.core.model import Constraint, ConstraintKind, TableDefinition, TableName
from hiveacid.core.schema.surrogate_keys import SurrogateKey
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import AlreadyExistsError, CatalogError, UnsupportedFeatureError, no_such_column

_PREFIXES = {
    ConstraintKind.PRIMARY_KEY: "pk",
    ConstraintKind.FOREIGN_KEY: "fk",
    ConstraintKind.UNIQUE: "uk",
    ConstraintKind.NOT_NULL: "nn",
    ConstraintKind.DEFAULT: "dc",
    ConstraintKind.CHECK: "ck",
}
_TITLES = {
    ConstraintKind.PRIMARY_KEY: "Primary Key",
    ConstraintKind.FOREIGN_KEY: "Foreign Keys",
    ConstraintKind.UNIQUE: "Unique Constraints",
    ConstraintKind.NOT_NULL: "Not Null Constraints",
    ConstraintKind.DEFAULT: "Default Constraints",
    ConstraintKind.CHECK: "Check Constraints",
}
KEYS = frozenset({ConstraintKind.PRIMARY_KEY, ConstraintKind.FOREIGN_KEY, ConstraintKind.UNIQUE})
TEXTS = frozenset({"string", "varchar", "char"})
"""Types of partition columns whose empty text is NULL, as a row is read."""
AMBIGUOUS = "what a backslash or double quotes mean depends on settings"
ONE_PER_COLUMN = frozenset({ConstraintKind.NOT_NULL, ConstraintKind.DEFAULT})


def limits(constraints: Sequence[Constraint]) -> bool:
    """Tell whether new rows have to satisfy one of the constraints."""
    return bool(not_null_columns(constraints) or checks(constraints))


def not_null_columns(constraints: Sequence[Constraint]) -> dict[str, Constraint]:
    """Return the columns that may not be NULL, with their constraints."""
    return {
        constraint.column: constraint
        for constraint in constraints
        if constraint.kind is ConstraintKind.NOT_NULL and constraint.enabled and constraint.column is not None
    }


def checks(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Return the CHECKs that new rows have to satisfy."""
    return [one for one in constraints if one.kind is ConstraintKind.CHECK and one.enabled]


def defaults(constraints: Sequence[Constraint], columns: Collection[str]) -> dict[str, str]:
    """Return the default values of ``columns``, in SQL; the others' is NULL."""
    return {
        constraint.column: constraint.expression
        for constraint in constraints
        if constraint.kind is ConstraintKind.DEFAULT
        and constraint.enabled
        and constraint.column is not None
        and constraint.column in columns
    }


def surrogate_keys(constraints: Sequence[Constraint]) -> dict[str, tuple[SurrogateKey, Constraint]]:
    """Return the columns whose DEFAULT is a surrogate key, with the key and the constraint."""
    found = (
        (one, SurrogateKey.parse(one.expression))
        for one in constraints
        if one.kind is ConstraintKind.DEFAULT and one.enabled
    )
    return {one.column: (key, one) for one, key in found if key is not None and one.column is not None}


def mentions(constraint: Constraint, columns: Collection[str]) -> bool:
    """Tell whether a constraint is about one of the columns, or may name it in its text."""
    text = constraint.expression.lower().replace("``", "`")
    own = constraint.column in columns or any(column in columns for column in constraint.key)
    return own or any(column in text for column in columns)


def is_ambiguous(expression: str) -> bool:
    """Tell whether an expression may have a text that engines and sessions read in several ways (`AMBIGUOUS`)."""
    return "\\" in expression or '"' in expression


def violation(table: TableName, constraint: Constraint) -> str:
    """Return the message for a new row that violates a NOT NULL or CHECK, or of a stream without a surrogate key; one line."""
    text = (
        f"column {constraint.column} of {table} is NULL in a new row, which the enabled {constraint} forbids"
    )
    if constraint.kind is ConstraintKind.CHECK:
        text = f"a new row of {table} does not satisfy the enabled {constraint}"
    elif constraint.kind is ConstraintKind.DEFAULT:
        text = f"column {constraint.column} of {table} is NULL in a new row, and a stream makes no keys for the {constraint}: INSERT does"
    return " ".join(f"{text}; nothing was written".split())


def not_evaluated(table: TableName, constraint: Constraint, reason: str) -> UnsupportedFeatureError:
    """Return the error of a CHECK or DEFAULT that cannot be evaluated: ``reason``."""
    return UnsupportedFeatureError(
        f"{table}: the {constraint} cannot be evaluated here: {reason}; give the table another constraint, or write the rows by "
        "another interface"
    )


def with_added(
    table: TableDefinition, existing: Sequence[Constraint], added: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints with others, which get names if they have none.

    Raises NoSuchColumnError, AlreadyExistsError (a name is taken), CatalogError (a second NOT NULL or DEFAULT of a column, or a
    second primary key).
    """
    constraints = [*existing]
    for constraint in added:
        for column in (*constraint.key, *([] if constraint.column is None else [constraint.column])):
            if column not in table.column_names:
                raise no_such_column(table.name, column, table.column_names)
        for other in constraints:
            again = other.kind is constraint.kind and other.column == constraint.column
            if again and constraint.kind in ONE_PER_COLUMN | {ConstraintKind.PRIMARY_KEY}:
                raise CatalogError(
                    f"{table.name} has the {other} already: ALTER TABLE {table.name} DROP CONSTRAINT {other.name} first"
                )
        names = {other.name for other in constraints}
        if constraint.name in names:
            raise AlreadyExistsError(f"{table.name} has a constraint {constraint.name} already")
        if not constraint.name:  # other than those of other tables, which some metastores require
            digest = hashlib.sha256(str(table.name).encode()).hexdigest()[:8]
            base = f"{_PREFIXES[constraint.kind]}_{constraint.column or table.name.name}_{digest}"
            numbered = (f"{base}{f'_{number}' * bool(number)}" for number in range(len(names) + 1))
            constraint = replace(constraint, name=next(name for name in numbered if name not in names))  # noqa: PLW2901
        constraints.append(constraint)
    return tuple(constraints)


def described(table: TableName, constraints: Sequence[Constraint]) -> list[tuple[str, str, str | None]]:
    """Return the rows in which DESCRIBE FORMATTED shows constraints, as Hive does."""
    rows: list[tuple[str, str, str | None]] = [("# Constraints", "", None)] if constraints else []
    for kind in ConstraintKind:
        own = [constraint for constraint in constraints if constraint.kind is kind]
        if own:
            rows += [("", "", None), (f"# {_TITLES[kind]}", "", None), ("Table:", str(table), None)]
        for constraint in own:
            rows.append(("Constraint Name:", constraint.name, None))
            if constraint.kind is ConstraintKind.FOREIGN_KEY:
                pairs = zip(constraint.parent_key, constraint.key, strict=True)
                rows += [
                    (f"Parent Column Name:{constraint.parent}.{parent}", f"Column Name:{column}", None)
                    for parent, column in pairs
                ]
            elif constraint.kind in KEYS:
                rows += [("Column Name:", column, None) for column in constraint.key]
            elif constraint.expression:
                value = "Default" if constraint.kind is ConstraintKind.DEFAULT else "Check"
                rows.append(
                    (f"Column Name:{constraint.column}", f"{value} Value:{constraint.expression}", None)
                )
            else:
                rows.append(("Column Name:", constraint.column or "", None))
    return rows


def clause(constraint: Constraint) -> str:
    """Return a constraint as CREATE TABLE takes it among or, of a column, behind the columns."""
    kind = constraint.kind.value
    if constraint.kind in KEYS:
        kind = f"{kind} ({_names(constraint.key)})"
    if constraint.parent is not None:
        parent = f"{quote_name(constraint.parent.database)}.{quote_name(constraint.parent.name)}"
        kind = f"{kind} REFERENCES {parent} ({_names(constraint.parent_key)})"
    if constraint.kind is ConstraintKind.DEFAULT:
        kind = f"{kind} {constraint.expression}"
    if constraint.kind is ConstraintKind.CHECK:
        kind = f"{kind} ({constraint.expression})"
    state = "ENABLE" if constraint.enabled else "DISABLE"
    return f"CONSTRAINT {quote_name(constraint.name)} {kind} {state} NOVALIDATE {'RELY' if constraint.rely else 'NORELY'}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))

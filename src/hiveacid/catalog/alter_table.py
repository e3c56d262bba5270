"""ALTER TABLE of columns and constraints, under the table's exclusive lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Constraint, TableDefinition, TableName
from hiveacid.core.schema import constraints as rules
from hiveacid.errors import CatalogError, UnsupportedFeatureError
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_table, put_definition
from hiveacid.table.write.constraints import require_evaluable


def alter_columns(
    context: Context,
    name: TableName,
    edit: Callable[[TableDefinition, LayoutLevel], TableDefinition],
    added: Constraint | None = None,
) -> None:
    """Change columns by a function of `core.schema.column_changes`; the partitions of a metastore get the same columns.

    ``added``: a constraint that the changed table gets. Raises its errors, and UnsupportedFeatureError if a constraint may name
    what changes.
    """
    with exclusive_table(context, name) as (table, txn):
        edited = edit(table, context.layout_level(table))
        kept = {(column.name, column.type) for column in edited.columns}
        changed = {column.name for column in table.columns if (column.name, column.type) not in kept}
        for constraint in context.catalog.constraints(table, keys=True) if changed else ():
            if rules.mentions(constraint, changed):
                raise UnsupportedFeatureError(
                    f"{name}: {', '.join(sorted(changed))} cannot change beside the constraint {constraint.name}: ALTER TABLE {name} "
                    f"DROP CONSTRAINT {constraint.name} first"
                )
        new = None if added is None else constraints_with(context, edited, added)
        if edited != table:
            put_definition(context, table, edited, txn)
        if new is not None:
            txn.require_open_in_store()
            context.catalog.put_constraints(edited, new)


def constraints_with(context: Context, table: TableDefinition, added: Constraint) -> Sequence[Constraint]:
    """Return a table's constraints and a new one. Raises the errors of `with_added` and `require_evaluable`."""
    changed = rules.with_added(table, context.catalog.constraints(table, keys=True), [added])
    require_evaluable(context, table, changed[-1:])
    return changed


def add_constraint(context: Context, name: TableName, added: Constraint) -> None:
    """Add a constraint, which applies to the rows of later statements; those that the table has stay as they are."""
    with exclusive_table(context, name) as (table, txn):
        changed = constraints_with(context, table, added)
        txn.require_open_in_store()
        context.catalog.put_constraints(table, changed)


def drop_constraint(context: Context, name: TableName, dropped: str, *, if_exists: bool = False) -> None:
    """Drop a constraint."""
    with exclusive_table(context, name) as (table, txn):
        existing = context.catalog.constraints(table, keys=True)
        left = [constraint for constraint in existing if constraint.name != dropped]
        if len(left) < len(existing):
            txn.require_open_in_store()
            context.catalog.put_constraints(table, left)
        elif not if_exists:
            names = ", ".join(constraint.name for constraint in existing)
            raise CatalogError(f"{name} has no constraint {dropped}; it has {names or 'none'}")

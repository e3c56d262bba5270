"""NOT NULL constraints as part of the plan that writes the rows: a violation fails the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hiveacid.core.schema.constraints import Constraint, not_null_columns, null_violation
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import named, selected
from hiveacid.spark.read.scan_source import ROW_ID
from hiveacid.spark.write.staging import ACTION, Action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableDefinition

_WRITES = f"{ACTION} IN ({int(Action.UPDATE)}, {int(Action.INSERT)})"


def check_not_null_rows(
    table: TableDefinition, frame: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Return new rows; one with NULL in a NOT NULL column fails the job (``[HIVEACID_CONSTRAINT]``).

    A projection, not a filter: Spark moves filters below joins, where rows that are never written would fail, too.
    """
    checks = not_null_columns(constraints)
    texts = [_checked_column(table, name, checks.get(name)) for name in frame.columns]
    return selected(frame, texts) if checks else frame


def check_not_null_changed_rows(
    table: TableDefinition, changes: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Check changes, as `stage_changed_rows` takes them, in the same way; only updated and inserted rows are checked."""
    checks = not_null_columns(constraints)
    columns = [column.name for column in (*table.columns, *table.partition_columns)]
    texts = [_checked_column(table, name, checks.get(name), _WRITES) for name in columns]
    return selected(changes, [ACTION, ROW_ID, *texts]) if checks else changes


def _checked_column(
    table: TableDefinition, column: str, constraint: Constraint | None, when: str = ""
) -> str:
    value = quote_name(column)
    if constraint is None:
        return value
    message = f"[HIVEACID_CONSTRAINT] {null_violation(table.name, constraint)}"
    quoted = message.replace("\\", "\\\\").replace("'", "\\'")
    checked = f"coalesce({value}, raise_error('{quoted}'))"
    return str(named(f"if({when}, {checked}, {value})" if when else checked, column))

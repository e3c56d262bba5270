"""Constraints of a table applied to the rows of a stream, which no Spark evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import DEFAULT_PARTITION, Constraint, Partition, TableDefinition
from hiveacid.core.predicates import Not
from hiveacid.core.schema import constraints as rules
from hiveacid.core.schema.types import is_primitive, parse_type
from hiveacid.errors import ConstraintViolationError, NoSuchColumnError, ParseError
from hiveacid.orc.stored_values import to_stored_values
from hiveacid.table.arrow_read.condition_grammar import parse_predicate
from hiveacid.table.arrow_read.files_to_open import partition_scalars
from hiveacid.table.arrow_read.filters import Condition, arrow_filter, is_exact
from hiveacid.table.partitions import PartitionValues


@dataclass(frozen=True)
class RowConstraints:
    """NOT NULL and CHECK of a table. ``violated``: which rows violate a CHECK. ``static``: values that the rows do not have."""

    table: TableDefinition
    not_null: dict[str, Constraint]
    violated: Sequence[tuple[Constraint, Condition]]
    static: dict[str, pa.Scalar]

    @classmethod
    def of(
        cls, table: TableDefinition, constraints: Sequence[Constraint], static: PartitionValues
    ) -> RowConstraints:
        """Prepare the constraints. Raises UnsupportedFeatureError for a CHECK that only Spark evaluates as Hive does."""
        violated = [(check, _violating(table, check)) for check in rules.checks(constraints)]
        columns = table.partition_columns[: len(static)]
        scalars = partition_scalars(replace(table, partition_columns=columns), Partition(static, ""))
        values = {column.name: value for column, value in zip(columns, scalars, strict=True)}
        return cls(table, rules.not_null_columns(constraints), violated, values)

    def require(self, rows: pa.RecordBatch) -> None:
        """Raise ConstraintViolationError if a row violates a constraint."""
        for name, constraint in self.not_null.items():
            if rows.num_rows and self._values(rows, name).null_count:
                raise ConstraintViolationError(rules.violation(self.table.name, constraint))
        for constraint, condition in self.violated:
            columns = {name: self._values(rows, name) for name in condition.columns}
            if pa.table(columns).filter(condition.predicate).num_rows:
                raise ConstraintViolationError(rules.violation(self.table.name, constraint))

    def _values(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        """Return a column's values as they will be read: VARCHAR is cut, and the empty text of a partition is NULL."""
        if name in self.static:
            return pa.repeat(self.static[name], rows.num_rows)
        types = {column.name: column.type for column in self.table.all_columns}
        values = to_stored_values(rows.column(name), parse_type(types[name]))
        if name not in self.table.partition_column_names or not is_primitive(types[name], rules.TEXTS):
            return values
        texts = pc.utf8_rtrim(values, " ") if types[name].startswith("char") else values
        empty = pc.is_in(texts, pa.array(["", DEFAULT_PARTITION], texts.type))
        return pc.if_else(empty, pa.scalar(None, values.type), values)


def _violating(table: TableDefinition, check: Constraint) -> Condition:
    """Return the condition of rows that violate a CHECK."""
    reason = (
        "a stream compares columns with literals only, of whole numbers, decimals, texts, booleans and days"
    )
    if rules.is_ambiguous(check.expression):
        raise rules.not_evaluated(table.name, check, rules.AMBIGUOUS)
    try:
        predicate = Not(parse_predicate(check.expression, table))
    except (ParseError, NoSuchColumnError) as error:
        raise rules.not_evaluated(table.name, check, reason) from error
    condition = arrow_filter(table.all_columns, predicate)
    if not is_exact(predicate, table.all_columns) or not condition.columns:
        raise rules.not_evaluated(table.name, check, reason)
    return condition

"""Changed rows of UPDATE, DELETE and MERGE, for `hiveacid.spark.write.acid_events.stage_changed_rows`.

A MERGE takes one join of target and source in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named, selected
from hiveacid.spark.formats.types import assignment_cast, column_type
from hiveacid.spark.read.scan_source import ROW_ID
from hiveacid.spark.write.acid_events import ACTION, Action

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from hiveacid.core.model import Column, TableDefinition

_IN_TARGET, _IN_SOURCE, _CLAUSE = "__hiveacid_target", "__hiveacid_source", "__hiveacid_clause"


def updated_rows(
    table: TableDefinition, frame: DataFrame, assignments: Mapping[str, Expression]
) -> DataFrame:
    """Return the selected rows with their new values; a value that does not fit fails the job."""
    new = {column: f"__hiveacid_new_{column}" for column in assignments}
    # Inside of another expression Spark refuses functions that return several rows for one (explode).
    values = {name: F.when(F.lit(True), as_column(assignments[column])) for column, name in new.items()}  # noqa: FBT003
    valued = frame.select("*", *[value.alias(name) for name, value in values.items()])
    types = {field.name: field.dataType for field in valued.schema.fields}
    columns: list[Expression] = [
        named(assignment_cast(F.col(quote_name(new[c.name])), types[new[c.name]], c), c.name)
        if c.name in new
        else quote_name(c.name)
        for c in table.columns
    ]
    places = [quote_name(c.name) for c in table.partition_columns]
    return selected(valued, [f"{int(Action.UPDATE)} AS {ACTION}", ROW_ID, *columns, *places])


def deleted_rows(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Return the selected rows with their row ids and the action DELETE; no user column is read."""
    nothing = [named(cast("NULL", column_type(c)), c.name) for c in table.columns]
    places = [quote_name(c.name) for c in table.partition_columns]
    return selected(frame, [f"{int(Action.DELETE)} AS {ACTION}", ROW_ID, *nothing, *places])


class MatchKind(StrEnum):
    """Kind of joined row that a WHEN clause applies to."""

    MATCHED = "matched"
    SOURCE_ONLY = "not matched"
    TARGET_ONLY = "not matched by source"


@dataclass(frozen=True)
class WhenClause:
    """WHEN clause: kind of row, condition, action, and the values of an update or insert."""

    when: MatchKind
    action: Action
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None


@dataclass(frozen=True)
class MergePlan:
    """Checked MERGE; the first clause whose kind and condition hold acts on a joined row."""

    table: TableDefinition
    on: Expression
    clauses: Sequence[WhenClause]
    target_alias: str
    source_alias: str | None

    def changed_rows(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return the changed rows for `stage_changed_rows`.

        If a clause applies to matched rows, the result holds all matches. Those that no clause acts on have
        `Action.NOTHING`; the cardinality check counts them.
        """
        chosen = self.joined(target, source).withColumn(_CLAUSE, self._choice())
        wanted = F.col(_CLAUSE) >= 0
        if self._has(MatchKind.MATCHED):
            wanted = wanted | (F.col(_IN_TARGET).isNotNull() & F.col(_IN_SOURCE).isNotNull())
        chosen = chosen.where(wanted)
        action = F.lit(int(Action.NOTHING))
        for index, clause in enumerate(self.clauses):
            action = F.when(F.col(_CLAUSE) == index, F.lit(int(clause.action))).otherwise(action)
        types = self._types(chosen)
        columns = (*self.table.columns, *self.table.partition_columns)
        return chosen.select(
            action.alias(ACTION),
            F.col(f"{quote_name(self.target_alias)}.{quote_name(ROW_ID)}").alias(ROW_ID),
            *[self._value(types, column).alias(column.name) for column in columns],
        )

    def joined(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return target and source joined, each with a column that is NULL if that side has no row."""
        marked = target.withColumn(_IN_TARGET, F.lit(True)).alias(self.target_alias)  # noqa: FBT003
        marked_source = self._aliased(source.withColumn(_IN_SOURCE, F.lit(True)))  # noqa: FBT003
        return marked.join(marked_source, as_column(self.on), self._join_kind())

    def matching(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return the target rows that match some source row; the source is broadcast."""
        sent = F.broadcast(self._aliased(source))
        return target.alias(self.target_alias).join(sent, as_column(self.on), "left_semi")

    def _aliased(self, source: DataFrame) -> DataFrame:
        return source if self.source_alias is None else source.alias(self.source_alias)

    def _has(self, when: MatchKind) -> bool:
        return any(clause.when is when for clause in self.clauses)

    def _join_kind(self) -> str:
        keep_source, keep_target = self._has(MatchKind.SOURCE_ONLY), self._has(MatchKind.TARGET_ONLY)
        if keep_source and keep_target:
            return "full"
        if keep_target:
            return "left"
        return "right" if keep_source else "inner"

    def _choice(self) -> SparkColumn:
        in_target, in_source = F.col(_IN_TARGET).isNotNull(), F.col(_IN_SOURCE).isNotNull()
        states = {
            MatchKind.MATCHED: in_target & in_source,
            MatchKind.SOURCE_ONLY: ~in_target,
            MatchKind.TARGET_ONLY: ~in_source,
        }
        choice = F.lit(-1)
        for index, clause in reversed(list(enumerate(self.clauses))):
            holds = states[clause.when]
            if clause.condition is not None:
                holds = holds & F.coalesce(as_column(clause.condition), F.lit(False))  # noqa: FBT003
            choice = F.when(holds, F.lit(index)).otherwise(choice)
        return choice

    def _value(self, types: Mapping[tuple[int, str], DataType], column: Column) -> SparkColumn:
        """Return a column's new value: from the clause that acts, else from the target row.

        A column that every UPDATE sets is not read, because deleted and untouched rows do not need it.
        """
        in_partition = column in self.table.partition_columns
        updates = [clause for clause in self.clauses if clause.action is Action.UPDATE]
        keeps = in_partition or any(column.name not in (clause.values or {}) for clause in updates)
        nothing = F.lit(None).cast(column_type(column))
        result = F.col(f"{quote_name(self.target_alias)}.{quote_name(column.name)}") if keeps else nothing
        for index, clause in enumerate(self.clauses):
            expression = (clause.values or {}).get(column.name)
            if expression is not None:
                have = types[index, column.name]
                new = assignment_cast(as_column(expression), have, column)
            elif clause.action is Action.INSERT:
                new = nothing
            else:
                continue
            result = F.when(F.col(_CLAUSE) == index, new).otherwise(result)
        return result

    def _types(self, chosen: DataFrame) -> dict[tuple[int, str], DataType]:
        """Return the types of all values before the casts to their columns; Spark analyses them in one plan."""
        wanted = [
            ((index, column), as_column(expression))
            for index, clause in enumerate(self.clauses)
            for column, expression in (clause.values or {}).items()
        ]
        fields = chosen.select(*[value.alias(f"v{i}") for i, (_, value) in enumerate(wanted)]).schema.fields
        return {key: field.dataType for (key, _), field in zip(wanted, fields, strict=True)}

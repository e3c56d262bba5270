"""MERGE: one join of target and source, one pass, one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.config import keys
from hiveacid.core.types import parse_type
from hiveacid.errors import ConfigError, NoSuchColumnError
from hiveacid.spark.failures import translated
from hiveacid.spark.scan import ROW_ID
from hiveacid.spark.types import spark_type, store_cast
from hiveacid.spark.write import Action
from hiveacid.table.change import Expression, as_column, change, check_assignments, write_changes
from hiveacid.table.read import read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from hiveacid.core.model import TableDefinition, TableName
    from hiveacid.table.context import Context
    from hiveacid.table.report import WriteReport
    from hiveacid.transaction import Transaction

_MATCHED, _SOURCE_ONLY, _TARGET_ONLY = "matched", "not matched", "not matched by source"


@dataclass(frozen=True)
class Clause:
    """One WHEN clause: which rows (``when``), its condition, action and values (None: all by name)."""

    when: str
    action: Action
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None


@dataclass(frozen=True)
class Merge:
    """A MERGE in the making: add clauses, then `execute`. The first clause that holds for a row acts on it.

    Target and source are known under ``target_alias`` and ``source_alias`` in all expressions.
    """

    context: Context
    name: TableName
    source: DataFrame
    on: Expression
    joined: Transaction | None = None
    target_alias: str = "t"
    source_alias: str = "s"
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(
        self, values: Mapping[str, Expression] | None = None, condition: Expression | None = None
    ) -> Merge:
        """Update a matched row; without ``values`` every column that the source has too."""
        return self._with(Clause(_MATCHED, Action.UPDATE, condition, values))

    def when_matched_delete(self, condition: Expression | None = None) -> Merge:
        """Delete a matched row."""
        return self._with(Clause(_MATCHED, Action.DELETE, condition))

    def when_not_matched_insert(
        self, values: Mapping[str, Expression] | None = None, condition: Expression | None = None
    ) -> Merge:
        """Insert a source row without a match; without ``values`` all columns by name."""
        return self._with(Clause(_SOURCE_ONLY, Action.INSERT, condition, values))

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Expression], condition: Expression | None = None
    ) -> Merge:
        """Update a target row that no source row matches."""
        return self._with(Clause(_TARGET_ONLY, Action.UPDATE, condition, values))

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> Merge:
        """Delete a target row that no source row matches."""
        return self._with(Clause(_TARGET_ONLY, Action.DELETE, condition))

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    def execute(self) -> WriteReport:
        """Run it. Raises MergeCardinalityError when a target row matches several source rows."""
        if not self.clauses:
            raise ConfigError("MERGE has no WHEN clause")
        return change(self.context, self.name, "MERGE", self.joined, self._run)

    def _run(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        with translated():
            changes = self._changes(table, read_snapshot(self.context, table, txn))
        check = self.context.settings.get(keys.MERGE_CARDINALITY_CHECK) and self._has(_MATCHED)
        return write_changes(self.context, table, txn, changes, check_cardinality=check)

    def _has(self, when: str) -> bool:
        return any(clause.when == when for clause in self.clauses)

    def _changes(self, table: TableDefinition, target: DataFrame) -> DataFrame:
        marked = target.withColumn("__in_target", F.lit(True)).alias(self.target_alias)  # noqa: FBT003
        source = self.source.withColumn("__in_source", F.lit(True)).alias(self.source_alias)  # noqa: FBT003
        joined = marked.join(source, as_column(self.on), self._join_kind())
        clauses = [self._checked(table, clause) for clause in self.clauses]
        chosen = joined.withColumn("__clause", self._choice(clauses))
        needs_check = self._has(_MATCHED)
        both = F.col("__in_target").isNotNull() & F.col("__in_source").isNotNull()
        acting = F.col("__clause") >= 0
        chosen = chosen.where(acting | both) if needs_check else chosen.where(acting)
        action = F.lit(int(Action.NOTHING))
        for index, clause in enumerate(clauses):
            action = F.when(F.col("__clause") == index, F.lit(int(clause.action))).otherwise(action)
        types = _types(chosen, clauses)
        return chosen.select(
            action.alias("__action"),
            F.col(f"{self.target_alias}.{ROW_ID}").alias(ROW_ID),
            *[
                self._value(table, types, clauses, c.name, c.type).alias(c.name)
                for c in (*table.columns, *table.partition_columns)
            ],
        )

    def _join_kind(self) -> str:
        keep_source, keep_target = self._has(_SOURCE_ONLY), self._has(_TARGET_ONLY)
        if keep_source and keep_target:
            return "full"
        if keep_target:
            return "left"
        return "right" if keep_source else "inner"

    def _choice(self, clauses: list[Clause]) -> SparkColumn:
        in_target, in_source = F.col("__in_target").isNotNull(), F.col("__in_source").isNotNull()
        states = {_MATCHED: in_target & in_source, _SOURCE_ONLY: ~in_target, _TARGET_ONLY: ~in_source}
        choice = F.lit(-1)
        for index, clause in reversed(list(enumerate(clauses))):
            holds = states[clause.when]
            if clause.condition is not None:
                holds = holds & F.coalesce(as_column(clause.condition), F.lit(False))  # noqa: FBT003
            choice = F.when(holds, F.lit(index)).otherwise(choice)
        return choice

    def _checked(self, table: TableDefinition, clause: Clause) -> Clause:
        names = [c.name for c in (*table.columns, *table.partition_columns)]
        if clause.action is Action.DELETE:
            return clause
        if clause.values is None:
            own = {column.lower() for column in self.source.columns}
            fixed = {c.name for c in table.partition_columns} | set(
                table.bucketing.columns if table.bucketing else ()
            )
            wanted = [n for n in names if n in own and (clause.action is Action.INSERT or n not in fixed)]
            return replace(clause, values={n: f"`{self.source_alias}`.`{n}`" for n in wanted})
        if clause.action is Action.UPDATE:
            return replace(clause, values=check_assignments(table, clause.values))
        values = {column.strip().strip("`").lower(): value for column, value in clause.values.items()}
        unknown = [column for column in values if column not in names]
        if unknown:
            raise NoSuchColumnError(f"{table.name} has no column {unknown[0]}; it has {', '.join(names)}")
        return replace(clause, values=values)

    def _value(
        self,
        table: TableDefinition,
        types: Mapping[tuple[int, str], DataType],
        clauses: list[Clause],
        column: str,
        hive: str,
    ) -> SparkColumn:
        """Return a column's new value: of the clause that acts; else what the target row has."""
        in_partition = any(c.name == column for c in table.partition_columns)
        keeps = in_partition or any(c.action is Action.UPDATE for c in clauses)
        nothing = F.lit(None).cast(spark_type(parse_type(hive)))
        result = F.col(f"`{self.target_alias}`.`{column}`") if keeps else nothing
        for index, clause in enumerate(clauses):
            expression = (clause.values or {}).get(column)
            if expression is not None:
                new = store_cast(as_column(expression), types[index, column], parse_type(hive), column)
            elif clause.action is Action.INSERT:
                new = nothing
            else:
                continue
            result = F.when(F.col("__clause") == index, new).otherwise(result)
        return result


def _types(chosen: DataFrame, clauses: list[Clause]) -> dict[tuple[int, str], DataType]:
    """Analyse all values at once: the types they have before they are cast to their columns'."""
    wanted = [
        ((index, column), as_column(expression))
        for index, clause in enumerate(clauses)
        for column, expression in (clause.values or {}).items()
    ]
    fields = chosen.select(*[value.alias(f"v{i}") for i, (_, value) in enumerate(wanted)]).schema.fields
    return {key: field.dataType for (key, _), field in zip(wanted, fields, strict=True)}

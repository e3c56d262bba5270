"""Changed rows of UPDATE, DELETE and MERGE, for `hiveacid.spark.write.sort_and_stage.stage_changed_rows`.

A MERGE joins target and source once. An outer join cannot broadcast the side whose unmatched rows it keeps. A MERGE that
inserts keeps those of the source, so Spark would shuffle a large target. Instead, the source is computed once and cached. Its
keys then filter the target, by push-down and by a semi join, and the remaining rows join like any small table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import (
    Expression,
    as_column,
    cast,
    named,
    parenthesised,
    selected,
    text_of,
    when,
)
from hiveacid.spark.formats.types import assignment_cast, column_type, hive_type_name
from hiveacid.spark.predicates.column_conditions import char_types
from hiveacid.spark.session.bound_plans import called, last_part
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write.sort_and_stage import ACTION, OLD, Action

_IN_TARGET, _IN_SOURCE, _CLAUSE = "__hiveacid_target", "__hiveacid_source", "__hiveacid_clause"
_PLAIN = re.compile(r"[ !#%&(-\[\]-~]*")  # ASCII without quotes, backslash, and $, as of ${variables}


def changed_rows(
    table: TableDefinition, frame: DataFrame, assignments: Mapping[str, Expression]
) -> DataFrame:
    """Return selected rows with their new values, and the action UPDATE; a value that does not fit fails the job.

    Without ``assignments`` the action is DELETE, and no user column is read.
    """
    action, valued, new = Action.DELETE, frame, {c.name: cast("NULL", column_type(c)) for c in table.columns}
    if assignments:
        action = Action.UPDATE
        valued, new = assigned_values(table, frame, assignments)
    columns: list[Expression] = [
        named(new[c.name], c.name) if c.name in new else quote_name(c.name) for c in table.all_columns
    ]
    columns += [named(quote_name(c.name), OLD + c.name) for c in table.partition_columns if c.name in new]
    return selected(valued, [f"{int(action)} AS {ACTION}", ROW_ID, *columns])


def assigned_values(
    table: TableDefinition, frame: DataFrame, assignments: Mapping[str, Expression]
) -> tuple[DataFrame, dict[str, Expression]]:
    """Return the rows with a further column for each assigned value, and its cast to the table's column, by name."""
    if not assignments:
        return frame, {}
    new = {column: f"__hiveacid_new_{column}" for column in assignments}
    # The WHEN around each value makes Spark refuse functions that return several rows for one (explode).
    values = {
        name: F.when(F.lit(True), as_column(parenthesised(assignments[column])))  # noqa: FBT003
        for column, name in new.items()
    }
    valued = selected(frame, ["*", *[named(value, name) for name, value in values.items()]])
    types = {field.name: field.dataType for field in valued.schema.fields}
    columns = {c.name: c for c in table.all_columns}
    return valued, {
        column: assignment_cast(quote_name(name), types[name], columns[column])
        for column, name in new.items()
    }


class MatchKind(StrEnum):
    """Kind of joined row that a WHEN clause applies to."""

    MATCHED = "matched"
    SOURCE_ONLY = "not matched"
    TARGET_ONLY = "not matched by source"


_KIND_CONDITIONS = {
    MatchKind.MATCHED: f"({_IN_TARGET} IS NOT NULL AND {_IN_SOURCE} IS NOT NULL)",
    MatchKind.SOURCE_ONLY: f"{_IN_TARGET} IS NULL",
    MatchKind.TARGET_ONLY: f"{_IN_SOURCE} IS NULL",
}
"""Conditions of a joined row's kinds."""


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

    env: SparkEnvironment
    table: TableDefinition
    on: Expression
    clauses: Sequence[WhenClause]
    target_name: str | TableName
    source_name: str | TableName | None

    def changed_rows(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return the changed rows for `stage_changed_rows`.

        If a clause applies to matched rows, the result holds all matches. Those that no clause acts on have
        `Action.NOTHING`; the cardinality check counts them.
        """
        chosen = self.joined(target, source).withColumn(_CLAUSE, as_column(self._clause_index()))
        matched = f" OR {_KIND_CONDITIONS[MatchKind.MATCHED]}" if self._has_clause(MatchKind.MATCHED) else ""
        action: Expression = str(int(Action.NOTHING))
        for index, clause in enumerate(self.clauses):
            action = when(f"{_CLAUSE} = {index}", str(int(clause.action)), action)
        valued = self._with_clause_values(chosen.where(f"{_CLAUSE} >= 0{matched}"))
        types = {field.name: field.dataType for field in valued.schema.fields}
        columns = self.table.all_columns
        values = [named(self._value(types, column), column.name) for column in columns]
        set_names = {
            name for clause in self.clauses if clause.action is Action.UPDATE for name in clause.values or ()
        }
        old = [quote_name(OLD + name) for name in self.table.partition_column_names if name in set_names]
        return selected(valued, [named(action, ACTION), ROW_ID, *values, *old])

    def _with_clause_values(self, chosen: DataFrame) -> DataFrame:
        """Return the joined rows with the values of each clause, and with the target's columns that are kept.

        A value becomes a column, because columns have types, and texts can name them.
        """
        target = quote_name(last_part(self.target_name))
        columns = self.table.all_columns
        kept = [named(f"{target}.{quote_name(c.name)}", OLD + c.name) for c in columns if self.keeps(c)]
        values: list[Expression] = []
        for index, clause in enumerate(self.clauses):
            acts = F.expr(f"{_CLAUSE} = {index}")
            for column, expression in (clause.values or {}).items():
                values.append(
                    named(F.when(acts, as_column(parenthesised(expression))), _new_value_name(index, column))
                )
        return selected(chosen, [_CLAUSE, f"{target}.{quote_name(ROW_ID)}", *kept, *values])

    def expressions(self) -> Iterator[Expression]:
        """Yield the expressions of the statement."""
        yield self.on
        for clause in self.clauses:
            given = (clause.condition, *(clause.values or {}).values())
            yield from (expression for expression in given if expression is not None)

    def joined(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return target and source joined, each with a column that is NULL if that side has no row."""
        marked = called(self.env, target.withColumn(_IN_TARGET, F.lit(True)), self.target_name)  # noqa: FBT003
        marked_source = self._aliased(source.withColumn(_IN_SOURCE, F.lit(True)))  # noqa: FBT003
        return marked.join(marked_source, as_column(parenthesised(self.on)), self._join_kind())

    def matching(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return the target rows that match some source row; the source is broadcast."""
        sent = F.broadcast(self._aliased(source))
        named_target = called(self.env, target, self.target_name)
        return named_target.join(sent, as_column(parenthesised(self.on)), "left_semi")

    def _aliased(self, source: DataFrame) -> DataFrame:
        return source if self.source_name is None else called(self.env, source, self.source_name)

    def _has_clause(self, when: MatchKind) -> bool:
        return any(clause.when is when for clause in self.clauses)

    def _join_kind(self) -> str:
        keep_source = self._has_clause(MatchKind.SOURCE_ONLY)
        keep_target = self._has_clause(MatchKind.TARGET_ONLY)
        if keep_source and keep_target:
            return "full"
        if keep_target:
            return "left"
        return "right" if keep_source else "inner"

    def _clause_index(self) -> Expression:
        choice: Expression = "-1"
        for index, clause in reversed(list(enumerate(self.clauses))):
            state = _KIND_CONDITIONS[clause.when]
            holds: Expression = state
            if clause.condition is not None:
                holds = F.expr(state) & F.coalesce(as_column(parenthesised(clause.condition)), F.lit(False))  # noqa: FBT003
            choice = when(holds, str(index), choice)
        return choice

    def keeps(self, column: Column) -> bool:
        """Tell whether a column of the target is read: not if every UPDATE sets it.

        Deleted and untouched rows do not need it.
        """
        updates = [clause for clause in self.clauses if clause.action is Action.UPDATE]
        return column in self.table.partition_columns or any(
            column.name not in (clause.values or {}) for clause in updates
        )

    def _value(self, types: Mapping[str, DataType], column: Column) -> Expression:
        """Return a column's new value: from the clause that acts, else from the target row."""
        nothing = cast("NULL", column_type(column))
        result = quote_name(OLD + column.name) if self.keeps(column) else nothing
        for index, clause in enumerate(self.clauses):
            if column.name in (clause.values or {}):
                name = _new_value_name(index, column.name)
                new = assignment_cast(quote_name(name), types[name], column)
            elif clause.action is Action.INSERT:
                new = nothing
            else:
                continue
            result = when(f"{_CLAUSE} = {index}", new, result)
        return result


def _new_value_name(clause: int, column: str) -> str:
    """Return the name of the value that a clause gives to a column."""
    return f"__hiveacid_{clause}_{column}"


@dataclass(frozen=True)
class NarrowedSource:
    """Number of rows of a source, and a condition that every matching target row fulfils."""

    rows: int
    where: str | None


def can_narrow(plan: MergePlan) -> bool:
    """Tell whether unmatched target rows stay as they are, and all expressions are texts.

    A column of a DataFrame (``source["id"]``) might refer to the source before it was computed.
    """
    by_text = all(text_of(expression) is not None for expression in plan.expressions())
    return by_text and not any(clause.when is MatchKind.TARGET_ONLY for clause in plan.clauses)


def narrow_source(plan: MergePlan, target: DataFrame, computed: DataFrame) -> NarrowedSource:
    """Return what the keys of a source (`computed_once`) say about matching target rows."""
    pairs = equal_columns(plan_of(plan.joined(target, computed)), computed)
    ends = [end(quote_name(pair.source)).cast("string") for pair in pairs for end in (F.min, F.max)]
    (row,) = computed.agg(F.count(F.lit(1)), *ends).collect()
    conditions = []
    for index, pair in enumerate(pairs):
        low, high = (_literal(row[1 + 2 * index + end], pair.kind) for end in (0, 1))
        if low is not None and high is not None:
            name = quote_name(pair.target)
            between = f"{name} BETWEEN {low} AND {high}"
            conditions.append(f"({between} OR {name} IS NULL)" if pair.null_safe else between)
    return NarrowedSource(row[0], " AND ".join(conditions) or None)


def equal_columns(join: JavaObject, source: DataFrame) -> list[EqualColumns]:
    """Return the pairs of columns that are equal in every match of an analysed join, without source names that occur twice."""
    names = Counter(column.lower() for column in source.columns)
    return [pair for pair in _equal_columns(join) if names[pair.source.lower()] == 1]


@dataclass(frozen=True)
class EqualColumns:
    """Columns of target and source that are equal in every match, and the name of their type without arguments.

    ``null_safe``: two NULLs are equal, too.
    """

    target: str
    source: str
    kind: str
    null_safe: bool


def _equal_columns(join: JavaObject) -> Iterator[EqualColumns]:
    if join.condition().isEmpty():
        return
    in_target, todo = join.left().outputSet(), [join.condition().get()]
    while todo:
        node = todo.pop()
        if node.nodeName() == "And":
            todo += [node.left(), node.right()]
        elif node.nodeName() in ("EqualTo", "EqualNullSafe"):
            sides = [node.left(), node.right()]
            if any(side.nodeName() != "AttributeReference" for side in sides):
                continue
            if not in_target.contains(sides[0]):
                sides.reverse()
            kind, other = (str(side.dataType().simpleString()) for side in sides)
            apart = in_target.contains(sides[0]) and not in_target.contains(sides[1])
            if apart and kind == other and kind.partition("(")[0] in _LITERAL_FORMATS:
                target = str(sides[0].name()).lower()  # Spark keeps the case of the condition
                yield EqualColumns(
                    target,
                    str(sides[1].name()),
                    kind.partition("(")[0],
                    null_safe=node.nodeName() == "EqualNullSafe",
                )


_LITERAL_FORMATS = {"int": "{}", "bigint": "{}L", "decimal": "{}BD", "date": "DATE'{}'", "string": "'{}'"}


def _literal(text: str | None, kind: str) -> str | None:
    """Return a value as SQL; None for NULL and for texts that would have to be escaped."""
    if text is None or not _PLAIN.fullmatch(text):
        return None
    return _LITERAL_FORMATS[kind].format(text)


def columns_to_add(
    frame: DataFrame, table: TableDefinition, ignored: Collection[str] = ()
) -> tuple[Column, ...]:
    """Return the frame's columns that a table lacks, with Hive's types. Raises UnsupportedFeatureError.

    ``ignored``: columns that are not to be the table's, such as the kind of change.
    """
    known, chars = {*table.column_names, *ignored}, char_types(frame)
    return tuple(
        Column(field.name.lower(), chars.get(number) or hive_type_name(field.dataType, field.name))
        for number, field in enumerate(frame.schema.fields)
        if field.name.lower() not in known
    )

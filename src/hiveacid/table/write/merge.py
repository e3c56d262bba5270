"""MERGE: a builder that collects clauses and runs as one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from hiveacid.config import setting_definitions
from hiveacid.core.display import Displayed, did_you_mean, did_you_mean_any
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.types import quote_name, require_set_once, unquoted_name
from hiveacid.errors import ConfigError, NoSuchColumnError, StatementError
from hiveacid.spark.formats.driver_frames import computed_once
from hiveacid.spark.formats.expressions import Expression, expand_stars
from hiveacid.spark.session.bound_plans import last_part
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.merge_narrowing import can_narrow, narrow_source
from hiveacid.spark.write.sort_and_stage import Action
from hiveacid.spark.write.update_delete_merge_rows import MatchKind, MergePlan, WhenClause
from hiveacid.table.context import Context
from hiveacid.table.read.scan import list_snapshot
from hiveacid.table.write.conflict_retry import run_with_retry
from hiveacid.table.write.constraints import columns_set_to_default, constrain_changes
from hiveacid.table.write.merge_in_driver import Sides, matching_rows, stage_in_driver, target_read
from hiveacid.table.write.report import WriteReport
from hiveacid.table.write.update_delete import check_assignments, stage_by_spark, write_changes
from hiveacid.transactions.transaction import Transaction

LARGE = 32 << 20
"""Size in bytes from which the target is filtered by the source before the join, which takes two more Spark jobs."""
_SMALL = 10_000  # rows of target and source that one task joins and writes faster than several with a shuffle
Values = Mapping[str, Expression]


def is_exclusive(context: Context, *, inserts: bool) -> bool:
    """Tell whether a MERGE locks out other MERGEs before its snapshot, since two could insert the same key."""
    return inserts and context.settings.get(setting_definitions.XLOCK_MERGE_INSERT)


@dataclass(frozen=True, repr=False)
class Merge(Displayed):
    """A prepared MERGE: add clauses, then `execute`. The first clause whose condition holds for a row is applied.

    Expressions call target and source by ``target_name`` and ``source_name``, aliases or names of tables (`called`); None
    keeps the source's own names.
    """

    context: Context
    name: TableName
    source: DataFrame
    on: Expression
    joined: Transaction | None = None
    target_name: str | TableName = "t"
    source_name: str | TableName | None = "s"
    clauses: tuple[WhenClause, ...] = ()

    def when_matched_update(self, values: Values | None = None, condition: Expression | None = None) -> Merge:
        """Update a matched row; without ``values`` all columns that the source also has."""
        return self._with(WhenClause(MatchKind.MATCHED, Action.UPDATE, condition, values))

    def when_matched_delete(self, condition: Expression | None = None) -> Merge:
        """Delete a matched row."""
        return self._with(WhenClause(MatchKind.MATCHED, Action.DELETE, condition))

    def when_not_matched_insert(
        self, values: Values | None = None, condition: Expression | None = None
    ) -> Merge:
        """Insert a source row without a match; without ``values`` all columns by name."""
        return self._with(WhenClause(MatchKind.SOURCE_ONLY, Action.INSERT, condition, values))

    def when_not_matched_by_source_update(self, values: Values, condition: Expression | None = None) -> Merge:
        """Update a target row that no source row matches."""
        return self._with(WhenClause(MatchKind.TARGET_ONLY, Action.UPDATE, condition, values))

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> Merge:
        """Delete a target row that no source row matches."""
        return self._with(WhenClause(MatchKind.TARGET_ONLY, Action.DELETE, condition))

    def _with(self, clause: WhenClause) -> Merge:
        if any(one.when is clause.when and one.condition is None for one in self.clauses):
            raise StatementError(
                f"this WHEN {clause.when.value.upper()} clause can never apply: one before it, without a condition, takes all its rows"
            )
        return replace(self, clauses=(*self.clauses, clause))

    def execute(self) -> WriteReport:
        """Run it. Raises MergeCardinalityError if a target row matches more than one source row."""
        if not self.clauses:
            raise ConfigError("MERGE has no WHEN clause")
        exclusive = is_exclusive(
            self.context, inserts=any(clause.action is Action.INSERT for clause in self.clauses)
        )
        return run_with_retry(self.context, self.name, "MERGE", self.joined, self._run, exclusive=exclusive)

    def _run(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        clauses = [
            self._with_columns_of_stars(table, self._checked(table, clause)) for clause in self.clauses
        ]
        on = expand_stars(self.on, self._columns(table))
        plan = MergePlan(self.context.env, table, on, clauses, self.target_name, self.source_name)
        with translate_errors():
            sides = self._sides(table, txn, plan)
            changes = plan.changed_rows(sides.target, sides.source)
            if any(clause.action is not Action.DELETE for clause in clauses):
                changes = constrain_changes(self.context, table, changes, _defaulted_columns(table, clauses))
        matches = any(clause.when is MatchKind.MATCHED for clause in clauses)
        check = self.context.settings.get(setting_definitions.MERGE_CARDINALITY_CHECK) and matches
        updates_and_inserts = {Action.UPDATE, Action.INSERT} <= {clause.action for clause in clauses}
        small = sides.rows is not None and sides.rows <= _SMALL
        stage = stage_by_spark(self.context, changes, check_cardinality=check, small=small)
        if sides.rows is not None and sides.in_driver:
            stage = stage_in_driver(self.context, plan, changes, sides.rows, stage)
        return write_changes(
            self.context, table, txn, stage, "MERGE", updates_and_inserts=updates_and_inserts
        )

    def _sides(self, table: TableDefinition, txn: Transaction, plan: MergePlan) -> Sides:
        """Return target and source for the join; a large target is reduced to rows that the source may match."""
        context, source = self.context, self.source
        read = target_read(context, table, plan, source)
        if read is not None:
            source = computed_once(source)
            matching = matching_rows(context, table, txn, read, source)
            if matching is not None:
                return matching
        snapshot = list_snapshot(context, table, txn)
        rows = snapshot.scan(changing=True)
        if snapshot.size < LARGE or not can_narrow(plan):
            return Sides(rows, source)
        source = computed_once(source) if source is self.source else source
        narrowed = narrow_source(plan, rows, source)
        if narrowed.where is not None:
            rows = list_snapshot(context, table, txn, where=narrowed.where).scan(changing=True)
        if narrowed.rows <= context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS):
            rows = plan.matching(rows, source)
        return Sides(rows, source)

    def _columns(self, table: TableDefinition) -> dict[str, list[str]]:
        """Return the columns of target and source by alias."""
        return {
            last_part(self.target_name): table.column_names,
            last_part(self.source_name): self.source.columns,
        }

    def _with_columns_of_stars(self, table: TableDefinition, clause: WhenClause) -> WhenClause:
        columns = self._columns(table)
        return replace(
            clause,
            condition=None if clause.condition is None else expand_stars(clause.condition, columns),
            values={name: expand_stars(value, columns) for name, value in (clause.values or {}).items()},
        )

    def _checked(self, table: TableDefinition, clause: WhenClause) -> WhenClause:
        """Return a clause with its values by lower-case column; refuse columns that cannot be set."""
        names = table.column_names
        if clause.action is Action.DELETE:
            return clause
        if clause.values is None:
            return replace(clause, values=self._by_name(table, names, clause.action))
        if clause.action is Action.UPDATE:
            return replace(clause, values=check_assignments(table, clause.values))
        given = [unquoted_name(column).lower() for column in clause.values]
        require_set_once(given)
        values = dict(zip(given, clause.values.values(), strict=True))
        unknown = [column for column in values if column not in names]
        if unknown:
            raise NoSuchColumnError(
                f"{table.name} has no column {unknown[0]}; it has {', '.join(names)}{did_you_mean(unknown[0], names)}"
            )
        return replace(clause, values=values)

    def _by_name(self, table: TableDefinition, names: list[str], action: Action) -> Values:
        own = {column.lower() for column in self.source.columns}
        fixed = {c.name for c in table.partition_columns}
        fixed |= set(table.bucketing.columns if table.bucketing else ())
        columns = [n for n in names if n in own and (action is Action.INSERT or n not in fixed)]
        unknown, missing = sorted(own - set(names)), [n for n in names if n not in own]
        if not columns or (action is Action.INSERT and unknown and missing):
            raise NoSuchColumnError(
                f"{action.name} * takes columns by name, but the source lacks {', '.join(missing)} of {table.name} and has "
                f"{', '.join(unknown) or 'no others'}{did_you_mean_any(unknown, missing)}: name the columns and their values"
            )
        if self.source_name is None:
            return {name: self.source[quote_name(name)] for name in columns}
        source = quote_name(last_part(self.source_name))
        return {name: f"{source}.{quote_name(name)}" for name in columns}


def _defaulted_columns(table: TableDefinition, clauses: Sequence[WhenClause]) -> set[str]:
    """Return the columns that a clause sets to their default: those that an INSERT omits or that have DEFAULT."""
    names = set(table.column_names)
    columns: set[str] = set()
    for clause in clauses:
        values = clause.values or {}
        columns |= columns_set_to_default(values)
        columns |= names - set(values) if clause.action is Action.INSERT else set()
    return columns

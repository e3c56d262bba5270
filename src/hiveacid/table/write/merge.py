"""MERGE: a builder that collects clauses and runs as one statement.

Of a small source, the driver reads the matching target rows (`merge_in_driver`). Otherwise a job scans the target, which a large
source reduces first to the rows that it may match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Column, Displayed, TableDefinition, TableName
from hiveacid.core.schema.types import quote_name, require_set_once, unquoted_name
from hiveacid.spark.formats.driver_frames import broadcast_rows, computed_once
from hiveacid.spark.formats.expressions import (
    Expression,
    Qualifier,
    expand_stars,
    text_of,
    with_text,
)
from hiveacid.spark.parser.lexer import end_token, tokenize
from hiveacid.spark.predicates.column_conditions import empty_rows
from hiveacid.spark.session.bound_plans import last_part, qualifier_of
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import parser_of, scala_items
from hiveacid.spark.session.running_jobs_and_plans import note_sources
from hiveacid.spark.write.sort_and_stage import Action
from hiveacid.spark.write.update_delete_merge_rows import (
    MatchKind,
    MergePlan,
    WhenClause,
    can_narrow,
    columns_to_add,
    narrow_source,
)
from hiveacid.table.context import Context
from hiveacid.table.definition import add_missing_columns
from hiveacid.table.read.table_snapshot import list_snapshot
from hiveacid.table.write.arrow_staging import Changes, can_write
from hiveacid.table.write.constraints import constrain_changes, limits_rows, with_defaults
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS
from hiveacid.table.write.merge_in_driver import (
    ChangesInDriver,
    ComputedSource,
    TargetRead,
    are_unique,
    columns_named,
    computed_source,
    keys_of,
    matching_rows,
    target_read,
)
from hiveacid.table.write.merge_of_copies import CopiedRows, copied_rows
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.surrogate_keys import KeyMaker, KeysOfStatement, no_key
from hiveacid.table.write.update_delete import ChangesByJob, check_assignments, reads_table, write_changes
from hiveacid.table.write.write_conflicts import run_with_retry
from hiveacid.transactions.transaction import Transaction

LARGE = 32 << 20
"""Size in bytes from which the target is filtered by the source before the join, which takes two more Spark jobs."""
_SMALL = 10_000  # rows of target and source that one task joins and writes faster than several with a shuffle
Values = Mapping[str, Expression]


def is_exclusive(context: Context, *, inserts: bool) -> bool:
    """Tell whether a MERGE locks out other MERGEs before its snapshot, since two could insert the same key."""
    return inserts and context.settings.get(setting_definitions.XLOCK_MERGE_INSERT)


@dataclass(frozen=True, repr=False)
class TableMerger(Displayed):
    """A prepared MERGE: add clauses, then `execute`. The first clause whose condition holds for a row is applied.

    Expressions call target and source by ``target_name`` and ``source_name``, aliases or names of tables (`called`); None
    keeps the source's own names. ``merge_schema``: `execute` adds columns that the target lacks.
    """

    context: Context
    name: TableName
    source: DataFrame
    on: Expression
    joined: Transaction | None = None
    target_name: str | TableName = "t"
    source_name: str | TableName | None = "s"
    clauses: tuple[WhenClause, ...] = ()
    merge_schema: bool = False

    def when_matched_update(
        self, values: Values | None = None, condition: Expression | None = None
    ) -> TableMerger:
        """Update a matched row; without ``values`` all columns that the source also has."""
        return self._with(WhenClause(MatchKind.MATCHED, Action.UPDATE, condition, values))

    def when_matched_delete(self, condition: Expression | None = None) -> TableMerger:
        """Delete a matched row."""
        return self._with(WhenClause(MatchKind.MATCHED, Action.DELETE, condition))

    def when_not_matched_insert(
        self, values: Values | None = None, condition: Expression | None = None
    ) -> TableMerger:
        """Insert a source row without a match; without ``values`` all columns by name."""
        return self._with(WhenClause(MatchKind.SOURCE_ONLY, Action.INSERT, condition, values))

    def when_not_matched_by_source_update(
        self, values: Values, condition: Expression | None = None
    ) -> TableMerger:
        """Update a target row that no source row matches."""
        return self._with(WhenClause(MatchKind.TARGET_ONLY, Action.UPDATE, condition, values))

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> TableMerger:
        """Delete a target row that no source row matches."""
        return self._with(WhenClause(MatchKind.TARGET_ONLY, Action.DELETE, condition))

    def _with(self, clause: WhenClause) -> TableMerger:
        if any(one.when is clause.when and one.condition is None for one in self.clauses):
            raise errors.StatementError(
                f"this WHEN {clause.when.value.upper()} clause can never apply: one before it, without a condition, takes all its rows"
            )
        return replace(self, clauses=(*self.clauses, clause))

    def execute(self) -> WriteReport:
        """Run it. Raises MergeCardinalityError if a target row matches more than one source row."""
        if not self.clauses:
            raise errors.ConfigError("MERGE has no WHEN clause")
        self.add_columns()
        exclusive = is_exclusive(
            self.context, inserts=any(clause.action is Action.INSERT for clause in self.clauses)
        )
        is_stale = partial(reads_table, self.context, self.name, self.source)
        return run_with_retry(
            self.context, self.name, "MERGE", self.joined, self.run, exclusive=exclusive, is_stale=is_stale
        )

    def run(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        """Change the rows in a transaction that holds the lock of `execute`."""
        note_sources(txn, self.source)
        plan = self._plan(table, txn)
        with translate_errors():
            changes = self._changes(table, txn, plan)
        updates_and_inserts = {Action.UPDATE, Action.INSERT} <= {clause.action for clause in plan.clauses}
        return write_changes(
            self.context, table, txn, changes, "MERGE", updates_and_inserts=updates_and_inserts
        )

    def add_columns(self) -> None:
        """Add the `new_columns`, if the statement may (``merge_schema``). Raises the errors of `add_missing_columns` and `run`."""
        if self.merge_schema:
            add_missing_columns(self.context, self.name, self.new_columns, self._analyse, self.joined)

    def new_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the source's columns that the table lacks: all for a clause with a star, else those that clauses set."""
        own = [column.lower() for column in self.source.columns]
        takes_all = any(
            clause.values is None and clause.action is not Action.DELETE for clause in self.clauses
        )
        named = {unquoted_name(name).lower() for clause in self.clauses for name in clause.values or ()}
        return columns_to_add(self.source, table, () if takes_all else {*own} - named)

    def _analyse(self, table: TableDefinition) -> None:
        """Raise the errors that Spark's analysis finds, without reading a row."""
        plan = self._plan(table)
        with translate_errors():
            plan.changed_rows(empty_rows(self.context.env, table), self.source)

    def _plan(self, table: TableDefinition, txn: Transaction | None = None) -> MergePlan:
        with translate_errors():
            checked = [
                self._with_defaults(table, self._checked(table, clause), number, txn)
                for number, clause in enumerate(self.clauses)
            ]
            clauses = [self._resolved(table, clause) for clause in checked]
        on = expand_stars(self.on, self._columns(table))
        return MergePlan(self.context.env, table, on, clauses, self.target_name, self.source_name)

    def _changes(self, table: TableDefinition, txn: Transaction, plan: MergePlan) -> Changes:
        """Return the changed rows. The target is reduced to rows that the source may match, if it is large or the driver reads it."""
        context, source = self.context, self.source
        read = target_read(context, table, plan, source)
        computed = None
        if read is not None:
            read, computed = computed_source(context, read, source)
        if read is not None and computed is not None:
            rows = None
            if not computed.has_null_matches(read):
                rows = matching_rows(context, table, txn, read, computed)
            if rows is not None:
                return self._changes_of_rows(table, plan, read, computed, rows)
            source = computed.frame()
        snapshot = list_snapshot(context, table, txn)
        target = snapshot.scan(changing=True)
        if snapshot.size < LARGE or not can_narrow(plan):
            return self._joined_by_spark(table, plan, target, source)
        source = computed_once(source) if source is self.source else source
        narrowed = narrow_source(plan, target, source)
        if narrowed.where is not None:
            target = list_snapshot(context, table, txn, where=narrowed.where).scan(changing=True)
        if narrowed.rows <= context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS):
            target = plan.matching(target, source)
        return self._joined_by_spark(table, plan, target, source)

    def _changes_of_rows(
        self,
        table: TableDefinition,
        plan: MergePlan,
        read: TargetRead,
        source: ComputedSource,
        rows: pa.Table,
    ) -> Changes:
        """Return the changes of target rows that the driver has read.

        Arrow writes them if each matches at most one row of the source, and the JVM can pass them.
        """
        count = rows.num_rows + source.keys.num_rows
        in_driver = are_unique(source.keys) and can_write(table) and source.small

        def joined() -> Changes:
            target = broadcast_rows(self.context.env, read.columns, rows.select([ROW_ID, *read.names]))
            by_job = self._joined_by_spark(table, plan, target, source.frame(), small=count <= _SMALL)
            return ChangesInDriver(plan, count, by_job) if in_driver else by_job

        if read.copied is None or not in_driver or limits_rows(self.context, table):
            return joined()
        of_source = source.rows()
        # from the same table: Spark promises two collections no order
        keys = keys_of(table, read, columns_named(of_source, [pair.source for pair in read.pairs]))
        try:
            return CopiedRows(copied_rows(table, read.copied.by_kind, rows, of_source, keys), joined)
        except FALLBACK_ERRORS:
            return joined()

    def _joined_by_spark(
        self,
        table: TableDefinition,
        plan: MergePlan,
        target: DataFrame,
        source: DataFrame,
        *,
        small: bool = False,
    ) -> ChangesByJob:
        """Return the changes of joined rows. ``small``: one task joins and writes them."""
        with translate_errors():
            changes = plan.changed_rows(target, source)
            if any(clause.action is not Action.DELETE for clause in plan.clauses):
                changes = constrain_changes(self.context, table, changes)
        matches = any(clause.when is MatchKind.MATCHED for clause in plan.clauses)
        check = self.context.settings.get(setting_definitions.MERGE_CARDINALITY_CHECK) and matches
        return ChangesByJob(changes, check_cardinality=check, small=small)

    def _columns(self, table: TableDefinition) -> dict[Qualifier, list[str]]:
        """Return the columns of target and source by qualifier."""
        return {
            qualifier_of(self.target_name): table.column_names,
            qualifier_of(self.source_name): self.source.columns,
        }

    def _resolved(self, table: TableDefinition, clause: WhenClause) -> WhenClause:
        """Return a clause without stars, and without bare names that both sides have where only one can be meant."""
        columns = self._columns(table)

        def resolved(expression: Expression) -> Expression:
            text = text_of(expression)
            if text is not None:
                expression = with_text(expression, qualified(self, text, clause.when, table))
            return expand_stars(expression, columns)

        return replace(
            clause,
            condition=None if clause.condition is None else resolved(clause.condition),
            values={name: resolved(value) for name, value in (clause.values or {}).items()},
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
            raise errors.no_such_column(table.name, unknown[0], names)
        return replace(clause, values=values)

    def _with_defaults(
        self, table: TableDefinition, clause: WhenClause, number: int, txn: Transaction | None
    ) -> WhenClause:
        """Return a clause with the default values that it asks for by the word, or by leaving columns of a new row out."""
        if clause.action is Action.DELETE:
            return clause
        values = clause.values or {}
        left_out = set(table.column_names) - set(values) if clause.action is Action.INSERT else ()
        keys: KeyMaker = no_key
        if txn is not None:
            keys = KeysOfStatement(txn, table.name, not txn.explicit, (number, len(self.clauses))).computed
        return replace(clause, values=with_defaults(self.context, table, values, left_out, keys))

    def _by_name(self, table: TableDefinition, names: list[str], action: Action) -> Values:
        own = {column.lower() for column in self.source.columns}
        columns = [name for name in names if name in own]
        unknown, missing = sorted(own - set(names)), [n for n in names if n not in own]
        if not columns or (action is Action.INSERT and unknown and missing):
            raise errors.NoSuchColumnError(
                f"{action.name} * takes columns by name, but the source lacks {', '.join(missing)} of {table.name} and has "
                f"{', '.join(unknown) or 'no others'}{errors.did_you_mean_any(unknown, missing)}: name the columns and their values"
            )
        if self.source_name is None:
            return {name: self.source[quote_name(name)] for name in columns}
        source = quote_name(last_part(self.source_name))
        return {name: f"{source}.{quote_name(name)}" for name in columns}


def qualified(merge: TableMerger, text: str, when: MatchKind, table: TableDefinition) -> str:
    """Qualify names that both sides have, in a text for rows of one side: they mean that side's columns, as in Spark."""
    target, source = last_part(merge.target_name), last_part(merge.source_name)
    if when is MatchKind.MATCHED or not source:
        return text
    side = quote_name(source if when is MatchKind.SOURCE_ONLY else target)
    both = {column.lower() for column in merge.source.columns}.intersection(table.column_names)
    both -= {target.lower(), source.lower()}
    tokens = tokenize(text)
    names = zip([end_token(""), *tokens], tokens, strict=False)
    if not any(name.is_name and name.name.lower() in both and dot.text != "." for dot, name in names):
        return text
    parsed = parser_of(merge.context.env).parseExpression(text)
    starts = {
        int(leaf.origin().startIndex().get())
        for leaf in scala_items(parsed.collectLeaves())  # a subquery is one of them, and keeps its names
        if str(leaf.nodeName()) == "UnresolvedAttribute"
        and str(next(scala_items(leaf.nameParts()))).lower() in both
    }
    parts, end = [], 0
    for start in sorted(starts):
        parts += [text[end:start], side, "."]
        end = start
    return "".join([*parts, text[end:]])

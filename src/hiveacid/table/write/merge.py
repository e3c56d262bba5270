"""MERGE: a builder that collects clauses and runs as one statement.

Of a small source, the driver reads the matching target rows by Arrow, instead of a job that scans the target. Spark computes
the source once. The source's keys select the target rows that Arrow reads. Spark joins both and chooses the clause for each
row. If the source's keys are unique, Arrow also writes the changed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import Column, Displayed, TableDefinition, TableName
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name, require_set_once, unquoted_name
from hiveacid.core.snapshot.scan_plan import ReadBy
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.formats.driver_frames import (
    broadcast_rows,
    collect_as_arrow,
    collect_rows,
    collect_within_limit,
    computed_bytes,
    computed_once,
    estimated_bytes,
    frame_of_collected,
    max_bytes_in_driver,
)
from hiveacid.spark.formats.expressions import (
    Expression,
    Qualifier,
    expand_stars,
    selected,
    text_of,
    with_text,
)
from hiveacid.spark.parser.lexer import end_token, tokenize
from hiveacid.spark.predicates.column_conditions import empty_rows
from hiveacid.spark.session.bound_plans import last_part, qualifier_of
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import is_failed_job, translate_errors
from hiveacid.spark.session.jvm import parser_of, scala_items
from hiveacid.spark.session.running_jobs_and_plans import note_sources
from hiveacid.spark.write.changes_of_arrow_rows import (
    columns_that_grow,
    columns_used,
    passed_columns,
    together,
)
from hiveacid.spark.write.sort_and_stage import Action, StagingTarget, changed_rows_for_arrow
from hiveacid.spark.write.update_delete_merge_rows import (
    EqualColumns,
    MatchKind,
    MergePlan,
    WhenClause,
    can_narrow,
    columns_to_add,
    equal_columns,
    narrow_source,
)
from hiveacid.table.arrow_read.record_batches import Selection
from hiveacid.table.context import Context
from hiveacid.table.definition import add_missing_columns
from hiveacid.table.read.table_snapshot import list_snapshot
from hiveacid.table.write.arrow_staging import Changes, StagedOutput, can_write, stage_computed_rows
from hiveacid.table.write.constraints import constrain_changes, limits_rows, with_defaults
from hiveacid.table.write.driver_reads import (
    FALLBACK_ERRORS,
    SelectedRows,
    list_for_driver,
    may_read_in_driver,
    read_selected,
    with_partition_keys,
)
from hiveacid.table.write.merge_of_copies import (
    CopiedRows,
    CopyingClauses,
    Keys,
    copied_rows,
    copying_clauses,
)
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.surrogate_keys import KeyMaker, KeysOfStatement, no_key
from hiveacid.table.write.update_delete import ChangesByJob, check_assignments, reads_table, write_changes
from hiveacid.table.write.write_conflicts import run_with_retry
from hiveacid.transactions.transaction import Transaction

LARGE = 32 << 20
"""Size in bytes from which the target is filtered by the source before the join, which takes two more Spark jobs."""
_SMALL = 10_000  # rows of target and source that one task joins and writes faster than several with a shuffle
Values = Mapping[str, Expression]

_MAX_ROWS = 2_000_000  # of the source, and of matching target rows
_MAX_SOURCE_BYTES = 256 << 20  # Spark's estimate for the source
_KEY_TYPES = frozenset({"int", "bigint", "decimal", "date", "string", "varchar"})


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
            *(self.context, self.name, "MERGE", self.joined, self.run), exclusive=exclusive, is_stale=is_stale
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
            read, computed = _computed(context, read, source)
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
        in_driver = _are_unique(source.keys) and can_write(table) and source.small

        def joined() -> Changes:
            target = broadcast_rows(self.context.env, read.columns, rows.select([ROW_ID, *read.names]))
            by_job = self._joined_by_spark(table, plan, target, source.frame(), small=count <= _SMALL)
            return _ChangesInDriver(plan, count, by_job) if in_driver else by_job

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


@dataclass(frozen=True)
class TargetRead:
    """Columns of the target that a MERGE needs, and pairs of columns that are equal in every match.

    ``copied``: clauses that Arrow can carry out alone.
    """

    columns: Sequence[Column]
    pairs: Sequence[EqualColumns]
    copied: CopyingClauses | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(column.name for column in self.columns)


def target_read(
    context: Context, table: TableDefinition, plan: MergePlan, source: DataFrame
) -> TargetRead | None:
    """Return how the driver reads the target; None if a job has to scan it."""
    env = context.env
    try:
        if not may_read_in_driver(context, table) or not can_narrow(plan):
            return None
        if estimated_bytes(source) > (_MAX_SOURCE_BYTES if env.local else max_bytes_in_driver(env)):
            return None
        with translate_errors():
            joined = plan.joined(empty_rows(env, table), source)
            join = plan_of(joined)
            if join.nodeName() != "Join":  # a function of SQL makes further plans
                return None
            values = plan_of(selected(joined, [together(plan.expressions())]))
            names = columns_used(env, values, join.left(), "Join")
        kept = {column.name for column in table.all_columns if plan.keeps(column)}
        columns = passed_columns(table, names | kept)
    except FALLBACK_ERRORS:
        return None
    types = {column.name: column.type for column in columns}
    pairs = [p for p in equal_columns(join, source) if is_primitive(types[p.target], _KEY_TYPES)]
    if not pairs:
        return None
    with translate_errors():
        together_values = values.expressions().head().child()
        expressions = [*scala_items(together_values.valExprs())]
        return TargetRead(columns, pairs, copying_clauses(plan, source, pairs, join, expressions))


def _computed(
    context: Context, read: TargetRead, source: DataFrame
) -> tuple[TargetRead, ComputedSource | None]:
    """Return a source that is computed with the values that clauses take from it alone, if that raises no error.

    A row that no clause uses may have no such value: 1 / s.n where n is 0. Then Spark computes the values behind the join.
    """
    try:
        return read, ComputedSource.of(context, read, source)
    except Exception as error:
        if read.copied is None or not read.copied.values or not is_failed_job(error.__cause__ or error):
            raise
    read = replace(read, copied=None)
    return read, ComputedSource.of(context, read, source)


@dataclass(frozen=True)
class ComputedSource:
    """A source that is not computed again.

    ``keys``: an Arrow table of the columns in `TargetRead.pairs`; of too many rows, the first. ``small``: the JVM can pass its
    rows to this process and back. ``frame``, ``rows``: return its rows, the latter as an Arrow table if it is small, with a
    further column for each of `CopyingClauses.values`.
    """

    keys: pa.Table
    small: bool
    frame: Callable[[], DataFrame]
    rows: Callable[[], pa.Table]

    def has_null_matches(self, read: TargetRead) -> bool:
        """Tell whether a NULL among its keys matches NULLs of the target, which selections by keys and Arrow's join do not find."""
        columns = zip(read.pairs, self.keys.columns, strict=True)
        return any(pair.null_safe and values.null_count for pair, values in columns)

    @classmethod
    def of(cls, context: Context, read: TargetRead, source: DataFrame) -> ComputedSource | None:
        """Compute a source; None if it cannot be kept.

        With a local master the JVM keeps it. On a cluster an executor would keep a part, and Spark cannot compute a lost part
        again; so the rows come to this process, if they are few.
        """
        env, names = context.env, [pair.source for pair in read.pairs]
        copied = read.copied or CopyingClauses({})
        with translate_errors():
            valued = copied.with_values(env, source)
            if not env.local:
                rows = collect_rows(env, valued, _MAX_ROWS)
                if rows is None:
                    return None
                own = rows.select(range(len(source.columns)))
                return cls(
                    columns_named(own, names),
                    True,  # noqa: FBT003
                    partial(frame_of_collected, env, source, own),
                    lambda: rows,
                )
            frame = computed_once(valued)
            keys = collect_as_arrow(frame.select(*map(quote_name, names)).limit(_MAX_ROWS + 1))
            small = computed_bytes(env, frame) <= max_bytes_in_driver(env)
            return cls(keys, small, partial(copied.without_values, frame), partial(collect_as_arrow, frame))


def columns_named(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of an Arrow table in the order of their names, whose case does not matter."""
    columns = [column.lower() for column in rows.column_names]
    return rows.select([columns.index(name.lower()) for name in names])


def keys_of(table: TableDefinition, read: TargetRead, keys: pa.Table) -> Keys:
    """Return the columns of `ComputedSource.keys` by column of the target, of that column's type."""
    types = {column.name: arrow_type(parse_type(column.type)) for column in table.all_columns}
    columns = zip(read.pairs, keys.columns, strict=True)
    return [(pair.target, values.cast(types[pair.target])) for pair, values in columns]


def matching_rows(
    context: Context, table: TableDefinition, txn: Transaction, read: TargetRead, source: ComputedSource
) -> pa.Table | None:
    """Return the target rows that have one of the source's keys, as an Arrow table; None if a job has to scan the target.

    Behind ``ROW__ID`` and the columns of ``read`` come the `partition_key` columns.
    """
    names = read.names
    if source.keys.num_rows > _MAX_ROWS:
        return None
    selection = Selection(names, row_ids=True, for_change=True)
    try:
        parts = _read_matching(context, table, txn, selection, keys_of(table, read, source.keys))
    except FALLBACK_ERRORS:
        return None
    if parts is None:
        return None
    return with_partition_keys(table, names, parts)


def _read_matching(
    context: Context, table: TableDefinition, txn: Transaction, selection: Selection, keys: Keys
) -> list[SelectedRows] | None:
    """Return the target rows that have a key of the source; None if a job has to scan the target."""
    listed = list_for_driver(context, table, txn, _with_keys(selection, keys).predicate)
    if listed is None:
        return None
    names = table.partition_column_names
    selections = [
        (files, _with_keys(selection, keys_in_partition(keys, dict(zip(names, files.values, strict=True)))))
        for files in listed.snapshot.partitions
    ]
    if listed.choose_reader(context, selections, _MAX_ROWS, count=False) is not ReadBy.DRIVER:
        return None
    return read_selected(context, listed.snapshot, selections, _MAX_ROWS)


def _with_keys(selection: Selection, keys: Keys) -> Selection:
    """Return the selection of rows whose columns have a value among the source's. No keys select all rows."""
    members = [ds.field(name).isin(values.unique().drop_null()) for name, values in keys]
    names = tuple(name for name, _ in keys)
    return replace(selection, predicate=reduce(and_, members) if members else None, filter_columns=names)


def keys_in_partition(keys: Keys, partition: Mapping[str, pa.Scalar]) -> Keys:
    """Keep the keys of the source rows that can match rows of a partition, and drop the partition columns from them.

    Arrow hashes all keys anew for each stripe. With the keys of one partition that takes a fraction of the time.
    ``partition``: an Arrow scalar for each partition column.
    """
    in_partition = None
    for name, values in keys:
        if name in partition:
            equal = pc.equal(values, partition[name])
            in_partition = equal if in_partition is None else pc.and_(in_partition, equal)
    stored_keys = [(name, values) for name, values in keys if name not in partition]
    if in_partition is None:
        return stored_keys
    return [(name, values.filter(in_partition)) for name, values in stored_keys]


def _are_unique(keys: pa.Table) -> bool:
    """Tell whether no two rows of an Arrow table are equal. Rows with a NULL do not count: they match nothing."""
    names = [str(index) for index in range(keys.num_columns)]
    rows = keys.rename_columns(names).drop_null()
    return bool(rows.group_by(names).aggregate([]).num_rows == rows.num_rows)


@dataclass(frozen=True)
class _ChangesInDriver:
    """Changed rows that Spark computes and Arrow writes: at most ``rows``, one at most for each target row.

    ``by_job``: the job that writes them if they take too much memory or `stage_computed_rows` cannot.
    """

    plan: MergePlan
    rows: int
    by_job: ChangesByJob

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Take the rows from Spark and write them."""
        columns = self.plan.table.columns
        clauses = [clause.values or {} for clause in self.plan.clauses]
        grown = columns_that_grow(self.plan.table, clauses, self.rows)
        texts = [staged_column(columns.index(column)) for column in grown]
        with translate_errors():
            changed = changed_rows_for_arrow(target, self.by_job.rows)
            computed = collect_within_limit(context.env, changed, texts)
        staged = None if computed is None else stage_computed_rows(context, computed, target, directory)
        return staged or self.by_job.stage(context, target, directory)

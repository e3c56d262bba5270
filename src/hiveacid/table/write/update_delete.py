"""UPDATE and DELETE, overwrite by condition, and the steps they share with MERGE.

These steps stage delete events and new rows, publish and record them. A job takes some tenths of a second, however few rows it
changes. Arrow therefore reads and writes few rows in the driver. Spark computes new values there, and judges the rows wherever
Arrow could select others than Spark. Columns that the statement neither sets nor mentions never leave Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.core.format.acid_columns import decide_row_groups
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.types import is_primitive, quote_name, require_set_once, unquoted_name
from hiveacid.orc.stored_values import require_storable
from hiveacid.ports.transactions import Operation
from hiveacid.spark.formats.expressions import Expression, expand_stars, selected, text_of
from hiveacid.spark.predicates.column_conditions import condition_rows
from hiveacid.spark.session.bound_plans import filter_rows, qualifier_of
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.running_jobs_and_plans import note_sources, reads_from
from hiveacid.spark.write.changes_of_arrow_rows import (
    ASSIGNABLE_TYPES,
    RowChange,
    columns_to_pass,
    compute_changes,
    has_subquery,
)
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.spark.write.sort_and_stage import (
    ACTION,
    Action,
    StagingTarget,
    shuffle_tasks,
    stage_changed_rows,
)
from hiveacid.spark.write.staged_files import StagedKind, list_staged_files
from hiveacid.spark.write.update_delete_merge_rows import changed_rows
from hiveacid.table.codec_and_writer_options import writer_options
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.table_snapshot import TableSnapshot, list_snapshot
from hiveacid.table.write import output_directories
from hiveacid.table.write.arrow_staging import Changes, SelectedChanges, StagedOutput
from hiveacid.table.write.constraints import constrain_changes, limits_rows, with_defaults
from hiveacid.table.write.driver_reads import (
    FALLBACK_ERRORS,
    AnalysedCondition,
    SelectedRows,
    may_read_in_driver,
    select_rows,
    with_partition_keys,
)
from hiveacid.table.write.merge_of_copies import CopiedRows, CopyingClause, rows_of_clause
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.surrogate_keys import KeysOfStatement
from hiveacid.table.write.write_conflicts import (
    require_no_silent_conflict,
    run_with_retry,
)
from hiveacid.transactions.transaction import Transaction

# Bytes of ORC that one task reads, sorts and writes faster than several tasks with a shuffle.
_MAX_BYTES_OF_ONE_TASK = 4 << 20


def update(
    context: Context,
    name: TableName,
    assignments: Mapping[str, Expression],
    condition: Expression | None,
    joined: Transaction | None,
) -> WriteReport:
    """Set columns of the rows that ``condition`` selects; None selects all rows.

    A row whose partition or bucketing column is set moves to its new partition or bucket. ``joined``: the open transaction that
    the statement becomes a part of, if any. Raises NoSuchColumnError, SchemaMismatchError.
    """
    statement = UpdateOrDelete(context, condition, None, assignments)
    return run_with_retry(context, name, "UPDATE", joined, statement.run)


def delete(
    context: Context, name: TableName, condition: Expression | None, joined: Transaction | None
) -> WriteReport:
    """Delete the rows that ``condition`` selects; None selects all rows. ``joined`` as in `update`."""
    return run_with_retry(context, name, "DELETE", joined, UpdateOrDelete(context, condition, None).run)


@dataclass(frozen=True)
class UpdateOrDelete:
    """The rows that a statement selects, and what an UPDATE sets; ``assignments`` None: a DELETE."""

    context: Context
    condition: Expression | None
    alias: str | None
    assignments: Mapping[str, Expression] | None = None

    def run(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        """Change the rows in a transaction: in the driver if they are few, else by a job."""
        assignments: Mapping[str, Expression] = {}
        if self.assignments is not None:
            keys = KeysOfStatement(txn, table.name, not txn.explicit).computed
            checked = check_assignments(table, self.assignments)
            assignments = with_defaults(self.context, table, checked, keys=keys)
        columns = {qualifier_of(self.alias or table.name): table.column_names}
        change = RowChange(
            None if self.condition is None else expand_stars(self.condition, columns),
            {column: expand_stars(value, columns) for column, value in assignments.items()},
            self.alias,
        )
        changes = _changes_in_driver(self.context, table, txn, change)
        verb = "DELETE" if self.assignments is None else "UPDATE"
        return write_changes(
            self.context, table, txn, changes or _changes_by_job(self.context, table, txn, change), verb
        )


def _changes_in_driver(
    context: Context, table: TableDefinition, txn: Transaction, change: RowChange
) -> Changes | None:
    """Return the rows of a change, which Arrow can write; None if the statement has to be a job.

    Raises DataError for a value that does not fit its column.
    """
    try:
        parts = _changed_rows(context, table, txn, change)
        if parts and _moved_columns(table, change):
            by_job = partial(_changes_by_job, context, table, txn, change)
            return CopiedRows(_moved_rows(table, parts, change), by_job)
    except FALLBACK_ERRORS:
        return None
    return None if parts is None else SelectedChanges(change.verb, parts)


def _moved_rows(table: TableDefinition, parts: Sequence[SelectedRows], change: RowChange) -> pa.Table:
    """Return the changes of rows that an UPDATE moves between partitions, as `rows_of_clause`; ``parts`` hold the new values."""
    rows = with_partition_keys(table, table.column_names, parts)
    numbers = {name: n for n, name in enumerate(table.column_names) if name in change.assignments}
    clause = CopyingClause(Action.UPDATE, numbers)
    return rows_of_clause(table, clause, rows, rows.select(table.column_names), change.assignments)


def _moved_columns(table: TableDefinition, change: RowChange) -> list[Column]:
    """Return the partition columns that an UPDATE sets."""
    return [column for column in table.partition_columns if column.name in change.assignments]


def _changed_rows(
    context: Context, table: TableDefinition, txn: Transaction, change: RowChange
) -> list[SelectedRows] | None:
    """Return the rows that a statement changes, with their new values; None if it has to be a job."""
    if not may_read_in_driver(context, table) or not _can_take_new_values(context, table, change):
        return None
    env, where = context.env, change.where
    if where is None and not change.assignments:
        return select_rows(context, table, txn, AnalysedCondition(), ())
    with translate_errors():
        rows = condition_rows(env, table, where, alias=change.alias)
        condition = AnalysedCondition() if where is None else AnalysedCondition.of(env, table, plan_of(rows))
        alone = condition.exact and not change.assignments
        passed = [] if alone else columns_to_pass(env, table, rows, change, judged=not condition.exact)
    names = table.column_names if change.assignments else [column.name for column in passed]
    parts = select_rows(context, table, txn, condition, tuple(names))
    if not parts or alone:
        return parts
    left = replace(change, where=None) if condition.exact else change
    return _changed_parts(context, table, parts, passed, left)


def _can_take_new_values(context: Context, table: TableDefinition, change: RowChange) -> bool:
    """Tell whether the driver may take the new values from Spark and write them by Arrow."""
    if not change.assignments:
        return True
    types = {column.name: column.type for column in table.all_columns}
    return (
        table.bucketing is None
        and all(is_primitive(types[name], ASSIGNABLE_TYPES) for name in change.assignments)
        and not limits_rows(context, table)
    )


def _changed_parts(
    context: Context,
    table: TableDefinition,
    parts: Sequence[SelectedRows],
    passed: Sequence[Column],
    change: RowChange,
) -> list[SelectedRows]:
    """Return those of the rows that Spark selects, with the new values that it computes."""
    rows = pa.concat_tables([part.rows for part in parts])
    with translate_errors():
        positions, values = compute_changes(context.env, table, rows, passed, change)
    rows = rows.take(positions) if change.where is not None else rows
    for column in (*table.columns, *_moved_columns(table, change)) if change.assignments else ():
        new = values.column(column.name) if column.name in change.assignments else rows.column(column.name)
        require_storable(column, new)
        index = rows.schema.get_field_index(column.name)
        rows = rows.set_column(index, column.name, new.cast(rows.schema.field(index).type))
    ends = np.searchsorted(positions, np.cumsum([part.rows.num_rows for part in parts]))
    begins = [0, *ends[:-1]]
    return [
        SelectedRows(part.partition, rows.slice(begin, end - begin))
        for part, begin, end in zip(parts, begins, ends, strict=True)
        if end > begin
    ]


def _changes_by_job(
    context: Context, table: TableDefinition, txn: Transaction, change: RowChange
) -> ChangesByJob:
    """Return the plan of a job that scans the table and writes the events of a change."""
    with translate_errors():
        rows, snapshot = select_by_spark(context, table, txn, change.where, change.alias)
        changes = changed_rows(table, rows, change.assignments)
        if change.assignments:
            changes = constrain_changes(context, table, changes)
    # One task is enough if the files are small and no subquery reads other tables, whose size is unknown.
    small = snapshot.size <= _MAX_BYTES_OF_ONE_TASK and not has_subquery(context.env, plan_of(changes))
    largest = snapshot.size if _moved_columns(table, change) else snapshot.largest_location
    return ChangesByJob(changes, size=largest if change.assignments else None, small=small)


def select_by_spark(
    context: Context, table: TableDefinition, txn: Transaction, where: Expression | None, alias: str | None
) -> tuple[DataFrame, TableSnapshot]:
    """Return a scan of the rows that a condition selects, and its snapshot."""
    snapshot = list_snapshot(context, table, txn, where=text_of(where), alias=alias)
    frame = snapshot.scan(changing=True)
    return filter_rows(context.env, frame, where, alias or table.name), snapshot


def check_assignments(table: TableDefinition, assignments: Mapping[str, Expression]) -> dict[str, Expression]:
    """Return assignments by lower-case column name.

    Raises ConfigError without assignments or for a column set twice, and NoSuchColumnError.
    """
    if not assignments:
        raise errors.ConfigError("UPDATE sets no column")
    argument: object = assignments
    if not isinstance(argument, Mapping) or not all(isinstance(column, str) for column in argument):
        raise errors.ConfigError(
            f"UPDATE takes columns with their values, {{'qty': 'qty + 1'}}, not {assignments!r}"
        )
    names = [unquoted_name(column).lower() for column in assignments]
    require_set_once(names)
    values_by_column = dict(zip(names, assignments.values(), strict=True))
    for column in values_by_column:
        if column not in table.column_names:
            raise errors.no_such_column(table.name, column, table.column_names)
    return values_by_column


@dataclass(frozen=True)
class ChangesByJob:
    """Changed rows that one Spark job computes and writes.

    ``check_cardinality``: fail if a target row of a MERGE has several matches. ``size``: for an UPDATE, the bytes of the
    largest partition with changed rows, or of all that a row may move from. ``small``: one task is enough.
    """

    rows: DataFrame
    check_cardinality: bool = False
    size: int | None = None
    small: bool = False

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Run the job."""
        groups = decide_row_groups(
            self.size,
            context.settings.get(setting_definitions.WRITE_FILE_SIZE),
            shuffle_tasks(context.env),
            partitioned=bool(target.table.partition_columns),
        )
        with translate_errors():
            reported = stage_changed_rows(
                replace(target, row_groups=groups),
                self.rows,
                directory,
                check_cardinality=self.check_cardinality,
                small=self.small,
            )
        return list_staged_files(context.fs, directory, StagedKind.DELETE, reported), reported


def write_changes(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    changes: Changes,
    verb: str,
    *,
    updates_and_inserts: bool = False,
) -> WriteReport:
    """Stage and publish delete events and new rows; the caller commits.

    ``verb``: the statement, for the table's history. ``updates_and_inserts``: a MERGE that may both update and insert rows.
    """
    write_id = txn.write_id(table.name, publishing=False)
    statements = output_directories.change_statement_ids(
        txn, context.layout_level(table), updates_and_inserts=updates_and_inserts
    )
    partitions = output_directories.known_partitions(context, table, txn)
    outputs = output_directories.OutputDirectories(context, table, txn, partitions, write_id, statements)
    txn.pending.on_abort.append(outputs.remove)
    options = writer_options(table, context.settings)
    target = StagingTarget(context.env, table, write_id, statements, options, context.single_bucket(table))
    with output_directories.staging(context, table, txn) as directory:
        files, reported = changes.stage(context, target, directory)
        published = outputs.publish(outputs.place(files), reported, directory)
    outputs.record_files(published)
    outputs.require_not_overtaken()
    changed_partitions = {values for kind, values in published.rows if kind.is_delete}
    if table.partition_columns and changed_partitions and not context.store.maintained_by_hiveacid():
        locations = [outputs.used_locations[values] for values in changed_partitions]
        updates = any(not kind.is_delete for kind, _ in published.rows)
        txn.pending.before_commit.append(
            lambda: require_no_silent_conflict(context, table, txn, locations, updates=updates)
        )
    replaced = published.total(StagedKind.DELETED_BY_UPDATE)
    updated = published.total(StagedKind.UPDATED) + replaced
    operations = {
        StagedKind.DELETE: Operation.UPDATE if updated else Operation.DELETE,
        StagedKind.DELETED_BY_UPDATE: Operation.UPDATE,
        StagedKind.UPDATED: Operation.UPDATE,
        StagedKind.INSERTED: Operation.INSERT,
    }
    txn.pending.add_written(
        output_directories.written_partitions(table, published, operations),
        outputs.new_partitions(),
        files=output_directories.new_files(table, published),
    )
    # An updated row is staged as DELETE and UPDATED, or as DELETED_BY_UPDATE and INSERTED (its new version).
    # The report counts such a row as updated only, neither as inserted nor as deleted.
    report = WriteReport(
        inserted=published.total(StagedKind.INSERTED) - replaced,
        updated=updated,
        deleted=published.total(StagedKind.DELETE) + replaced - updated,
        write_id=write_id,
        files=published.files,
        bytes=published.bytes,
    )
    txn.pending.add_summary(table.name, report.summary(verb, context.statement))
    return report


def replace_rows(
    context: Context, name: TableName, rows: DataFrame, where: Expression, joined: Transaction | None
) -> WriteReport:
    """Delete the rows that ``where`` selects and insert ``rows``, in one job and one commit; columns are matched by name.

    New rows need not fulfil ``where``. The statement locks out other writers: otherwise two concurrent calls whose
    conditions select no row would not conflict, and both would insert their rows.

    Raises SchemaMismatchError, NoSuchTableError, InsertOnlyError, WriteConflictError.
    """
    statement = Replacement(context, rows, where)
    is_stale = partial(reads_table, context, name, rows)
    return run_with_retry(
        context, name, "OVERWRITE", joined, statement.run, exclusive=True, is_stale=is_stale
    )


def reads_table(context: Context, name: TableName, frame: DataFrame) -> bool:
    """Tell whether the rows of a DataFrame come from a table, as it was when the DataFrame was made."""
    table = context.require(name)
    locations = [partition.location for partition in partitions_of(context, table) or ()]
    return reads_from(frame, name, [table.location, *locations])


@dataclass(frozen=True)
class Replacement:
    """The rows that replace those which ``where`` selects."""

    context: Context
    rows: DataFrame
    where: Expression

    def run(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        """Replace the rows in a transaction."""
        note_sources(txn, self.rows)
        with translate_errors():
            where = expand_stars(self.where, {qualifier_of(table.name): table.column_names})
            old_rows, _ = select_by_spark(self.context, table, txn, where, None)
            deletes = changed_rows(table, old_rows, {})
            fitted = fit_columns(table, self.rows, {}, None, by_name=True)
            row_id_type = deletes.schema[ROW_ID].dataType.simpleString()
            leading = [f"{int(Action.INSERT)} AS {ACTION}", f"CAST(NULL AS {row_id_type}) AS {ROW_ID}"]
            inserts = selected(fitted, [*leading, *map(quote_name, table.column_names)])
            changes = constrain_changes(self.context, table, deletes.union(inserts))
        return write_changes(self.context, table, txn, ChangesByJob(changes), "OVERWRITE")

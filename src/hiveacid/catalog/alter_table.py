"""ALTER TABLE of columns, constraints and the values of a partition, under the table's exclusive lock.

PARTITION RENAME: a store of hiveacid's own gets the rows in a new directory, which one commit puts in the place of the old one.
A crash before it leaves a directory of an aborted write id, a crash after it the old directory, as a DROP PARTITION does; no row
is lost or doubled. A metastore moves the directory itself, as for Hive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from hiveacid import errors
from hiveacid.catalog.ddl import end_history, with_history_from
from hiveacid.core.compaction.plan import CompactionKind, CompactionPlan
from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Constraint, ConstraintKind, Partition, TableDefinition, TableKind, TableName
from hiveacid.core.schema.constraints import limits, mentions, with_added
from hiveacid.core.schema.location_overlap import lies_in
from hiveacid.core.schema.partitions import KnownPartitions
from hiveacid.core.transactions.states import CompactionState
from hiveacid.ports.store import PartitionMover
from hiveacid.spark.write.staged_files import StagedKind
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.storage.staging import delete_staging
from hiveacid.table.cleaning.remove_files import remove_location, require_listable
from hiveacid.table.compaction.write_compacted_files import (
    CompactionJob,
    FileWriter,
    measure_input,
    require_balance,
)
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_table, put_definition
from hiveacid.table.partitions import PartitionValues, partition_name, partitions_of, require_no_leftovers
from hiveacid.table.tags import require_no_tags
from hiveacid.table.write import output_directories
from hiveacid.table.write.constraints import require_defaults_fit, require_evaluable
from hiveacid.transactions.transaction import Transaction


def alter_columns(
    context: Context,
    name: TableName,
    edit: Callable[[TableDefinition, LayoutLevel], TableDefinition],
    added: Constraint | None = None,
) -> None:
    """Change columns by a function of `core.schema.evolution`; the partitions of a metastore get the same columns.

    ``added``: a constraint that the changed table gets. Raises its errors, and UnsupportedFeatureError if a constraint may name
    what changes.
    """
    with exclusive_table(context, name) as (table, txn):
        edited = edit(table, context.layout_level(table))
        kept = {(column.name, column.type) for column in edited.columns}
        changed = {column.name for column in table.columns if (column.name, column.type) not in kept}
        for constraint in context.catalog.constraints(table, keys=True) if changed else ():
            if mentions(constraint, changed):
                raise errors.UnsupportedFeatureError(
                    f"{name}: {', '.join(sorted(changed))} cannot change beside the constraint {constraint.name}: ALTER TABLE {name} "
                    f"DROP CONSTRAINT {constraint.name} first"
                )
        new = None if added is None else constraints_with(context, edited, added)
        if new is not None and context.store.maintained_by_hiveacid():  # in the definition: in one commit
            edited, new = replace(edited, constraints=tuple(new)), None
        if edited != table:
            put_definition(context, table, edited, txn)
        if new is not None:
            txn.require_open_in_store()
            context.catalog.put_constraints(edited, new)


def constraints_with(context: Context, table: TableDefinition, added: Constraint) -> Sequence[Constraint]:
    """Return a table's constraints and a new one. Raises the errors of `with_added` and `require_evaluable`."""
    changed = with_added(table, context.catalog.constraints(table, keys=True), [added])
    require_evaluable(context, table, changed[-1:])
    require_defaults_fit(context, table, changed[-1:])
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
            raise errors.CatalogError(f"{name} has no constraint {dropped}; it has {names or 'none'}")


def rename_partition(
    context: Context,
    name: TableName,
    choose: Callable[[Sequence[Partition]], Sequence[Partition]],
    wanted: PartitionValues,
) -> None:
    """Give the partition that ``choose`` returns other values. Rows keep their row ids.

    The exclusive lock waits for writers. Plans of readers that began before miss files, and raise an error.
    Raises NoSuchPartitionError, AlreadyExistsError; UnsupportedFeatureError for a plain table of an own store, or a partition
    outside its table.
    """
    with exclusive_table(context, name) as (table, held):
        require_no_tags(context, table, "PARTITION RENAME")
        partitions = partitions_of(context, table) or ()
        chosen = choose(partitions)
        if len(chosen) != 1:
            raise errors.NoSuchPartitionError(
                f"{name} has not one such partition: see SHOW PARTITIONS {name}"
            )
        old, known = chosen[0], KnownPartitions.of(table, partitions)
        values = known.values_of(wanted)
        if values in known.by_values:
            raise errors.AlreadyExistsError(
                f"partition {partition_name(table, values)} of {name} exists already"
            )
        for constraint in context.catalog.constraints(table):  # it would apply to rows that are not read here
            if limits([constraint]) and mentions(constraint, table.partition_column_names):
                raise errors.UnsupportedFeatureError(
                    f"{name} has the {constraint} of partition columns: INSERT the rows into the new partition, and DROP the old one"
                )
        if not context.store.maintained_by_hiveacid():
            if table.kind is not TableKind.PLAIN:
                end_history(context, table, held)
            held.require_open_in_store()
            cast("PartitionMover", context.store).rename_partition(name, old, values, table)
            return
        if table.kind is TableKind.PLAIN or not lies_in(old.location, table.location):
            reason = (
                "not transactional"
                if table.kind is TableKind.PLAIN
                else f"at {old.location}, outside the table"
            )
            raise errors.UnsupportedFeatureError(
                f"partition {partition_name(table, old.values)} of {name} is {reason}, and a crash could double its rows: INSERT them "
                "into the new partition, and then DROP the old one"
            )
        require_listable(context, [old.location])
        _replace(context, table, old, values, held)
        remove_location(context, old.location, table.kind, held=held)


def _replace(
    context: Context, table: TableDefinition, old: Partition, values: PartitionValues, held: Transaction
) -> None:
    """Write the rows of a partition into the base of another, and replace the one by the other in a commit.

    Its write id tells snapshots before it from those after it, as that of DROP PARTITION. ``held``: the transaction with the
    lock, which the caller needs longer than this commit.
    """
    with context.transactions.scope(context.settings) as txn:
        known = output_directories.known_partitions(context, table, txn)
        outputs = output_directories.new_output_directories(context, table, txn, known, overwrite=True)
        outputs.properties = old.properties
        committed = txn.committed_write_ids(table.name)
        if committed.open:
            raise errors.WriteConflictError(
                f"{table.name}: write id {committed.open[0]} is open although the table is locked: run the statement again"
            )
        require_no_leftovers(context, table, outputs.find_location(values), committed)
        write_ids = committed.compactor()
        (location,) = list_locations(context.fs, table, [old], write_ids, txn.snapshot())
        output = outputs.directory(StagedKind.INSERTED, values)
        state = location.state
        inputs = state.base, state.originals, state.deltas, state.delete_deltas
        plan = CompactionPlan(
            CompactionKind.MAJOR, write_ids, *inputs, output, delete_output=None, metadata=None
        )
        request = CompactionRequest(table.name, partition_name(table, old.values), plan.kind)
        record = Compaction(0, request, CompactionState.WORKING)
        before = measure_input(context, table, location, plan, count_rows=True)
        job = CompactionJob(context, record, table, location, plan, txn, before)
        try:
            published = FileWriter().rows(job, output)
            require_balance(job, [published])
        finally:
            delete_staging(context.fs, job.scratch)
        rows = published.total(StagedKind.INSERTED)
        output_directories.record_written(outputs, published, rows, "RENAME PARTITION")
        txn.pending.drop_partitions(with_history_from(table, outputs.write_id), [old], seen=table)
        txn.pending.before_commit.append(held.require_open_in_store)


def drop_column_constraint(context: Context, name: TableName, column: str, kind: ConstraintKind) -> None:
    """Drop the NOT NULL or DEFAULT of a column, if it has one."""
    with exclusive_table(context, name) as (table, txn):
        if column not in table.column_names:
            raise errors.no_such_column(name, column, table.column_names)
        existing = context.catalog.constraints(table, keys=True)
        txn.require_open_in_store()
        left = [one for one in existing if (one.column, one.kind) != (column, kind)]
        context.catalog.put_constraints(table, left)

"""UPDATE and DELETE, and what they share with MERGE: locks, one job, publish, record, retry after a conflict."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.locks import LockComponent, LockType
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import (
    BucketColumnUpdateError,
    ConfigError,
    NoSuchColumnError,
    PartitionColumnUpdateError,
    WriteConflictError,
)
from hiveacid.ports import Operation, Start
from hiveacid.spark.changes import deleted_rows, updated_rows
from hiveacid.spark.expressions import Expression
from hiveacid.spark.failures import translated
from hiveacid.spark.publish import publish_acid, staged_files
from hiveacid.spark.rows import filtered
from hiveacid.spark.write import Kind, Target, stage_changes
from hiveacid.table.layout import Places, known_partitions, new_files, staging, written
from hiveacid.table.read import find, rows_of
from hiveacid.table.report import WriteReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

logger = logging.getLogger(__name__)

_SMALL = 4 << 20  # bytes of ORC that one task reads, sorts and writes sooner than several that shuffle


def change(
    context: Context,
    name: TableName,
    verb: str,
    joined: Transaction | None,
    run: Callable[[TableDefinition, Transaction], WriteReport],
    *,
    exclusive: bool = False,
) -> WriteReport:
    """Run a changing statement under its lock; retry it with a fresh snapshot after a lost race.

    Retries happen for statements of their own only (``hive.txn.retrysnapshot.max.count``); inside of
    ``acid.transaction()`` the WriteConflictError is the caller's. ``exclusive``: wait for other writers whatever
    ``hive.txn.xlock.write`` says.
    """
    attempts = 0 if joined is not None else context.settings.get(keys.RETRY_SNAPSHOT)
    for attempt in range(attempts + 1):
        try:
            operation = Operation.DELETE if verb == "DELETE" else Operation.UPDATE
            lock = replace(lock_of_change(context, name, exclusive=exclusive), operation=operation)
            start = Start((lock,), (name,), (name,))
            with context.transactions.scope(
                context.settings, joined, start, lambda: context.require_full_acid(name, verb)
            ) as txn:
                report = run(context.require_full_acid(name, verb), txn)
            return replace(report, retries=attempt)
        except WriteConflictError:
            if attempt == attempts:
                raise
            logger.info("%s on %s lost a race; trying again with a fresh snapshot", verb, name)
    raise AssertionError  # the loop returns or raises


def lock_of_change(context: Context, name: TableName, *, exclusive: bool = False) -> LockComponent:
    """Return the lock that UPDATE, DELETE and MERGE take."""
    alone = exclusive or context.settings.get(keys.XLOCK_WRITE)
    return LockComponent(LockType.EXCL_WRITE if alone else LockType.SHARED_WRITE, name.database, name.name)


def update(
    context: Context,
    name: TableName,
    assignments: Mapping[str, Expression],
    where: Expression | None,
    joined: Transaction | None,
    alias: str | None = None,
) -> WriteReport:
    """Set columns of the rows that ``where`` selects (all without one).

    Raises NoSuchColumnError, PartitionColumnUpdateError, BucketColumnUpdateError, SchemaMismatchError.
    """

    def run(table: TableDefinition, txn: Transaction) -> WriteReport:
        wanted = check_assignments(table, assignments)
        with translated():
            rows, size = _selected(context, table, txn, where, alias)
            changes = updated_rows(table, rows, wanted)
        small = size <= _SMALL and not _asks_others(where, *wanted.values())
        return write_changes(context, table, txn, changes, "UPDATE", check_cardinality=False, small=small)

    return change(context, name, "UPDATE", joined, run)


def delete(
    context: Context,
    name: TableName,
    where: Expression | None,
    joined: Transaction | None,
    alias: str | None = None,
) -> WriteReport:
    """Delete the rows that ``where`` selects (all without one)."""

    def run(table: TableDefinition, txn: Transaction) -> WriteReport:
        with translated():
            rows, size = _selected(context, table, txn, where, alias)
            changes = deleted_rows(table, rows)
        small = size <= _SMALL and not _asks_others(where)
        return write_changes(context, table, txn, changes, "DELETE", check_cardinality=False, small=small)

    return change(context, name, "DELETE", joined, run)


def _selected(
    context: Context, table: TableDefinition, txn: Transaction, where: Expression | None, alias: str | None
) -> tuple[DataFrame, int]:
    """Return the rows that a condition selects, and the bytes that have to be read for them at most."""
    hint = where if isinstance(where, str) else None
    found = find(context, table, txn, where=hint, alias=alias)
    frame = rows_of(context, table, txn, found, changing=True)
    return filtered(frame, where, alias or table.name.name), found.size


def _asks_others(*expressions: Expression | None) -> bool:
    """Tell whether expressions may read other tables, of whatever size."""
    return any(
        expression is not None and not (isinstance(expression, str) and "select" not in expression.lower())
        for expression in expressions
    )


def check_assignments(table: TableDefinition, assignments: Mapping[str, Expression]) -> dict[str, Expression]:
    """Return assignments by lower-case column; refuse what Hive refuses (10292, 10302) and unknown columns."""
    if not assignments:
        raise ConfigError("UPDATE sets no column")
    given: object = assignments
    if not isinstance(given, Mapping) or not all(isinstance(column, str) for column in given):
        raise ConfigError(
            f"UPDATE takes columns with their values, {{'qty': 'qty + 1'}}, not {assignments!r}"
        )
    wanted = {column.strip().strip("`").lower(): value for column, value in assignments.items()}
    known = {c.name for c in table.columns}
    for column in wanted:
        if column in {c.name for c in table.partition_columns}:
            raise PartitionColumnUpdateError(
                f"{column} is a partition column of {table.name}: delete the row and insert it again"
            )
        if column not in known:
            raise NoSuchColumnError(f"{table.name} has no column {column}; it has {', '.join(sorted(known))}")
        if table.bucketing and column in table.bucketing.columns:
            raise BucketColumnUpdateError(
                f"{column} is a bucketing column of {table.name}: delete the row and insert it again"
            )
    return wanted


def write_changes(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    changes: DataFrame,
    verb: str,
    *,
    check_cardinality: bool,
    small: bool = False,
) -> WriteReport:
    """Write delete events and new rows in one job; the caller commits. ``verb``: for the table's history.

    ``small``: one task is enough.

    Statement ids as Hive 4 numbers them: deletes first, then new versions, then inserts, so that a delete
    never reaches rows of its own statement.
    """
    write_id = txn.write_id(table.name)
    first, second, third = txn.next_statements(3)
    statements = {Kind.DELETE: first, Kind.UPDATED: second, Kind.INSERTED: third}
    known = known_partitions(context, table, txn)
    places = Places(context, table, txn, known, write_id, statements)
    txn.on_abort(places.remove)
    target = Target(context.facts, table, write_id, statements, context.codec(table))
    with staging(context, table, txn) as directory, translated():
        stage_changes(target, changes, directory, check_cardinality=check_cardinality, small=small)
        files = staged_files(context.fs, directory, Kind.DELETE)
        published = publish_acid(context.fs, table, files, places.directory)
    places.require_not_overtaken()
    updated = published.total(Kind.UPDATED)
    deletes = Operation.UPDATE if updated else Operation.DELETE
    operations = {Kind.DELETE: deletes, Kind.UPDATED: Operation.UPDATE, Kind.INSERTED: Operation.INSERT}
    txn.wrote(
        written(table, published, operations), places.new_partitions(), files=new_files(table, published)
    )
    report = WriteReport(
        inserted=published.total(Kind.INSERTED),
        updated=updated,
        deleted=published.total(Kind.DELETE) - updated,
        write_id=write_id,
        files=published.files,
        bytes=published.bytes,
    )
    txn.did(table.name, report.deed(verb, context.statement))
    return report

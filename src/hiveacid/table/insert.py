"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.core.locks import LockComponent, LockType
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, WriteId
from hiveacid.errors import ConfigError, NoSuchColumnError, UnsupportedFeatureError, WriteConflictError
from hiveacid.ports import NewPartition, Operation, Start, Written
from hiveacid.spark.failures import translated
from hiveacid.spark.publish import (
    Published,
    StagedFile,
    count_rows,
    footers_count,
    publish_acid,
    publish_flat,
    staged_files,
)
from hiveacid.spark.rows import fit, partition_texts, with_static
from hiveacid.spark.write import Kind, Target, stage_empty, stage_insert
from hiveacid.table.layout import Places, known_partitions, new_files, partition_name, staging, written
from hiveacid.table.locking import appending_lock, overwriting_lock
from hiveacid.table.read import require_no_old_events
from hiveacid.table.report import WriteReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction


@dataclass(frozen=True)
class InsertOptions:
    """How to insert.

    ``partition``: column -> value text (None: NULL) of static partition columns, ``...`` for dynamic ones.
    ``overwrite``: replace what the written partitions hold (all of the table if it has none).
    ``columns``: the columns that the frame's columns are, by position (default: all, dynamic partition
    columns last); ``by_name``: match the frame's names instead. ``small``: one task is enough.
    ``named``: what a table's history calls the statement, if not INSERT.
    """

    partition: Mapping[str, object] | None = None
    overwrite: bool = False
    columns: Sequence[str] | None = None
    by_name: bool = False
    small: bool = False
    if_not_exists: bool = False
    named: str | None = None

    @property
    def verb(self) -> str:
        """What the statement is called in the table's history."""
        return self.named or ("INSERT OVERWRITE" if self.overwrite else "INSERT")


def insert(
    context: Context,
    name: TableName,
    rows: DataFrame | Callable[[Transaction], DataFrame],
    options: InsertOptions,
    joined: Transaction | None,
) -> WriteReport:
    """Insert rows. Raises SchemaMismatchError, NoSuchColumnError, DataError.

    ``rows`` may be a function of the transaction: it is called under the lock, so that INSERT OVERWRITE of
    a table from itself sees whatever was committed before it got the lock.
    """
    table = context.require(name)
    context.facts.require_plain_names()
    static = static_values(context, table, options.partition)
    ready = None if callable(rows) else _fitted(table, rows, static, options)
    lock = lock_of(context, table, static, overwrite=options.overwrite)
    written_to = (name,) if table.kind is not TableKind.PLAIN and not options.if_not_exists else ()
    with context.transactions.scope(context.settings, joined, Start((lock,), written_to, written_to)) as txn:
        table = context.require(name)
        if callable(rows):
            ready = _fitted(table, rows(txn), static, options)
        assert ready is not None  # noqa: S101 - one of the two
        return write_rows(context, table, ready, static, options, txn)


def _fitted(
    table: TableDefinition, rows: DataFrame, static: Mapping[str, str | None], options: InsertOptions
) -> DataFrame:
    with translated():
        return fit(table, rows, static, options.columns, by_name=options.by_name)


def lock_of(
    context: Context, table: TableDefinition, static: Mapping[str, str | None], *, overwrite: bool
) -> LockComponent:
    """Return the lock that an INSERT takes: on the partition if it names one, else on the table."""
    settings = context.settings
    if table.kind is TableKind.PLAIN:
        # the next file's name is one writer's
        kind = LockType.EXCLUSIVE if overwrite else LockType.EXCL_WRITE
    elif overwrite:
        kind = overwriting_lock(settings)
    else:
        kind = appending_lock(settings)
    partition = None
    if table.partition_columns and len(static) == len(table.partition_columns):
        partition = partition_name(table, tuple(static[c.name] for c in table.partition_columns))
    operation = Operation.UPDATE if overwrite else Operation.INSERT
    return LockComponent(kind, table.name.database, table.name.name, partition, operation)


def static_values(
    context: Context, table: TableDefinition, spec: Mapping[str, object] | None
) -> dict[str, str | None]:
    """Return the static part of a partition spec as canonical texts ('01' of an INT column is '1').

    Raises NoSuchColumnError, SchemaMismatchError (a value that is not of the column's type),
    ConfigError (a dynamic column before a static one).
    """
    columns = {c.name: c for c in table.partition_columns}
    given = {key.lower(): value for key, value in (spec or {}).items()}
    unknown = [key for key in given if key not in columns]
    if unknown:
        raise NoSuchColumnError(
            f"{table.name} has no partition column {unknown[0]}; it has {', '.join(columns) or 'none'}"
        )
    static = {key: value for key, value in given.items() if value is not ...}
    dynamic_seen = False
    for name in columns:
        dynamic_seen = dynamic_seen or name not in static
        if name in static and dynamic_seen:
            raise ConfigError(
                f"partition column {name} has a value, but one before it has none: Hive needs static values first"
            )
    if not static:
        return {}
    with translated():
        return partition_texts(context.facts, columns, static)


def write_rows(
    context: Context,
    table: TableDefinition,
    rows: DataFrame,
    static: Mapping[str, str | None],
    options: InsertOptions,
    txn: Transaction,
) -> WriteReport:
    """Stage, publish and record rows that fit; the caller commits."""
    require_writable(context, table, options, txn)
    if not options.overwrite:
        require_no_old_events(context, table, txn)
    dynamic = len(static) < len(table.partition_columns)
    fixed = () if dynamic else tuple(static[c.name] for c in table.partition_columns)
    known = known_partitions(context, table, txn)
    if options.if_not_exists and fixed and fixed in known:
        return WriteReport()
    places = new_places(context, table, txn, known, overwrite=options.overwrite)
    if dynamic and static:
        rows = with_static(table, rows, static)
    codec = context.codec(table)
    target = Target(context.facts, table, places.write_id, places.statements, codec)
    with staging(context, table, txn) as directory, translated():
        stage_insert(target, rows, directory, dynamic=dynamic, small=options.small)
        files = staged_files(context.fs, directory, Kind.INSERTED)
        counted = None if footers_count(table) else count_rows(context.facts, context.fs, table, files)
        published = _publish(context, table, files, places, fixed, overwrite=options.overwrite)
    if options.overwrite and not dynamic and table.kind is not TableKind.PLAIN and not published.directories:
        published = _publish_empty(context, target, places, fixed, txn)
    record(table, published, places, txn, overwrite=options.overwrite)
    inserted = published.total(Kind.INSERTED) if counted is None else counted
    report = WriteReport(
        inserted=inserted,
        write_id=places.write_id or None,
        files=published.files,
        bytes=published.bytes,
    )
    if report.write_id is not None:
        txn.did(table.name, report.deed(options.verb, context.statement))
    return report


def new_places(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    known: dict[tuple[str | None, ...], Partition],
    *,
    overwrite: bool,
) -> Places:
    """Return where new rows of one statement go; what lies there goes again if the transaction aborts."""
    write_id = txn.write_id(table.name) if table.kind is not TableKind.PLAIN else WriteId(0)
    statements = {Kind.INSERTED: txn.next_statements(1)[0]}
    places = Places(context, table, txn, known, write_id, statements, overwrite=overwrite)
    txn.on_abort(places.remove)
    return places


def require_writable(
    context: Context, table: TableDefinition, options: InsertOptions, txn: Transaction
) -> None:
    """Refuse, inside of a transaction of several statements, what could not be undone or would lose rows."""
    if not txn.explicit:
        return
    if table.kind is TableKind.PLAIN:
        raise UnsupportedFeatureError(
            f"{table.name} is not transactional: what is written to it can't be rolled back; write it outside"
        )
    if options.overwrite:
        store = context.store
        now = store.valid_write_ids(store.valid_txns(), [table.name])[table.name]
        if txn.saw_less_than(table.name, now):
            raise WriteConflictError(
                f"INSERT OVERWRITE {table.name}: another transaction wrote to the table since this one began, and "
                "its rows would be lost; run the transaction again"
            )


def _publish(
    context: Context,
    table: TableDefinition,
    files: Sequence[StagedFile],
    places: Places,
    fixed: tuple[str | None, ...],
    *,
    overwrite: bool,
) -> Published:
    if table.kind is TableKind.FULL_ACID:
        return publish_acid(
            context.fs, table, files, lambda kind, values: places.directory(kind, values or fixed)
        )
    if table.kind is TableKind.INSERT_ONLY:
        return publish_flat(
            context.fs,
            table,
            files,
            lambda kind, values: places.directory(kind, values or fixed),
            lambda number, _: f"{number:06d}_0",
        )
    if overwrite:
        targets = {file.values or fixed for file in files}
        if fixed or not table.partition_columns:
            targets.add(fixed)
        for values in targets:
            empty_plain(context, places.location(values))
    return publish_flat(
        context.fs,
        table,
        files,
        lambda _, values: places.location(values or fixed),
        FreeNames(context, lambda file: places.location(file.values or fixed)),
    )


class FreeNames:
    """Gives files of a plain table Hive's names, ``000000_0`` or the next ``000000_0_copy_N`` that is free."""

    def __init__(self, context: Context, place: Callable[[StagedFile], str]) -> None:
        """``place``: the directory that a file goes to."""
        self._context = context
        self._place = place
        self._taken: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, number: int, file: StagedFile) -> str:
        """Return the name of a file."""
        where = self._place(file)
        with self._lock:
            if where not in self._taken:
                self._taken[where] = names_in(self._context, where)
            return free_name(f"{number:06d}_0", self._taken[where])


def names_in(context: Context, directory: str) -> set[str]:
    """Return the names in a directory; none where it is not there."""
    if not context.fs.exists(directory):
        return set()
    return {entry.path.partition("/")[0] for entry in context.fs.list_tree(directory)}


def free_name(name: str, taken: set[str]) -> str:
    """Return a name, or the first ``_copy_N`` of it that is not taken (before the extension), and take it."""
    stem, dot, extension = name.rpartition(".") if "." in name else (name, "", "")
    copy, free = 0, name
    while free in taken:
        copy += 1
        free = f"{stem}_copy_{copy}{dot}{extension}"
    taken.add(free)
    return free


def empty_plain(context: Context, location: str) -> None:
    """Delete what a plain table or partition holds; hidden entries stay."""
    if not context.fs.exists(location):
        return
    for entry in context.fs.list_tree(location):
        if "/" not in entry.path and not entry.path.startswith((".", "_")):
            context.fs.delete_tree(f"{location}/{entry.path}")


def _publish_empty(
    context: Context, target: Target, places: Places, fixed: tuple[str | None, ...], txn: Transaction
) -> Published:
    """INSERT OVERWRITE of no rows: an empty base hides what was there."""
    base = places.directory(Kind.INSERTED, fixed)
    if target.table.kind is TableKind.INSERT_ONLY:
        context.fs.make_directory(base)
        published = Published({(Kind.INSERTED, ()): 0}, (base,))
    else:
        with staging(context, target.table, txn) as directory:
            stage_empty(target, directory)
            files = staged_files(context.fs, directory, Kind.INSERTED)
            published = publish_acid(context.fs, target.table, files, lambda *_: base, keep_empty=True)
    return published


def record(
    table: TableDefinition, published: Published, places: Places, txn: Transaction, *, overwrite: bool
) -> None:
    """Tell the transaction what was written, and which partitions are new."""
    partitions: list[NewPartition] = places.new_partitions()
    files = new_files(table, published, next(iter(places.used), ()), replaced=overwrite)
    if table.kind is TableKind.PLAIN:
        txn.wrote([], partitions, files=files)
        return
    places.require_not_overtaken()
    operation = Operation.UPDATE if overwrite else Operation.INSERT
    fixed = [Written(table.name, partition_name(table, values), operation) for values in places.used]
    txn.wrote(fixed or written(table, published, {Kind.INSERTED: operation}), partitions, files=files)
    if overwrite:
        txn.overwrites(table.name, {values for _, values in published.rows} | set(places.used))

"""INSERT INTO and INSERT OVERWRITE; RESTORE, which overwrites by rows of the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config import Settings, setting_definitions
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.transactions import Operation, Start
from hiveacid.spark.formats import flat_files as flat
from hiveacid.spark.formats.driver_frames import collect_as_arrow, count_listed_rows
from hiveacid.spark.formats.expressions import renamed
from hiveacid.spark.read.scan_source import STRICT_READ, escape_globs
from hiveacid.spark.session.classic_session import in_session
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.running_jobs_and_plans import note_sources
from hiveacid.spark.write.column_casts import add_static_partition_columns, empty_rows, fit_columns
from hiveacid.spark.write.sort_and_stage import StagingTarget, new_rows_for_arrow, stage_insert
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport, list_staged_files
from hiveacid.spark.write.update_delete_merge_rows import columns_to_add
from hiveacid.storage.paths import spark_path
from hiveacid.table.cleaning.remove_files import delete_plain_files, require_listable
from hiveacid.table.codec_and_writer_options import writer_options
from hiveacid.table.context import Context
from hiveacid.table.definition import add_missing_columns
from hiveacid.table.partitions import partition_name, partitions_of, static_values
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.history_and_time_travel import PointInTime, write_ids_at
from hiveacid.table.read.table_snapshot import list_snapshot
from hiveacid.table.read.visible_locations import list_visible, may_have_acid_v1_events
from hiveacid.table.write import output_directories, publish
from hiveacid.table.write.arrow_staging import StagedOutput, can_write, stage_computed_rows, stage_empty
from hiveacid.table.write.constraints import constrain_insert, default_values
from hiveacid.table.write.driver_reads import may_read_in_driver
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.surrogate_keys import KeysOfStatement
from hiveacid.table.write.update_delete import reads_table
from hiveacid.table.write.write_conflicts import (
    insert_lock_type,
    require_fresh_rows,
    require_no_missed_commits,
)
from hiveacid.transactions.transaction import Transaction

RESTORE = "RESTORE"
"""Name of a statement in the table's history."""
_MAX_LISTED_ROWS = 10_000  # of VALUES, which Arrow writes in the driver


@dataclass(frozen=True)
class InsertOptions:
    """Options of an INSERT.

    ``partition``: column -> value text (None: NULL) of static partition columns, ``...`` for dynamic ones.
    ``overwrite``: replace the rows of the written partitions (of the whole table if it is not partitioned).
    ``columns``: table columns of the frame's columns, by position (default: all, dynamic partition columns last).
    ``by_name``: match the frame's names instead. ``small``: one task is enough.
    ``history_verb``: name of the statement in the table's history, if not INSERT. ``defaults``: the DEFAULTs
    with which the rows were made, if a value is the word DEFAULT.
    ``whole``: an overwrite also empties the partitions that get no rows. ``check``: raises if the files of a plain table must not
    be replaced; it is called just before that.
    """

    partition: Mapping[str, object] | None = None
    overwrite: bool = False
    columns: Sequence[str] | None = None
    by_name: bool = False
    small: bool = False
    if_not_exists: bool = False
    history_verb: str | None = None
    defaults: Mapping[str, str] | None = None
    whole: bool = False
    check: Callable[[], None] | None = None

    def left_out(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the columns that get their default value: those that a list of columns does not name."""
        if self.columns is None:
            return ()
        given = {name.lower() for name in (*self.columns, *(self.partition or ()))}
        return tuple(name for name in table.column_names if name not in given)

    @property
    def verb(self) -> str:
        """Name of the statement in the table's history."""
        return self.history_verb or ("INSERT OVERWRITE" if self.overwrite else "INSERT")


def insert(
    context: Context,
    name: TableName,
    rows: DataFrame | Callable[[Transaction], DataFrame],
    options: InsertOptions,
    joined: Transaction | None,
    *,
    is_stale: Callable[[], bool] | None = None,
) -> WriteReport:
    """Insert rows. Raises SchemaMismatchError, NoSuchColumnError, DataError, ConfigError, WriteConflictError.

    ``rows`` may be a function of the transaction. It is called under the lock, so that INSERT OVERWRITE of a table from
    itself reads all commits before the lock. ``is_stale``: whether some rows were read from the table before nevertheless
    (default: if ``rows`` is a DataFrame of the table). Then an overwrite raises WriteConflictError after a wait for
    another writer.
    """
    if is_stale is None:
        is_stale = (lambda: False) if callable(rows) else partial(reads_table, context, name, rows)
    table = context.require(name)
    context.env.require_plain_names()
    static = static_values(context, table, options.partition)
    _require_partitions(context.settings, table, static, options)
    defaults = default_values(context, table, options.left_out(table))
    ready = None if callable(rows) else _fitted(context, table, rows, static, options, defaults)
    lock = insert_lock(context, table, static, overwrite=options.overwrite)
    written_to = (name,) if table.kind is not TableKind.PLAIN and not options.if_not_exists else ()
    with context.transactions.scope(context.settings, joined, Start((lock,), written_to, written_to)) as txn:
        if options.overwrite:
            require_fresh_rows(txn, is_stale)
        if options.whole:  # else a partition overwritten earlier in this transaction would keep rows
            txn.require_not_overwritten(name)
        fitted_to, table = table, context.require(name)
        keys = KeysOfStatement(txn, name, joined is None).computed
        fitted_with, defaults = defaults, default_values(context, table, options.left_out(table), keys)
        if options.defaults is not None and options.defaults != default_values(
            context, table, table.column_names
        ):
            raise errors.WriteConflictError(
                f"a DEFAULT of {name} was changed meanwhile: run the statement again"
            )
        # the table was altered or replaced during the wait for the lock, or a key needs the write id
        if (table.all_columns, defaults) != (fitted_to.all_columns, fitted_with):
            static = static_values(context, table, options.partition)
            ready = None if callable(rows) else _fitted(context, table, rows, static, options, defaults)
        if callable(rows):
            ready = _fitted(context, table, rows(txn), static, options, defaults)
        assert ready is not None  # noqa: S101 - one of the two
        ready = constrain_insert(context, table, ready, static)
        report = write_rows(context, table, ready, static, options, txn)
        if options.whole and table.partition_columns:
            overwritten = txn.pending.overwritten.get(name, ())
            other_partitions = [
                p for p in partitions_of(context, table, txn) or () if p.values not in overwritten
            ]
            empty_partitions(context, table, other_partitions, options, txn)
        return report


def with_new_columns(
    context: Context, name: TableName, rows: DataFrame, options: InsertOptions, joined: Transaction | None
) -> InsertOptions:
    """Add the columns that the rows of an INSERT have and the table lacks; return options that name the column of each.

    By position, the columns behind those of the table are new, and have the names of the rows' columns. The columns are
    added before the rows are written, as by Spark: they stay if a value then fails the statement. Raises the errors of
    `add_missing_columns` and `insert`.
    """
    table = context.require(name)
    static = static_values(context, table, options.partition)
    _require_partitions(context.settings, table, static, options)
    own = [column for column in table.column_names if column not in static]
    names = options.columns or (rows.columns if options.by_name else [*own, *rows.columns[len(own) :]])
    if options.columns is None and not options.by_name:
        _require_not_shifted(table, own, rows.columns)
    if len(names) != len(rows.columns):  # `insert` refuses them
        return options
    options = replace(options, columns=names)
    _require_partitions(context.settings, table, static, options)
    named = renamed(rows, names)

    def check(edited: TableDefinition) -> None:
        _fitted(context, edited, rows, static, options, {})

    add_missing_columns(context, name, partial(columns_to_add, named), check, joined)
    return options


def _require_not_shifted(table: TableDefinition, own: Sequence[str], given: Sequence[str]) -> None:
    """Refuse columns by position that an earlier run of the statement has shifted: new ones stand before the partition columns.

    Their values would change places with those of the partitions. Raises SchemaMismatchError.
    """
    partitions = {*table.partition_column_names}
    for place, (name, come) in enumerate(zip(own, map(str.lower, given), strict=False), 1):
        if come != name and come in table.column_names and not partitions.isdisjoint((name, come)):
            raise errors.SchemaMismatchError(
                f"column {place} of the rows is called {come}, but stands in the place of {name} in {table.name}: perhaps an earlier "
                "write has added a column there; match the columns by name (BY NAME in SQL), or list them"
            )


def empty_partitions(
    context: Context,
    table: TableDefinition,
    partitions: Sequence[Partition],
    options: InsertOptions,
    txn: Transaction,
) -> None:
    """Remove the rows of partitions by an empty base for each; the caller commits."""
    names, nothing = table.partition_column_names, empty_rows(context.env, table)
    for partition in partitions:
        values = dict(zip(names, partition.values, strict=True))
        write_rows(context, table, nothing, values, replace(options, small=True), txn)


def _require_partitions(
    settings: Settings, table: TableDefinition, static: Mapping[str, str | None], options: InsertOptions
) -> None:
    """Refuse a specification of partitions that the session forbids, or that the rows do not fill. Raises ConfigError."""
    if options.history_verb != RESTORE:  # the statement chooses no partitions
        _require_dynamic_allowed(settings, table, static)
    _require_one_partition(table, static, options)
    _require_dynamic_filled(table, options)


def _require_dynamic_allowed(
    settings: Settings, table: TableDefinition, static: Mapping[str, str | None]
) -> None:
    """Refuse dynamic partitions that the session forbids (Hive's ``hive.exec.dynamic.partition`` and ``….mode``)."""
    dynamic = [column.name for column in table.partition_columns if column.name not in static]
    if dynamic and not settings.get(setting_definitions.DYNAMIC_PARTITION):
        raise errors.ConfigError(
            f"{table.name}: the partition column {dynamic[0]} has no value, and dynamic partitions are disabled: "
            f"give it one in PARTITION (...), or SET {setting_definitions.DYNAMIC_PARTITION.name}=true"
        )
    if dynamic and not static and settings.get(setting_definitions.DYNAMIC_PARTITION_MODE) == "strict":
        raise errors.ConfigError(
            f"{table.name}: strict mode requires at least one static partition column: give {dynamic[0]} a value in "
            f"PARTITION (...), or SET {setting_definitions.DYNAMIC_PARTITION_MODE.name}=nonstrict"
        )


def _require_one_partition(
    table: TableDefinition, static: Mapping[str, str | None], options: InsertOptions
) -> None:
    """Refuse IF NOT EXISTS without one named partition, as Hive does.

    The partitions to leave alone are known only after the query ran.
    """
    if options.if_not_exists and not (
        table.partition_columns and len(static) == len(table.partition_columns)
    ):
        dynamic = [column.name for column in table.partition_columns if column.name not in static]
        reason = f"there is none for {', '.join(dynamic)}" if dynamic else "the table is not partitioned"
        raise errors.ConfigError(
            f"{table.name}: IF NOT EXISTS needs a value for each partition column, but {reason}: "
            "give PARTITION (column = value), or leave IF NOT EXISTS out"
        )


def _require_dynamic_filled(table: TableDefinition, options: InsertOptions) -> None:
    """Refuse dynamic columns that the column list lacks, or that are out of order where values are matched by position."""
    named = [name.lower() for name, value in (options.partition or {}).items() if value is ...]
    if options.columns is not None:
        listed = [name.lower() for name in options.columns]
        missing = [name for name in named if name not in listed]
        if missing:
            raise errors.ConfigError(
                f"{table.name}: the column list lacks the dynamic partition column {missing[0]}: write "
                f"({', '.join((*listed, *missing))}) and select its values, or give it one in PARTITION (...)"
            )
        return
    in_order = [name for name in table.partition_column_names if name in named]
    if named != in_order and not options.by_name:
        raise errors.ConfigError(
            f"{table.name}: PARTITION ({', '.join(named)}) is not in the table's order, in which the rows give the values: "
            f"write PARTITION ({', '.join(in_order)}), and select the values in this order"
        )


def _fitted(
    context: Context,
    table: TableDefinition,
    rows: DataFrame,
    static: Mapping[str, str | None],
    options: InsertOptions,
    defaults: Mapping[str, str],
) -> DataFrame:
    with translate_errors():
        rows = in_session(context.env, rows)
        return fit_columns(table, rows, static, options.columns, by_name=options.by_name, defaults=defaults)


def insert_lock(
    context: Context, table: TableDefinition, static: Mapping[str, str | None], *, overwrite: bool
) -> LockComponent:
    """Return the lock that an INSERT takes: on the partition if it names one, else on the table."""
    if table.kind is TableKind.PLAIN:
        # file names are numbered, so only one writer may choose the next ones
        kind = LockType.EXCLUSIVE if overwrite else LockType.EXCL_WRITE
    else:
        kind = insert_lock_type(context.settings, context.store, overwrite=overwrite)
    partition = None
    if table.partition_columns and len(static) == len(table.partition_columns):
        partition = partition_name(table, tuple(static[c.name] for c in table.partition_columns))
    operation = Operation.UPDATE if overwrite else Operation.INSERT
    return LockComponent(kind, table.name.database, table.name.name, partition, operation)


def write_rows(
    context: Context,
    table: TableDefinition,
    rows: DataFrame,
    static: Mapping[str, str | None],
    options: InsertOptions,
    txn: Transaction,
) -> WriteReport:
    """Stage, publish and record rows with the table's columns; the caller commits."""
    require_writable(context, table, options, txn)
    note_sources(txn, rows)
    if not options.overwrite:
        require_no_acid_v1_events(context, table, txn)
    dynamic = len(static) < len(table.partition_columns)
    partitions = output_directories.known_partitions(context, table, txn)
    fixed = () if dynamic else partitions.values_of(tuple(static[c.name] for c in table.partition_columns))
    if options.if_not_exists and fixed in partitions.by_values:
        return WriteReport()
    outputs = output_directories.new_output_directories(
        context, table, txn, partitions, overwrite=options.overwrite
    )
    if dynamic and static:
        rows = add_static_partition_columns(table, rows, static)
    target = StagingTarget(
        context.env,
        table,
        outputs.write_id,
        outputs.statement_ids,
        writer_options(table, context.settings),
        context.single_bucket(table),
        file_size=context.settings.get(setting_definitions.WRITE_FILE_SIZE),
    )
    with output_directories.staging(context, table, txn) as directory, translate_errors():
        files, reported = _stage(context, target, rows, directory, dynamic=dynamic, small=options.small)
        files = outputs.place(files)
        counted = None
        if not publish.reads_footers(table):
            counted = count_flat_rows(context, table, [file.path for file in files])
            reported.require_rows(counted)
        published = _publish(outputs, files, reported, fixed, directory, options.check)
    if options.overwrite and not dynamic and table.kind is not TableKind.PLAIN and not published.directories:
        published = _publish_empty(outputs, target, fixed)
    inserted = published.total(StagedKind.INSERTED) if counted is None else counted
    return output_directories.record_written(outputs, published, inserted, options.verb)


def _stage(
    context: Context, target: StagingTarget, rows: DataFrame, directory: str, *, dynamic: bool, small: bool
) -> StagedOutput:
    """Stage rows: a few that the statement lists by Arrow, because a Spark job takes longer for them; all others by Spark.

    ``rows``: a frame of the table's columns, with partition columns if ``dynamic``.
    """
    table = target.table
    if table.kind is TableKind.FULL_ACID and may_read_in_driver(context) and can_write(table):
        count = count_listed_rows(rows)
        if count is not None and count <= _MAX_LISTED_ROWS:
            target_of_rows = (
                target if dynamic else replace(target, table=replace(table, partition_columns=()))
            )
            computed = collect_as_arrow(new_rows_for_arrow(target_of_rows, rows))
            staged = stage_computed_rows(context, computed, target_of_rows, directory)
            if staged is not None:
                return staged
    reported = stage_insert(target, rows, directory, dynamic=dynamic, small=small)
    return list_staged_files(context.fs, directory, StagedKind.INSERTED, reported), reported


def count_flat_rows(context: Context, table: TableDefinition, paths: Sequence[str]) -> int:
    """Count the rows of text, Avro and Parquet files in a Spark job, which reads only the footers of Parquet."""
    if not paths:
        return 0
    with translate_errors():
        return flat.read(context.env, table, escape_globs(map(spark_path, paths)), STRICT_READ).count()


def require_writable(
    context: Context, table: TableDefinition, options: InsertOptions, txn: Transaction
) -> None:
    """Refuse writes that a transaction of several statements could not roll back, or that would lose rows."""
    if table.kind is TableKind.PLAIN and options.whole and table.partition_columns:
        raise errors.UnsupportedFeatureError(
            f"{table.name} is not transactional, so its partitions cannot be replaced at once: overwrite those that get "
            "rows (insertInto, INSERT OVERWRITE), or TRUNCATE the table first"
        )
    if not txn.explicit:
        return
    if table.kind is TableKind.PLAIN:
        raise errors.UnsupportedFeatureError(
            f"{table.name} is not transactional, so a write cannot be rolled back: write it outside the transaction"
        )
    if options.overwrite:
        require_no_missed_commits(context, table.name, txn, "INSERT OVERWRITE")


def _publish(
    outputs: output_directories.OutputDirectories,
    files: Sequence[StagedFile],
    reported: TaskReport,
    fixed: tuple[str | None, ...],
    staging: str,
    may_replace: Callable[[], None] | None,
) -> publish.PublishedFiles:
    """Move staged files to their places; ``fixed``: values of the partition of a statement that names one."""
    context, table = outputs.context, outputs.table
    if table.kind is not TableKind.PLAIN:
        return outputs.publish(files, reported, staging, fixed=fixed)
    check = outputs.begin_publishing(staging)
    if outputs.overwrite:
        targets = {file.values or fixed for file in files}
        if fixed or not table.partition_columns:
            targets.add(fixed)
        replaced = [outputs.location(values) for values in targets]
        require_listable(context, replaced)
        if may_replace is not None:
            may_replace()
        delete_plain_files(context, replaced, check)
    return publish.publish_without_acid_columns(
        context.fs,
        table,
        files,
        lambda _, values: outputs.location(values or fixed),
        output_directories.PlainFileNames(context, lambda file: outputs.location(file.values or fixed)),
        reported,
        check,
    )


def _publish_empty(
    outputs: output_directories.OutputDirectories, target: StagingTarget, fixed: tuple[str | None, ...]
) -> publish.PublishedFiles:
    """Publish an empty base, which hides the old rows, for an INSERT OVERWRITE without rows."""
    fs, table = outputs.context.fs, outputs.table
    with output_directories.staging(outputs.context, table, outputs.txn) as directory:
        if table.kind is TableKind.INSERT_ONLY:
            outputs.begin_publishing(directory)()
            base = outputs.directory(StagedKind.INSERTED, fixed)
            # else the claim has made it, and made once more it could hide the rows of a newer table
            if not fs.replaces_tail_in_place(base):
                fs.make_directory(base)
            return publish.PublishedFiles({(StagedKind.INSERTED, ()): 0}, (base,))
        files, reported = stage_empty(fs, target, directory)
        return outputs.publish(files, reported, directory, fixed=fixed, keep_empty=True)


def require_no_acid_v1_events(context: Context, table: TableDefinition, txn: Transaction) -> None:
    """Refuse to add rows to a table with events of ACID v1. Streams have `require_no_update_events`, which needs no Spark."""
    if not may_have_acid_v1_events(table):
        return
    write_ids = txn.valid_write_ids(table.name)
    locations = list_visible(context, table, partitions_of(context, table, txn), write_ids, txn)
    if read_footers(context, table, locations, txn).has_acid_v1_events:
        raise errors.acid_v1(table.name)


def restore(context: Context, name: TableName, past: PointInTime, joined: Transaction | None) -> WriteReport:
    """Replace the rows of a table by those that it held at a point in the past.

    It is an INSERT OVERWRITE of all partitions, with its locks and conflicts. Columns stay those of the present definition.
    Raises NotTransactionalError, ConfigError for a write id that the table has not committed, and NotEnoughHistoryError where the
    cleaner has removed that state; UnsupportedFeatureError for a moment if the store keeps no commit times.
    """
    table = context.require_transactional(name, "RESTORE of")
    if joined is None:  # a refusal then takes no write id
        with context.read_leases.acquire(context.settings) as reader:
            write_ids_at(context, table, reader, past)

    # wall clocks are only copied: the session's zone may skip some
    context = replace(context, env=context.env.with_settings({"spark.sql.session.timeZone": "UTC"}))

    def rows(txn: Transaction) -> DataFrame:
        table = context.require(name)
        if isinstance(past, int):
            txn.committed_write_ids(name).at(past)  # raises for the transaction's own write id
        snapshot = list_snapshot(context, table, txn, as_of=past)
        return snapshot.scan().select(*map(quote_name, table.column_names))

    options = InsertOptions(overwrite=True, whole=True, history_verb=RESTORE)
    return insert(context, name, rows, options, joined)

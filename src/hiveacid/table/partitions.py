"""Partitions of a table: values, names, directories, and rows left in those of new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hiveacid.config.property_definitions import PARTITIONS_DROPPED
from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.core.format.names import (
    FLUSH_LENGTH_SUFFIX,
    BaseName,
    DeltaName,
    ends_below,
    has_hidden_prefix,
    is_hidden,
    parse_directory,
)
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.schema.partitions import (
    format_partition,
    is_time_skipped,
    partition_directories,
    require_valid_values,
)
from hiveacid.core.schema.types import require_set_once
from hiveacid.core.snapshot.directory_listing import last_flush_length
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    FormatError,
    MissingDirectoryError,
    UnsupportedFeatureError,
    no_such_column,
)
from hiveacid.orc.tail import read_tail
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.snapshot_locations import id_property
from hiveacid.table.context import Context, WriterContext
from hiveacid.transactions.transaction import Transaction

PartitionValues = tuple[str | None, ...]


def partitions_of(
    context: WriterContext, table: TableDefinition, txn: Transaction | None = None
) -> tuple[Partition, ...] | None:
    """Return all partitions, including those that the transaction itself creates; None if unpartitioned."""
    if not table.partition_columns:
        return None
    new = txn is not None and txn.pending.creates_table(table.name)
    existing = () if new else context.catalog.list_partitions(table.name)
    created = [new.partition for new in txn.pending.new_partitions(table.name)] if txn is not None else []
    values = {partition.values for partition in existing}
    return (*existing, *{p.values: p for p in created if p.values not in values}.values())


def partition_name(table: TableDefinition, values: PartitionValues) -> str | None:
    """Return Hive's name ``p=1/q=2`` of a partition, None for an unpartitioned table."""
    return format_partition(table.partition_column_names, values) if values else None


def require_changeable(context: Context, table: TableDefinition, scanned: Iterable[Partition | None]) -> None:
    """Refuse to change rows of partitions whose name differs from the text that Spark makes of the rows' value.

    Delete events would miss these rows.

    ``scanned``: partitions whose rows may change. Their texts may be no values of their columns, or times that the
    session's time zone skips, which Spark reads as an hour later. Raises UnsupportedFeatureError.
    """
    partitions = [partition for partition in scanned if partition is not None]
    require_valid_values(table, partitions)
    numbers = [number for number, column in enumerate(table.partition_columns) if column.type == "timestamp"]
    zone = context.env.session_time_zone if numbers else ""
    for partition in partitions if numbers else ():
        for number in numbers:
            value = partition.values[number]
            if value is not None and is_time_skipped(value, zone):
                raise UnsupportedFeatureError(
                    f"{table.name} has a partition at {value}, a time that the time zone {zone} skips: SET TIME ZONE 'UTC' for "
                    "UPDATE, DELETE and MERGE, or add a condition that leaves it out"
                )


def find_partition(context: Context, table: TableDefinition, name: str | None) -> Partition | None:
    """Return the partition of a name ``p=1/q=2``, None without one."""
    partitions = partitions_of(context, table) or ()
    return next(
        (partition for partition in partitions if partition_name(table, partition.values) == name), None
    )


def partitions_on_disk(context: Context, table: TableDefinition) -> list[Partition]:
    """Find partitions by their directories ``p=1/q=2`` below the table."""
    if not table.partition_columns:
        return []
    directories = (entry.path for entry in context.fs.list_tree(table.location) if entry.is_dir)
    return [
        Partition(values, f"{table.location}/{path}")
        for path, values in partition_directories(table.partition_column_names, directories)
    ]


def static_values(
    context: Context, table: TableDefinition, spec: Mapping[str, object] | None
) -> dict[str, str | None]:
    """Return the static part of a partition spec as canonical texts ('01' for an INT column becomes '1').

    Raises NoSuchColumnError, SchemaMismatchError (a value that is not of the column's type),
    ConfigError (a column given twice, a dynamic column before a static one).
    """
    columns = {c.name: c for c in table.partition_columns}
    values = {key.lower(): value for key, value in (spec or {}).items()}
    require_set_once([key.lower() for key in spec or ()])
    unknown = [key for key in values if key not in columns]
    if unknown:
        raise no_such_column(table.name, unknown[0], columns, kind="partition column")
    static = {key: value for key, value in values.items() if value is not ...}
    dynamic_seen = False
    for name in columns:
        dynamic_seen = dynamic_seen or name not in static
        if name in static and dynamic_seen:
            raise ConfigError(
                f"partition column {name} has a value, but one before it has none: Hive needs static values first"
            )
    if not static:
        return {}
    from hiveacid.spark.formats.file_columns import partition_values_as_text  # noqa: PLC0415
    from hiveacid.spark.session.error_translation import translate_errors  # noqa: PLC0415 - streams need no Spark

    with translate_errors():
        return partition_values_as_text(context.env, columns, static)


def require_no_leftovers(
    context: WriterContext,
    table: TableDefinition,
    location: str,
    committed: ValidWriteIdList,
    exists_by_now: Callable[[], bool] = lambda: False,
) -> None:
    """Refuse a directory that holds visible rows: it must not become a new partition. Raises CatalogError.

    Such rows remain where DROP PARTITION, which removes a partition from the catalog before its files, could not delete
    these. Files outside delta and base directories are visible, too. A store of hiveacid's own hides what was dropped from
    the new partition (`Partition.min_write_id`), and its cleaner deletes it.

    ``committed``: the table's write ids, read before its partitions, so that none of them belongs to a writer that
    created the partition since. Directories of other write ids are those of concurrent or failed writers, the caller
    among them. ``exists_by_now``: tells whether another writer has created the partition meanwhile, as a stream of Hive
    may in a directory with older ids.
    """
    fs = context.fs
    try:
        entries = fs.list_directory(location)
    except MissingDirectoryError:
        return
    for entry in entries:
        if is_hidden(entry.path):
            continue
        name = parse_directory(entry.path) if entry.is_dir else None
        if _holds_visible_rows(fs, f"{location}/{entry.path}", name, committed, is_dir=entry.is_dir):
            if exists_by_now():
                return
            dropped = id_property(table, PARTITIONS_DROPPED)
            if dropped and ends_below(
                entry.path, 1 + min(dropped, context.transactions.store.ended_up_to(table.name))
            ):
                continue
            raise CatalogError(
                f"{location} holds rows already ({entry.path}), though the table has no such partition. Perhaps it was "
                "dropped, and its files could not be deleted. A new partition would show them: move that directory away"
            )


def _holds_visible_rows(
    fs: FileSystem, path: str, name: BaseName | DeltaName | None, committed: ValidWriteIdList, *, is_dir: bool
) -> bool:
    """Tell whether readers would see rows of an entry of a new partition's directory; ``name``: None if it is no ACID one."""
    share = RangeShare.ALL if name is None else committed.visible_share(*name.span)
    if share is RangeShare.NONE or not is_dir:
        return share is not RangeShare.NONE
    files = {file.path: file for file in fs.list_directory(path) if not has_hidden_prefix(file.path)}
    if share is RangeShare.ALL or name is None or name.visibility_txn_id:
        return bool(files)
    # The directory of a stream of Hive has the ids of many transactions, of which some wrote to other partitions only.
    return any(
        _has_valid_stripe(
            fs, f"{path}/{file.path}", file.size, committed, side=f"{file.path}{FLUSH_LENGTH_SUFFIX}" in files
        )
        for file in files.values()
        if not file.path.endswith(FLUSH_LENGTH_SUFFIX)
    )


def _has_valid_stripe(
    fs: FileSystem, path: str, size: int, committed: ValidWriteIdList, *, side: bool
) -> bool:
    """Tell whether a stripe of a stream's file is of a committed write id; each stripe has the rows of one id.

    True for a file that cannot be read. ``side``: a side file tells the length up to which it has been flushed.
    """
    try:
        length = last_flush_length(fs.read_bytes(path + FLUSH_LENGTH_SUFFIX)) if side else size
        stripes = read_tail(fs, path, min(size, length)).stripes if length else ()
        column = AcidColumn.CURRENT_WRITE_ID.orc_id
        ids = [len(stripe.statistics) and stripe.statistics[column].integers for stripe in stripes]
    except FormatError:
        return True
    return any(
        not found or committed.visible_share(found.low, found.high) is not RangeShare.NONE for found in ids
    )

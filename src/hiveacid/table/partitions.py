"""Partitions of a table: those that a transaction sees, their names, partition specs, directories on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.schema.partitions import (
    format_partition,
    is_time_skipped,
    partition_directories,
    require_valid_values,
)
from hiveacid.core.schema.types import require_set_once
from hiveacid.errors import ConfigError, UnsupportedFeatureError, no_such_column
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

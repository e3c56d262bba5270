"""MSCK REPAIR TABLE: partitions whose directories another program made or removed.

Rules: Hive's ``Msck`` and ``HiveMetaStoreChecker``, 3.1 and 4.0. For a transactional table Hive also takes directories whose
write ids its metastore has allocated. It cannot know that these were committed: ids of aborted transactions are forgotten once
they are cleaned, and a directory that was copied has the ids of another table. So hiveacid takes no delta and no base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hiveacid.catalog.convert import require_originals
from hiveacid.catalog.ddl import drop_from_catalog, end_history, require_no_acid_files, with_history_from
from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import CONVERSION
from hiveacid.core.format.names import is_hidden
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName
from hiveacid.core.schema.location_overlap import may_lie_in, on_any_hdfs
from hiveacid.core.schema.partitions import (
    PartitionValues,
    format_partition,
    identity,
    parse_partition_values,
)
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import BadDirectoryNameError, CatalogError
from hiveacid.ports.catalog import NewPartition
from hiveacid.storage.paths import real_paths
from hiveacid.storage.snapshot_locations import list_layout
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_table
from hiveacid.table.partitions import partitions_of
from hiveacid.table.tags import require_no_tags
from hiveacid.transactions.transaction import Transaction

Choose = Callable[[Sequence[Partition]], Sequence[Partition]]


def repair_partitions(
    context: Context, name: TableName, choose: Choose, *, add: bool, drop: bool
) -> list[str]:
    """Add partitions of directories that have none, and drop those without a directory; return the lines of Hive's report.

    ``choose``: the partitions, found or known, that the statement means. Raises CatalogError for a directory that cannot be
    taken, unless ``hive.msck.path.validation`` is skip; MissingDirectoryError if the table's own directory is missing.
    """
    table = context.require(name)
    found, lost, report = _compare(context, table, choose)
    if (add and found) or (drop and lost):  # else nobody has to wait for readers
        with exclusive_table(context, name) as (table, txn):
            found, lost, report = _compare(context, table, choose)
            if drop and lost:
                require_no_tags(context, table, "MSCK DROP PARTITIONS")
            if add:
                report += _add(context, table, found, txn)
            if drop:
                drop_from_catalog(context, context.require(name), lost, txn)  # as `_add` has left it
                report += [f"Repair: Dropped partition from metastore {_shown(table, one)}" for one in lost]
    lists = {"Partitions not in metastore:": found, "Partitions missing from filesystem:": lost}
    heads = [
        "\t".join((head, *(_shown(table, one) for one in those))) for head, those in lists.items() if those
    ]
    return [*heads, *sorted(report)]


def _shown(table: TableDefinition, partition: Partition) -> str:
    return f"{table.name.name}:{format_partition(table.partition_column_names, partition.values)}"


def _compare(
    context: Context, table: TableDefinition, choose: Choose
) -> tuple[Sequence[Partition], Sequence[Partition], list[str]]:
    """Return directories without a partition, partitions without a directory, and reports of names that are left out."""
    columns, known = table.partition_column_names, partitions_of(context, table) or ()
    checks_names = context.settings.get(setting_definitions.MSCK_PATH_VALIDATION) != "ignore"
    taken, resolve = {one.values for one in known}, real_paths()
    places: dict[str, list[str]] = {}  # by their paths on any HDFS
    for one in known:
        places.setdefault(on_any_hdfs(place := resolve(one.location)), []).append(place)
    by_value = {identity(table, one.values): one for one in known}
    found: list[Partition] = []
    report: list[str] = []
    for entry in context.fs.list_tree(table.location) if columns else ():
        parts = entry.path.split("/")
        if len(parts) > len(columns) or any(is_hidden(part) and "=" not in part for part in parts):
            continue
        values, hive_name = _parse(columns[: len(parts)], entry)
        if checks_names and hive_name.lower() != entry.path.lower():
            _refuse(
                context,
                f"{table.name}: {table.location}/{entry.path} is not the directory of a partition ({'/'.join(columns)}), as Hive "
                "writes its name: move it away",
                report,
            )
        elif len(values) == len(columns) and values not in taken:
            new = Partition(values, f"{table.location}/{entry.path}")
            place = resolve(new.location)
            same = places.setdefault(on_any_hdfs(place), [])
            if any(may_lie_in(place, other) for other in same):  # rows would be those of two partitions
                continue
            other = by_value.setdefault(identity(table, values), new)
            if other is new:
                found.append(new)
                same.append(place)
            else:
                _refuse(
                    context,
                    f"{table.name}: {new.location} has the value of the partition at {other.location}: move its files there",
                    report,
                )
    lost = [one for one in choose(known) if not context.fs.exists(one.location)]
    return choose(found), lost, report


def _parse(columns: Sequence[str], entry: FileEntry) -> tuple[PartitionValues, str]:
    """Return the values of a directory and its path as Hive writes it, nothing if it is no partition's."""
    try:
        values = parse_partition_values(columns, entry.path) if entry.is_dir else ()
    except BadDirectoryNameError:
        values = ()
    return values, format_partition(columns, values) if values else ""


def _refuse(context: Context, reason: str, report: list[str]) -> None:
    if context.settings.get(setting_definitions.MSCK_PATH_VALIDATION) != "skip":
        raise CatalogError(
            f"{reason}; SET {setting_definitions.MSCK_PATH_VALIDATION.name}=skip leaves them out"
        )
    report.append(f"Repair: Cannot add {reason}")


def _add(
    context: Context, table: TableDefinition, found: Sequence[Partition], held: Transaction
) -> list[str]:
    report: list[str] = []
    added, with_originals = [], []
    for partition in found:
        try:
            has_originals = _has_originals(context, table, partition.location)
        except CatalogError as error:
            _refuse(context, str(error), report)
        else:
            added.append(partition)
            with_originals += [partition] if has_originals else []
    if with_originals:  # rows without a write id, which readers of each state see
        require_no_tags(context, table, "MSCK ADD PARTITIONS")
    if with_originals and context.store.maintained_by_hiveacid():
        _add_at_a_write_id(context, table, with_originals, held)
    elif with_originals:
        end_history(context, table, held)
    held.require_open_in_store()
    is_empty = table.kind is not TableKind.PLAIN and not with_originals
    context.catalog.add_partitions(table.name, added, empty=is_empty, seen=table)
    return [*report, *(f"Repair: Added partition to metastore {_shown(table, one)}" for one in added)]


def _has_originals(context: Context, table: TableDefinition, location: str) -> bool:
    """Tell whether a new partition of a transactional table would have rows of files outside deltas.

    Raises CatalogError for a directory that cannot be taken.
    """
    if table.kind is TableKind.PLAIN:
        require_no_acid_files(context, location)
        return False
    listing = list_layout(context.fs, location)
    if listing.directories:
        raise CatalogError(
            f"{table.name}: {location}/{listing.directories[0].path} may hold rows of an aborted transaction, or of another table, "
            "as only the store knows in which it was written: copy the directory to another place, acid.adopt(...) it there as a "
            "table, and INSERT its rows"
        )
    was_insert_only = table.kind is TableKind.INSERT_ONLY or CONVERSION.of(table) is not None
    if listing.originals and (was_insert_only or table.bucketing):
        reason = (
            "lies outside deltas, where no rows are read of a table that is, or was, insert-only"
            if was_insert_only
            else "may hold rows of any bucket, and the table is bucketed"
        )
        raise CatalogError(
            f"{table.name}: {location}/{listing.originals[0].path} {reason}: move it to another place, and LOAD DATA INPATH it from there"
        )
    require_originals(context, table, [location])
    return bool(listing.originals)


def _add_at_a_write_id(
    context: Context, table: TableDefinition, partitions: Sequence[Partition], held: Transaction
) -> None:
    """Add partitions with files outside deltas, which have no write id; that of the transaction parts older snapshots from newer ones."""
    with context.transactions.scope(context.settings) as txn:
        own = txn.write_id(table.name)
        held.require_open_in_store()
        # this commit does not tell its files, so that readers have to list them
        txn.pending.claim(table.name, table.location)
        txn.pending.add_written([], [NewPartition(table.name, partition) for partition in partitions])
        txn.pending.alter_table(with_history_from(table, own), seen=table)

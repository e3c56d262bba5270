"""Conversion by ALTER TABLE … SET TBLPROPERTIES ('transactional'='true' …), which cannot be undone.

Rules: Hive's ``TransactionalValidationListener`` and ``AlterTableSetPropertiesOperation``, checked against 4.0.1. A
conversion to full ACID moves no file: original rows get ids of write id 0, and the table's own write ids begin at
10,000,001. A conversion to insert-only moves all files into ``delta_w_w_0000`` of its write id. It links them there
before the commit and removes the old names after it, so readers see either the plain table or the converted one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from hiveacid.config.property_definitions import (
    CONVERSION,
    HISTORY_FROM,
    KIND_PROPERTIES,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
)
from hiveacid.core.format.acid_columns import MAX_BUCKET
from hiveacid.core.format.names import DeltaName, has_hidden_prefix, parse_original_file
from hiveacid.core.model import TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot.directory_listing import DataFile, FileEntry, ListedDirectory
from hiveacid.core.snapshot.selection import AcidDirectory
from hiveacid.core.transactions.commit_records import OperationSummary
from hiveacid.errors import CatalogError, UnsupportedFeatureError
from hiveacid.orc.footer_summary import summarize
from hiveacid.orc.tail import read_tail
from hiveacid.ports.file_system import FileVersion
from hiveacid.storage.snapshot_locations import id_property, list_layout, plain_files
from hiveacid.table.cleaning.remove_files import delete_directory, remove_aborted
from hiveacid.table.context import Context
from hiveacid.table.definition import check_definition, exclusive_table
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.visible_locations import list_visible
from hiveacid.table.tags import require_no_tags
from hiveacid.transactions.transaction import Transaction

SKIPPED_WRITE_IDS = 10_000_000
"""Write ids that a conversion to full ACID skips (``seedWriteIdOnAcidConversion``)."""


def target_kind(table: TableDefinition, changes: Mapping[str, str]) -> TableKind:
    """Return the kind of a table after a change of properties. Raises CatalogError for changes that Hive refuses.

    Also refused is ``transactional_properties`` alone on a plain table, which Hive accepts and keeps.
    """
    lower = {key.lower(): value.lower() for key, value in changes.items()}
    transactional = lower.get(TRANSACTIONAL.name, "true" if table.kind is not TableKind.PLAIN else "false")
    properties = lower.get(TRANSACTIONAL_PROPERTIES.name)
    if transactional not in ("true", "false"):
        raise CatalogError(
            f"{table.name}: 'transactional' may only have the value 'true', not {transactional!r}"
        )
    if properties not in (None, "default", "insert_only"):
        raise CatalogError(
            f"{table.name}: unknown value {properties!r} for 'transactional_properties': "
            "expected 'default' or 'insert_only'"
        )
    if properties is not None and table.kind is TableKind.PLAIN and TRANSACTIONAL.name not in lower:
        raise CatalogError(
            f"{table.name}: 'transactional_properties' requires 'transactional'='true': set both"
        )
    if transactional == "false":
        if table.kind is not TableKind.PLAIN:
            raise CatalogError(
                f"{table.name}: TBLPROPERTIES with 'transactional'='true' cannot be unset; make a new table AS SELECT"
            )
        return TableKind.PLAIN
    if table.kind is TableKind.FULL_ACID and properties == "insert_only":
        raise CatalogError(
            f"{table.name}: 'transactional_properties' cannot be altered from 'default' after the table is created"
        )
    if properties is None and table.kind is not TableKind.PLAIN:
        return table.kind
    return TableKind.INSERT_ONLY if properties == "insert_only" else TableKind.FULL_ACID


def convert(context: Context, name: TableName, changes: Mapping[str, str]) -> None:
    """Convert a table, under an exclusive lock and in one transaction, and set the other properties with it.

    Raises CatalogError for a table that cannot be converted, before anything is changed.
    """
    with exclusive_table(context, name) as (table, txn):
        kind = target_kind(table, changes)
        _require_store_can_convert(context, table, kind)
        replaced = (*KIND_PROPERTIES, CONVERSION.name) if table.kind is TableKind.PLAIN else KIND_PROPERTIES
        others = {key: value for key, value in changes.items() if key.lower() not in KIND_PROPERTIES}
        kind_properties = {
            TRANSACTIONAL.name: "true",
            TRANSACTIONAL_PROPERTIES.name: "insert_only" if kind is TableKind.INSERT_ONLY else "default",
        }
        definition = table.without_properties(*replaced).with_properties(others | kind_properties)
        check_definition(definition)
        txn.pending.add_summary(name, OperationSummary("CONVERT", context.statement))
        if table.kind is kind:
            txn.pending.alter_table(definition)
        elif kind is TableKind.INSERT_ONLY:
            _to_insert_only(context, table, definition, txn)
        elif table.kind is TableKind.INSERT_ONLY:
            first = _require_single_writes(context, table, txn)
            if first:
                require_no_tags(context, table, "conversion to full ACID")
                first = max(first, id_property(table, HISTORY_FROM))
                definition = definition.with_properties({HISTORY_FROM.name: str(first)})
            txn.pending.alter_table(definition)
        else:
            roots = _locations(context, table, txn)
            if CONVERSION.of(table) is not None:  # one to insert-only died
                _remove_crashed_conversion(context, table, roots, txn)
            require_originals(context, table, roots)
            txn.pending.alter_table(definition, skipped=SKIPPED_WRITE_IDS)


def _require_store_can_convert(context: Context, table: TableDefinition, kind: TableKind) -> None:
    """Refuse conversions that change definition and files if the store cannot change the definition at the commit.

    In a Hive Metastore a new definition is visible before the commit. Hive would read the table in an intermediate
    state, for ever if the conversion crashed. A metastore also begins to count write ids at the conversion to full ACID
    (``TransactionalValidationListener``), but an insert-only table has some already.
    """
    if kind is table.kind or context.store.maintained_by_hiveacid():
        return
    if kind is TableKind.INSERT_ONLY:
        raise UnsupportedFeatureError(
            f"{table.name}: hiveacid cannot convert a plain table of a Hive Metastore to insert-only: run the ALTER TABLE in "
            "Hive, or use CREATE TABLE … AS SELECT"
        )
    if table.kind is TableKind.INSERT_ONLY:
        raise UnsupportedFeatureError(
            f"{table.name}: an insert-only table of a Hive Metastore does not become full ACID: make a "
            "new one by CREATE TABLE … AS SELECT"
        )


def _locations(context: Context, table: TableDefinition, txn: Transaction) -> list[str]:
    partitions = partitions_of(context, table, txn)
    return [table.location] if partitions is None else [partition.location for partition in partitions]


def require_originals(context: Context, table: TableDefinition, roots: Sequence[str]) -> None:
    """Refuse files that are not named like those of Hive's writers, or are not ORC files of plain rows."""
    for root in roots:
        listing = list_layout(context.fs, root)
        refused = [path for path in listing.foreign if not has_hidden_prefix(path)]
        refused += [directory.path for directory in listing.directories]
        refused += [file.path for file in listing.originals if not _has_bucket_in_name(file)]
        if refused:
            raise _bad_name(table, f"{root}/{refused[0]}")
        for file in listing.originals:
            path = f"{root}/{file.path}"
            if summarize(read_tail(context.fs, path, file.size)).is_acid:
                raise CatalogError(
                    f"{table.name}: {path} holds ACID events: take such a table over with acid.adopt(…)"
                )


def _require_single_writes(context: Context, table: TableDefinition, txn: Transaction) -> int:
    """Refuse an insert-only table with compacted directories or other file names, which full ACID cannot read.

    Returns the write id from which on no snapshot reads such a directory that the present one does not; 0 without any.
    """
    first = 0
    if file_kind(table.storage) is not FileKind.ORC:
        raise CatalogError(f"{table.name}: cannot become full ACID: it is not STORED AS ORC")
    partitions = partitions_of(context, table, txn)
    for location in list_visible(context, table, partitions, txn.valid_write_ids(table.name), txn):
        base = location.state.base
        if base is not None and any(map(_is_unreadable, list_layout(context.fs, location.root).directories)):
            first = max(first, base.name.span[1])
        for directory in location.state.row_directories:
            if directory.files and (_is_compacted(directory) or not directory.may_lack_acid_columns):
                raise CatalogError(
                    f"{table.name}: {location.root}/{directory.path} was compacted, or has names that full ACID does not "
                    "read: INSERT OVERWRITE the table with its own rows first"
                )
            for file in directory.files:
                if not _has_bucket_in_name(file):
                    raise _bad_name(table, f"{location.root}/{file.path}")
        for file in location.state.originals:
            if not _has_bucket_in_name(file):
                raise _bad_name(table, f"{location.root}/{file.path}")
    return first


def _is_compacted(directory: AcidDirectory | ListedDirectory) -> bool:
    low, high = directory.name.span
    return low != high or bool(directory.name.visibility_txn_id)


def _is_unreadable(directory: ListedDirectory) -> bool:
    named = all(map(_has_bucket_in_name, directory.files)) and not directory.has_version_file
    return _is_compacted(directory) or not named


def _has_bucket_in_name(file: DataFile) -> bool:
    parsed = parse_original_file(file.name)
    return parsed is not None and parsed.bucket <= MAX_BUCKET


def _bad_name(table: TableDefinition, path: str) -> CatalogError:
    return CatalogError(
        f"{table.name}: unexpected data file name, cannot convert to a transactional table: {path}; Hive's own are "
        f"called 000000_0 or 000000_0_copy_1, up to 00{MAX_BUCKET}_0: INSERT the table's rows into a new transactional one"
    )


def _to_insert_only(
    context: Context, table: TableDefinition, converted: TableDefinition, txn: Transaction
) -> None:
    write_id = txn.write_id(table.name)
    directory = DeltaName(
        is_delete=False, min_write_id=write_id, max_write_id=write_id, statement_id=0
    ).format()
    roots = _locations(context, table, txn)
    _remove_crashed_conversion(context, table, roots, txn)
    marker = f"{write_id}"
    txn.require_open_in_store()
    # from here on readers of the plain table ignore the directory that is being filled
    context.catalog.alter_table(table.name, table.with_properties({CONVERSION.name: marker}), seen=table)
    files = [(root, file) for root in roots for file in plain_files(context.fs.list_tree(root), table)]
    txn.pending.on_abort.append(
        partial(remove_aborted, context, table, [f"{root}/{directory}" for root in roots])
    )
    versions = [context.fs.file_version(f"{root}/{file.path}") for root, file in files]
    check, linked = txn.open_check(), {}
    for (root, file), version in zip(files, versions, strict=True):
        check()
        target = f"{root}/{directory}/{file.path}"
        linked[root, file] = context.fs.link_file(f"{root}/{file.path}", target, version)
    txn.pending.alter_table(converted.with_properties({CONVERSION.name: marker}))
    txn.pending.on_commit.append(lambda: _remove_sources(context, linked))


def _remove_crashed_conversion(
    context: Context, table: TableDefinition, roots: Sequence[str], txn: Transaction
) -> None:
    """Remove the directories of a crashed conversion; refuse other directories of the ACID layout."""
    last = WriteId(id_property(table, CONVERSION))
    leftover = DeltaName(is_delete=False, min_write_id=last, max_write_id=last, statement_id=0)
    for root in roots:
        for directory in list_layout(context.fs, root).directories:
            if not last or directory.name != leftover:
                raise CatalogError(
                    f"{table.name}: {root}/{directory.path} is called like a directory of a transactional table: take such "
                    "a table over with acid.adopt(…)"
                )
            delete_directory(context, f"{root}/{directory.path}", txn)


def _remove_sources(context: Context, linked: Mapping[tuple[str, DataFile], FileVersion]) -> None:
    """Delete the converted files by their old names, but not files that a later table of this name has there by now."""
    by_root: dict[str, list[tuple[DataFile, FileVersion]]] = defaultdict(list)
    for (root, file), version in linked.items():
        by_root[root].append((file, version))
    for root, files in by_root.items():
        unchanged = [
            FileEntry(file.path, is_dir=False, size=file.size, modified=file.modified)
            for file, version in files
            if context.fs.file_version(f"{root}/{file.path}") == version
        ]
        context.fs.delete_listed(root, unchanged)

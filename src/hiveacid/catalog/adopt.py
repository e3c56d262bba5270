"""Adoption of a table that another engine or store left on disk."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from hiveacid import errors
from hiveacid.catalog.databases import create_database
from hiveacid.catalog.validate_definition import check_name, check_place
from hiveacid.config.property_definitions import ADOPTED_INVALID, ADOPTED_TXN, HISTORY_FROM
from hiveacid.core.format.names import METADATA_FILE, BaseName, is_hidden, layout_name
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import (
    LAST_SEED,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.core.schema.location_overlap import place_of_table
from hiveacid.core.snapshot.change_feed import lost_history
from hiveacid.core.snapshot.directory_listing import MOST_METADATA, is_compacted
from hiveacid.errors import first_few
from hiveacid.ports.catalog import SeededWriteIds
from hiveacid.storage.snapshot_locations import list_layout
from hiveacid.table.context import Context
from hiveacid.table.definition import check_definition, exclusive_name, lock_of_location
from hiveacid.table.partitions import partitions_on_disk
from hiveacid.transactions.transaction import Transaction

_MAX_LATER = 100_000
"""Maximum number of write ids above those of a list."""

logger = logging.getLogger(__name__)


def adopt(
    context: Context, table: TableDefinition, write_ids: ValidWriteIdList | None, txns: ValidTxnList | None
) -> None:
    """Register a directory that another engine wrote as a table, without changing any file.

    ``write_ids``: its open ids, and those of directories above its high watermark, count as aborted, because their
    writers cannot commit in this store. New writes get ids above all of them. None: the highest
    write id on disk is the high watermark, and no id is open or aborted. ``txns``: directories of compactions that it
    does not list as committed are ignored. None: every ``_v`` directory counts as committed.

    Creates the database if it is missing. Raises MissingDirectoryError, AlreadyExistsError, and CatalogError for a list
    that lacks more than `_MAX_LATER` ids of directories, or ids whose rows a compaction has merged with others.
    """
    if not context.store.maintained_by_hiveacid():
        raise errors.UnsupportedFeatureError(
            f"{table.name} cannot be adopted into a Hive Metastore, which cannot record which of its directories are "
            "valid: adopt it into a store of hiveacid's own (warehouse=), and move it from there by hiveacid migrate"
        )
    if not context.fs.exists(table.location):
        raise errors.MissingDirectoryError("the table's directory does not exist", path=table.location)
    check_name("table", table.name.name)
    if context.catalog.get_database(table.name.database) is None:
        create_database(context, DatabaseDefinition(table.name.database, ""), if_not_exists=True)
    with exclusive_name(context, table.name) as txn:
        txn.lock([lock_of_location(table.location)])  # a DROP may still be deleting the files
        _adopt(context, table, write_ids, txns, txn)


def _adopt(
    context: Context,
    table: TableDefinition,
    write_ids: ValidWriteIdList | None,
    txns: ValidTxnList | None,
    txn: Transaction,
) -> None:
    check_place(place_of_table(table.name, table.location), context)
    if context.catalog.get_table(table.name) is not None:
        raise errors.already_exists("table", table.name)
    partitions = partitions_on_disk(context, table)
    roots = [p.location for p in partitions] if table.partition_columns else [table.location]
    left_out = _require_data(context, table, partitions)
    if write_ids is not None and table.kind is not TableKind.PLAIN:
        for root in roots:
            _require_as_new_as_compactions(context, root, table.kind, write_ids, txns)
    highest, history_from, visible = _ids_on_disk(context, roots, table.kind)
    visibility = max(visible, default=0)
    invalid = sorted(txn_id for txn_id in visible if txns is not None and not txns.is_valid(TxnId(txn_id)))
    properties = dict(table.properties) | {
        ADOPTED_TXN.name: str(visibility),
        HISTORY_FROM.name: str(history_from),
    }
    if invalid:
        properties[ADOPTED_INVALID.name] = ",".join(map(str, invalid))
    adopted = replace(table, properties=tuple(sorted(properties.items())))
    check_definition(adopted)
    seeded = None
    if table.kind is not TableKind.PLAIN:
        seeded = _write_ids_to_seed(table.name, write_ids, WriteId(highest))
        context.store.restart_write_ids(adopted, (ADOPTED_TXN.name, str(visibility)))
        context.store.seed_txns(TxnId(max(visibility, int(txns.high_watermark) if txns else 0)))
    # All at once: a table without its write ids shows no rows, and DROP TABLE would delete its files.
    txn.pending.adopt_table(adopted, partitions, seeded)
    if left_out:
        logger.warning("%s: data that is not of the table was not adopted: %s", table.name, left_out)


def _require_data(context: Context, table: TableDefinition, partitions: Sequence[Partition]) -> str:
    """Return the directories with data that the table does not take, shortened. Raises CatalogError if it takes none."""
    taken = {partition.location.removeprefix(f"{table.location}/") for partition in partitions}
    depth, takes_data = len(table.partition_columns), False
    left_out: dict[str, None] = {}
    for entry in context.fs.list_tree(table.location):
        *folders, name = entry.path.split("/")
        # A partition's directory may begin with _ or a point, as its column does.
        if entry.is_dir or is_hidden(name) or any(is_hidden(part) and "=" not in part for part in folders):
            continue
        inside = folders[depth:]
        if "/".join(folders[:depth]) in (taken if depth else {""}) and not (inside and "=" in inside[0]):
            takes_data = True
        else:
            left_out["/".join(takewhile(lambda part: not layout_name(part), folders)) or "."] = None
    shown = first_few(left_out)
    if left_out and not takes_data:
        columns = ", ".join(table.partition_column_names)
        raise errors.CatalogError(
            f"{table.name} would be empty: {table.location} has data only in {shown}, which is not where a table "
            + (f"PARTITIONED BY ({columns})" if columns else "without partitions")
            + " has its rows; PARTITIONED BY names the columns of the directories column=value, in their order"
        )
    return shown


def _require_as_new_as_compactions(
    context: Context, root: str, kind: TableKind, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> None:
    """Refuse a list that is older than a compaction, whose rows were committed by then.

    Those of a base, and of an insert-only table's delta, cannot be told apart by their write ids. Those of a delta with ``_v``
    can, but the cleaner forgets the ids that such deltas do not hold as far as it knows, the aborted ones.
    """
    for directory in list_layout(context.fs, root).directories:
        name, path = directory.name, f"{root}/{directory.path}"
        first, last = (1 if isinstance(name, BaseName) else name.min_write_id), name.span[1]
        if write_ids.high_watermark >= last and not write_ids.has_open(first, last):
            continue
        texts = {}
        if directory.has_metadata_file:
            data = context.fs.read_bytes(f"{path}/{METADATA_FILE}", 0, MOST_METADATA)
            texts = {directory.path: data.decode("utf-8", "replace")}
        ignored = (
            txns is not None and bool(name.visibility_txn_id) and not txns.is_valid(name.visibility_txn_id)
        )
        if isinstance(name, BaseName):
            merged = is_compacted(directory, texts)
        else:
            merged = first < last and (bool(name.visibility_txn_id) or kind is TableKind.INSERT_ONLY)
        if merged and not ignored:
            raise errors.CatalogError(
                f"{path} was compacted after the list {write_ids.to_string()} was taken, and holds rows that it does not have: "
                "stop the writers and get the list again"
            )


def _write_ids_to_seed(
    name: TableName, write_ids: ValidWriteIdList | None, highest: WriteId
) -> SeededWriteIds | None:
    if write_ids is not None:
        if highest - write_ids.high_watermark > _MAX_LATER:
            raise errors.CatalogError(
                f"{name}: a directory has write id {highest}, far above {write_ids.high_watermark}, the highest of the list: stop "
                "the writers and get the list again"
            )
        later = map(WriteId, range(write_ids.high_watermark + 1, highest + 1))
        lost = tuple(sorted({*write_ids.open, *write_ids.aborted, *later}))
        return SeededWriteIds(name, max(write_ids.high_watermark, highest), lost)
    return SeededWriteIds(name, highest) if highest else None


def _ids_on_disk(context: Context, roots: Sequence[str], kind: TableKind) -> tuple[int, int, set[int]]:
    """Return the highest write id of all directories, the earliest one with history, and all visibility transaction ids."""
    write_id = history_from = 0
    visible: set[int] = set()
    for root in roots:
        for directory in list_layout(context.fs, root).directories:
            name = directory.name
            if max(*name.span, name.visibility_txn_id) > LAST_SEED:
                raise errors.BadDirectoryNameError(
                    f"a table with ids above {LAST_SEED} cannot be adopted: too few ids would remain for new writes",
                    path=f"{root}/{directory.path}",
                )
            write_id = max(write_id, int(name.span[1]))
            history_from = max(history_from, lost_history(name, row_ids=kind is TableKind.FULL_ACID))
            if name.visibility_txn_id:
                visible.add(int(name.visibility_txn_id))
    return write_id, history_from, visible

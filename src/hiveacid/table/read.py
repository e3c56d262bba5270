"""From a table's name to a DataFrame of one snapshot of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.listing import DataFile
from hiveacid.core.model import Partition, TableDefinition, TableKind, WriteId
from hiveacid.core.originals import OriginalRows, number_originals
from hiveacid.core.snapshot import AcidDirectory
from hiveacid.core.write_ids import ValidWriteIdList
from hiveacid.errors import (
    BadFileError,
    CatalogError,
    FormatError,
    NotEnoughHistoryError,
    StatementError,
)
from hiveacid.orc.tail import ACID_FIELDS, OrcTail, read_tail
from hiveacid.spark.deletes import DeleteBounds, measure
from hiveacid.spark.originals import Numbered
from hiveacid.spark.predicates import prune_partitions, search_argument
from hiveacid.spark.scan import Source, deletes_of, scan
from hiveacid.storage.listing import HISTORY_FROM, Location, list_locations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

_THREADS = 16


def read_snapshot(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    as_of: WriteId | None = None,
) -> DataFrame:
    """Return the rows that ``txn`` sees, with ``ROW__ID`` and ``INPUT__FILE__NAME`` as last columns.

    ``where`` is only a hint here: partitions and row groups it excludes are not read, but the rows still
    have to be filtered by it; ``alias`` is what it calls the table. ``as_of``: nothing after this write id.
    """
    write_ids = txn.valid_write_ids(table.name)
    if as_of is not None:
        _require_history(table, as_of)
        write_ids = write_ids.at(as_of)
    partitions, arguments = partitions_of(context, table, txn), None
    if where is not None:
        # A condition that makes no sense is refused, with its place, where the rows are filtered by it.
        with suppress(CatalogError, StatementError):
            if partitions is not None:
                partitions = prune_partitions(context.facts, table, partitions, where, alias=alias)
            arguments = search_argument(context.facts, table, where, alias=alias)
    locations = locate(context, table, partitions, write_ids, txn)
    if as_of is not None:  # a cleaner notes what it takes before it takes it: again, now that all is listed
        _require_history(context.require(table.name), as_of)
    return frame_of(context, table, locations, write_ids, arguments=arguments)


def _require_history(table: TableDefinition, as_of: WriteId) -> None:
    earliest = int(table.property(HISTORY_FROM) or 0)
    if as_of < earliest:
        raise NotEnoughHistoryError(
            f"{table.name} as of write id {as_of}: what it held then was compacted or overwritten, and cleaned; "
            f"the earliest state that is whole is write id {earliest}"
        )


def locate(
    context: Context,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
) -> tuple[Location, ...]:
    """List the partitions (or the table) as the transaction sees them.

    Raises TransactionAbortedError where it was reaped meanwhile: then the cleaner may have been there.
    """
    try:
        found = list_locations(context.fs, table, partitions, write_ids, txn.snapshot())
    except FormatError:
        txn.require_protection()
        raise
    txn.require_protection()
    return found


def frame_of(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    write_ids: ValidWriteIdList,
    *,
    arguments: dict[str, str] | None = None,
    current: bool = False,
) -> DataFrame:
    """Return the live rows of listed locations (``spark.scan``)."""
    source = Source(context.facts, context.fs, table, write_ids)
    if table.kind is not TableKind.FULL_ACID:
        return scan(source, locations, None)
    bounds = delete_bounds(context, locations)
    numbered = _number_raw(context, locations)
    return scan(source, locations, bounds, arguments=arguments, numbered=numbered, current=current)


def _number_raw(context: Context, locations: Sequence[Location]) -> Numbered:
    """Find files without ACID columns and give their rows ids; reads each footer once."""
    found: Numbered = {}
    for at in locations:
        base = () if at.state.base is None else (at.state.base,)
        groups: list[tuple[AcidDirectory | None, Sequence[DataFile]]] = [(None, at.state.originals)]
        groups += [(d, d.raw_files) for d in (*base, *at.state.deltas) if d.raw is not False]
        rows = [one for directory, files in groups for one in _numbered(context, at.root, directory, files)]
        if rows:
            found[at.root] = tuple(rows)
    return found


def _numbered(
    context: Context, root: str, directory: AcidDirectory | None, files: Sequence[DataFile]
) -> Sequence[OriginalRows]:
    paths = [(f"{root}/{file.path}", file.size) for file in files]
    tails = dict(zip(files, read_tails(context, paths), strict=True))
    for file, tail in tails.items():
        if tail.types and set(tail.types[0].names) == set(ACID_FIELDS):
            raise BadFileError(
                "a file with row ids under the name of one without", path=f"{root}/{file.path}"
            )
    return number_originals(
        files, {file.path: tail.number_of_rows for file, tail in tails.items()}, directory
    )


def partitions_of(
    context: Context, table: TableDefinition, txn: Transaction | None = None
) -> tuple[Partition, ...] | None:
    """Return all partitions, those that the transaction itself made included; None if unpartitioned."""
    if not table.partition_columns:
        return None
    new = txn is not None and txn.makes(table.name)
    known = () if new else context.catalog.list_partitions(table.name)
    made = [new.partition for new in txn.new_partitions(table.name)] if txn is not None else []
    values = {partition.values for partition in known}
    return (*known, *{p.values: p for p in made if p.values not in values}.values())


def delete_bounds(context: Context, locations: Sequence[Location]) -> DeleteBounds | None:
    """Read the footers of all delete files; None where there is no delete event."""
    files = [(f"{at.root}/{file.path}", file.size) for at in locations for file, _ in deletes_of(at)]
    if not files:
        return None
    return measure(read_tails(context, files), context.settings.get(keys.BROADCAST_DELETE_EVENTS))


def read_tails(context: Context, files: Sequence[tuple[str, int]]) -> list[OrcTail]:
    """Read ORC tails (path, size), several at a time.

    Nothing is remembered: a table dropped and made again gives other files the same names and sizes.
    """
    if not files:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        return list(pool.map(lambda file: read_tail(context.fs, *file), files))

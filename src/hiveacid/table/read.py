"""From a table's name to a DataFrame of one snapshot of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.core.model import Partition, TableDefinition, TableKind, WriteId
from hiveacid.core.names import DeltaName, parse_directory
from hiveacid.core.write_ids import ValidWriteIdList
from hiveacid.errors import (
    CatalogError,
    FormatError,
    NotEnoughHistoryError,
    StatementError,
    UnsupportedFeatureError,
)
from hiveacid.spark.predicates import SearchArgument, prune_partitions, search_argument
from hiveacid.spark.scan import Source, flat_files, scan
from hiveacid.spark.visible import with_char_marks
from hiveacid.storage.listing import ADOPTED_TXN, Location, list_locations
from hiveacid.table.dead import dead_rows
from hiveacid.table.survey import survey
from hiveacid.table.travel import Past, past_ids, require_past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction


logger = logging.getLogger(__name__)

_SHOWN = 5  # foreign paths in one warning


@dataclass(frozen=True)
class Found:
    """What a transaction sees of a table: its locations, listed, and what need not be read of their files."""

    locations: tuple[Location, ...]
    write_ids: ValidWriteIdList
    argument: SearchArgument | None

    @property
    def size(self) -> int:
        """Return how many bytes its rows' files have."""
        return sum(file.size for at in self.locations for file in flat_files(at))


def read_snapshot(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    as_of: Past | None = None,
    counted: bool = False,
) -> DataFrame:
    """Return the rows that ``txn`` sees, with ``ROW__ID`` and ``INPUT__FILE__NAME`` as last columns.

    ``where``, ``alias`` and ``as_of`` as in `find`, ``counted`` as in `spark.scan.scan`.
    """
    found = find(context, table, txn, where=where, alias=alias, as_of=as_of)
    return rows_of(context, table, txn, found, counted=counted)


def rows_of(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    found: Found,
    *,
    changing: bool = False,
    counted: bool = False,
) -> DataFrame:
    """Return the rows of what `find` found.

    ``changing``: to change some of them; raises UnsupportedFeatureError where ACID v1 left update events.
    """
    frame = frame_of(
        context,
        table,
        found.locations,
        found.write_ids,
        txn,
        argument=found.argument,
        changing=changing,
        counted=counted,
    )
    return with_char_marks(table, frame)


def find(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    as_of: Past | None = None,
) -> Found:
    """List what ``txn`` sees of a table.

    ``where`` is only a hint here: partitions and row groups it excludes are not read, but the rows still
    have to be filtered by it; ``alias`` is what it calls the table. ``as_of``: nothing after this
    point in the past.
    """
    write_ids = txn.valid_write_ids(table.name)
    if as_of is not None:
        write_ids = past_ids(context, table, txn, as_of)
    partitions, argument = partitions_of(context, table, txn), None
    if where is not None:
        # A condition that makes no sense is refused, with its place, where the rows are filtered by it.
        with suppress(CatalogError, StatementError):
            if partitions is not None:
                partitions = prune_partitions(context.facts, table, partitions, where, alias=alias)
            argument = search_argument(context.facts, table, where, alias=alias)
    # what another engine had compacted before the table was taken over, its cleaner may have removed without a note
    kept = as_of is not None and context.store.upkeep_is_ours() and table.property(ADOPTED_TXN) is None
    locations = locate(context, table, partitions, write_ids, txn, history_kept=kept)
    if as_of is not None:  # a cleaner notes what it takes before it takes it: again, now that all is listed
        require_past(context, context.require(table.name), txn, as_of, write_ids)
        if (
            isinstance(as_of, int)
            and table.kind is TableKind.INSERT_ONLY
            and not context.store.upkeep_is_ours()
        ):
            _require_sources(table, locations, as_of)
    warn_of_foreign(table, locations, txn)
    return Found(locations, write_ids, argument)


def _require_sources(table: TableDefinition, locations: Sequence[Location], as_of: WriteId) -> None:
    """Refuse where another engine's cleaner, which leaves no note, may have taken what later deltas were made of."""
    for location in locations:
        for path in location.state.pending:
            name = parse_directory(path)
            if isinstance(name, DeltaName) and name.min_write_id <= as_of < name.max_write_id:
                raise NotEnoughHistoryError(
                    f"{table.name} as of write id {as_of}: {location.root}/{path} joins it with later ones"
                )


def locate(
    context: Context,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txn: Transaction,
    *,
    history_kept: bool = False,
) -> tuple[Location, ...]:
    """List the partitions (or the table) as the transaction sees them; ``history_kept`` as in `core.snapshot.select`.

    Raises TransactionAbortedError where it was reaped meanwhile: then the cleaner may have been there.
    """
    try:
        found = list_locations(
            context.fs, table, partitions, write_ids, txn.snapshot(), history_kept=history_kept
        )
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
    txn: Transaction,
    *,
    argument: SearchArgument | None = None,
    current: bool = False,
    changing: bool = False,
    counted: bool = False,
) -> DataFrame:
    """Return the live rows of listed locations (``spark.scan``); ``changing`` as in `rows_of`."""
    context.facts.require_plain_names()
    found = survey(context, table, locations, txn)
    if changing and found.old:
        raise UnsupportedFeatureError(f"{table.name} {OLD_EVENTS}")
    dead = partial(dead_rows, context, table, write_ids, found.bounds)
    source = Source(context.facts, context.fs, table, write_ids, found.files, dead=dead)
    if argument is not None:
        source = replace(source, arguments=argument.options)
    return scan(source, locations, found.bounds, numbered=found.numbered, current=current, counted=counted)


OLD_EVENTS = (
    "holds update events of Hive 2 or older (ACID v1): ALTER TABLE ... COMPACT 'major' writes its rows anew; "
    "then it can be changed"
)


def require_no_old_events(context: Context, table: TableDefinition, txn: Transaction) -> None:
    """Refuse to add rows beside events of ACID v1. Only a table that was taken over can have such."""
    if table.kind is not TableKind.FULL_ACID or table.property(ADOPTED_TXN) is None:
        return
    write_ids = txn.valid_write_ids(table.name)
    locations = locate(context, table, partitions_of(context, table, txn), write_ids, txn)
    if survey(context, table, locations, txn).old:
        raise UnsupportedFeatureError(f"{table.name} {OLD_EVENTS}")


def warn_of_foreign(table: TableDefinition, locations: Sequence[Location], txn: Transaction) -> None:
    """Name, once a snapshot, what lies among the files and is passed over."""
    if table.name in txn.warned:
        return
    found = [path for at in locations for path in _foreign(table, at)]
    if found:
        txn.warned.add(table.name)
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        logger.warning("%s: not of the table, passed over (%d): %s", table.name, len(found), shown)


def _foreign(table: TableDefinition, at: Location) -> Iterator[str]:
    state = at.state
    yield from (f"{at.root}/{path}" for path in state.foreign if not path.startswith(("_", ".")))
    if table.kind is not TableKind.FULL_ACID:
        return
    for directory in state.read_directories:
        read = {*directory.acid_files} if not directory.raw else set()
        if directory.raw is not False:
            read |= {*directory.raw_files}
        yield from (f"{at.root}/{file.path}" for file in directory.files if file not in read)


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

"""Cleaning without a job: what INSERT OVERWRITE, TRUNCATE and LOAD DATA OVERWRITE replaced.

Hive leaves it to the next compaction (``Initiator``: an obsolete base calls for one). Here the cleaner looks where
something was committed. It remembers what nobody who begins from then on reads, and removes that when all
transactions that were there before have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.core.cleaning import CleaningPlan
from hiveacid.core.model import TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.snapshot import select
from hiveacid.errors import FormatError, MissingDirectoryError
from hiveacid.storage.listing import adopted_txn_id, list_adopted, read_metadata
from hiveacid.table.cleaning_place import (
    carry_out,
    cleaning_delay,
    keeping,
    must_not_clean,
    plan_place,
    ready_jobs,
    unsettled_txns,
)
from hiveacid.table.layout import partition_name
from hiveacid.table.read import partitions_of

if TYPE_CHECKING:
    from hiveacid.ports import FileEntry
    from hiveacid.table.context import Context

_OVERLAP = 60_000  # ms: a commit is timed a little before others see it
_PAUSE = 60_000  # ms between two looks at one place, however often it is written

_Attempt = Callable[[str, Callable[[], list[str]]], None]
_Place = tuple[TableName, str | None]
_Files = frozenset[tuple[str, int, int]]
_Found = tuple[TableDefinition, str, bool]
"""A transactional table, its or its partition's location, and whether anything may be removed there."""


@dataclass(frozen=True)
class Sighting:
    """What was obsolete at a place at one moment: by directory (or root file), its files with sizes and times.

    ``txn_id``: the highest transaction that may have begun before; ``high_watermark``: up to it all write ids
    had ended; ``at``: ms, by the store's clock.
    """

    obsolete: dict[str, _Files]
    txn_id: TxnId
    high_watermark: WriteId
    at: int


@dataclass
class Overwritten:
    """Watches places: `step` looks where something was committed since, and removes what may go by now."""

    context: Context
    _since: int = field(default=0, init=False)
    _changed: set[_Place] = field(default_factory=set, init=False)
    _looked: dict[_Place, int] = field(default_factory=dict, init=False)
    _sightings: dict[_Place, Sighting] = field(default_factory=dict, init=False)

    def step(self, attempt: _Attempt) -> None:
        """Do one turn: hand each piece of work to ``attempt``, with the name of its table.

        What fails is forgotten until the place is written again; the next compaction cleans it, too.
        """
        store = self.context.store
        now = store.now()
        changes = store.changed_places(self._since)
        self._changed.update((one.table, one.partition) for one in changes if one.changed is not None)
        self._since = max(0, now - _OVERLAP)
        self._looked = {place: at for place, at in self._looked.items() if now - at < _PAUSE}
        due = self._changed.difference(self._sightings, self._looked)
        if due:  # where a compaction waits for the cleaner, that comes first
            due -= {(job.request.table, job.request.partition) for job in ready_jobs(self.context)}
        self._changed -= due
        self._looked.update(dict.fromkeys(due, now))
        for name, partitions in _by_table(due).items():
            attempt(str(name), partial(self._look, name, partitions))
        if not self._sightings:
            return
        # In this order: a compaction that commits after the first question is unsettled in the second.
        min_open = store.min_open_txn_id()
        over = store.now() - 1000 * cleaning_delay(self.context)
        ripe = [
            place for place, seen in self._sightings.items() if seen.txn_id < min_open and seen.at <= over
        ]
        for name, partitions in _by_table(ripe).items():
            attempt(str(name), partial(self._clean, name, partitions, min_open))

    def _look(self, name: TableName, partitions: Sequence[str | None]) -> list[str]:
        places = _locations(self.context, name)
        if places is None:
            return []
        table, known = places
        for partition in partitions:
            root, allowed = known.get(partition, (None, True))
            if root is None:
                continue
            sighting, again = _sighting(self.context, table, root) if allowed else (None, True)
            if sighting is not None:
                self._sightings[name, partition] = sighting
            elif again:
                self._changed.add((name, partition))
        return []

    def _clean(self, name: TableName, partitions: Sequence[str | None], min_open: TxnId) -> list[str]:
        with keeping(self.context, name) as kept:
            if not kept:
                return []  # somebody has it: the next turn
            seen = {partition: self._sightings.pop((name, partition)) for partition in partitions}
            places = _locations(self.context, name)
            if places is None:
                return []
            table, known = places
            unsettled = unsettled_txns(ready_jobs(self.context), min_open)
            removed: list[str] = []
            for partition, sighting in seen.items():
                root, allowed = known.get(partition, (None, True))
                if root is not None and allowed:
                    removed += _clean(self.context, table, root, sighting, min_open, unsettled)
            return removed


def clean_overwritten(context: Context, attempt: _Attempt) -> None:
    """Remove what no transaction that is open now can read; ``attempt`` as in `Overwritten.step`."""
    Overwritten(context).step(attempt)


def _by_table(places: Iterable[_Place]) -> Mapping[TableName, list[str | None]]:
    found: dict[TableName, list[str | None]] = defaultdict(list)
    for name, partition in sorted(places, key=lambda place: (place[0], place[1] or "")):
        found[name].append(partition)
    return found


def _locations(
    context: Context, name: TableName
) -> tuple[TableDefinition, Mapping[str | None, tuple[str, bool]]] | None:
    """Return a transactional table and its locations by partition, each with whether anything may be removed there."""
    table = context.catalog.get_table(name)
    if table is None or table.kind is TableKind.PLAIN:
        return None
    partitions = partitions_of(context, table)
    if partitions is None:
        return table, {None: (table.location, not must_not_clean(context, table, None))}
    kept = must_not_clean(context, table, None)
    return table, {
        partition_name(table, one.values): (
            one.location,
            not kept and not (one.properties and must_not_clean(context, table, one)),
        )
        for one in partitions
    }


def _sighting(context: Context, table: TableDefinition, root: str) -> tuple[Sighting | None, bool]:
    """Return what is obsolete at a place, if anything is; and whether to look again though nobody writes there."""
    store = context.store
    now, txns = (
        store.now(),
        store.valid_txns(),
    )  # before the listing: what it hides, all who come now pass over
    write_ids = store.valid_write_ids(txns, [table.name])[table.name]
    settled = write_ids.compactor()
    try:
        entries = list_adopted(context.fs, table, root)
        metadata = read_metadata(context.fs, root, entries)
        state = select(entries, settled, txns, metadata, adopted_txn_id=adopted_txn_id(table))
    except MissingDirectoryError:
        return None, False
    except FormatError as error:
        raise error.below(root) from error
    files = _files(entries) if state.obsolete else {}
    obsolete = {path: files[path] for path in state.obsolete if path in files}
    if not obsolete:
        return None, settled.high_watermark < write_ids.high_watermark
    return Sighting(obsolete, txns.high_watermark, settled.high_watermark, now), False


def _files(entries: Iterable[FileEntry]) -> dict[str, _Files]:
    """Return the files of a location by the directory or root file that they belong to."""
    found: dict[str, set[tuple[str, int, int]]] = {}
    for entry in entries:
        top = found.setdefault(entry.path.partition("/")[0], set())
        if not entry.is_dir:
            top.add((entry.path, entry.size, entry.modified))
    return {top: frozenset(some) for top, some in found.items()}


def _clean(
    context: Context,
    table: TableDefinition,
    root: str,
    seen: Sighting,
    min_open: TxnId,
    unsettled: set[TxnId],
) -> list[str]:
    try:
        # a table that was dropped and made anew has directories of the same names: they hold other files
        files = _files(list_adopted(context.fs, table, root))
        plan = plan_place(context, table, root, seen.high_watermark, min_open, unsettled)
    except MissingDirectoryError:
        return []
    except FormatError as error:
        raise error.below(root) from error
    gone = {path for path, some in seen.obsolete.items() if files.get(path) == some}
    return carry_out(context, table, root, _only(plan, gone))


def _only(plan: CleaningPlan, paths: set[str]) -> CleaningPlan:
    deletions = tuple(one for one in plan.deletions if one.path in paths)
    return replace(
        plan, deletions=deletions, history_from=plan.history_from if deletions else None, unexplained=()
    )

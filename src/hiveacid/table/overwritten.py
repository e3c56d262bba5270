"""Cleaning without a job: what INSERT OVERWRITE, TRUNCATE and LOAD DATA OVERWRITE replaced.

Hive leaves it to the next compaction (``Initiator``: an obsolete base calls for one). Here the cleaner looks where
something was committed. It remembers what nobody who begins from then on reads, and removes that when all
transactions that were there before have ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.core.cleaning import CleaningPlan
from hiveacid.core.model import TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.errors import FormatError, MissingDirectoryError
from hiveacid.storage.listing import list_adopted, read_location
from hiveacid.table.cleaning_place import (
    carry_out,
    cleaning_delay,
    find_place,
    keeping,
    must_not_clean,
    plan_place,
    ready_jobs,
    unsettled_txns,
)
from hiveacid.table.history import retention

if TYPE_CHECKING:
    from hiveacid.ports import FileEntry
    from hiveacid.table.context import Context

logger = logging.getLogger(__name__)

_OVERLAP = 60_000  # ms: a commit is timed a little before others see it
_PAUSE = 60_000  # ms between two looks at one place, however often it is written

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

    def step(self, attempt: Callable[[str, Callable[[], list[str]]], None]) -> None:
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
        for place in sorted(due, key=_order):
            self._changed.discard(place)
            self._looked[place] = now
            attempt(str(place[0]), partial(self._look, place))
        if not self._sightings:
            return
        # In this order: a compaction that commits after the first question is unsettled in the second.
        min_open = store.min_open_txn_id()
        now, delay = store.now(), cleaning_delay(self.context)
        for place, sighting in list(self._sightings.items()):
            kept = max(delay, retention(self.context.catalog.get_table(place[0])))
            if sighting.txn_id < min_open and sighting.at <= now - 1000 * kept:
                del self._sightings[place]
                attempt(str(place[0]), partial(self._clean, place, sighting, min_open))

    def _look(self, place: _Place) -> list[str]:
        found = _find(self.context, *place)
        if found is None:
            return []
        sighting, again = _sighting(self.context, place[0], found)
        if sighting is not None:
            self._sightings[place] = sighting
        elif again:
            self._changed.add(place)
        return []

    def _clean(self, place: _Place, sighting: Sighting, min_open: TxnId) -> list[str]:
        with keeping(self.context, place[0]) as kept:
            if not kept:
                self._changed.add(place)
                return []
            return _clean(self.context, place, sighting, min_open)


def clean_overwritten(context: Context, attempt: Callable[[str, Callable[[], list[str]]], None]) -> None:
    """Remove what no transaction that is open now can read; ``attempt`` as in `Overwritten.step`."""
    Overwritten(context).step(attempt)


def _order(place: _Place) -> tuple[TableName, str]:
    return place[0], place[1] or ""


def _find(context: Context, name: TableName, partition: str | None) -> _Found | None:
    table = context.catalog.get_table(name)
    if table is None or table.kind is TableKind.PLAIN or (partition is None and table.partition_columns):
        return None
    found = find_place(context, table, partition)
    return None if found is None else (table, found[0], not must_not_clean(context, table, found[1]))


def _sighting(context: Context, name: TableName, found: _Found) -> tuple[Sighting | None, bool]:
    """Return what is obsolete at a place, if anything is; and whether to look again though nobody writes there."""
    table, root, allowed = found
    if not allowed:
        return None, True
    store = context.store
    now, txns = (
        store.now(),
        store.valid_txns(),
    )  # before the listing: what it hides, all who come now pass over
    write_ids = store.valid_write_ids(txns, [name])[name]
    settled = write_ids.compactor()
    try:
        state = read_location(context.fs, table, root, None, settled, txns).state
        files = _files(list_adopted(context.fs, table, root))
    except MissingDirectoryError:
        return None, False
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


def _clean(context: Context, place: _Place, sighting: Sighting, min_open: TxnId) -> list[str]:
    found = _find(context, *place)
    if found is None or not found[2]:
        return []
    table, root, _ = found
    unsettled = unsettled_txns(ready_jobs(context), min_open)
    try:
        # a table that was dropped and made anew has directories of the same names: they hold other files
        files = _files(list_adopted(context.fs, table, root))
        plan = plan_place(context, table, root, sighting.high_watermark, min_open, unsettled)
    except MissingDirectoryError:
        return []
    except FormatError as error:
        raise error.below(root) from error
    gone = {path for path, seen in sighting.obsolete.items() if files.get(path) == seen}
    return carry_out(context, table, root, _only(plan, gone))


def _only(plan: CleaningPlan, paths: set[str]) -> CleaningPlan:
    deletions = tuple(one for one in plan.deletions if one.path in paths)
    return replace(
        plan, deletions=deletions, history_from=plan.history_from if deletions else None, unexplained=()
    )

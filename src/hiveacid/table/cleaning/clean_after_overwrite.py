"""Cleaning without a compaction job, after INSERT OVERWRITE, TRUNCATE and LOAD DATA OVERWRITE.

Hive leaves this to the next compaction (``Initiator``: an obsolete base triggers one). Here the cleaner lists locations
with new commits. It remembers the directories that are obsolete for all later readers, and removes them when all
transactions that were open at that time have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select
from hiveacid.core.transactions.commit_records import VISIBLE_WITHIN
from hiveacid.errors import FormatError, MissingDirectoryError
from hiveacid.ports.store import own_store
from hiveacid.storage.snapshot_locations import adopted_txn_id, list_adopted, read_metadata
from hiveacid.table.cleaning.remove_files import (
    cleaner_lock,
    cleaning_delay,
    delete_planned,
    history_retention,
    is_cleanup_disabled,
    list_possibly_unseen_txns,
    plan_location_cleaning,
    ready_jobs,
)
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of
from hiveacid.transactions.transaction import Transaction

_LISTING_INTERVAL = 60_000  # ms between two listings of a location, however often it is written

_Attempt = Callable[[TableName, Callable[[], list[str]]], None]
_Place = tuple[TableName, str | None]
_Files = frozenset[tuple[str, int, int]]


@dataclass(frozen=True)
class ObsoleteFiles:
    """Obsolete files of a location at one moment, by directory or root file, with sizes and times.

    ``txn_id``: the highest transaction that may have begun before that moment. ``high_watermark``: all write ids up to
    it had ended. ``at``: time (ms, by the store's clock) of the last write to the location. ``retention``: seconds for
    which the table keeps its history.
    """

    obsolete: dict[str, _Files]
    txn_id: TxnId
    high_watermark: WriteId
    at: int
    retention: float

    def is_kept(self, now: int, seconds: float) -> bool:
        """Tell whether fewer than ``seconds`` have passed since the location was written."""
        return self.at > now - 1000 * seconds


@dataclass
class OverwrittenCleaner:
    """Cleaner that remembers obsolete files: `step` lists locations with new commits and removes old obsolete files."""

    context: Context
    _since: int = field(default=0, init=False)
    # to the time (ms) of the last write
    _changed: dict[_Place, int] = field(default_factory=dict, init=False)
    _listed_at: dict[_Place, int] = field(default_factory=dict, init=False)
    _obsolete_files: dict[_Place, ObsoleteFiles] = field(default_factory=dict, init=False)

    def step(self, attempt: _Attempt) -> None:
        """Run one turn; ``attempt`` receives each piece of work with the name of its table.

        After a failure the location is forgotten until its next write. The next compaction cleans it, too.
        """
        store = own_store(self.context.store)
        now = store.now()
        changes = store.changed_partitions(self._since)
        self._changed |= {
            (change.table, change.partition): change.changed
            for change in changes
            if change.changed is not None
        }
        self._since = max(0, now - VISIBLE_WITHIN)
        self._listed_at = {
            key: time for key, time in self._listed_at.items() if now - time < _LISTING_INTERVAL
        }
        due = self._changed.keys() - self._obsolete_files.keys() - self._listed_at.keys()
        if due:  # the cleaning after a compaction comes first
            due -= {(job.request.table, job.request.partition) for job in ready_jobs(self.context)}
        written = {key: self._changed.pop(key) for key in due}
        self._listed_at.update(dict.fromkeys(due, now))
        for name, partitions in _by_table(due).items():
            attempt(
                name,
                partial(
                    self._list_changed_locations,
                    name,
                    {partition: written[name, partition] for partition in partitions},
                ),
            )
        if not self._obsolete_files:
            return
        # In this order: a compaction that commits after the first question counts as possibly unseen in the second.
        min_open = store.min_open_txn_id()
        now, delay = store.now(), cleaning_delay(self.context)
        removable_keys = [
            key
            for key, obsolete in self._obsolete_files.items()
            if obsolete.txn_id < min_open and not obsolete.is_kept(now, max(delay, obsolete.retention))
        ]
        for name, partitions in _by_table(removable_keys).items():
            attempt(name, partial(self._clean, name, partitions, min_open))

    def _list_changed_locations(self, name: TableName, partitions: Mapping[str | None, int]) -> list[str]:
        listed = _locations(self.context, name)
        if listed is None:
            return []
        table, locations = listed
        try:
            for partition, written in partitions.items():
                location = locations.get(partition)
                if location is None:
                    continue
                obsolete, retry = (
                    _find_obsolete_files(self.context, table, location, written)
                    if location.may_clean
                    else (None, True)
                )
                if obsolete is not None:
                    self._obsolete_files[name, partition] = obsolete
                elif retry:
                    self._changed.setdefault((name, partition), written)
        finally:  # the obsolete_files from before an error stay
            self._note_later_writes(name, min(partitions.values()))
        return []

    def _note_later_writes(self, name: TableName, since: int) -> None:
        """Start the retention at the last write that a listing may have included."""
        for change in own_store(self.context.store).changed_partitions(since):
            obsolete = self._obsolete_files.get((name, change.partition)) if change.table == name else None
            if obsolete is not None and change.changed is not None:
                self._obsolete_files[name, change.partition] = replace(
                    obsolete, at=max(obsolete.at, change.changed)
                )

    def _clean(self, name: TableName, partitions: Sequence[str | None], min_open: TxnId) -> list[str]:
        with cleaner_lock(self.context, name) as held:
            if held is None:
                return []  # another client holds the table: try again in the next turn
            obsolete_files = {
                partition: self._obsolete_files.pop((name, partition)) for partition in partitions
            }
            listed = _locations(self.context, name)
            if listed is None:
                return []
            table, locations = listed
            possibly_unseen_txns = list_possibly_unseen_txns(ready_jobs(self.context), min_open)
            removed_paths: list[str] = []
            retention, now = history_retention(table), self.context.store.now()
            for partition, obsolete in obsolete_files.items():
                location = locations.get(partition)
                if obsolete.is_kept(now, retention):  # longer than when the location was listed
                    self._obsolete_files[name, partition] = replace(obsolete, retention=retention)
                elif location is not None and location.may_clean:
                    removed_paths += _clean(
                        self.context, table, location, obsolete, min_open, possibly_unseen_txns, held
                    )
            return removed_paths


def _by_table(places: Iterable[_Place]) -> Mapping[TableName, list[str | None]]:
    partitions: dict[TableName, list[str | None]] = defaultdict(list)
    for name, partition in sorted(places, key=lambda key: (key[0], key[1] or "")):
        partitions[name].append(partition)
    return partitions


@dataclass(frozen=True)
class _Location:
    """Location of a partition, or of a table without partitions. ``may_clean``: False with the property ``no_cleanup``."""

    root: str
    may_clean: bool
    partition: Partition | None = None


def _locations(
    context: Context, name: TableName
) -> tuple[TableDefinition, Mapping[str | None, _Location]] | None:
    """Return a transactional table and its locations by partition."""
    table = context.catalog.get_table(name)
    if table is None or table.kind is TableKind.PLAIN:
        return None
    partitions = partitions_of(context, table)
    if partitions is None:
        return table, {None: _Location(table.location, not is_cleanup_disabled(context, table, None))}
    disabled = is_cleanup_disabled(context, table, None)
    return table, {
        partition_name(table, partition.values): _Location(
            partition.location,
            not disabled and not (partition.properties and is_cleanup_disabled(context, table, partition)),
            partition,
        )
        for partition in partitions
    }


def _find_obsolete_files(
    context: Context, table: TableDefinition, location: _Location, written: int
) -> tuple[ObsoleteFiles | None, bool]:
    """Return the obsolete files of a location, if any, and whether to look again without a new write."""
    store, root = context.store, location.root
    txns = store.valid_txns()  # before the listing: every later reader sees these commits, too
    write_ids = store.valid_write_ids(txns, [table.name])[table.name]
    settled = write_ids.compactor()
    try:
        entries = list_adopted(context.fs, table, root, location.partition)
        metadata = read_metadata(context.fs, root, entries)
        state = select(entries, settled, txns, metadata, adopted_txn_id=adopted_txn_id(table))
    except MissingDirectoryError:
        return None, False
    except FormatError as error:
        # renamed since its definition was read: the name has no write ids, or those of another table
        if not table.is_same_table(context.catalog.get_table(table.name)):
            return None, False
        raise error.below(root) from error
    files = _files(entries) if state.obsolete else {}
    obsolete = {path: files[path] for path in state.obsolete if path in files}
    if not obsolete:
        return None, settled.high_watermark < write_ids.high_watermark
    retention = history_retention(table)
    # a transaction may just be opened, with a snapshot that is older than ``txns``: ask for the ids after it
    return ObsoleteFiles(obsolete, store.last_txn_id(), settled.high_watermark, written, retention), False


def _files(entries: Iterable[FileEntry]) -> dict[str, _Files]:
    """Return the files of a location by the directory or root file that they belong to."""
    files: dict[str, set[tuple[str, int, int]]] = {}
    for entry in entries:
        top = files.setdefault(entry.path.partition("/")[0], set())
        if not entry.is_dir:
            top.add((entry.path, entry.size, entry.modified))
    return {top: frozenset(content) for top, content in files.items()}


def _clean(
    context: Context,
    table: TableDefinition,
    location: _Location,
    seen: ObsoleteFiles,
    min_open: TxnId,
    possibly_unseen_txns: set[TxnId],
    held: Transaction,
) -> list[str]:
    root = location.root
    try:
        plan = plan_location_cleaning(
            context,
            table,
            root,
            seen.high_watermark,
            min_open,
            possibly_unseen_txns,
            partition=location.partition,
        )
    except MissingDirectoryError:
        return []
    except FormatError as error:
        raise error.below(root) from error
    # a table that was dropped and created again has directories of the same names, with other files
    files = _files(plan.listed)
    removable = {path for path, content in seen.obsolete.items() if files.get(path) == content}
    deletions = tuple(deletion for deletion in plan.deletions if deletion.path in removable)
    history_from = plan.history_from if deletions else None
    kept = replace(plan, deletions=deletions, history_from=history_from, foreign=())
    return delete_planned(context, table, root, location.partition, kept, held)

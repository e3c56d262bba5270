"""Locations of a table at a snapshot: list the directory, read side files, apply ``core.snapshot.selection``."""

from __future__ import annotations

import resource
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hiveacid.config.property_definitions import ADOPTED_INVALID, ADOPTED_TXN, CONVERSION, TableProperty
from hiveacid.core.format.names import DeltaName, ends_below, is_hidden, parse_directory, parse_number
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import (
    MOST_METADATA,
    DataFile,
    FileEntry,
    Listing,
    metadata_paths,
    read_listing,
)
from hiveacid.core.snapshot.selection import AcidState, select
from hiveacid.errors import CatalogError, FormatError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.paths import is_on_local_disk

_THREADS, _LOCAL_THREADS = 16, 4
_CHUNK, _CHUNKS_IN_POOL = 100, 10
_WORTHWHILE_WAITS = 0.5
"""If items block more often than this on average, as on a disk that is not cached, threads help."""
_COPYING = "._COPYING_"
"""Suffix of files that ``hdfs dfs -put`` is still copying; Spark ignores them."""

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Location:
    """A table's or partition's directory and the files in it that a snapshot reads."""

    root: str
    state: AcidState
    partition: Partition | None = None


class PlanMemo:
    """Results that follow from the files of a snapshot alone, by key."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a key; ``make`` is called if it is not known."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def __contains__(self, key: Hashable) -> bool:
        """Tell whether the result of a key is known."""
        return key in self._known


class ListedLocations(tuple[Location, ...]):  # noqa: SLOT001 - a tuple's slots must be empty
    """Locations of a snapshot whose listings were kept, with what was computed from them."""

    memo: PlanMemo

    @classmethod
    def of(cls, locations: Iterable[Location]) -> ListedLocations:
        """Return locations without any results."""
        found = cls(locations)
        found.memo = PlanMemo()
        return found


def memo_of(locations: Sequence[Location]) -> PlanMemo:
    """Return the memo of locations; a new one if their listings were not kept."""
    return locations.memo if isinstance(locations, ListedLocations) else PlanMemo()


def list_locations(
    fs: FileSystem,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    history_kept: bool = False,
) -> tuple[Location, ...]:
    """List every partition (the table itself if ``partitions`` is None) and select what the snapshot reads.

    ``history_kept`` as in `core.snapshot.selection.select`.

    Raises MissingDirectoryError naming the directory that is not there.
    """

    def look(root: str, partition: Partition | None) -> Location:
        return read_location(fs, table, root, partition, write_ids, txns, history_kept=history_kept)

    return for_each_location(table, partitions, look)


def for_each_location(
    table: TableDefinition, partitions: Sequence[Partition] | None, look: Callable[[str, Partition | None], T]
) -> tuple[T, ...]:
    """Call ``look`` for every partition (for the table itself if ``partitions`` is None), several at a time."""
    if partitions is None:
        return (look(table.location, None),)
    if not partitions:
        return ()
    return tuple(map_in_threads(lambda one: look(one.location, one), partitions, partitions[0].location))


def map_in_threads(work: Callable[[Item], T], items: Sequence[Item], place: str) -> list[T]:
    """Return the results of ``work`` for all items, in their order; some run at the same time.

    ``place``: a path of the first item.
    """
    if len(items) >= _CHUNK and is_on_local_disk(place):
        return _map_on_local_disk(work, items)
    return _map_in_pool(work, items, _THREADS)


def _map_on_local_disk(work: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Return the results of very many items; other threads help only while this one waits for the disk.

    Each system call hands the GIL to another thread. Where all is in memory, two threads need more time than one.
    """
    results: list[T] = []
    while len(results) < len(items):
        start, waits = len(results), _count_waits()
        results += [work(item) for item in items[start : start + _CHUNK]]
        if _count_waits() - waits > _CHUNK * _WORTHWHILE_WAITS:
            start = len(results)
            results += _map_in_pool(work, items[start : start + _CHUNKS_IN_POOL * _CHUNK], _LOCAL_THREADS)
    return results


def _map_in_pool(work: Callable[[Item], T], items: Sequence[Item], threads: int) -> list[T]:
    """Return the results of all items; a thread takes several at once, because handing one over costs time."""
    if len(items) <= 1:
        return [work(item) for item in items]
    size = max(1, min(_CHUNK, len(items) // (4 * threads)))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(min(threads, len(chunks))) as pool:
        return [
            found for part in pool.map(lambda chunk: [work(item) for item in chunk], chunks) for found in part
        ]


def _count_waits() -> int:
    """Return how often this thread gave up the CPU to wait; being interrupted on a busy machine does not count."""
    # macOS counts for the whole process only: then other threads may make it look as if this one waited
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_nvcsw


def read_location(
    fs: FileSystem,
    table: TableDefinition,
    root: str,
    partition: Partition | None,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    history_kept: bool = False,
) -> Location:
    """List one directory and select what the snapshot reads of it. Errors name the whole path."""
    return select_location(
        fs, table, root, partition, fs.list_tree(root), write_ids, txns, history_kept=history_kept
    )


def select_location(
    fs: FileSystem,
    table: TableDefinition,
    root: str,
    partition: Partition | None,
    listed: Sequence[FileEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    history_kept: bool = False,
) -> Location:
    """Select what the snapshot reads of a directory that was listed. Errors name the whole path."""
    entries = _without_uncommitted(table, listed, partition)
    if table.kind is TableKind.PLAIN:
        return Location(root, AcidState(None, (), (), tuple(plain_files(entries, table))), partition)
    try:
        metadata = read_metadata(fs, root, entries)
        state = select(
            entries,
            write_ids,
            txns,
            metadata,
            adopted_txn_id=adopted_txn_id(table),
            row_ids=table.kind is TableKind.FULL_ACID,
            history_kept=history_kept,
        )
    except FormatError as error:
        raise error.below(root) from error
    return Location(root, without_linked_originals(table, state), partition)


def list_layout(fs: FileSystem, root: str) -> Listing:
    """List a location, grouped by directory; for example ``list_layout(fs, "/wh/t").directories``.

    Raises MissingDirectoryError, and BadDirectoryNameError with the whole path.
    """
    entries = fs.list_tree(root)
    try:
        return read_listing(entries)
    except FormatError as error:
        raise error.below(root) from error


def without_linked_originals(table: TableDefinition, state: AcidState) -> AcidState:
    """Return the state without original files that a conversion has linked into a delta directory."""
    if CONVERSION.of(table) is None or not state.originals:
        return state
    moved = tuple(file.path for file in state.originals)
    return replace(state, originals=(), obsolete=tuple(sorted({*state.obsolete, *moved})))


def list_adopted(
    fs: FileSystem, table: TableDefinition, root: str, partition: Partition | None = None
) -> tuple[FileEntry, ...]:
    """List a location without the directories of compactions that were uncommitted when the table was adopted.

    ``partition``: also without directories of writers that had ended before the partition was recorded.
    """
    return _without_uncommitted(table, fs.list_tree(root), partition)


def _without_uncommitted(
    table: TableDefinition, entries: Sequence[FileEntry], partition: Partition | None
) -> tuple[FileEntry, ...]:
    invalid = uncommitted_txn_ids(table)
    lowest = 0 if partition is None else partition.min_write_id
    if not invalid and lowest <= 1:
        return tuple(entries)
    tops = {entry.path.partition("/")[0] for entry in entries}
    hidden = {top for top in tops if path_visibility_txn_id(top) in invalid or ends_below(top, lowest)}
    return tuple(entry for entry in entries if entry.path.partition("/")[0] not in hidden)


def uncommitted_txn_ids(table: TableDefinition) -> frozenset[int]:
    """Return visibility transaction ids of compactions that were uncommitted when the table was adopted."""
    texts = (ADOPTED_INVALID.of(table) or "").split(",")
    return frozenset(_id_in(table, ADOPTED_INVALID, text) for text in texts if text)


def path_visibility_txn_id(path: str) -> int:
    """Return the visibility transaction id in the name of the directory that a path begins with, 0 if none."""
    top = path.partition("/")[0]
    name = None if is_hidden(top) else parse_directory(top)
    return 0 if name is None else int(name.visibility_txn_id)


def read_metadata(fs: FileSystem, root: str, entries: Sequence[FileEntry]) -> dict[str, str]:
    """Return the content of every ``_metadata_acid`` file by its directory."""
    return {
        path.rpartition("/")[0]: fs.read_bytes(f"{root}/{path}", 0, MOST_METADATA).decode("utf-8", "replace")
        for path in metadata_paths(entries)
    }


def adopted_txn_id(table: TableDefinition) -> TxnId:
    """Return the highest visibility transaction id that another engine left when the table was adopted."""
    return TxnId(id_property(table, ADOPTED_TXN))


def id_property(table: TableDefinition, key: TableProperty) -> int:
    """Return the id that a table property holds, 0 without the property. Raises CatalogError if it is not an id."""
    return _id_in(table, key, key.of(table) or "0")


def _id_in(table: TableDefinition, key: TableProperty, text: str) -> int:
    found = parse_number(text) if text.isascii() and text.isdecimal() else None
    if found is None:
        raise CatalogError(
            f"{table.name}: the property {key.name} holds {text[:40]!r}, which is not a transaction id or write id"
        )
    return found


def plain_files(entries: Iterable[FileEntry], table: TableDefinition) -> Iterable[DataFile]:
    """Return the data files of a table that is not transactional: no hidden, special or half-copied files."""
    write_id = WriteId(id_property(table, CONVERSION))
    moving = DeltaName(is_delete=False, min_write_id=write_id, max_write_id=write_id, statement_id=0).format()
    for entry in entries:
        parts = entry.path.split("/")
        hidden = any(is_hidden(part) for part in parts) or parts[-1].endswith(_COPYING)
        if not entry.is_dir and not entry.is_special and not hidden and parts[0] != moving:
            yield DataFile(entry.path, entry.size, modified=entry.modified)

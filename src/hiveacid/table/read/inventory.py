"""Inventory of a table's directories, item by item (``core.snapshot.classify_entries``). Needs no Spark."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hiveacid.core.format.names import BaseName, DeltaName, is_hidden
from hiveacid.core.model import Partition, TableDefinition, TableName
from hiveacid.core.schema.partitions import format_partition, partition_directories
from hiveacid.core.snapshot.classify_entries import (
    DirectoryItem,
    FileItem,
    Inventory,
    InventorySnapshot,
    ItemState,
    take_inventory,
)
from hiveacid.core.snapshot.directory_listing import FileEntry, metadata_paths
from hiveacid.errors import MissingDirectoryError
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore
from hiveacid.storage.snapshot_locations import adopted_txn_id, uncommitted_txn_ids
from hiveacid.storage.staging import staging_txn_id
from hiveacid.table.context import Context, require_table


@dataclass(frozen=True)
class StandaloneAccess:
    """Access to tables without a connection."""

    fs: FileSystem
    store: TransactionStore
    catalog: Catalog

    def find(self, name: str) -> tuple[TableDefinition, tuple[Partition, ...] | None]:
        """Return a table (``db.t``, or one of database default) and its partitions, None if it has no such columns.

        Raises NoSuchTableError, NoSuchDatabaseError.
        """
        full_name = TableName.parse(name)
        table = require_table(self.catalog, full_name)
        return table, self.catalog.list_partitions(full_name) if table.partition_columns else None


TableAccess: TypeAlias = Context | StandaloneAccess
"""Files, store and catalog: enough to inspect tables without Spark."""


@dataclass(frozen=True)
class LocationInventory:
    """The items of a partition (or of a whole table, ``name`` None); ``inventory`` is None if the directory is missing.

    ``metadata``: texts of the ``_metadata_acid`` files of bases without ``_v``, by directory path.
    """

    name: str | None
    root: str
    inventory: Inventory | None
    entries: tuple[FileEntry, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def directories(self) -> tuple[DirectoryItem, ...]:
        """Return the directories, none if the location is missing."""
        return () if self.inventory is None else self.inventory.directories

    @property
    def files(self) -> tuple[FileItem, ...]:
        """Return the files, none if the location is missing."""
        return () if self.inventory is None else self.inventory.files


@dataclass(frozen=True)
class TableInventory:
    """The locations of a table, and the files outside the partitions of a partitioned table (``beside``).

    ``unknown``: directories named like partitions that the catalog does not know (paths below the table).
    """

    table: TableDefinition
    snapshot: InventorySnapshot
    locations: tuple[LocationInventory, ...]
    partitions: tuple[Partition, ...] | None = None
    beside: tuple[FileItem, ...] = ()
    unknown: tuple[str, ...] = ()


def inventory_of(
    access: TableAccess,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    snapshot: InventorySnapshot | None = None,
    *,
    whole: bool = True,
) -> TableInventory:
    """Return the inventory of a table's directories, at the present state of the store or another ``snapshot``.

    ``partitions``: None for an unpartitioned table, else all partitions in the catalog. With ``whole=False`` they are
    only some of these, and the result has nothing outside them. Damaged files and names raise no error. Raises
    StorageError if the file system fails.
    """
    snapshot = snapshot or current_snapshot(access, table)
    listed = _list_tree_or_none(access.fs, table.location) if whole or partitions is None else None
    if partitions is None:
        return TableInventory(
            table, snapshot, (_location_inventory(access, table, snapshot, None, table.location, listed),)
        )
    tops = _TableListing(table.location, listed or ())
    places = []
    for partition in partitions:
        name = format_partition(table.partition_column_names, partition.values)
        entries = tops.below(partition.location)
        if entries is None:
            entries = _list_tree_or_none(access.fs, partition.location)
        places.append(
            _location_inventory(
                access, table, snapshot, name, partition.location, entries, partition.min_write_id
            )
        )
    locations = {partition.location.rstrip("/") for partition in partitions}
    base = table.location.rstrip("/")
    directories = (entry.path for entry in listed or () if entry.is_dir)
    named = partition_directories(table.partition_column_names, directories)
    unknown = tuple(path for path, _ in named if f"{base}/{path}" not in locations)
    beside = tuple(_beside(table, listed or (), locations, frozenset(unknown)))
    return TableInventory(table, snapshot, tuple(places), tuple(partitions), beside, unknown)


def current_snapshot(access: TableAccess, table: TableDefinition) -> InventorySnapshot:
    """Return the snapshot that a reader would take now."""
    txns = access.store.valid_txns()
    write_ids = access.store.valid_write_ids(txns, [table.name])[table.name]
    return InventorySnapshot(write_ids, txns, adopted_txn_id(table), uncommitted_txn_ids(table))


def _list_tree_or_none(fs: FileSystem, root: str) -> tuple[FileEntry, ...] | None:
    try:
        return fs.list_tree(root)
    except MissingDirectoryError:
        return None


def _location_inventory(
    access: TableAccess,
    table: TableDefinition,
    snapshot: InventorySnapshot,
    name: str | None,
    root: str,
    entries: tuple[FileEntry, ...] | None,
    min_write_id: int = 0,
) -> LocationInventory:
    if entries is None:
        return LocationInventory(name, root, None)
    metadata = {
        path.rpartition("/")[0]: access.fs.read_bytes(f"{root}/{path}").decode("utf-8", "replace")
        for path in metadata_paths(entries)
    }
    return LocationInventory(
        name,
        root,
        take_inventory(entries, snapshot, metadata, table.kind, staging_txn_id, min_write_id),
        entries,
        metadata,
    )


class _TableListing:
    """The listing of a table, from which the listings of its directories are cut."""

    def __init__(self, location: str, entries: Sequence[FileEntry]) -> None:
        self._location = location.rstrip("/") + "/"
        self._entries = entries  # sorted by path
        self._folders = {entry.path for entry in entries if entry.is_dir}

    def below(self, root: str) -> tuple[FileEntry, ...] | None:
        """Return the listing of a directory below the table; None for one outside it or a missing one."""
        path = root.removeprefix(self._location).rstrip("/")
        if not root.startswith(self._location) or path not in self._folders:
            return None
        return tuple(self._cut(path + "/"))

    def _cut(self, prefix: str) -> Iterator[FileEntry]:
        first = bisect_left(self._entries, prefix, key=lambda entry: entry.path)
        for entry in self._entries[first:]:
            if not entry.path.startswith(prefix):
                return
            yield entry._replace(path=entry.path.removeprefix(prefix))


def _beside(
    table: TableDefinition, entries: Sequence[FileEntry], locations: Collection[str], unknown: Collection[str]
) -> Iterator[FileItem]:
    """Yield the files that lie in no known partition."""
    base = table.location.rstrip("/")
    roots = {path.removeprefix(f"{base}/") for path in locations if path.startswith(f"{base}/")}
    for entry in entries:
        parts = entry.path.split("/")
        folders = ["/".join(parts[:n]) for n in range(1, len(parts))]
        if entry.is_dir or any(folder in roots for folder in folders):
            continue
        top = entry.path.partition("/")[0]
        txn_id = staging_txn_id(top)
        stray = next((folder for folder in folders if folder in unknown), None)
        if txn_id is not None:
            state, reason = ItemState.STAGING, f"files of a statement of transaction {txn_id}, not published"
        elif any(map(is_hidden, entry.path.removeprefix(f"{stray}/").split("/"))):
            state, reason = ItemState.HIDDEN, "hidden: no reader looks at it"
        elif stray is not None:
            state, reason = ItemState.FOREIGN, f"the catalog knows no partition {stray}"
        else:
            state, reason = ItemState.FOREIGN, "lies in no partition: no reader looks at it"
        yield FileItem(entry.path, top if "/" in entry.path else "", "other", entry.size, state, reason)


FILES = (
    "partition string, directory string, file string, kind string, bytes bigint, state string, reason string"
)
"""Columns of `file_rows`, as Spark writes a schema."""
DELTAS = (
    "partition string, directory string, kind string, min_write_id bigint, max_write_id bigint, statement_id int, "
    "visibility_txn_id bigint, state string, reason string, files int, bytes bigint"
)
"""Columns of `delta_rows`."""
Row: TypeAlias = tuple[str | int | None, ...]


def file_rows(inventory: TableInventory) -> Iterator[Row]:
    """Yield a row for every file of every location (`FILES`); the path is absolute."""
    for location in inventory.locations:
        for file in location.files:
            yield _file_row(location.name, location.root, file)
    for file in inventory.beside:
        yield _file_row(None, inventory.table.location, file)


def _file_row(name: str | None, root: str, file: FileItem) -> Row:
    return name, file.directory, f"{root}/{file.path}", file.kind, file.bytes, file.state.value, file.reason


def delta_rows(inventory: TableInventory) -> Iterator[Row]:
    """Yield a row for every directory of every location (`DELTAS`); the root's own files are the directory ''."""
    for location in inventory.locations:
        if location.inventory is None:
            yield (
                location.name,
                "",
                "other",
                *[None] * 4,
                "missing",
                f"no such directory: {location.root}",
                0,
                0,
            )
        for directory in location.directories:
            yield (
                location.name,
                directory.path,
                directory.kind,
                *_numbers(directory.name),
                directory.state.value,
                directory.reason,
                directory.files,
                directory.bytes,
            )
    beside: dict[str, list[FileItem]] = {}
    for file in inventory.beside:
        beside.setdefault(file.directory, []).append(file)
    for path, files in sorted(beside.items()):
        size = sum(file.bytes for file in files)
        yield None, path, "other", *[None] * 4, files[0].state.value, files[0].reason, len(files), size


def _numbers(name: BaseName | DeltaName | None) -> tuple[int | None, int | None, int | None, int | None]:
    if isinstance(name, BaseName):
        return None, int(name.write_id), None, int(name.visibility_txn_id) or None
    if isinstance(name, DeltaName):
        ids = int(name.min_write_id), int(name.max_write_id)
        return *ids, name.statement_id, int(name.visibility_txn_id) or None
    return None, None, None, None

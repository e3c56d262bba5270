"""Relocation of a warehouse that was copied or moved, and a consistent copy of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hiveacid import errors
from hiveacid.catalog.opening import begin_session, open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.core.format.names import (
    FLUSH_LENGTH_SUFFIX,
    METADATA_FILE,
    BaseName,
    layout_name,
    may_be_compacted,
)
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.schema.location_overlap import STORE_DIRECTORY, STORE_FILE, Place, lies_in
from hiveacid.core.snapshot.directory_listing import is_own_staging
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import current_write_ids_of
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import absolute, is_local, real_path, real_paths
from hiveacid.stores.hms.metastores import is_metastore
from hiveacid.table.cleaning.remove_files import lock_of_cleaners
from hiveacid.table.context import table_names
from hiveacid.transactions.transaction import Transaction

if TYPE_CHECKING:
    from hiveacid.stores.sql.store import Relocation


def relocate(warehouse: str | None, store: str | None, clock: Clock, *, keep_outside: bool) -> Relocation:
    """Make a copied or moved warehouse with a store that is a file independent of the original (`stores.sql.store.relocate`).

    Raises UnsupportedFeatureError for a server, which keeps absolute locations and has no place.
    """
    from hiveacid.stores.sql.dialects.sqlite import file_of, sqlite_url  # noqa: PLC0415 - imports SQLAlchemy
    from hiveacid.stores.sql.store import SqlStore  # noqa: PLC0415

    require_existing_warehouse(warehouse, store)
    if is_metastore(store) or (store is not None and file_of(store) is None):
        raise errors.UnsupportedFeatureError(
            "only a store that is a file has a place: one on a server keeps absolute locations. Tables whose files were moved are "
            "dropped as external ones, and adopted at their new place"
        )
    root = absolute(warehouse or ".")
    url = store or sqlite_url(Path(root, STORE_DIRECTORY, STORE_FILE))
    with closing(SqlStore(url, clock=clock, real_paths=real_paths, relocated=True)) as opened:
        return opened.relocate(tuple(_links_out_of(root)) if store is None else (), keep_outside=keep_outside)


def _links_out_of(root: str) -> Iterator[Place]:
    inside = real_path(root)
    for folder, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(folder, name)
            if path.is_symlink() and not lies_in(os.path.realpath(path), inside):
                yield Place(str(path), "symbolic link")


@dataclass(frozen=True)
class BackUp:
    """A copy of a warehouse; ``outside``: locations whose files were not copied."""

    target: str
    files: int
    size: int
    outside: tuple[Place, ...]


def back_up(warehouse: str, target: str, clock: Clock) -> BackUp:
    """Copy a warehouse with its SQLite store as of one moment; other clients may go on writing.

    A transaction holds the cleaners back, also from files that no reader of the present needs: the copied store takes
    states of the past for complete. Its locks make DROP of the tables, and INSERT OVERWRITE of plain ones, wait. The
    store is copied first, then the files of the write ids that the copy knows. The copy's
    transactions that were open are aborted in it. It opens after `relocate`. Raises ConfigError for an impossible target,
    StorageError if a file that the copy needs is missing or cannot be copied, or a compaction at layout level hive3 came between.
    """
    require_existing_warehouse(warehouse, None)
    place = Path(absolute(target))
    if not is_local(target) or lies_in(real_path(str(place)), real_path(absolute(warehouse))):
        raise errors.ConfigError(
            f"the copy cannot be at {target}: give a new local directory outside the warehouse"
        )
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise errors.ConfigError(f"{place} is not an empty directory: give a new directory for the copy")
    store, root = open_store(warehouse, None, Settings(), clock)
    with closing(store):
        settings, transactions = begin_session(store, {}, clock, "hiveacid backup")
        with closing(transactions.heartbeats), transactions.scope(settings) as txn:
            _lock_all(store, txn)
            try:
                return _copy(store, root, place, clock, txn)
            except OSError as error:
                raise errors.StorageError(f"the copy to {place} could not be completed: {error}") from error


def _lock_all(store: WarehouseStore, txn: Transaction) -> None:
    """Lock all tables, also those that are created meanwhile."""
    locked: set[TableName] = set()
    while new := set(table_names(store)) - locked:
        components = []
        for name in sorted(new):
            table = store.get_table(name)
            is_plain = table is not None and table.kind is TableKind.PLAIN
            kind = LockType.SHARED_WRITE if is_plain else LockType.SHARED_READ
            components.append(LockComponent(kind, name.database, name.name))
            components.append(lock_of_cleaners(name, LockType.SHARED_READ))
        txn.lock(components)
        locked |= new


def _copy(store: WarehouseStore, root: str, place: Path, clock: Clock, txn: Transaction) -> BackUp:
    from hiveacid.stores.sql.dialects.sqlite import copy_database, protect_directory, sqlite_url  # noqa: PLC0415
    from hiveacid.stores.sql.store import SqlStore  # noqa: PLC0415

    directory = place / STORE_DIRECTORY
    directory.mkdir(parents=True)
    protect_directory(directory, is_new=True)
    copied_store = directory / STORE_FILE
    compacted = frozenset(_possibly_compacted(root))
    copy_database(Path(root, STORE_DIRECTORY, STORE_FILE), copied_store)
    places = store.places()
    inside = {one.location: one.table for one in places if one.table is not None}
    with closing(SqlStore(sqlite_url(copied_store), clock=clock, relocated=True)) as copied:
        snapshot = copied.valid_txns()
        copied.abort_txns(snapshot.open, "the warehouse was copied while it was open")
        kinds = {name: copied.get_table(name) for name in table_names(copied)}
        lists = {
            name: current_write_ids_of(copied, name)
            for name, table in kinds.items()
            if table is not None and table.kind is not TableKind.PLAIN
        }
    copying = _Copying(lists, inside, int(snapshot.high_watermark), compacted)
    copying.directory(Path(root), place, None)
    txn.require_open_in_store()  # otherwise the cleaner may have deleted files meanwhile
    if copying.missing:
        raise errors.StorageError(
            f"files vanished while they were copied ({errors.first_few(copying.missing)}): remove {place} and run the command again"
        )
    if copying.merged:
        raise errors.StorageError(
            f"compactions ran while files were copied ({errors.first_few(copying.merged)}), and may hold rows that are not of the "
            f"copy: remove {place} and run the command again"
        )
    resolve = real_paths()
    outside = tuple(one for one in places if not lies_in(resolve(one.location), resolve(root)))
    return BackUp(str(place), copying.files, copying.size, outside)


@dataclass
class _Copying:
    """Copies a tree. ``lists``: the copied store's write ids; ``tables``: the tables at locations.

    ``compacted``: what `_possibly_compacted` found before the store was copied; later ones go to ``merged``.
    """

    lists: Mapping[TableName, ValidWriteIdList]
    tables: Mapping[str, TableName | None]
    highest_txn: int
    compacted: frozenset[str]
    files: int = 0
    size: int = 0
    missing: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    def directory(self, source: Path, target: Path, ids: ValidWriteIdList | None) -> None:
        """Copy a directory; ``ids``: of the table that it belongs to.

        Symbolic links become what they name. Links to nothing and upwards are left out, as by readers, and pipes and sockets.
        """
        table = self.tables.get(str(source))
        ids = self.lists.get(table) if table is not None else ids
        try:
            found = LocalFileSystem().list_directory(str(source))
        except errors.MissingDirectoryError:
            self._note_missing(source, ids)
            return
        target.mkdir(exist_ok=True)
        # the length of a growing file of a stream of Hive before the file, which may then be longer, but never shorter
        for entry in sorted(found, key=lambda one: (not one.path.endswith(FLUSH_LENGTH_SUFFIX), one.path)):
            path = source / entry.path
            if path.name == STORE_DIRECTORY or is_own_staging(path.name) or self._is_later(path.name, ids):
                continue
            if entry.is_special:
                continue
            if entry.is_dir:
                self._note_merged(path, ids)
                self.directory(path, target / path.name, ids)
            else:
                self._file(path, target / path.name, ids)

    def _is_later(self, name: str, ids: ValidWriteIdList | None) -> bool:
        """Tell whether a directory was written after the store was copied: the copy will give out its ids again."""
        parsed = None if ids is None else layout_name(name)
        return (
            ids is not None
            and parsed is not None
            and (parsed.span[0] > ids.high_watermark or parsed.visibility_txn_id > self.highest_txn)
        )

    def _note_merged(self, path: Path, ids: ValidWriteIdList | None) -> None:
        """Note a directory without ``_v`` that a compaction made after the store was copied.

        It may hold rows of transactions that are open or aborted in the copy, and no name tells so. A base whose own write id
        is not committed in the copy is read only if it is compacted, which its metadata file tells; a delta without a
        committed id is not read.
        """
        parsed = None if ids is None else layout_name(path.name)
        if ids is None or parsed is None or not may_be_compacted(parsed) or str(path) in self.compacted:
            return
        is_read = ids.count_valid(*parsed.span) > 0
        if is_read or (isinstance(parsed, BaseName) and (path / METADATA_FILE).exists()):
            self.merged.append(str(path))

    def _file(self, source: Path, target: Path, ids: ValidWriteIdList | None) -> None:
        try:
            expected = source.stat().st_size
            shutil.copy2(source, target)
            copied = target.stat().st_size
        except FileNotFoundError:
            self._note_missing(source, ids)
            return
        if copied < expected:
            self.missing.append(str(source))
        self.files += 1
        self.size += copied

    def _note_missing(self, path: Path, ids: ValidWriteIdList | None) -> None:
        """Note a file or directory that vanished, unless its write ids are not committed: aborts delete theirs at any time."""
        parsed = layout_name(path.name) or layout_name(path.parent.name)
        if ids is None or parsed is None or ids.count_valid(*parsed.span):
            self.missing.append(str(path))


def _possibly_compacted(root: str) -> Iterator[str]:
    """Return the directories below a warehouse that a compaction at layout level hive3 may have made."""
    with suppress(errors.MissingDirectoryError):
        for entry in LocalFileSystem().list_directory(root):
            path, parsed = f"{root}/{entry.path}", layout_name(entry.path)
            if entry.is_dir and parsed is None:
                yield from _possibly_compacted(path)
            elif entry.is_dir and parsed is not None and may_be_compacted(parsed):
                yield path

"""Delete the files of a dropped or emptied table or partition, and no foreign files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from hiveacid.core.display import first_few
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName
from hiveacid.core.schema.location_overlap import lies_in, overlap
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.directory_listing import (
    FileEntry,
    OwnedEntries,
    ancestors,
    is_own_staging,
    split_by_owner,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import MissingDirectoryError, TransactionAbortedError
from hiveacid.storage.paths import is_local, real_path, real_paths
from hiveacid.table.context import Context, WriterContext
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)
_ROOT = FileEntry("", is_dir=True)
_ATTEMPTS = 3


def first_foreign_entry(context: Context, location: str) -> str | None:
    """Return the first entry of a directory, hidden or not, that hiveacid did not stage; None if there is none."""
    if not context.fs.exists(location):
        return None
    entries = context.fs.list_directory(location)
    return next((entry.path for entry in entries if entry.is_special or not is_own_staging(entry.path)), None)


def locations_to_remove(table: TableDefinition, partitions: Sequence[Partition]) -> tuple[str, ...]:
    """Return the locations that `remove_table` cleans: those of partitions outside the table, and the table's."""
    locations_outside = [
        partition.location
        for partition in partitions
        if partition.location
        != f"{table.location}/{format_partition(table.partition_column_names, partition.values)}"
    ]
    return (*locations_outside, table.location)


@contextmanager
def lock_against_drop(
    context: WriterContext, name: TableName, *more: LockComponent
) -> Iterator[Transaction | None]:
    """Hold a SHARED_READ on a name, for which DROP and CREATE wait, and ``more`` locks, in a transaction of its own.

    Yields the transaction; None if another client holds such a lock.
    """
    with context.transactions.scope(context.settings) as txn:
        lock = LockComponent(LockType.SHARED_READ, name.database, name.name)
        answer = txn.store.lock(txn.txn_id, [lock, *more], zero_wait=True)
        yield txn if answer.state is LockState.ACQUIRED else None


def remove_aborted(context: WriterContext, table: TableDefinition, directories: Iterable[str]) -> None:
    """Delete directories that an aborted transaction made in a table; no reader sees them, but they take space.

    If the table was dropped and created again since, nothing is deleted. Write ids of the new table begin at 1 again, so its
    directories may have the same names. The same holds for another table at the location, if the table is not, or no
    longer, in the catalog. What cannot be locked is left to the cleaner.
    """
    directories = sorted(directories)
    if not directories:
        return
    with lock_against_drop(context, table.name) as held:
        now = context.catalog.get_table(table.name)
        if now is None:  # of a CREATE TABLE AS SELECT, or dropped
            directories = without_owner(context, directories)
        elif held is None or not table.is_same_table(now):
            return
        for directory in directories:
            delete_directory(context, directory, held)


def delete_directory(context: WriterContext, directory: str, held: Transaction | None) -> None:
    """Delete a directory as it is now, if ``held`` still holds its lock in the store. Raises TransactionAbortedError."""
    with suppress(MissingDirectoryError):
        entries = context.fs.list_tree(directory)  # before the store is asked
        if held is not None:
            held.require_open_in_store()
        context.fs.delete_listed(directory, (_ROOT, *entries))


def without_owner(context: WriterContext, paths: Iterable[str]) -> list[str]:
    """Return the paths that overlap the location of no table or partition in the catalog."""
    resolve = real_paths()
    taken = [resolve(place.location) for place in context.catalog.places() if place.table is not None]
    return [path for path in paths if not any(overlap(real_path(path), location) for location in taken)]


def require_listable(context: WriterContext, locations: Iterable[str]) -> None:
    """Raise StorageError for a location that cannot be listed, such as one with a symbolic link to itself.

    DROP checks this before it changes the catalog. The table or partition stays in the catalog until its files can be
    listed.
    """
    for location in locations:
        if not _is_link(location):
            with suppress(MissingDirectoryError):
                context.fs.list_tree(location)


def remove_table(
    context: Context, table: TableDefinition, partitions: Sequence[Partition], held: Transaction | None = None
) -> None:
    """Delete the files of a table and its partitions, but no foreign ones; arguments as in `remove_location`."""
    *locations_outside, _ = locations_to_remove(table, partitions)
    for location in locations_outside:
        remove_location(context, location, table.kind, held=held)
    columns = table.partition_column_names
    remove_location(context, table.location, table.kind, columns, held)


def remove_location(
    context: Context,
    location: str,
    kind: TableKind,
    partition_columns: Sequence[str] = (),
    held: Transaction | None = None,
) -> None:
    """Delete the entries of a location that a table owns (``core.snapshot.directory_listing``).

    Deletes the directory, too, unless foreign entries remain, which are logged as a warning. If the location is a
    symbolic link, only the link is deleted. ``held``: the transaction that holds the lock of a DROP. Once it has timed
    out, nothing is deleted: another client may have created the table or partition again. Without one, nothing is deleted
    if the location has an owner in the catalog. For the same reason only files that were listed under the lock are deleted (`ports.FileSystem.delete_listed`). Raises StorageError.
    """
    if _is_link(location):
        if _may_delete(context, held, location):
            folder, _, name = location.rstrip("/").rpartition("/")
            context.fs.delete_listed(folder or "/", (FileEntry(name, is_dir=True),))
        return
    division = OwnedEntries((), ())
    for _ in range(_ATTEMPTS):  # a writer that the lock has thrown out may just have added a file
        try:
            entries = context.fs.list_tree(location)
        except MissingDirectoryError:
            return
        division = split_by_owner(entries, kind, partition_columns)
        if not _may_delete(context, held, location):
            return
        if division.foreign:
            remove_entries(context, location, division.owned, entries)
            break
        if not context.fs.delete_listed(location, (_ROOT, *entries)):
            return
    logger.warning(
        "kept %s: it holds files that do not belong to the table (%s); remove them yourself if nobody needs them",
        location,
        first_few(division.foreign),
    )


def _may_delete(context: Context, held: Transaction | None, location: str) -> bool:
    """Tell whether the lock of a DROP still holds, or else nobody owns the location; otherwise log that it is left."""
    if held is None:
        return bool(without_owner(context, [location]))
    try:
        held.require_open_in_store()
    except TransactionAbortedError:
        logger.warning(
            "kept %s: the lock of the DROP expired after the catalog was changed (hive.txn.timeout, or ABORT "
            "TRANSACTIONS), and another table or partition may use the directory; remove it yourself if none does",
            location,
        )
        return False
    return True


def delete_plain_files(context: WriterContext, locations: Iterable[str], check: Callable[[], object]) -> None:
    """Delete the rows of plain tables or partitions; hidden entries stay.

    ``check``: raises if the transaction is not open any more. It is called between the listing and the deletion of each.
    """
    for location in locations:
        try:
            entries = context.fs.list_tree(location)
        except MissingDirectoryError:
            continue
        owned = split_by_owner(entries, TableKind.PLAIN).owned
        check()
        remove_entries(
            context, location, [path for path in owned if not path.startswith((".", "_"))], entries
        )


def remove_entries(
    context: WriterContext, location: str, paths: Iterable[str], entries: Iterable[FileEntry]
) -> list[str]:
    """Delete entries of a location, except those behind a symbolic link; return the absolute paths of the deleted.

    ``entries``: the listing by which ``paths`` were chosen; only what it holds is deleted.
    """
    root = real_path(location)
    chosen = {path for path in paths if real_path(_parent(f"{location}/{path}")) == _parent(f"{root}/{path}")}
    below: dict[str, list[FileEntry]] = {path: [] for path in sorted(chosen)}
    for entry in entries:
        top = next((path for path in (entry.path, *ancestors(entry.path)) if path in chosen), None)
        if top is not None:
            below[top].append(entry)
    if not below:
        return []
    kept = context.fs.delete_listed(location, [entry for listed in below.values() for entry in listed])
    return [f"{location}/{path}" for path in below if not any(lies_in(entry, path) for entry in kept)]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_link(location: str) -> bool:
    """Tell whether the last component of a local path is a symbolic link."""
    folder, _, name = location.rstrip("/").rpartition("/")
    return is_local(location) and real_path(location) != f"{real_path(folder or '/').rstrip('/')}/{name}"

"""Home of a store that is a file: the place it was made for, so that a copy does not work on the original's files."""

from __future__ import annotations

import json
import os
import posixpath
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Table, delete, insert, select, update

from hiveacid.core.display import first_few
from hiveacid.core.schema.location_overlap import STORE_DIRECTORY, STORE_FILE, Place, lies_in
from hiveacid.errors import CatalogError, ConfigError, MisplacedStoreError
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.schema import databases, home, partitions, placed_partitions, tables
from hiveacid.stores.sql.stored_definitions import all_places


@dataclass(frozen=True)
class Home:
    """The identity of a store: a random id, and the real path of its file when it was made or relocated."""

    id: str
    file: str

    @property
    def place(self) -> str:
        """Return the warehouse that the store lies in; for a store elsewhere, its file."""
        return place_of(self.file)


def place_of(file: str) -> str:
    """Return the warehouse of a store's file, or the file itself if it does not lie in one."""
    return warehouse_of(file) or file


def warehouse_of(file: str) -> str | None:
    """Return the warehouse that holds a store's file, ``WAREHOUSE/.hiveacid/store.db``; None for another file."""
    path = Path(file)
    return str(path.parent.parent) if (path.parent.name, path.name) == (STORE_DIRECTORY, STORE_FILE) else None


def read_home(connection: Connection) -> Home | None:
    """Return the recorded home; None before it is recorded."""
    row = connection.execute(select(home.c.id, home.c.location)).first()
    return None if row is None else Home(row.id, row.location)


def record_home(connection: Connection, file: str) -> Home:
    """Record a new home with a new id."""
    new = Home(uuid.uuid4().hex, os.path.realpath(file))
    connection.execute(delete(home))
    connection.execute(insert(home), {"id": new.id, "location": new.file})
    return new


def require_home(database: Database, file: str) -> None:
    """Raise MisplacedStoreError for a store that was copied or moved here; record the place of a new one."""
    recorded = database.read(read_home)
    if recorded is None:
        recorded = database.write(
            lambda connection: read_home(connection) or record_home(connection, file), repeatable=True
        )
    if not is_same_place(recorded.file, file):
        option = f"-w {place_of(file)}" if warehouse_of(file) else f"--store sqlite:///{file}"
        raise MisplacedStoreError(
            f"the store of {place_of(file)} was made for {recorded.place}: the directory was copied or moved, and both would work "
            f"on the same files. Run hiveacid relocate {option}, which makes this one independent, or open {recorded.place}"
        )


def is_same_place(recorded: str, file: str) -> bool:
    """Tell whether two paths name one file in one directory, by whatever links, mounts and spellings.

    The directories are compared, because a copy made of hard links has the same files.
    """
    if os.path.realpath(recorded) == os.path.realpath(file):
        return True
    one, other = Path(recorded), Path(file)
    try:
        return one.name == other.name and one.parent.samefile(other.parent)
    except OSError:  # there is nothing at the recorded place
        return False


@dataclass(frozen=True)
class Relocation:
    """Result of `relocate`: the store's old and new place.

    ``outside``: locations that the original, if it still exists, uses too.
    """

    old: str
    new: str
    outside: tuple[Place, ...]


def relocate(database: Database, file: str, links: Sequence[Place], *, keep_outside: bool) -> Relocation:
    """Make a store that was copied or moved independent: a new id and place; locations below the old place move along.

    ``links``: symbolic links inside the warehouse that lead out of it. Raises ConfigError for a store at its own place, and,
    unless ``keep_outside``, CatalogError for locations outside, which the original, where it still exists, uses, too.
    """
    return database.write(
        lambda connection: _relocate(database, connection, file, links, keep_outside=keep_outside)
    )


def _relocate(
    database: Database, connection: Connection, file: str, links: Sequence[Place], *, keep_outside: bool
) -> Relocation:
    old = read_home(connection)
    if old is None or is_same_place(old.file, file):
        raise ConfigError(f"the store of {place_of(file)} is at its place: there is nothing to relocate")
    old_root = warehouse_of(old.file)
    if old_root is not None and database.locations.root is not None:
        for table in (databases, tables, partitions, placed_partitions):
            _rebase(connection, table, old_root)
    resolve = database.locations.real_paths()
    root = resolve(database.locations.root or f"{file}/")
    places = (*all_places(connection, database.locations), *links)
    outside = tuple(place for place in places if not lies_in(resolve(place.location), root))
    if outside and not keep_outside:
        shown = first_few([f"{place.owner} {place.location}" for place in outside])
        raise CatalogError(
            f"{place_of(file)} has locations outside: {shown}. If {old.place} still exists, here or on another machine, "
            "both would write and delete the same files: make a copy without those tables, or drop them there. If it does not, or if "
            "they are only read: hiveacid relocate --keep-outside"
        )
    record_home(connection, file)
    return Relocation(old.place, place_of(file), outside)


def _rebase(connection: Connection, table: Table, old_root: str) -> None:
    """Make absolute locations below the old warehouse relative, in definitions and beside them."""
    for row in connection.execute(select(table)).all():
        changed = {}
        if "definition" in row._fields:
            fields = json.loads(row.definition)
            if lies_in(fields["location"], old_root):
                fields["location"] = posixpath.relpath(fields["location"], old_root)
                changed["definition"] = json.dumps(fields, separators=(",", ":"))
        if "location" in row._fields and row.location and lies_in(row.location, old_root):
            changed["location"] = posixpath.relpath(row.location, old_root)
        if changed:
            key = [column == getattr(row, column.name) for column in table.primary_key]
            connection.execute(update(table).where(*key).values(changed))

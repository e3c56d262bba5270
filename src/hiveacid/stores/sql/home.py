"""Home of a store that is a file: the place it was made for, so that a copy does not work on the original's files."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from hiveacid.core.schema.location_overlap import STORE_DIRECTORY
from hiveacid.errors import MisplacedStoreError
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.schema import home

STORE_FILE = "store.db"


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

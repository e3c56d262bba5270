"""SQLite file of a warehouse: its URL, and detection of stores that earlier versions put elsewhere."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from hiveacid.errors import MisplacedStoreError


def sqlite_url(file: Path) -> URL:
    """Return the URL of a SQLite store; no character of the path is interpreted.

    Example: ``SqlStore(sqlite_url(Path("/data/a?x/.hiveacid/store.db")))``
    """
    return URL.create("sqlite", database=str(file))


def require_well_placed(file: Path) -> None:
    """Refuse to create a new store if an earlier version keeps the warehouse's data in another file.

    ``file``: ``WAREHOUSE/.hiveacid/store.db``. Versions before 0.1.0 pasted it into a URL: what follows a ``?`` was
    cut off, and ``%41`` became ``A``. The file found that way is this warehouse's if ``.hiveacid``, which those
    versions made first, exists without a store, or if a location in the file lies in the warehouse.
    Raises MisplacedStoreError.
    """
    old = _former_place(file)
    if old is None or file.exists() or not old.is_file():
        return
    locations = _locations(old)
    warehouse = file.parent.parent
    if locations is None or not (
        file.parent.is_dir() or any(Path(one).is_relative_to(warehouse) for one in locations)
    ):
        return
    raise MisplacedStoreError(
        f"the store of the warehouse {warehouse} may be in {old}: earlier versions misread the characters ? and % of "
        f"its path. If it is, stop all clients and copy it to {file} with sqlite3's .backup; other warehouses whose "
        f"paths were misread as the same one need a copy of their own. If it is not, and no file in {file.parent} is "
        "needed, remove that directory"
    )


def _former_place(file: Path) -> Path | None:
    """Return the file that earlier versions opened instead; None if it is the same file, or if they failed to open one."""
    with suppress(ArgumentError, ValueError):
        database = make_url(f"sqlite:///{file}").database
        if database and Path(database) != file:
            return Path(database)
    return None


def _locations(file: Path) -> list[str] | None:
    """Return the locations of databases and tables in a store; None if the file is no store."""
    query = "SELECT definition FROM hiveacid_databases UNION ALL SELECT definition FROM hiveacid_tables"
    try:
        with closing(sqlite3.connect(file)) as connection:
            return [str(json.loads(text)["location"]) for (text,) in connection.execute(query)]
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):
        return None

"""SQLite file of a warehouse: its URL, its mode, and detection of stores that earlier versions put elsewhere.

The files hold SQL texts, and with them values of tables. Only the owner may read them. An administrator may share the
directory with a group by making it group-writable (``chmod 2770``); then the group's members may read them, too. Only
modes of files that belong to this process's user are changed, and bits are only removed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from hiveacid.errors import MisplacedStoreError

_FILES = ("", "-wal", "-shm", "-journal")
_OTHERS, _GROUP_AND_OTHERS = 0o007, 0o077


def protect_directory(directory: Path, *, is_new: bool) -> None:
    """Give a directory mode 0700; an existing group-writable directory stays accessible to its group."""
    _restrict(directory, stat.S_ISDIR, shared=not is_new)


def protect_file(file: Path) -> None:
    """Create the file of an SQLite database if it is missing; give it and its side files mode 0600 (or 0660).

    SQLite creates the side files with the mode of the database file. The caller gets errors when it opens the file.
    """
    with suppress(OSError):
        mode = 0o660 if _is_shared(file.parent) else 0o600
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        try:
            os.fchmod(descriptor, mode)  # whatever the umask is
        finally:
            os.close(descriptor)
    for suffix in _FILES:
        _restrict(file.with_name(file.name + suffix), stat.S_ISREG, shared=True)


def _is_shared(directory: Path) -> bool:
    """Tell whether a directory is shared by a group: group-writable, but not writable for all users as ``/tmp`` is."""
    return directory.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP


def _restrict(path: Path, is_kind: Callable[[int], bool], *, shared: bool) -> None:
    with suppress(OSError):
        status = path.lstat()
        if status.st_uid != os.geteuid() or not is_kind(status.st_mode):
            return
        is_group_s = shared and status.st_mode & stat.S_IWGRP
        mode = stat.S_IMODE(status.st_mode)
        restricted_mode = mode & ~(_OTHERS if is_group_s else _GROUP_AND_OTHERS)
        if restricted_mode != mode:
            path.chmod(restricted_mode)


def sqlite_url(file: Path) -> URL:
    """Return the URL of a SQLite store; no character of the path is interpreted.

    Example: ``SqlStore(sqlite_url(Path("/data/a?x/.hiveacid/store.db")))``
    """
    return URL.create("sqlite", database=str(file))


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database as of one moment, also while others write to it."""
    protect_file(target)
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def file_of(store: str) -> Path | None:
    """Return the file of an SQLite store; None for other databases, and for a URL that opening it will refuse."""
    try:
        url = make_url(store)
    except ArgumentError:
        return None
    has_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if has_file else None


def require_well_placed(file: Path) -> None:
    """Refuse to create a new store if an earlier version keeps the warehouse's data in another file.

    ``file``: ``WAREHOUSE/.hiveacid/store.db``. Versions before 0.1.0 pasted it into a URL: what follows a ``?`` was
    cut off, and ``%41`` became ``A``. The file found that way is this warehouse's if ``.hiveacid``, which those
    versions made first, exists without a store, or if a location in the file lies in the warehouse.
    Raises MisplacedStoreError.
    """
    former_place = _former_place(file)
    if former_place is None or file.exists() or not former_place.is_file():
        return
    locations = _locations(former_place)
    warehouse = file.parent.parent
    if locations is None or not (
        file.parent.is_dir() or any(Path(location).is_relative_to(warehouse) for location in locations)
    ):
        return
    raise MisplacedStoreError(
        f"the store of the warehouse {warehouse} may be in {former_place}: earlier versions misread the characters ? and % of "
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
    """Return the locations of databases and tables in a store; None if the file is not a store."""
    query = "SELECT definition FROM hiveacid_databases UNION ALL SELECT definition FROM hiveacid_tables"
    try:
        with closing(sqlite3.connect(file)) as connection:
            return [str(json.loads(text)["location"]) for (text,) in connection.execute(query)]
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):
        return None

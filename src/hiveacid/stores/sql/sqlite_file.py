"""SQLite file of a warehouse: its URL, its mode, its copy.

The files hold SQL texts, and with them values of tables. Only the owner may read them. An administrator may share the
directory with a group by making it group-writable (``chmod 2770``); then the group's members may read them, too. Only
modes of files that belong to this process's user are changed, and bits are only removed.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

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

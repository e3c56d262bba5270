"""SQLite, through the standard library, and the file of a warehouse: its URL, its mode, its copy.

The files hold SQL texts, and with them values of tables. Only the owner may read them. An administrator may share the
directory with a group by making it group-writable (``chmod 2770``); then the group's members may read them, too. Only
modes of files that belong to this process's user are changed, and bits are only removed.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler

from hiveacid.errors import ConfigError, StoreUnavailableError
from hiveacid.stores.sql.dialects.dialect import Dialect, Durability, ErrorKind, database_now

_NOW = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


@compiles(database_now, "sqlite")
def _now(_element: database_now, _compiler: SQLCompiler, **_kw: object) -> str:
    return _NOW


class SqliteDialect(Dialect):
    """SQLite in WAL mode: one writer at a time over all processes; readers and writers do not block each other."""

    ids_may_gap = False
    server_time = False
    ddl_terms = {  # noqa: RUF012 - a constant
        **Dialect.ddl_terms,
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "key": "TEXT",
        "name": "TEXT",
        "text": "TEXT",
    }

    def engine(self, url: URL) -> Engine:
        """Make the engine. Raises ConfigError for a URL without a file.

        A new file and its new directory are accessible to the owner only.
        """
        if not url.database or url.database == ":memory:":
            raise ConfigError("an SQLite store needs a file: sqlite:///path/to/store.db")
        file = Path(url.database)
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            msg = f"the directory of the transaction store {url.database} cannot be made: {error}"
            raise StoreUnavailableError(msg) from error
        protect_file(file)
        engine = create_engine(url, isolation_level="AUTOCOMMIT", hide_parameters=True)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "checkout", _require_same_file)
        return engine

    def limit_waits(self, connection: Connection, seconds: float) -> None:  # noqa: ARG002 - no server that is slow
        """Limit the wait for the lock of another client to :attr:`silence`."""
        if connection.info.get("limits") != self.silence:
            self.run(connection, f"PRAGMA busy_timeout = {self.silence * 1000:.0f}")
            connection.info["limits"] = self.silence

    def prepare(self, connection: Connection, durability: Durability) -> None:
        """Set whether the commit waits for the disk."""
        level = "FULL" if durability is Durability.FULL else "NORMAL"
        if connection.info.get("synchronous") != level:
            self.run(connection, f"PRAGMA synchronous = {level}")
            connection.info["synchronous"] = level

    def begin(self, connection: Connection, durability: Durability) -> None:
        """Take the write lock at once: a transaction that has read something may not get it later."""
        self.prepare(connection, durability)
        self.run(connection, "BEGIN IMMEDIATE")

    def run(self, connection: Connection, statement: str) -> None:
        """Pass the statement directly to the driver, because these are half of all statements."""
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        try:
            driver.execute(statement)
        except sqlite3.Error as error:
            raise OperationalError(statement, None, error) from error

    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Do nothing: there is only one writer at a time."""

    def block_opens(self, connection: Connection) -> None:
        """Do nothing: there is only one writer at a time."""

    def advance_txn_id_sequence(self, connection: Connection, high_watermark: int) -> None:
        """Do nothing: AUTOINCREMENT continues from the highest id that was ever assigned."""

    def classify_error(self, error: DBAPIError) -> ErrorKind:
        """Classify by SQLite's primary result code."""
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ErrorKind.LOCKED
        if code == sqlite3.SQLITE_CONSTRAINT:
            return ErrorKind.BUSY
        unavailable = (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        )
        return ErrorKind.UNAVAILABLE if code in unavailable else ErrorKind.OTHER


def _prepare_sqlite(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    record.info["file"] = path, path.stat()


def _require_same_file(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Refuse a connection whose file was replaced, as by a restored backup: commits would go into the deleted file."""
    path, opened = record.info["file"]
    try:
        now = path.stat()
    except OSError as error:
        msg = f"the transaction store {path} was removed while it was open: {error}"
        raise StoreUnavailableError(msg) from error
    if not os.path.samestat(now, opened):
        raise DisconnectionError(f"{path} was replaced")


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
    """Return the URL of an SQLite store; no character of the path is interpreted.

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

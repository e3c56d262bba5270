"""SQLite, through the standard library."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from hiveacid.errors import ConfigError, StoreUnavailableError
from hiveacid.stores.sql.dialects.dialect import Dialect, Durability, ErrorKind, database_now
from hiveacid.stores.sql.sqlite_file import protect_file

_NOW = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


@compiles(database_now, "sqlite")
def _now(_element: database_now, _compiler: SQLCompiler, **_kw: Any) -> str:
    return _NOW


class SqliteDialect(Dialect):
    """SQLite in WAL mode: one writer at a time over all processes; readers and writers do not block each other."""

    ids_may_gap = False
    server_time = False
    words = {  # noqa: RUF012 - a constant
        **Dialect.words,
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
            raise ConfigError("a SQLite store needs a file: sqlite:///path/to/store.db")
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
        driver: Any = connection.connection.driver_connection
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


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    record.info["file"] = path, path.stat()


def _require_same_file(_connection: object, record: Any, _proxy: object) -> None:
    """Refuse a connection whose file was replaced, as by a restored backup: commits would go into the deleted file."""
    path, opened = record.info["file"]
    try:
        now = path.stat()
    except OSError as error:
        msg = f"the transaction store {path} was removed while it was open: {error}"
        raise StoreUnavailableError(msg) from error
    if not os.path.samestat(now, opened):
        raise DisconnectionError(f"{path} was replaced")

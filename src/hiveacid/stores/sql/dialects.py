"""The only place where SQLite, PostgreSQL and MySQL differ."""

from __future__ import annotations

import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, BigInteger, Connection, Engine, Insert, Text, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.sql.functions import FunctionElement

from hiveacid.core.model import TableName
from hiveacid.errors import ConfigError, StoreUnavailableError


class Durability(Enum):
    """What a power cut may take back, without the others noticing a contradiction.

    FULL: nothing. WITH_CLIENT: work of a client that would have died with the store (an embedded store lives
    on its clients' machine; a server doesn't, so there it is FULL). HARMLESS: nobody relies on it.
    """

    FULL = auto()
    WITH_CLIENT = auto()
    HARMLESS = auto()


class Trouble(Enum):
    """What went wrong with a statement."""

    BUSY = auto()  # deadlock, serialisation, locked: the database rolled it back; try again
    LOST = auto()  # the connection broke
    UNAVAILABLE = auto()  # disk full, read-only, no such file: trying again at once is no use
    OTHER = auto()


class database_now(FunctionElement[int]):  # noqa: N801 - reads like a SQL function
    """The database's own time in milliseconds since the epoch."""

    type = BigInteger()
    inherit_cache = True


class joined_ids(FunctionElement[str]):  # noqa: N801 - reads like a SQL function
    """All values of a group in one text, with commas between: a hundred thousand rows cost one."""

    type = Text()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite_now(_element: database_now, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


@compiles(database_now, "postgresql")
def _postgres_now(_element: database_now, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(database_now, "mysql", "mariadb")
def _mysql_now(_element: database_now, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "CAST(unix_timestamp(sysdate(3)) * 1000 AS SIGNED)"


@compiles(joined_ids, "sqlite", "mysql", "mariadb")
def _group_concat(element: joined_ids, compiler: SQLCompiler, **kw: Any) -> str:
    return f"group_concat({compiler.process(element.clauses, **kw)})"


@compiles(joined_ids, "postgresql")
def _string_agg(element: joined_ids, compiler: SQLCompiler, **kw: Any) -> str:
    return f"string_agg(CAST({compiler.process(element.clauses, **kw)} AS TEXT), ',')"


class Dialect(ABC):
    """A database: how to reach it, its transactions and locks, its words, its errors."""

    ids_may_gap = True
    """Whether a transaction id can be given whose row others do not see yet."""
    own_time = True
    """Whether times come from the database (a server) or from the client's clock (embedded)."""
    words: Mapping[str, str]

    @abstractmethod
    def engine(self, url: URL) -> Engine:
        """Make the engine; every connection is in autocommit mode, :meth:`begin` opens transactions."""

    def prepare(self, connection: Connection, durability: Durability) -> None:  # noqa: B027 - most need nothing
        """Make ready for a single statement that writes, which is a transaction by itself."""

    @abstractmethod
    def begin(self, connection: Connection, durability: Durability) -> None:
        """Begin a transaction that writes; each of its statements sees what was committed before it."""

    def run(self, connection: Connection, statement: str) -> None:
        """Run a statement without parameters or rows, such as COMMIT."""
        connection.exec_driver_sql(statement)

    @abstractmethod
    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Wait for other transactions that named one of these keys, and hold them off until the commit.

        True excludes everybody who names the key, False only those who gave True.
        """

    @abstractmethod
    def block_opens(self, connection: Connection) -> None:
        """Wait until no transaction is just being opened, and let none begin before the commit."""

    @abstractmethod
    def raise_serial(self, connection: Connection, high_watermark: int) -> None:
        """Let the next transaction id be higher than this one; its row is there already."""

    @abstractmethod
    def trouble(self, error: DBAPIError) -> Trouble:
        """Classify an error of the driver."""

    def next_count(self, connection: Connection, counter: str) -> int:
        """Count one on and return the number; others who count wait until the commit."""
        return int(connection.execute(_COUNT, {"name": counter}).scalar_one())

    def insert_ids(
        self, connection: Connection, insert: Insert, parameters: Mapping[str, object]
    ) -> list[int]:
        """Run an INSERT into a table with a serial ``id`` and return the ids given, ascending."""
        return sorted(connection.scalars(_returning_ids(insert), parameters).all())

    def take_write_ids(self, connection: Connection, table: TableName, count: int) -> int:
        """Take the table's next ``count`` write ids and return the first; others wait until the commit."""
        found = connection.execute(
            _TAKE, {"database": table.database, "name": table.name, "first": 1 + count, "count": count}
        )
        return int(found.scalar_one()) - count


_TAKE = text(
    "INSERT INTO hiveacid_next_write_ids (database_name, table_name, next_id)"
    " VALUES (:database, :name, :first)"
    " ON CONFLICT (database_name, table_name)"
    " DO UPDATE SET next_id = hiveacid_next_write_ids.next_id + :count RETURNING next_id"
)


@cache
def _returning_ids(insert: Insert) -> ReturningInsert[Any]:
    """Return the statement with its ids; made once, for the few statements there are."""
    return insert.returning(insert.table.c["id"])


_COUNT = text("UPDATE hiveacid_counters SET value = value + 1 WHERE name = :name RETURNING value")


class SqliteDialect(Dialect):
    """SQLite in WAL mode: one writer at a time, whoever it is; readers are never in the way."""

    ids_may_gap = False
    own_time = False
    words = {  # noqa: RUF012 - a constant
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "key": "TEXT",
        "name": "TEXT",
        "text": "TEXT",
        "options": "",
        "state_then_id": "id",
        "where_open": " WHERE state = 'open'",
        "id_then_state": "id",
        "where_aborted": " WHERE state = 'aborted'",
    }

    def engine(self, url: URL) -> Engine:
        """Make the engine; the file's directory is made as well. Raises ConfigError without a file."""
        if not url.database or url.database == ":memory:":
            msg = "a SQLite store needs a file: sqlite:///path/to/store.db"
            raise ConfigError(msg)
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"the directory of the transaction store {url.database} cannot be made: {error}"
            raise StoreUnavailableError(msg) from error
        engine = create_engine(
            url, isolation_level="AUTOCOMMIT", hide_parameters=True, connect_args={"timeout": 30.0}
        )
        event.listen(engine, "connect", _prepare_sqlite)
        return engine

    def prepare(self, connection: Connection, durability: Durability) -> None:
        """Choose whether the commit waits for the disk."""
        wanted = "FULL" if durability is Durability.FULL else "NORMAL"
        if connection.info.get("synchronous") != wanted:
            self.run(connection, f"PRAGMA synchronous = {wanted}")
            connection.info["synchronous"] = wanted

    def begin(self, connection: Connection, durability: Durability) -> None:
        """Take the write lock at once: a transaction that reads first could not get it later."""
        self.prepare(connection, durability)
        self.run(connection, "BEGIN IMMEDIATE")

    def run(self, connection: Connection, statement: str) -> None:
        """Hand it to the driver itself: these are half of all statements."""
        driver: Any = connection.connection.driver_connection
        try:
            driver.execute(statement)
        except sqlite3.Error as error:
            raise OperationalError(statement, None, error) from error

    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Nothing to do: there is one writer at a time."""

    def block_opens(self, connection: Connection) -> None:
        """Nothing to do: there is one writer at a time."""

    def raise_serial(self, connection: Connection, high_watermark: int) -> None:
        """Nothing to do: AUTOINCREMENT goes on from the highest id there ever was."""

    def trouble(self, error: DBAPIError) -> Trouble:
        """Classify by SQLite's primary result code."""
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT):
            return Trouble.BUSY
        unavailable = (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        )
        return Trouble.UNAVAILABLE if code in unavailable else Trouble.OTHER


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


class PostgresDialect(Dialect):
    """PostgreSQL, read committed, with row locks and advisory locks where order matters."""

    words = {  # noqa: RUF012 - a constant
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "key": 'TEXT COLLATE "C"',
        "name": 'TEXT COLLATE "C"',
        "text": "TEXT",
        "options": "",
        "state_then_id": "id",
        "where_open": " WHERE state = 'open'",
        "id_then_state": "id",
        "where_aborted": " WHERE state = 'aborted'",
    }

    def engine(self, url: URL) -> Engine:
        """Make the engine."""
        return create_engine(
            url, isolation_level="AUTOCOMMIT", hide_parameters=True, max_overflow=20, pool_use_lifo=True
        )

    def begin(self, connection: Connection, durability: Durability) -> None:
        """Read committed: after a wait for a lock, the next statement sees what the other one did."""
        relaxed = "; SET LOCAL synchronous_commit TO off" if durability is Durability.HARMLESS else ""
        self.run(connection, f"BEGIN ISOLATION LEVEL READ COMMITTED{relaxed}")

    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Take advisory locks, in one order for all."""
        numbered = sorted({_number(key): exclusive for key, exclusive in sorted(keys.items())}.items())
        calls = ", ".join(
            f"pg_advisory_xact_lock{'' if exclusive else '_shared'}(:key{place})"
            for place, (_, exclusive) in enumerate(numbered)
        )
        connection.execute(
            text(f"SELECT {calls}"), {f"key{place}": number for place, (number, _) in enumerate(numbered)}
        )

    def block_opens(self, connection: Connection) -> None:
        """Wait for every INSERT into the table, and let none begin."""
        self.run(connection, "LOCK TABLE hiveacid_txns IN SHARE ROW EXCLUSIVE MODE")

    def raise_serial(self, connection: Connection, high_watermark: int) -> None:
        """Set the sequence on."""
        connection.execute(
            text("SELECT setval(pg_get_serial_sequence('hiveacid_txns', 'id'), :top)"),
            {"top": high_watermark},
        )

    def trouble(self, error: DBAPIError) -> Trouble:
        """Classify by SQLSTATE."""
        state = getattr(error.orig, "sqlstate", None) or ""
        if state in ("40001", "40P01", "55P03", "53300", "23503", "23505", "57P03"):
            return Trouble.BUSY
        if error.connection_invalidated or state.startswith("08") or state in ("57P01", "57P02"):
            return Trouble.LOST
        if state.startswith("53") or state in ("25006", "58030"):
            return Trouble.UNAVAILABLE
        return Trouble.LOST if not state and _is_operational(error) else Trouble.OTHER


class MysqlDialect(Dialect):
    """MySQL 8 and MariaDB 10.6, read committed."""

    words = {  # noqa: RUF012 - a constant
        "serial": "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        "key": "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "name": "VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "text": "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "options": " ENGINE=InnoDB",
        "state_then_id": "state, id",
        "where_open": "",
        "id_then_state": "id, state",
        "where_aborted": "",
    }

    def engine(self, url: URL) -> Engine:
        """Make the engine."""
        engine = create_engine(
            url, isolation_level="AUTOCOMMIT", hide_parameters=True, max_overflow=20, pool_use_lifo=True
        )
        event.listen(engine, "connect", _prepare_mysql)
        return engine

    def begin(self, connection: Connection, durability: Durability) -> None:  # noqa: ARG002 - always full
        """Begin; the session reads what is committed (:func:`_prepare_mysql`)."""
        self.run(connection, "START TRANSACTION")

    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Lock rows of the counters, of which there is one for each key in use, in one order for all."""
        for key, exclusive in sorted(keys.items()):
            name = f"key {_number(key) % 1024}"
            connection.execute(
                text("INSERT IGNORE INTO hiveacid_counters (name, value) VALUES (:name, 0)"), {"name": name}
            )
            how = "UPDATE" if exclusive else "SHARE"
            connection.execute(
                text(f"SELECT value FROM hiveacid_counters WHERE name = :name FOR {how}"), {"name": name}
            )

    def block_opens(self, connection: Connection) -> None:
        """Hold the row that every opening shares."""
        self.serialise(connection, {"open": True})

    def raise_serial(self, connection: Connection, high_watermark: int) -> None:
        """Nothing to do: AUTO_INCREMENT goes on from the highest id that was inserted."""

    def trouble(self, error: DBAPIError) -> Trouble:
        """Classify by the server's or the client's error number."""
        arguments = getattr(error.orig, "args", ())
        code = arguments[0] if arguments else None
        if code in (1205, 1213, 3572, 1040, 1062):
            return Trouble.BUSY
        if error.connection_invalidated or code in (0, 2003, 2006, 2013, 2055, 1053, 1927):
            return Trouble.LOST
        return Trouble.UNAVAILABLE if code in (1021, 1114, 1290, 1836) else Trouble.OTHER

    def next_count(self, connection: Connection, counter: str) -> int:
        """Count with the counter's row locked."""
        row = {"name": counter}
        connection.execute(text("UPDATE hiveacid_counters SET value = value + 1 WHERE name = :name"), row)
        found = connection.execute(text("SELECT value FROM hiveacid_counters WHERE name = :name"), row)
        return int(found.scalar_one())

    def insert_ids(
        self, connection: Connection, insert: Insert, parameters: Mapping[str, object]
    ) -> list[int]:
        """Run the INSERT; ids of one statement follow each other while it holds the opening row."""
        self.serialise(connection, {"open": True})
        result = connection.execute(insert, parameters)
        return [result.lastrowid + step for step in range(result.rowcount)]

    def take_write_ids(self, connection: Connection, table: TableName, count: int) -> int:
        """Take them with the counter's row locked."""
        place = {"database": table.database, "name": table.name}
        connection.execute(
            text(
                "INSERT INTO hiveacid_next_write_ids (database_name, table_name, next_id)"
                " VALUES (:database, :name, 1 + :count) ON DUPLICATE KEY UPDATE next_id = next_id + :count"
            ),
            {**place, "count": count},
        )
        following = connection.scalar(
            text(
                "SELECT next_id FROM hiveacid_next_write_ids"
                " WHERE database_name = :database AND table_name = :name"
            ),
            place,
        )
        return int(following) - count


def _prepare_mysql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET SESSION group_concat_max_len = 1073741824")


def _number(key: str) -> int:
    """Return a stable 31-bit number for a key, with this project's own high half beside it."""
    return 0x6869_7665 << 31 | zlib.crc32(key.encode()) >> 1


def _is_operational(error: DBAPIError) -> bool:
    return type(error).__name__ in ("OperationalError", "InterfaceError")


def dialect_of(url: URL) -> Dialect:
    """Return the dialect of a URL. Raises ConfigError for a database we do not know."""
    known: dict[str, type[Dialect]] = {
        "sqlite": SqliteDialect,
        "postgresql": PostgresDialect,
        "mysql": MysqlDialect,
        "mariadb": MysqlDialect,
    }
    found = known.get(url.get_backend_name())
    if found is None:
        msg = f"a transaction store on {url.get_backend_name()!r} is not supported: {', '.join(known)}"
        raise ConfigError(msg)
    return found()

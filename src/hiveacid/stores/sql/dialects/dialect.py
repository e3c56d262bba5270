"""Interface of a dialect: the operations that standard SQL does not cover.

A new dialect is a module of this package and an entry in `dialect_of`.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from sqlalchemy import URL, BigInteger, Connection, Engine, Insert, Text, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.sql.functions import FunctionElement

from hiveacid.core.model import TableName
from hiveacid.errors import ConfigError
from hiveacid.stores.sql.schema import table_parameters


class Durability(Enum):
    """Durability of a commit: the writes that a power cut may lose.

    FULL: nothing. WITH_CLIENT: work of a client that would have died with the store (an embedded store lives
    on its clients' machine; a server does not, so there it is FULL).
    """

    FULL = auto()
    WITH_CLIENT = auto()


class ErrorKind(Enum):
    """Class of a driver's error, which decides whether the statement is repeated."""

    BUSY = auto()  # deadlock, serialisation: the database rolled it back; try again
    # another client holds a lock for too long: rolled back; try again until the holder is gone
    LOCKED = auto()
    LOST = auto()  # the connection broke
    READ_ONLY = auto()  # refused; after a failover, a new connection may lead to the server that takes writes
    UNAVAILABLE = auto()  # disk full, read-only, no such file: an immediate retry is useless
    DENIED = auto()  # the role lacks a privilege
    OTHER = auto()


class database_now(FunctionElement[int]):  # noqa: N801 - reads like a SQL function
    """The database's own time in milliseconds since the epoch; the module of each dialect compiles it."""

    type = BigInteger()
    inherit_cache = True


class joined_ids(FunctionElement[str]):  # noqa: N801 - reads like a SQL function
    """All values of a group in one text, separated by commas, because one row is far cheaper than 100,000."""

    type = Text()
    inherit_cache = True


@compiles(joined_ids)
def _group_concat(element: joined_ids, compiler: SQLCompiler, **kw: object) -> str:
    return f"group_concat({compiler.process(element.clauses, **kw)})"


Step = tuple[str, Mapping[str, object]]
"""A statement of the driver's own syntax, and its parameters."""


class NamedRow(Protocol):
    """A row whose columns are attributes."""

    def __getattr__(self, name: str) -> Any:
        """Return the value of a column."""


class Dialect(ABC):
    """A database product: engine, transactions, locks by key, ids, words of the schema, classification of errors."""

    ids_may_gap = True
    """A transaction id can be assigned before other clients see its row."""
    pipelines = False
    """`pipeline` sends several statements in one round trip."""
    has_txn_id_counter = False
    """Transaction ids come from `take_txn_ids`, not from the table's serial column."""
    server_time = True
    """Times come from the database, not from the client's clock."""
    silence = 10.0
    """Seconds without a byte from the server after which a connection counts as lost (``Limits.silence``)."""
    ddl_terms: Mapping[str, str] = MappingProxyType(
        {
            "options": "",
            "state_then_id": "id",
            "where_open": " WHERE state = 'open'",
            "id_then_state": "id",
            "where_aborted": " WHERE state = 'aborted'",
            "counters": "",
        }
    )
    """Values for the placeholders in the schema's texts (``migrations``); these are for databases with partial indexes."""

    @abstractmethod
    def engine(self, url: URL) -> Engine:
        """Make the engine; every connection is in autocommit mode, :meth:`begin` opens transactions."""

    @abstractmethod
    def limit_waits(self, connection: Connection, seconds: float) -> None:
        """Limit the wait for the server to ``seconds``, and the server's waits for locks and for this client.

        A client that stops inside a transaction (a suspended machine, a lost network) then loses its locks after half of
        :attr:`silence`, and other clients go on. The limit of locks is half of ``seconds``, so that the server reports it
        before the client takes the server for lost.
        """

    def prepare(self, connection: Connection, durability: Durability) -> None:  # noqa: B027 - most need nothing
        """Prepare the connection for a single writing statement, which is a transaction by itself."""

    @abstractmethod
    def begin(self, connection: Connection, durability: Durability) -> None:
        """Begin a transaction that writes; each of its statements sees all earlier commits."""

    def run(self, connection: Connection, statement: str) -> None:
        """Run a statement without parameters or rows, such as COMMIT."""
        connection.exec_driver_sql(statement)

    def pipeline(self, connection: Connection, steps: Sequence[Step]) -> list[list[NamedRow]]:
        """Run statements of the driver's own syntax in one transaction and one round trip; return the rows of each.

        Only for a database with :attr:`pipelines`.
        """
        raise NotImplementedError

    @abstractmethod
    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Lock keys until the commit, after waiting for other transactions that hold one of them.

        True locks a key exclusively, False shares it with other transactions that gave False.
        """

    def lock_schema(self, connection: Connection) -> None:
        """Hold an exclusive lock on the schema until the commit, even across DDL."""
        self.serialise(connection, {"schema": True})

    def unlock_schema(self, connection: Connection) -> None:  # noqa: B027 - most need nothing
        """Release the lock on the schema if the commit does not do it."""

    def is_already_applied(self, error: DBAPIError) -> bool:  # noqa: ARG002 - for those where DDL cannot be rolled back
        """Tell whether a schema step failed because an interrupted migration had applied it."""
        return False

    @abstractmethod
    def block_opens(self, connection: Connection) -> None:
        """Wait until no transaction is being opened, and block opening until the commit."""

    @abstractmethod
    def advance_txn_id_sequence(self, connection: Connection, high_watermark: int) -> None:
        """Make later transaction ids higher than ``high_watermark``, whose row exists already."""

    @abstractmethod
    def classify_error(self, error: DBAPIError) -> ErrorKind:
        """Classify an error of the driver."""

    def take_txn_ids(self, connection: Connection, count: int) -> int:
        """Take the next transaction ids and return the first, if the database :attr:`has_txn_id_counter`."""
        raise NotImplementedError

    def increment_counter(self, connection: Connection, counter: str) -> int:
        """Increment a counter and return its value; other clients wait until the commit."""
        return int(connection.execute(_COUNT, {"name": counter}).scalar_one())

    def insert_ids(
        self, connection: Connection, insert: Insert, parameters: Mapping[str, object]
    ) -> list[int]:
        """Run an INSERT into a table with a serial ``id``; return the assigned ids in ascending order."""
        return sorted(connection.scalars(_returning_ids(insert), parameters).all())

    def take_write_ids(self, connection: Connection, table: TableName, count: int) -> int:
        """Take the table's next ``count`` write ids and return the first; others wait until the commit."""
        result = connection.execute(_TAKE, table_parameters(table) | {"first": 1 + count, "count": count})
        return int(result.scalar_one()) - count


def take_write_ids_statement(condition: str) -> TextClause:
    """Return the statement that takes ``count`` write ids of a table and returns the next one, if the condition holds."""
    return text(
        "INSERT INTO hiveacid_next_write_ids (database_name, table_name, next_id)"
        f" SELECT :database, :name, :first WHERE {condition}"
        " ON CONFLICT (database_name, table_name)"
        " DO UPDATE SET next_id = hiveacid_next_write_ids.next_id + :count RETURNING next_id"
    ).bindparams(bindparam("first", type_=BigInteger), bindparam("count", type_=BigInteger))


_TAKE = take_write_ids_statement("true")


@cache
def _returning_ids(insert: Insert) -> ReturningInsert[Any]:
    """Add RETURNING id to a statement; the result is cached, because there are only few statements."""
    return insert.returning(insert.table.c["id"])


_COUNT = text("UPDATE hiveacid_counters SET value = value + 1 WHERE name = :name RETURNING value")


def number_keys(keys: Mapping[str, bool], count: int = 1 << 31) -> list[tuple[int, bool]]:
    """Return keys as stable numbers in ascending order, each with whether one of its keys is exclusive.

    A number has 31 bits of the key, modulo ``count``, below a constant high half of this project.
    """
    numbered: dict[int, bool] = {}
    for key, exclusive in keys.items():
        number = 0x6869_7665 << 31 | (zlib.crc32(key.encode()) >> 1) % count
        numbered[number] = numbered.get(number, False) or exclusive
    return sorted(numbered.items())


def options_of_url(url: URL) -> dict[str, str]:
    """Return the options of a store's URL that are given once. Raises ConfigError if one that begins with ``ssl`` is given twice."""
    parameters = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            if name.lower().startswith("ssl"):
                raise ConfigError(f"{name}= is given twice in the store's URL")
            continue
        parameters[name] = value
    return parameters

"""Connections, transactions of the database, retries, and errors without secrets."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, NoSuchModuleError, SQLAlchemyError

from hiveacid.errors import (
    CommitStateUnknownError,
    ConfigError,
    HiveAcidError,
    StoreError,
    StoreUnavailableError,
)
from hiveacid.ports import Clock
from hiveacid.stores.sql.address import parse_address
from hiveacid.stores.sql.dialects import Durability, Trouble, dialect_of

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")

TRIES = 12
"""How often a statement is tried that may be tried again; the waits in between add up to about 20 seconds."""
FIRST_TRIES = 4
"""The same for the first words with a server: a wrong address or password should not take so long to tell."""
_LONGEST_WAIT = 4.0  # seconds


class Database:
    """One database and how we talk to it.

    ``clock``: whose ``sleep`` is used between tries and, for an embedded database or where ``own_time`` is
    False, whose time counts. Raises ConfigError for an impossible URL.
    """

    def __init__(self, url: str, clock: Clock, *, own_time: bool | None = None) -> None:
        self._address = parse_address(url, os.environ)
        self._clock = clock
        self.dialect = dialect_of(self._address.url)
        self._own_time = self.dialect.own_time if own_time is None else own_time
        try:
            self._engine = self.dialect.engine(self._address.url)
        except (ImportError, ArgumentError, NoSuchModuleError) as error:
            msg = f"the store {self} cannot be used: the URL is wrong, or its driver is not installed"
            raise ConfigError(self._address.masked(msg)) from error
        event.listen(self._engine, "connect", _remember_process)
        event.listen(self._engine, "checkout", _refuse_other_process)
        self.tries = FIRST_TRIES if self.dialect.own_time else TRIES

    def __str__(self) -> str:
        """Return the URL without its password."""
        return str(self._address)

    def settle_in(self) -> None:
        """Be patient from now on: the database was reached once."""
        self.tries = TRIES

    def now(self) -> int | None:
        """Return the time for a statement's parameter ``now``; None: the database's own time."""
        return None if self._own_time else self._clock.now()

    def read(self, work: Callable[[Connection], _Answer]) -> _Answer:
        """Run statements that only read, each for itself on what is committed at its beginning."""
        return self._tried(lambda connection, _durability: work(connection), Durability.HARMLESS)

    def write(
        self,
        work: Callable[[Connection], _Answer],
        durability: Durability = Durability.FULL,
        *,
        twice: bool = False,
    ) -> _Answer:
        """Run statements in one transaction of the database; again from the start where that is safe.

        ``work`` may run several times, also after a commit whose answer was lost. An error that it raises
        rolls everything back. ``twice``: it does no harm if it happened and the caller does not know.
        Raises StoreUnavailableError, StoreError, and, unless ``twice`` or not fully durable,
        CommitStateUnknownError when the answer to a commit was lost and the store could not be asked again.
        """
        return self._tried(
            lambda connection, kind: self._transaction(connection, kind, work), durability, twice=twice
        )

    def once(
        self,
        work: Callable[[Connection], _Answer],
        durability: Durability = Durability.FULL,
        *,
        twice: bool = False,
    ) -> _Answer:
        """Do as :meth:`write` for a single statement: it needs no BEGIN and no COMMIT."""
        return self._tried(
            lambda connection, kind: self._single(connection, kind, work), durability, twice=twice
        )

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _single(
        self, connection: Connection, durability: Durability, work: Callable[[Connection], _Answer]
    ) -> _Answer:
        self.dialect.prepare(connection, durability)
        try:
            return work(connection)
        except DBAPIError as error:
            if self.dialect.trouble(error) is Trouble.LOST:
                raise _LostCommit from error
            raise
        except HiveAcidError:
            raise
        except BaseException:
            connection.invalidate()  # Ctrl-C: the answer that is on its way is nobody's
            raise

    def _transaction(
        self, connection: Connection, durability: Durability, work: Callable[[Connection], _Answer]
    ) -> _Answer:
        self.dialect.begin(connection, durability)
        try:
            answer = work(connection)
        except BaseException:
            _roll_back(connection)
            raise
        try:
            self.dialect.run(connection, "COMMIT")
        except DBAPIError as error:
            if self.dialect.trouble(error) is Trouble.LOST:
                raise _LostCommit from error
            _roll_back(connection)
            raise
        except BaseException:
            connection.invalidate()
            raise
        return answer

    def _tried(
        self,
        work: Callable[[Connection, Durability], _Answer],
        durability: Durability,
        *,
        twice: bool = False,
    ) -> _Answer:
        in_doubt = False
        for attempt in range(1, self.tries + 1):
            try:
                with self._lent() as connection:
                    return work(connection, durability)
            except _LostCommit as lost:
                in_doubt = True
                error: BaseException = lost.__cause__ or lost
            except DBAPIError as failed:
                trouble = self.dialect.trouble(failed)
                if trouble is Trouble.OTHER:
                    raise self._described(StoreError, failed) from None
                if trouble is Trouble.UNAVAILABLE:
                    raise self._described(StoreUnavailableError, failed) from None
                error = failed
            except SQLAlchemyError as failed:
                raise self._described(StoreUnavailableError, failed) from None
            if attempt < self.tries:
                self._wait(attempt, error)
        if in_doubt and durability is Durability.FULL and not twice:
            raise self._described(CommitStateUnknownError, error) from None
        raise self._described(StoreUnavailableError, error) from None

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """Lend a connection. If it breaks while it is given back, the answer is there all the same."""
        connection = self._engine.connect()
        try:
            yield connection
        finally:
            try:
                connection.close()
            except SQLAlchemyError:
                logger.debug("a connection to the transaction store broke after its work")

    def _wait(self, attempt: int, error: BaseException) -> None:
        logger.debug("the transaction store is tried again: %s", self._address.masked(str(error)))
        longest = min(_LONGEST_WAIT, 0.01 * 2**attempt)
        self._clock.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - to spread tries, not a secret

    def _described(self, kind: type[StoreError], error: BaseException) -> StoreError:
        original = getattr(error, "orig", None) or error
        said = " ".join(str(original).split())
        return kind(
            self._address.masked(f"the transaction store {self} failed: {type(original).__name__}: {said}")
        )


class _LostCommit(Exception):  # noqa: N818 - never leaves this module
    """The connection broke after COMMIT was sent and before its answer came."""


def _roll_back(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:
        connection.invalidate()


def _remember_process(_connection: object, record: Any) -> None:
    record.info["process"] = os.getpid()


def _refuse_other_process(_connection: object, record: Any, proxy: Any) -> None:
    """Never use a connection that a parent process opened: both would talk over one wire."""
    if record.info["process"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        msg = "the connection belongs to another process"
        raise DisconnectionError(msg)


def chunks(items: Iterable[_Item], size: int = 500) -> Iterator[Sequence[_Item]]:
    """Cut into pieces of as many values as a statement may well carry."""
    source = iter(items)
    while piece := tuple(islice(source, size)):
        yield piece

"""Access to the store's database: its URL, connections, transactions, retries, and errors without passwords.

A call that must not be carried out twice, such as CREATE TABLE and enqueuing a job, writes a mark in its own transaction
of the database (`write_exactly_once`). If the answer to the COMMIT is lost, the call is tried again and finds the mark: it
was carried out, and the first answer is returned. While the first attempt may still be running on the server, the second
waits for it at the mark.
"""

from __future__ import annotations

import logging
import os
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    String,
    and_,
    bindparam,
    event,
    func,
    insert,
    make_url,
    or_,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TxnId
from hiveacid.errors import (
    CommitStateUnknownError,
    ConfigError,
    HiveAcidError,
    StoreError,
    StorePermissionError,
    StoreUnavailableError,
)
from hiveacid.ports.clock import Clock
from hiveacid.stores.limits import Limits, RetryDeadlines
from hiveacid.stores.sql.dialects import Durability, ErrorKind, database_now, dialect_of
from hiveacid.stores.sql.schema import ListedPartitions, StoredLocations, idempotency_marks, txns

logger = logging.getLogger(__name__)

NOW: ColumnElement[int] = func.coalesce(bindparam("now", type_=BigInteger), database_now())
"""The store's time: the parameter ``now``, or the database's own time if that is NULL."""

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")

PASSWORD_VARIABLE = "HIVEACID_STORE_PASSWORD"  # noqa: S105 - the name of a variable
_PASSWORD_OPTIONS = ("password", "passwd", "sslpassword")
_PASSWORD_VARIABLES = {"postgresql": "PGPASSWORD", "mysql": "MYSQL_PWD", "mariadb": "MYSQL_PWD"}
_READ_BY_DRIVER = "PGPASSWORD"

TRIES = 12
"""Attempts at a statement that is safe to repeat. The waits between them add up to less than 20 seconds.

While the database cannot be reached, or a lock is not free, it is tried until the client's transactions are about to expire.
"""
_PATIENCE = 20.0
"""Seconds after which a warning is logged. A client without open transactions then gives an unreachable database up."""
_SLOW = 900.0
"""Seconds for which the server may be silent during a statement that works on very many rows or changes the schema."""
FIRST_TRIES = 4
"""Attempts at the first connection to a server: a wrong address or password should be reported sooner."""
_DENIED = (
    " (the store's role lacks a privilege: docs/security.md lists those that readers, writers and services need;"
    " the schema is made and brought up to date by its owner)"
)
_EXTRAS = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
MARK_LENGTH = 32
_LONGEST_WAIT = 4.0  # seconds
_TROUBLES = {ErrorKind.LOST: "does not answer", ErrorKind.READ_ONLY: "takes no writes"}


@dataclass(frozen=True)
class StoreUrl:
    """A store's URL with its password; as text it shows no password."""

    url: URL = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    def __str__(self) -> str:
        """Return the URL without passwords."""
        hidden = {key: "***" for key in _PASSWORD_OPTIONS if key in self.url.query}
        url_text = self.url.update_query_dict(hidden).render_as_string(hide_password=True)
        return url_text.replace(quote("***"), "***")

    def masked(self, text: str) -> str:
        """Mask the passwords, in every encoding, in a text from a driver or server."""
        spellings = {
            encoded
            for secret in self.secrets
            for encoded in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
        }
        for encoded in sorted(spellings, key=len, reverse=True):
            text = text.replace(encoded, "***")
        return text


def parse_store_url(text: str | URL, environment: Mapping[str, str]) -> StoreUrl:
    """Parse an SQLAlchemy URL. A password may also come from the environment.

    ``HIVEACID_STORE_PASSWORD`` serves every server, ``MYSQL_PWD`` MariaDB and MySQL; PostgreSQL's driver itself knows
    ``PGPASSWORD``, ``PGPASSFILE`` and ``~/.pgpass``. Raises ConfigError, which does not repeat the text.
    """
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigError(
            "the store's URL does not parse; it looks like sqlite:///path or postgresql+psycopg://host/name"
        ) from None
    if isinstance(text, str) and backend != "sqlite" and _has_blank_option(text):
        raise ConfigError("an option in the store's URL has no value; write name=value, or leave it out")
    variable = _PASSWORD_VARIABLES.get(backend)
    if variable and url.password is None and not any(key in url.query for key in _PASSWORD_OPTIONS[:2]):
        password = environment.get(PASSWORD_VARIABLE)
        if variable != _READ_BY_DRIVER:
            password = password or environment.get(variable)
        url = url.set(password=password) if password else url
    secrets = {str(url.password or ""), environment.get(variable or "", "")}
    secrets |= {str(url.query[key]) for key in _PASSWORD_OPTIONS if key in url.query}
    return StoreUrl(url, frozenset(secrets - {""}))


def _has_blank_option(text: str) -> bool:
    """Tell whether the URL has an option without a value, like ``sslmode=``, which SQLAlchemy and libpq would ignore."""
    query = text.rpartition("@")[2].partition("?")[2]
    return any(not value for _, value in parse_qsl(query, keep_blank_values=True))


def has_password(text: str) -> bool:
    """Tell whether a URL contains a password."""
    address = parse_store_url(text, {})
    return bool(address.secrets)


class OwnTxns:
    """Marks of the transactions that this client opened. One that another client object opened is taken by its id alone.

    A database that was restored, or failed over to a replica that lagged behind, gives ids out again. A client that goes
    on would otherwise commit or abort the transaction of another one.
    """

    def __init__(self) -> None:
        self._marks: dict[TxnId, str] = {}

    def opened(self, txn_ids: Iterable[TxnId], mark: str) -> None:
        """Remember the mark of the call that opened transactions."""
        self._marks.update(dict.fromkeys(txn_ids, mark))

    def ended(self, txn_ids: Iterable[TxnId]) -> None:
        """Forget transactions."""
        for txn_id in txn_ids:
            self._marks.pop(txn_id, None)

    def mark(self, txn_id: TxnId) -> str | None:
        """Return the mark, None if it is not known."""
        return self._marks.get(txn_id)

    def is_foreign(self, txn_id: TxnId, stored: str | None) -> bool:
        """Tell whether the row with this id, whose mark is ``stored``, is another transaction than the one opened here."""
        own = self._marks.get(txn_id)
        return own is not None and not (stored or "").startswith(own)

    def parameters(self, txn_ids: Sequence[TxnId]) -> dict[str, object]:
        """Return the parameters of `ARE_OWN` for transactions."""
        marks = [self._marks.get(txn_id) for txn_id in txn_ids]
        return {
            "ids": txn_ids,
            "unmarked": [txn_id for txn_id, mark in zip(txn_ids, marks, strict=True) if mark is None],
            "marks": [mark for mark in marks if mark is not None],
        }


_MARK_OF_CALL = func.substr(txns.c.mark, 1, MARK_LENGTH)
IS_OWN: ColumnElement[bool] = or_(
    bindparam("own", type_=String).is_(None), bindparam("own", type_=String) == _MARK_OF_CALL
)
"""The SQL condition that a row has the mark of the parameter ``own``, if that is known."""
ARE_OWN: ColumnElement[bool] = and_(
    txns.c.id.in_(bindparam("ids", expanding=True, type_=BigInteger)),
    or_(
        txns.c.id.in_(bindparam("unmarked", expanding=True, type_=BigInteger)),
        _MARK_OF_CALL.in_(bindparam("marks", expanding=True, type_=String)),
    ),
)
"""The SQL condition that a row is one of several transactions, and not a later one with its id (`OwnTxns.parameters`)."""


class Database:
    """A database with its connection pool and its retries.

    ``clock``: its ``sleep`` is used between attempts, and its time counts for an embedded database or where
    ``server_time`` is False. Raises ConfigError for an impossible URL.
    """

    def __init__(self, url: str | URL, clock: Clock, *, server_time: bool | None = None) -> None:
        self._address = parse_store_url(url, os.environ)
        self._clock = clock
        self.locations = StoredLocations(None, lambda: str)
        self.retry_deadlines = RetryDeadlines(clock)
        self.own_txns = OwnTxns()
        self.dialect = dialect_of(self._address.url)
        self._generation = 0  # of connections: a lost one makes all that are as old suspect
        self._server_time = self.dialect.server_time if server_time is None else server_time
        try:
            self._engine = self.dialect.engine(self._address.url)
        except ImportError as error:
            extra = _EXTRAS.get(self._address.url.get_backend_name())
            advice = f"pip install {error.name}" if extra is None else f"pip install 'hiveacid[{extra}]'"
            raise ConfigError(
                self._address.masked(
                    f"the store {self} cannot be used, its driver is not installed: {advice}"
                )
            ) from error
        except (ArgumentError, NoSuchModuleError) as error:
            msg = f"the store {self} cannot be used: the URL is wrong, or its driver is not installed"
            raise ConfigError(self._address.masked(msg)) from error
        event.listen(self._engine, "connect", self._mark)
        event.listen(self._engine, "checkout", self._refuse_unusable)
        self.tries = FIRST_TRIES if self.dialect.server_time else TRIES

    def __str__(self) -> str:
        """Return the URL without its password."""
        return str(self._address)

    @property
    def file(self) -> str | None:
        """Return the absolute path of a database that is a file; None for a server."""
        name = self._address.url.database
        return None if self.dialect.server_time or not name else str(Path(name).absolute())

    def now(self) -> int | None:
        """Return the time for a statement's parameter ``now``; None: the database's own time."""
        return None if self._server_time else self._clock.now()

    def read(self, work: Callable[[Connection], _Answer], *, slow: bool = False) -> _Answer:
        """Run statements that only read; each one sees all commits before its begin. ``slow``: as :meth:`write`."""
        return self._with_retries(
            lambda connection, _durability: work(connection),
            Durability.WITH_CLIENT,
            repeatable=True,
            slow=slow,
        )

    def write(
        self,
        work: Callable[[Connection], _Answer],
        durability: Durability = Durability.FULL,
        *,
        repeatable: bool = False,
        in_doubt: bool = False,
        slow: bool = False,
    ) -> _Answer:
        """Run statements in one transaction of the database; repeat it if that is safe.

        ``work`` may run several times, also after a commit whose answer was lost. An error that it raises
        rolls everything back. ``repeatable``: a second execution does no harm if the first one was committed unnoticed.
        ``in_doubt``: an earlier call may have committed the same. ``slow``: the server may be silent for a quarter of an hour.
        Raises StoreUnavailableError, StoreError, and, unless ``repeatable`` or not fully durable,
        CommitStateUnknownError when the answer to a commit was lost and the store could not be asked again.
        """
        return self._with_retries(
            lambda connection, kind: self._transaction(connection, kind, work),
            durability,
            repeatable=repeatable,
            in_doubt=in_doubt,
            slow=slow,
        )

    def write_statement(
        self,
        work: Callable[[Connection], _Answer],
        durability: Durability = Durability.FULL,
        *,
        repeatable: bool = False,
    ) -> _Answer:
        """Run a single statement as :meth:`write` does, without BEGIN and COMMIT."""
        return self._with_retries(
            lambda connection, kind: self._statement(connection, kind, work),
            durability,
            repeatable=repeatable,
        )

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _statement(
        self, connection: Connection, durability: Durability, work: Callable[[Connection], _Answer]
    ) -> _Answer:
        self.dialect.prepare(connection, durability)
        try:
            return work(connection)
        except DBAPIError as error:
            if self.dialect.classify_error(error) is ErrorKind.LOST:
                raise _LostCommit from error
            raise
        except HiveAcidError:
            raise
        except BaseException:
            connection.invalidate()  # Ctrl-C: the answer still arrives, and no later statement may read it
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
            if self.dialect.classify_error(error) is ErrorKind.LOST:
                raise _LostCommit from error
            _roll_back(connection)
            raise
        except BaseException:
            connection.invalidate()
            raise
        return answer

    def _with_retries(
        self,
        work: Callable[[Connection, Durability], _Answer],
        durability: Durability,
        *,
        repeatable: bool,
        in_doubt: bool = False,
        slow: bool = False,
    ) -> _Answer:
        def refusal(kind: type[StoreError], error: BaseException, advice: str = "") -> StoreError:
            unknown = in_doubt and durability is Durability.FULL and not repeatable
            return self._store_error(CommitStateUnknownError if unknown else kind, error, advice)

        begun, warned = self._clock.now(), False
        for attempt in count(1):
            error_kind = ErrorKind.LOST
            try:
                with self._borrowed_connection() as connection:
                    self.dialect.limit_waits(connection, _SLOW if slow else self.dialect.silence)
                    return work(connection, durability)
            except _LostCommit as failed:
                in_doubt = True
                error: BaseException = failed.__cause__ or failed
            except DBAPIError as failed:
                error_kind = self.dialect.classify_error(failed)
                if error_kind is ErrorKind.DENIED:
                    raise refusal(StorePermissionError, failed, _DENIED) from None
                if error_kind is ErrorKind.OTHER:
                    raise refusal(StoreError, failed) from None
                if error_kind is ErrorKind.UNAVAILABLE:
                    raise refusal(StoreUnavailableError, failed) from None
                error = failed
            except SQLAlchemyError as failed:
                raise refusal(StoreUnavailableError, failed) from None
            lost = error_kind in (ErrorKind.LOST, ErrorKind.READ_ONLY)
            self._generation += lost
            late = self._clock.now() - begun >= 1000 * _PATIENCE
            remaining = 0.0 if error_kind is ErrorKind.BUSY else self.retry_deadlines.remaining()
            if (attempt >= self.tries or (lost and late)) and not remaining:
                break
            if (attempt >= self.tries or late) and not warned:
                warned = True
                logger.warning(
                    "the transaction store %s %s; trying %s",
                    self, _TROUBLES.get(error_kind, "is locked by another client"),
                    f"for another {remaining:.0f} s, until the open transactions are about to expire" if remaining else "again",
                )  # fmt: skip
            logger.debug("the transaction store is tried again: %s", self._address.masked(str(error)))
            longest = min(_LONGEST_WAIT, 0.01 * 2 ** min(attempt, TRIES))
            self._clock.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - to spread tries, not a secret
        raise refusal(StoreUnavailableError, error) from None

    def _mark(self, _connection: object, record: ConnectionPoolEntry) -> None:
        record.info["process"], record.info["generation"] = os.getpid(), self._generation

    def _refuse_unusable(self, _connection: object, record: Any, proxy: Any) -> None:
        """Refuse a connection that a parent process opened, and one that is as old as a lost one.

        Two processes would use one socket. Waiting for a silent server takes time, which each old connection would cost again.
        """
        if record.info["process"] != os.getpid():
            record.dbapi_connection = proxy.dbapi_connection = None
            raise DisconnectionError("the connection belongs to another process")
        if record.info["generation"] != self._generation:
            raise DisconnectionError("another connection of its age was lost")

    @contextmanager
    def _borrowed_connection(self) -> Iterator[Connection]:
        """Borrow a connection from the pool. An error while it is returned is ignored, because the answer has arrived."""
        connection = self._engine.connect()
        try:
            yield connection
        finally:
            try:
                connection.close()
            except SQLAlchemyError:
                logger.debug("a connection to the transaction store broke after its work")

    def _store_error(self, kind: type[StoreError], error: BaseException, advice: str = "") -> StoreError:
        original = getattr(error, "orig", None) or error
        message = " ".join(str(original).split())
        return kind(
            self._address.masked(
                f"the transaction store {self} failed: {type(original).__name__}: {message}{advice}"
            )
        )


class SqlBase:
    """Database, limits and clock that the parts of the SQL store share."""

    def __init__(self, database: Database, limits: Limits, clock: Clock) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock
        self._listed = ListedPartitions()


class _LostCommit(Exception):  # noqa: N818 - never leaves this module
    """The connection broke after COMMIT was sent and before its answer arrived."""


def _roll_back(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:
        connection.invalidate()


def chunks(items: Iterable[_Item], size: int = 500) -> Iterator[Sequence[_Item]]:
    """Split items into pieces that fit into the parameters of one statement."""
    source = iter(items)
    while piece := tuple(islice(source, size)):
        yield piece


_MARK = insert(idempotency_marks).values(mark=bindparam("mark"), at=NOW)


def write_exactly_once(
    database: Database, work: Callable[[Connection], _Answer], durability: Durability = Durability.FULL
) -> _Answer:
    """Run :meth:`Database.write`; if the answer is lost, repeat it without carrying out ``work`` twice."""
    mark = uuid.uuid4().hex
    answers: list[_Answer] = []

    def marked(connection: Connection) -> _Answer:
        try:
            connection.execute(_MARK, {"mark": mark, "now": database.now()})
        except IntegrityError:
            raise _DoneBefore from None
        answer = work(connection)
        answers.append(answer)
        return answer

    try:
        return database.write(marked, durability)
    except _DoneBefore:
        return answers[-1]


class _DoneBefore(Exception):  # noqa: N818 - never leaves this module
    """The mark exists: an earlier attempt succeeded, and only its answer was lost."""

"""MariaDB and MySQL, through PyMySQL.

One dialect serves both: where their words differ, comments that only one of them executes (``/*M! */``, ``/*!80017 */``) hold
both words.

PyMySQL and SQLAlchemy overwrite each other's ``ssl_…`` options, and the certificate is then not verified. The options of a URL
are therefore read here.
"""

from __future__ import annotations

import inspect
import re
import select
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.engine import Dialect as SqlalchemyDialect
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from hiveacid.core.model import TableName
from hiveacid.errors import ConfigError, StoreUnavailableError
from hiveacid.stores.sql.dialects.dialect import (
    Dialect,
    Durability,
    ErrorKind,
    database_now,
    number_keys,
    options_of_url,
)
from hiveacid.stores.sql.schema import table_parameters

if TYPE_CHECKING:
    from pymysql.connections import Connection as PyMysqlConnection
    from sqlalchemy.engine.interfaces import DBAPIConnection

_BUSY = frozenset({1020, 1040, 1062, 1203, 1213, 1451, 1452, 1637, 3101, 3572})
_LOCKED = 1205
_LOST = frozenset({0, 1047, 1053, 1158, 1159, 1160, 1161, 1927, 2003, 2006, 2013, 2055, 3169, 4031})
_READ_ONLY = frozenset({1290, 1792, 1836})
_UNAVAILABLE = frozenset({3, 1021, 1026, 1030, 1044, 1045, 1049, 1114, 1698, 2026})
_DENIED = frozenset({1142, 1143, 1227, 1370})
_DONE_BEFORE = frozenset({1050, 1060, 1061, 1062})  # the table, column, index or row is there
_OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 17)}  # SKIP LOCKED; utf8mb4_0900_bin
_KEYS = 256
_RECURSION = "/*M! max_recursive_iterations */ /*!80017 cte_max_recursion_depth */"
_IDLE = "/*M! idle_transaction_timeout */ /*!80017 wait_timeout */"
_EXACT = "CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */"

_TLS_OPTIONS = ("ssl", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "ssl_check_hostname")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}

_NOW = "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000)"


@compiles(database_now, "mysql", "mariadb")
def _now(_element: database_now, _compiler: SQLCompiler, **_kw: object) -> str:
    return _NOW


class MariadbDialect(Dialect):
    """MariaDB 10.6 and newer and MySQL 8.0.17 and newer with InnoDB, read committed.

    Transaction ids come from a counter whose row is held until the commit, so that none is seen before a
    smaller one: AUTO_INCREMENT would leave gaps that are never filled.
    """

    ids_may_gap = False
    has_txn_id_counter = True
    ddl_terms = {  # noqa: RUF012 - a constant
        **Dialect.ddl_terms,
        "serial": "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        "key": f"VARCHAR(64) {_EXACT}",
        "name": f"VARCHAR(256) {_EXACT}",
        "text": f"LONGTEXT {_EXACT}",
        "options": " ENGINE=InnoDB",
        "state_then_id": "state, id",
        "where_open": "",
        "id_then_state": "state, id, started",
        "where_aborted": "",
        "counters": ", ('transaction id', 0)",
    }

    def engine(self, url: URL) -> Engine:
        """Make the engine. Raises ConfigError for options of the URL that PyMySQL lacks.

        A server that is too old, or that does not encrypt although the URL wants it, is refused at the connection.
        """
        url, tls = _tls_of_url(url)
        _check_options(url)
        secret: dict[str, object] = {} if tls is None else {"ssl": tls}
        if url.password is not None:
            # PyMySQL would send a text as Latin-1; servers keep passwords as UTF-8.
            secret["password"] = str(url.password).encode()
        engine = create_engine(
            url, isolation_level="AUTOCOMMIT", hide_parameters=True, max_overflow=20, pool_use_lifo=True,
            connect_args=secret,
            # Every method ends its transaction: a ROLLBACK afterwards would only be one more round trip.
            pool_reset_on_return=None, skip_autocommit_rollback=True,
        )  # fmt: skip
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "checkout", _require_open)
        if tls is not None:
            event.listen(engine, "connect", _require_tls, insert=True)
        return engine

    def _connect(
        self,
        dialect: SqlalchemyDialect,
        _record: object,
        arguments: Sequence[object],
        options: dict[str, object],
    ) -> DBAPIConnection:
        limits = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), self.silence)
        try:
            return dialect.connect(*arguments, **limits | options)
        except RuntimeError as error:  # PyMySQL needs a package that may be absent
            raise ConfigError(
                f"the store's server offers no TLS, and the log-in without it fails: {error}. Let the server offer TLS "
                "(ssl_ca=FILE in the store's URL verifies it), or install the package"
            ) from error

    def limit_waits(self, connection: Connection, seconds: float) -> None:
        """Set ``innodb_lock_wait_timeout``, MariaDB's ``idle_transaction_timeout``, and the driver's time-outs.

        MySQL ends idle sessions only, in a transaction or not; :func:`_require_open` replaces them.
        """
        limits = (seconds, self.silence)
        if connection.info.get("limits") == limits:
            return
        driver = connection.connection.driver_connection
        for name in ("read_timeout", "write_timeout"):
            if name not in connection.engine.url.query:
                setattr(driver, f"_{name}", seconds)
        locks, idle = (max(1, round(limit / 2)) for limit in limits)
        self.run(connection, f"SET SESSION innodb_lock_wait_timeout = {locks}, SESSION {_IDLE} = {idle}")
        connection.info["limits"] = limits

    def begin(self, connection: Connection, durability: Durability) -> None:  # noqa: ARG002 - always full
        """Begin; the session uses read committed (:func:`_prepare`)."""
        self.run(connection, "START TRANSACTION")

    def serialise(self, connection: Connection, keys: Mapping[str, bool]) -> None:
        """Lock a counter row for each key, always in the same order."""
        for number, exclusive in number_keys(keys, _KEYS):
            name = f"key {number}"
            statement = _HOLD if exclusive else _SHARE
            if connection.scalar(statement, {"name": name}) is None:
                connection.execute(_MAKE_KEY, {"name": name})
                connection.scalar(statement, {"name": name})

    def lock_schema(self, connection: Connection) -> None:
        """Take a named lock, which belongs to the session and survives the commits of DDL.

        Raises StoreUnavailableError after ten minutes.
        """
        if connection.scalar(_GET_LOCK) != 1:
            raise StoreUnavailableError(
                "another client has been changing the schema of the transaction store for ten minutes: wait until it has "
                "ended, or end its connection to the server"
            )

    def unlock_schema(self, connection: Connection) -> None:
        """Release the named lock."""
        connection.execute(_RELEASE_LOCK)

    def is_already_applied(self, error: DBAPIError) -> bool:
        """Tell by the error number. DDL commits by itself, so an interrupted step has left its first statements."""
        return _code(error) in _DONE_BEFORE

    def block_opens(self, connection: Connection) -> None:
        """Hold the counter of transaction ids."""
        connection.scalar(_HOLD, {"name": "transaction id"})

    def advance_txn_id_sequence(self, connection: Connection, high_watermark: int) -> None:
        """Raise the counter."""
        connection.execute(_SET_IDS, {"top": high_watermark})

    def classify_error(self, error: DBAPIError) -> ErrorKind:
        """Classify by the server's or the client's error number."""
        code = _code(error)
        if code in _BUSY:
            return ErrorKind.BUSY
        if code == _LOCKED:
            return ErrorKind.LOCKED
        if error.connection_invalidated or code in _LOST:
            return ErrorKind.LOST
        if code in _DENIED:
            return ErrorKind.DENIED
        if code in _READ_ONLY:
            return ErrorKind.READ_ONLY
        return ErrorKind.UNAVAILABLE if code in _UNAVAILABLE else ErrorKind.OTHER

    def take_txn_ids(self, connection: Connection, count: int) -> int:
        """Take the next ids and return the first; others wait until the commit."""
        return int(connection.execute(_TAKE_IDS, {"count": count}).lastrowid) - count + 1

    def increment_counter(self, connection: Connection, counter: str) -> int:
        """Increment the counter while its row is locked."""
        return int(connection.execute(_COUNT, {"name": counter}).lastrowid)

    def take_write_ids(self, connection: Connection, table: TableName, count: int) -> int:
        """Take the ids while the counter's row is locked."""
        return int(connection.execute(_TAKE, table_parameters(table) | {"count": count}).lastrowid) - count


# LAST_INSERT_ID(x) hands x to the client with the answer: no second round trip.
_COUNT = text("UPDATE hiveacid_counters SET value = LAST_INSERT_ID(value + 1) WHERE name = :name")
_TAKE_IDS = text(
    "UPDATE hiveacid_counters SET value = LAST_INSERT_ID(value + :count) WHERE name = 'transaction id'"
)
_TAKE = text(
    "INSERT INTO hiveacid_next_write_ids (database_name, table_name, next_id)"
    " VALUES (:database, :name, LAST_INSERT_ID(1 + :count))"
    " ON DUPLICATE KEY UPDATE next_id = LAST_INSERT_ID(next_id + :count)"
)
_SET_IDS = text("UPDATE hiveacid_counters SET value = :top WHERE name = 'transaction id' AND value < :top")
_HOLD = text("SELECT value FROM hiveacid_counters WHERE name = :name FOR UPDATE")
_SHARE = text("SELECT value FROM hiveacid_counters WHERE name = :name LOCK IN SHARE MODE")
_MAKE_KEY = text("INSERT IGNORE INTO hiveacid_counters (name, value) VALUES (:name, 0)")
_GET_LOCK = text("SELECT GET_LOCK('hiveacid schema', 600)")  # seconds
_RELEASE_LOCK = text("SELECT RELEASE_LOCK('hiveacid schema')")


def _code(error: DBAPIError) -> int | None:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _check_options(url: URL) -> None:
    """Refuse options for which PyMySQL would raise a TypeError when it connects."""
    if url.get_driver_name() != "pymysql":
        raise ConfigError(
            "a store on MariaDB or MySQL needs the driver PyMySQL: its URL begins with mysql+pymysql://"
        )
    try:
        from pymysql.connections import Connection as Driver  # noqa: PLC0415 - it may not be installed
    except ImportError:
        return  # making the engine says so
    parameters = inspect.signature(Driver.__init__).parameters
    unknown = sorted(name for name in url.query if name not in parameters)
    if unknown:
        raise ConfigError(
            f"unknown option {unknown[0]}= in the store's URL (TLS options: ssl_ca=FILE and others, "
            "docs/security.md)"
        )


def _require_tls(connection: PyMysqlConnection, _record: object) -> None:
    """Refuse a connection in plain text: PyMySQL before 1.2 continues without TLS if the server has none."""
    if not getattr(connection, "_secure", False):
        connection.close()
        raise ConfigError("the store's server offers no TLS, and its URL asks for it (ssl…=)")


def _require_open(connection: PyMysqlConnection, _record: object, _proxy: object) -> None:
    """Refuse a connection that the server has closed while it was idle: it has something to read. The pool opens another."""
    poll = select.poll()
    poll.register(connection._sock, select.POLLIN)  # noqa: SLF001 - PyMySQL has no other access
    if poll.poll(0):
        raise DisconnectionError("the server has closed the idle connection")


def _prepare(connection: PyMysqlConnection, _record: object) -> None:
    version = str(connection.server_version)
    product = "MariaDB" if "MariaDB" in version else "MySQL"
    # MariaDB may say 5.5.5-10.6.25-MariaDB, Aurora 8.0.mysql_aurora.3.08.0.
    numbers = tuple(map(int, re.findall(r"\d+", re.sub(r"[^\d.].*", "", version.removeprefix("5.5.5-")))))[:3]
    if numbers < _OLDEST[product][: len(numbers)]:
        oldest = ".".join(map(str, _OLDEST[product]))
        raise ConfigError(f"the store's server is {product} {version}: {oldest} or newer is needed")
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # Numbers of ids to open come from a recursion, whose default limit is 1000.
        cursor.execute(f"SET SESSION {_RECURSION} = 1000000")
        # Strict whatever the server's default is: what does not fit is refused, not cut off.
        cursor.execute("SET SESSION sql_mode = 'TRADITIONAL', SESSION group_concat_max_len = 1073741824")


def _tls_of_url(url: URL) -> tuple[URL, ssl.SSLContext | None]:
    """Return the URL without its TLS options, and the context that they ask for; None: the URL has none.

    With any of them the connection is encrypted, and the server's certificate and host name are verified, by the
    authorities of ``ssl_ca`` or ``ssl_capath``, else by the system's. Raises ConfigError for other options that begin
    with ``ssl``, for values that are neither true nor false, and for files that cannot be read.
    """
    parameters = {
        name: value for name, value in options_of_url(url).items() if name.lower().startswith("ssl")
    }
    if not parameters:
        return url, None
    unknown = sorted(set(parameters) - set(_TLS_OPTIONS))
    if unknown:
        raise ConfigError(
            f"unknown TLS option {unknown[0]}= in the store's URL; there are {', '.join(_TLS_OPTIONS)}"
        )
    if not _flag(parameters, "ssl"):
        raise ConfigError(
            "ssl=false in the store's URL: leave the option out for a connection that is not verified"
        )
    if "ssl_key" in parameters and "ssl_cert" not in parameters:
        raise ConfigError("ssl_key= in the store's URL needs ssl_cert=, the certificate of the key")
    try:
        context = ssl.create_default_context(
            cafile=parameters.get("ssl_ca"), capath=parameters.get("ssl_capath")
        )
        if "ssl_cert" in parameters:
            context.load_cert_chain(parameters["ssl_cert"], parameters.get("ssl_key"))
    except (OSError, ValueError) as error:
        files = ", ".join(f"{name}={parameters[name]}" for name in _TLS_OPTIONS[1:5] if name in parameters)
        raise ConfigError(f"the TLS files in the store's URL cannot be used ({files}): {error}") from error
    # as PyMySQL: authorities that servers make lack identifiers
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = _flag(parameters, "ssl_check_hostname")
    return url.difference_update_query(list(parameters)), context


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "true")
    if text.lower() not in _FLAGS:
        raise ConfigError(f"{name}={text} in the store's URL: true or false")
    return _FLAGS[text.lower()]

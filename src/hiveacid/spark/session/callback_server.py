"""Python objects that the JVM calls: Py4J's callback server, hiveacid's parser inside a session, exceptions that it throws.

The server listens on the loopback interface without authentication. A client of any operating system user can call the
methods of a registered Python object if it knows the id of that object. Py4J counts the ids (``p0``, ``p1``), and its
token for callbacks is lost in ``PythonClient.copyWith`` when PySpark sets the port. The ids must therefore be secrets.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from py4j.java_gateway import GatewayClient, GatewayConnection, JavaGateway, JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError, UnsupportedFeatureError

_ID_BYTES = 16
_FEW = 20
"""Threads of the JVM that have called Python, of which `CallingThreads` does not ask whether they have ended."""


def use_secret_ids(spark: SparkSession) -> None:
    """Give every Python object that is registered for calls from the JVM from now on a random 128-bit id.

    Covers the parser of native sessions, ``foreachBatch`` functions and query listeners, of this package and of the
    user. Objects that were registered before keep their ids. Calling it twice does no harm. No Py4J round trip.
    """
    from py4j.java_gateway import PythonProxyPool  # noqa: PLC0415 - PySpark's, only when it is needed
    from py4j.protocol import PYTHON_PROXY_PREFIX  # noqa: PLC0415

    gateway: JavaGateway = spark.sparkContext._gateway  # noqa: SLF001
    pool: PythonProxyPool = gateway.gateway_property.pool  # connections hold it: it cannot be replaced

    def put(proxy: object, force_id: str | None = None) -> str:
        secret = f"{PYTHON_PROXY_PREFIX}{secrets.token_hex(_ID_BYTES)}"
        identifier: str = PythonProxyPool.put(pool, proxy, force_id or secret)
        return identifier

    pool.put = put


def keep_connections_once(spark: SparkSession) -> None:
    """Make Py4J hold the connection of each Python thread once, so that it is closed when its thread ends.

    A call to the JVM puts its connection into ``JavaClient.deque`` when it ends. If the JVM calls Python meanwhile, which calls
    the JVM in turn, both calls put the same connection there, and the end of the thread removes it only once
    (``ThreadLocalConnectionFinalizer``). The socket, and a thread of the JVM, then stay for ever. Calling it twice does no harm.
    """
    gateway: JavaGateway = spark.sparkContext._gateway  # noqa: SLF001
    client = gateway._gateway_client  # noqa: SLF001
    give_back = type(client)._give_back_connection  # noqa: SLF001

    def give_back_once(connection: GatewayConnection) -> None:
        if connection not in client.deque:
            give_back(client, connection)

    client._give_back_connection = give_back_once  # noqa: SLF001


@dataclass(frozen=True, eq=False)
class _Caller:
    """A thread of the JVM, both ends of its connection to Python, and what holds the JVM's end."""

    thread: JavaObject
    java_end: GatewayConnection
    python_end: socket.socket
    holder: JavaObject


@dataclass
class CallingThreads:
    """Threads of the JVM that have called Python.

    Py4J holds the connection of each, and with it a thread of Python and all that the thread refers to (the snapshot of the
    plan that it returned last), even after the JVM's thread has ended. Spark Connect has a thread for each execution.
    """

    _local: threading.local = field(default_factory=threading.local)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _callers: list[_Caller] = field(default_factory=list)
    _many: int = _FEW

    def note(self, context: SparkContext) -> None:
        """Note the caller of a callback; now and then close the connections of those that have ended."""
        if hasattr(self._local, "noted"):
            return
        self._local.noted = True
        client: GatewayClient = context._gateway._gateway_client  # type: ignore[union-attr] # noqa: SLF001
        connection = client.get_thread_connection()
        if connection is None or connection.initiated_from_client:  # a thread of Python's, which closes it
            return
        holder = JavaObject("GATEWAY_SERVER", client).getCallbackClient()
        thread: JavaObject = context._jvm.java.lang.Thread.currentThread()  # type: ignore[union-attr] # noqa: SLF001
        caller = _Caller(thread, holder.getPerThreadConnection(), connection.socket, holder)
        with self._lock:
            self._callers.append(caller)
            if len(self._callers) <= self._many:
                return
        self.close_ended()

    def close_ended(self) -> None:
        """Close the connections of threads that have ended."""
        with self._lock:
            callers, self._callers = self._callers, []
        with suppress(Py4JError):  # the JVM has ended
            alive = [caller for caller in callers if caller.thread.isAlive()]
            with self._lock:
                self._callers += alive
                self._many = 2 * len(alive) + _FEW
            for caller in callers:
                if caller not in alive:
                    with suppress(OSError):
                        # first: its thread then ends without an error
                        caller.python_end.shutdown(socket.SHUT_RDWR)
                    caller.java_end.shutdown()
                    caller.holder.connectionStopped(caller.java_end)


class LastReturned(threading.local):
    """Last Java object that a callback returned or threw, one for each thread.

    Py4J answers a callback with the id of the Java object, and drops its Python reference before the JVM has read the
    answer. If Python collects the reference in between, the JVM forgets the object first and then finds none with the
    id (``Target Object ID does not exist for this gateway``, or a null). Each thread answers one callback at a time;
    therefore the next answer may replace the previous one.
    """

    _value: JavaObject | None = None

    def keep(self, value: JavaObject) -> JavaObject:
        """Return the value; keep it until the next call in this thread."""
        self._value = value
        return value

    def keep_thrown(self, error: Exception) -> Exception:
        """Return the error; keep the Java exception that it carries, if any, until the next call in this thread."""
        self._value = getattr(error, "java_exception", None)
        return error


class _ParserBuilder:
    """Scala's ``(SparkSession, ParserInterface) => ParserInterface``, in Python."""

    def __init__(self, build: Callable[[JavaObject, JavaObject], JavaObject]) -> None:
        self._build = build
        self._returned = LastReturned()

    def apply(self, session: JavaObject, parser: JavaObject) -> JavaObject:
        """Return the parser of a new session."""
        return self._returned.keep(self._build(session, parser))

    class Java:
        implements = ("scala.Function2",)


def inject_parser(
    spark: SparkSession, build: Callable[[JavaObject, JavaObject], JavaObject]
) -> Callable[[], None]:
    """Wrap Spark's own parser, in this session and in all sessions derived from it (``newSession``, streams).

    Returns what gives this session the parser back that it had, unless it has got another one since then.

    ``build`` receives the JVM's session and its present parser. The injection lasts for the life of the session; to
    disable it, ``build`` returns the parser that it received.
    """
    from pyspark import java_gateway  # noqa: PLC0415

    gateway: JavaGateway = spark.sparkContext._gateway  # noqa: SLF001
    use_secret_ids(spark)
    keep_connections_once(spark)
    start: Callable[[JavaGateway], None] = java_gateway.ensure_callback_server_started
    start(gateway)
    # Spark's own errors must leave our parser unchanged, not as text in a Py4JException.
    gateway.python_parameters.propagate_java_exceptions = True
    inner: JavaObject = spark._jsparkSession  # noqa: SLF001
    called = threading.Event()

    def first(session: JavaObject, parser: JavaObject) -> JavaObject:
        called.set()  # the parser itself must not stay here: it ends with its session
        return build(session, parser)

    inner.extensions().injectParser(_ParserBuilder(first))
    state = inner.sessionState()
    if called.is_set():
        return lambda: None
    before = state.sqlParser()  # the session had its parser already
    _set_session_parser(state, build(inner, before))
    ours = _identity(spark, state)

    def restore() -> None:
        with suppress(Py4JError, OSError):  # the JVM may be gone
            if _identity(spark, state) == ours:
                _set_session_parser(state, before)

    return restore


def copy_with_parser(session: JavaObject, parser_of: Callable[[JavaObject], JavaObject]) -> JavaObject:
    """Return a copy of a JVM session, with its settings and temporary views, that has another parser.

    ``parser_of`` receives the copy and returns the parser.
    """
    copy = session.cloneSession()
    state, parser = copy.sessionState(), parser_of(copy)
    _set_session_parser(state, parser)
    set_catalog_parser(copy, parser)
    return copy


def _identity(spark: SparkSession, state: JavaObject) -> int:
    """Return a number that tells the parser of a session from others, without a call of the parser."""
    system: JavaObject = spark._jvm.java.lang.System  # type: ignore[union-attr] # noqa: SLF001
    return int(system.identityHashCode(_parser_field(state).get(state)))


def _set_session_parser(state: JavaObject, parser: JavaObject) -> None:
    _parser_field(state).set(state, parser)


def _parser_field(state: JavaObject) -> JavaObject:
    field_of_state = state.getClass().getDeclaredField("sqlParser")
    field_of_state.setAccessible(True)
    return field_of_state


def set_catalog_parser(session: JavaObject, parser: JavaObject) -> None:
    """Set the parser with which the catalog of a JVM session reads the texts of views and functions.

    In the session of `inject_parser` that is still Spark's own; in sessions derived from it, it is the injected parser.
    """
    catalog = session.sessionState().catalog()
    kind = catalog.getClass()
    while kind.getSimpleName() != "SessionCatalog":
        kind = kind.getSuperclass()
    held = kind.getDeclaredField("parser")
    held.setAccessible(True)
    held.set(catalog, parser)


def to_java_exception(spark: SparkSession, error: HiveAcidError) -> Exception:
    """Return an exception for Py4J that makes Java throw one of its own, with the text of an error of hiveacid.

    Spark's ``AnalysisException`` is a checked exception that the parser's methods do not declare: a proxy must not
    throw it. PySpark shows these as ``pyspark.errors.IllegalArgumentException`` and
    ``UnsupportedOperationException``.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    lang: JavaObject = spark._jvm.java.lang  # type: ignore[union-attr] # noqa: SLF001
    unsupported = isinstance(error, UnsupportedFeatureError)
    kind = lang.UnsupportedOperationException if unsupported else lang.IllegalArgumentException
    message = f"[{error.getCondition()}] {error}"
    thrown: Exception = Py4JJavaError(message, kind(message))
    return thrown


def restore_java_exception(error: Exception) -> Exception:
    """Return an exception for Py4J that makes Java throw the exception from which PySpark made an error."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    origin = getattr(error, "_origin", None)
    if origin is None:
        return error
    thrown: Exception = Py4JJavaError(str(error), origin)
    return thrown

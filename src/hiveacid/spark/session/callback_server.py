"""Py4J's callback server: the socket through which the JVM calls Python objects.

The server listens on the loopback interface without authentication. A client of any operating system user can call the
methods of a registered Python object if it knows the id of that object. Py4J counts the ids (``p0``, ``p1``), and its
token for callbacks is lost in ``PythonClient.copyWith`` when PySpark sets the port. The ids must therefore be secrets.
"""

from __future__ import annotations

import secrets
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

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

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    pool: Any = gateway.gateway_property.pool  # connections hold it: it cannot be replaced

    def put(proxy: Any, force_id: str | None = None) -> Any:
        secret = f"{PYTHON_PROXY_PREFIX}{secrets.token_hex(_ID_BYTES)}"
        return PythonProxyPool.put(pool, proxy, force_id or secret)

    pool.put = put


def keep_connections_once(spark: SparkSession) -> None:
    """Make Py4J hold the connection of each Python thread once, so that it is closed when its thread ends.

    A call to the JVM puts its connection into ``JavaClient.deque`` when it ends. If the JVM calls Python meanwhile, which calls
    the JVM in turn, both calls put the same connection there, and the end of the thread removes it only once
    (``ThreadLocalConnectionFinalizer``). The socket, and a thread of the JVM, then stay for ever. Calling it twice does no harm.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    client = gateway._gateway_client  # noqa: SLF001
    give_back = type(client)._give_back_connection  # noqa: SLF001

    def give_back_once(connection: Any) -> None:
        if connection not in client.deque:
            give_back(client, connection)

    client._give_back_connection = give_back_once  # noqa: SLF001


@dataclass(frozen=True, eq=False)
class _Caller:
    """A thread of the JVM, both ends of its connection to Python, and what holds the JVM's end."""

    thread: Any
    java_end: Any
    python_end: socket.socket
    holder: Any


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
        client: Any = context._gateway._gateway_client  # type: ignore[union-attr] # noqa: SLF001
        connection = client.get_thread_connection()
        if connection is None or connection.initiated_from_client:  # a thread of Python's, which closes it
            return
        holder = JavaObject("GATEWAY_SERVER", client).getCallbackClient()
        thread: Any = context._jvm.java.lang.Thread.currentThread()  # type: ignore[union-attr] # noqa: SLF001
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
                        caller.python_end.shutdown(
                            socket.SHUT_RDWR
                        )  # first: its thread then ends without an error
                    caller.java_end.shutdown()
                    caller.holder.connectionStopped(caller.java_end)


class LastReturned(threading.local):
    """Last Java object that a callback returned or threw, one for each thread.

    Py4J answers a callback with the id of the Java object, and drops its Python reference before the JVM has read the
    answer. If Python collects the reference in between, the JVM forgets the object first and then finds none with the
    id (``Target Object ID does not exist for this gateway``, or a null). Each thread answers one callback at a time;
    therefore the next answer may replace the previous one.
    """

    _value: Any = None

    def keep(self, value: Any) -> Any:
        """Return the value; keep it until the next call in this thread."""
        self._value = value
        return value

    def keep_thrown(self, error: Exception) -> Exception:
        """Return the error; keep the Java exception that it carries, if any, until the next call in this thread."""
        self._value = getattr(error, "java_exception", None)
        return error

"""Sessions of clients: each has its own Spark session, current database, settings, transaction and operations.

The audit log (`audit`) tells who opened and used them.
"""

from __future__ import annotations

import hmac
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hiveacid.config.setting_definitions import REGISTRY
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import ClientProtocolError, ConfigError, HiveAcidError
from hiveacid.ports.transactions import Client
from hiveacid.serve import hs2_messages
from hiveacid.serve.audit import MOST_SETTINGS, audit
from hiveacid.serve.operations import ClientOperation
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from hiveacid.sql.cancellation import Running, StatementThread

if TYPE_CHECKING:
    from hiveacid.sql.native.session import ClientSparkSession, NativeSession
    from hiveacid.stores.hms.thrift_structs import ThriftStruct

logger = logging.getLogger(__name__)

T = TypeVar("T")
MOST_SESSIONS = 200
MOST_OF_USER = 100
"""Most sessions of one user, so that others can connect, too."""
MOST_OPERATIONS = 200
"""Most open operations of a session."""
_PREFIXES = ("set:hiveconf:", "set:metaconf:", "set:system:", "set:hivevar:")
_POOLS = 64  # of Spark's scheduler, which keeps each for ever
_SETTING = re.compile(r"[A-Za-z][\w.\-]{0,255}")
_POLL = 0.25  # seconds between two looks at the client's connection while a call runs
_SHORTEST_END = 5.0  # seconds in which sessions are rolled back when the server stops, even without grace
_SWEEP_INTERVAL = 30.0  # seconds; a sweep makes the JVM collect its garbage


class InvalidHandleError(ClientProtocolError):
    """A handle that the server does not know, or that belongs to another client."""


@dataclass(frozen=True)
class Caller:
    """Client of a call. ``owner``: the connection, or over HTTP the user, to which its sessions belong.

    ``gone``: tells whether the client has disconnected. ``over_http``: its sessions outlive its connections.
    """

    user: str
    host: str
    owner: str
    gone: Callable[[], bool]
    over_http: bool = False


@dataclass(eq=False)
class ClientSession:
    """One session. Its statements run one by one in a thread of its own."""

    caller: Caller
    spark: ClientSparkSession
    thread: StatementThread
    guid: bytes = field(default_factory=lambda: os.urandom(16))
    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    operations: dict[bytes, ClientOperation] = field(default_factory=dict)
    used: float = field(default_factory=time.monotonic)

    @property
    def number(self) -> str:
        """The session's name in the audit log."""
        return self.guid.hex()[:8]

    def handle(self) -> ThriftStruct:
        """Return the handle for the client."""
        identifier = hs2_messages.THandleIdentifier(guid=self.guid, secret=self.secret)
        return hs2_messages.TSessionHandle(sessionId=identifier)

    def configure(self, configuration: Mapping[str, str]) -> None:
        """Apply database and settings of the client's URL. Raises the errors of USE and SET."""
        _require_few(configuration)
        pool = f"client-{self.guid[0] % _POOLS}"  # jobs of one pool run one after the other
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        for name, value in configuration.items():
            if name == "use:database":
                self.spark.sql(f"USE {quote_name(value)}")
            else:
                self._set(name, value)

    @contextmanager
    def overlaid(self, overlay: Mapping[str, str]) -> Iterator[None]:
        """Apply settings to the statement that runs inside (``confOverlay``). Raises the errors of SET."""
        _require_few(overlay)
        with ExitStack() as restoring:
            for name, value in overlay.items():
                restoring.callback(self._set(name, value))
            yield

    def _set(self, name: str, value: str) -> Callable[[], None]:
        """Change a setting and return the function that restores it. Raises the errors of SET."""
        key = next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)
        if not _SETTING.fullmatch(key):
            raise ConfigError(f"{key[:80]!r} is not the name of a setting")
        self.spark.require_changeable(key)
        if key in REGISTRY or key.startswith("hiveacid."):
            acid, settings = self.spark.acid, self.spark.acid.settings
            acid.set(key, value)
            return lambda: acid.set(key, settings.text(key))
        conf = self.spark.conf
        before = conf.get(key, None)
        conf.set(key, value)
        return lambda: conf.unset(key) if before is None else conf.set(key, before)

    def end(self) -> None:
        """Cancel running statements, roll back the transaction, and release all results."""
        try:
            self.thread.end(self.spark.acid.close)
        except HiveAcidError as error:  # the store is unreachable: the transaction times out
            logger.warning("the transaction of a session could not be rolled back: %s", error)
        for operation in tuple(self.operations.values()):
            operation.close()


def _require_few(settings: Mapping[str, str]) -> None:
    if len(settings) > MOST_SETTINGS:
        raise ConfigError(
            f"a session or statement can have at most {MOST_SETTINGS} settings, not {len(settings)}"
        )


def wait_for(running: Running[T], caller: Caller) -> None:
    """Wait for the end of a call's work. Raises EOFError if the client disconnects meanwhile."""
    while not running.done_within(_POLL):
        require_present(caller)


def require_present(caller: Caller) -> None:
    """Raise EOFError if the client has disconnected."""
    if caller.gone():
        raise EOFError("the client disconnected")


class Sessions:
    """All sessions of a server."""

    def __init__(self, server: NativeSession, idle: float, http_idle: float = math.inf) -> None:
        """``server``: the session that each client's session is a copy of. ``idle``: seconds until an unused one is closed.

        ``http_idle``: the same for sessions over HTTP without a transaction. No closed connection shows that their client
        died.
        """
        self._server = server
        self._idle, self._http_idle = idle, min(idle, http_idle)
        self._lock = threading.Lock()
        self._sessions: dict[bytes, ClientSession] = {}
        self._users: list[str] = []  # one entry for each session, also while it is being opened or closed
        self._swept = time.monotonic()
        self._ended = False  # a result or session has ended since the last sweep
        self.opened = 0
        self.closing = False

    def __len__(self) -> int:
        """Return the number of open sessions."""
        return len(self._sessions)

    def open(self, caller: Caller, configuration: Mapping[str, str]) -> ClientSession:
        """Open a session. Raises ConfigError if there are too many, and the errors of its configuration."""
        with self._lock:
            if self.closing or len(self._users) >= MOST_SESSIONS:
                raise ConfigError(f"the server has {MOST_SESSIONS} sessions, or is stopping: try again later")
            if self._users.count(caller.user) >= MOST_OF_USER:
                raise ConfigError(f"the user has {MOST_OF_USER} sessions, which is the limit: close some")
            self._users.append(caller.user)
        try:
            spark = self._server.for_client(Client(caller.user, caller.host, "hiveacid serve"))
            thread = StatementThread(spark.acid, "hiveacid-session", "cancelled by its client")
        except BaseException:
            self._forget(caller.user)
            raise
        session = ClientSession(caller, spark, thread)
        try:
            running = thread.submit(lambda: session.configure(configuration))
            wait_for(running, caller)
            running.future.result()
        except BaseException:
            self._end(session)
            raise
        if not self._register(session):
            self._end(session)
            raise ConfigError("the server is stopping: try again later")
        return session

    def _register(self, session: ClientSession) -> bool:
        with self._lock:
            if not self.closing:
                self._sessions[session.guid] = session
                self.opened += 1
            return not self.closing

    def _forget(self, user: str) -> None:
        with self._lock:
            self._users.remove(user)

    def find(self, handle: hs2_messages.Handle | None, caller: Caller) -> ClientSession:
        """Return the session of a handle. Raises InvalidHandleError; the secret is compared in constant time."""
        identifier = None if handle is None else handle.sessionId
        session = self._sessions.get((identifier and identifier.guid) or b"")
        secret = (identifier and identifier.secret) or b""
        if (
            session is None
            or not hmac.compare_digest(session.secret, secret)
            or session.caller.owner != caller.owner
        ):
            raise InvalidHandleError("the handle is of no session of this client")
        session.used = time.monotonic()
        return session

    def operation(
        self, handle: hs2_messages.Handle | None, caller: Caller
    ) -> tuple[ClientSession, ClientOperation]:
        """Return the operation of a handle, and its session. Raises InvalidHandleError."""
        identifier = None if handle is None else handle.operationId
        guid, secret = (identifier and identifier.guid) or b"", (identifier and identifier.secret) or b""
        for session in tuple(self._sessions.values()):
            operation = session.operations.get(guid) if session.caller.owner == caller.owner else None
            if operation is not None and hmac.compare_digest(operation.secret, secret):
                session.used = time.monotonic()
                return session, operation
        raise InvalidHandleError("the handle is of no operation of this client")

    def operation_ended(self) -> None:
        """Let the next `close_idle` release snapshots that no plan uses."""
        self._ended = True

    def close(self, session: ClientSession, reason: str) -> None:
        """Close a session in the background, so that no client waits for a statement to stop.

        ``reason`` is for the audit log.
        """
        with self._lock:
            if self._sessions.pop(session.guid, None) is None:
                return
        self._end(session, reason)

    def _end(self, session: ClientSession, reason: str = "") -> threading.Thread:
        """End a session; one that never opened has no ``reason``, and no line in the audit log."""

        def end() -> None:
            try:
                session.end()
            finally:
                self._ended = True
                self._forget(session.caller.user)
                if reason:
                    audit(
                        "session_ended",
                        session.caller.user,
                        session.caller.host,
                        session=session.number,
                        reason=reason,
                    )

        thread = threading.Thread(target=end, name="hiveacid-session-end", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread for it now
            end()
        return thread

    def has_owner(self, owner: str) -> bool:
        """Tell whether a connection has a session."""
        return any(session.caller.owner == owner for session in tuple(self._sessions.values()))

    def close_owned(self, owner: str) -> None:
        """Close the sessions of a connection that has ended."""
        for session in tuple(self._sessions.values()):
            if session.caller.owner == owner:
                self.close(session, "disconnected")

    def close_idle(self) -> None:
        """Close idle sessions; release snapshots of results that were closed."""
        now = time.monotonic()
        for session in tuple(self._sessions.values()):
            if any(op.busy for op in tuple(session.operations.values())):
                session.used = now
            elif now - session.used > self._idle_limit(session):
                logger.info(
                    "a session of %s was idle for %.0f s: closed", session.caller.user, now - session.used
                )
                self.close(session, "idle")
        if self._ended and now - self._swept >= _SWEEP_INTERVAL:
            self._ended, self._swept = False, now
            context = self._server.acid.context
            release_unused_plans(context.env, context.read_leases.sweep)

    def _idle_limit(self, session: ClientSession) -> float:
        is_free = session.caller.over_http and session.spark.acid.joined is None
        return self._http_idle if is_free else self._idle

    def close_all(self, grace: float) -> None:
        """Let running statements end within ``grace`` seconds, then close all sessions."""
        with self._lock:
            self.closing = True
        deadline = time.monotonic() + grace
        sessions = tuple(self._sessions.values())
        while any(op.busy for session in sessions for op in tuple(session.operations.values())):
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        with self._lock:
            sessions = tuple(self._sessions.values())  # clients have closed some meanwhile
            self._sessions.clear()
        threads = [self._end(session, "the server stops") for session in sessions]
        deadline = time.monotonic() + _SHORTEST_END  # one for all sessions
        for thread in threads:
            if thread.ident is not None:
                thread.join(timeout=max(0.0, deadline - time.monotonic()))

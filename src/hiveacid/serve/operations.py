"""Operations: statements and metadata calls of a session, with states, results, errors and time limits.

Errors become the interface's status: Hive's error codes, SQLSTATE, and message. One thread cancels the statements whose time
is over.
"""

from __future__ import annotations

import logging
import os
import sched
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from hiveacid import errors
from hiveacid.errors import HiveAcidError, StatementCancelledError
from hiveacid.serve import hs2_messages
from hiveacid.serve.results import Result, ResultCursor, RowsResult
from hiveacid.spark.session.error_translation import stack_overflow
from hiveacid.sql.cancellation import Running, StatementThread
from hiveacid.sql.execute.context import WRITTEN
from hiveacid.stores.hms.thrift_structs import ThriftStruct

logger = logging.getLogger(__name__)

T = TypeVar("T")
_LONGEST_MESSAGE = 1 << 16
_STATES: tuple[tuple[type[HiveAcidError], str], ...] = (
    # Derived classes come before their bases. A state is that of Hive's ErrorMsg, or else that of the SQL standard.
    (errors.NoSuchTableError, "42S02"),
    (errors.NoSuchColumnError, "42S22"),
    (errors.NoSuchDatabaseError, "42000"),
    (errors.AlreadyExistsError, "42S01"),
    (errors.ParseError, "42000"),
    (errors.StatementError, "42000"),
    (errors.CatalogError, "42000"),
    (errors.ConfigError, "42000"),
    (errors.UnsupportedFeatureError, "0A000"),
    (errors.StatementCancelledError, "HY008"),
    (errors.FailedTransactionError, "25000"),
    (errors.WriteConflictError, "40001"),
    (errors.LockTimeoutError, "40001"),
    (errors.TransactionAbortedError, "40000"),
    (errors.TransactionError, "25000"),
    (errors.MergeCardinalityError, "21000"),
    (errors.ConstraintViolationError, "23000"),
    (errors.DataError, "22000"),
    (errors.StorePermissionError, "42501"),
    (errors.StoreUnavailableError, "08S01"),
    (errors.CommitStateUnknownError, "08007"),
)
# Error conditions that Spark itself reports, and for which Hive has an error code.
_HIVE_CODES: Mapping[str, tuple[int, str | None]] = MappingProxyType(
    {
        "TABLE_OR_VIEW_NOT_FOUND": (10001, "42S02"),
        "UNRESOLVED_COLUMN": (10002, "42S22"),
        "SCHEMA_NOT_FOUND": (10072, None),
        "TABLE_OR_VIEW_ALREADY_EXISTS": (10073, "42S01"),
    }
)
_GENERAL_STATE = "08S01"  # Hive's for a failed execution
_GENERAL_CODE = 40000  # Hive's GENERIC_ERROR

SUCCESS = hs2_messages.TStatus(statusCode=hs2_messages.SUCCESS)
INVALID_HANDLE = hs2_messages.TStatus(
    statusCode=hs2_messages.INVALID_HANDLE,
    sqlState="08003",
    errorMessage="no such session or operation: it was closed, timed out, or belongs to another client",
)


def error_status(error: BaseException) -> ThriftStruct:
    """Return the status of a failed call; the text of an unexpected error goes to the log only."""
    error = stack_overflow(error) or error
    if isinstance(error, HiveAcidError):
        code = int(error.code) if error.code.isdigit() else _GENERAL_CODE
        state = next((state for kind, state in _STATES if isinstance(error, kind)), _GENERAL_STATE)
        return _status(f"{error.getCondition()}: {error}", state, code)
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        read = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)  # before Spark 4
        condition, read_state = str((read and read()) or ""), getattr(error, "getSqlState", None)
        code, hive_state = _HIVE_CODES.get(condition.partition(".")[0], (_GENERAL_CODE, None))
        state = hive_state or str((read_state and read_state()) or _GENERAL_STATE)
        text = str(getattr(error, "desc", None) or error).partition("\n\nJVM stacktrace:")[0]
        return _status(text.partition("\n\tat ")[0].strip(), state, code)
    logger.error("a call failed unexpectedly", exc_info=error)
    return _status(f"internal error: {type(error).__name__}; see the server's log", "HY000", _GENERAL_CODE)


def _status(text: str, state: str, code: int) -> ThriftStruct:
    message = text[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode()
    return hs2_messages.TStatus(
        statusCode=hs2_messages.ERROR, sqlState=state, errorCode=code, errorMessage=message
    )


_RETRY = 1.0  # seconds


class TimeLimits:
    """Calls functions at their times, in a thread that the first one starts. A call must not wait."""

    def __init__(self) -> None:
        """Wait for the first one."""
        self._changed = threading.Event()
        self._waiting = sched.scheduler(time.monotonic, self._wait)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, action: Callable[[], None]) -> sched.Event:
        """Call ``action`` after some seconds; a RuntimeError makes it be called again a second later."""
        limit = self._waiting.enter(seconds, 0, self._call, (action,))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hiveacid-time-limits", daemon=True)
                self._thread.start()
        self._changed.set()
        return limit

    def cancel(self, limit: sched.Event) -> None:
        """Make no call any more, and do not keep the operation and its session until then."""
        with suppress(ValueError):  # it was made
            self._waiting.cancel(limit)

    def _call(self, action: Callable[[], None]) -> None:
        try:
            action()
        except RuntimeError:  # the machine has no thread for it now: this one must go on
            self.after(_RETRY, action)

    def _wait(self, seconds: float) -> None:
        self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
        self._changed.clear()

    def _run(self) -> None:
        while True:
            self._waiting.run()
            self._wait(threading.TIMEOUT_MAX)


WRITTEN_NAMES = [name for name, _ in WRITTEN]
Fetched: TypeAlias = tuple[int, list[bytes], bool]
"""Position of the first row, the encoded columns, and whether more rows follow."""
_CANCELLED = "the statement was cancelled"


@dataclass(eq=False)
class ClientOperation:
    """One operation. ``work`` returns its result, None if it has none. ``settings``: entered while it runs.

    ``only_reads``: see `Running`.
    """

    thread: StatementThread
    work: Callable[[], Result | None]
    kind: int
    expects_result: bool = True
    only_reads: bool = False
    settings: AbstractContextManager[None] = field(default_factory=nullcontext)
    limits: TimeLimits = field(default_factory=TimeLimits)
    guid: bytes = field(default_factory=lambda: os.urandom(16))
    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    modified_rows: int | None = None
    _cursor: ResultCursor | None = None
    _running: Running[None] | None = None
    _fetching: Running[Fetched] | None = None
    _limit: sched.Event | None = None
    _told_of_result: bool = False
    _cancelling: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def number(self) -> str:
        """The operation's name in the audit log."""
        return self.guid.hex()[:8]

    def handle(self) -> ThriftStruct:
        """Return the handle for the client; ``hasResultSet`` of a running statement follows from its text."""
        return hs2_messages.TOperationHandle(
            operationId=hs2_messages.THandleIdentifier(guid=self.guid, secret=self.secret),
            operationType=self.kind,
            hasResultSet=self.announce_result(),
            modifiedRowCount=None if self.modified_rows is None else float(self.modified_rows),
        )

    def start(self, timeout: float = 0.0, on_timeout: Callable[[], None] | None = None) -> Running[None]:
        """Begin; after ``timeout`` seconds, if not 0, ``on_timeout`` (`cancel`) is called unless the operation has ended."""
        self._running = self.thread.submit(self._run, only_reads=self.only_reads)
        if timeout > 0:
            limit = self._limit = self.limits.after(timeout, on_timeout or self.cancel)
            # a fetch has no limit
            self._running.future.add_done_callback(lambda _: self.limits.cancel(limit))
        return self._running

    def _run(self) -> None:
        with self.settings:
            result = self.work()
            if result is None:
                return
            cursor = ResultCursor(result)
            cursor.fill()  # errors of the query appear now, and small results are complete
        if [column.name for column in result.columns] == WRITTEN_NAMES:
            self.modified_rows = cursor.first_number()
        self._cursor = cursor

    def done_within(self, seconds: float) -> bool:
        """Wait until the operation has ended; False if it has not after ``seconds``."""
        return self._running is not None and self._running.done_within(seconds)

    @property
    def busy(self) -> bool:
        """True while the operation, or a fetch of its rows, runs."""
        return any(r is not None and not r.future.done() for r in (self._running, self._fetching))

    @property
    def cursor(self) -> ResultCursor | None:
        """The rows; None while the operation runs, and if it has no result.

        If the client was told of a result, and the operation ended without one, the cursor has no rows.
        """
        if self._cursor is None and self._told_of_result and self.state == hs2_messages.FINISHED:
            self._cursor = ResultCursor(RowsResult([("result", "string")], []))
        return self._cursor

    def announce_result(self) -> bool:
        """Tell the client whether there is a result. While the operation runs, this follows from its statement."""
        if self.state in (hs2_messages.PENDING, hs2_messages.RUNNING):
            self._told_of_result = self._told_of_result or self.expects_result
            return self.expects_result
        return self.cursor is not None

    @property
    def state(self) -> int:
        """The ``TOperationState``."""
        running = self._running
        if running is None:
            return hs2_messages.INITIALIZED
        future = running.future
        if not future.done():
            return hs2_messages.RUNNING if future.running() else hs2_messages.PENDING
        if future.cancelled() or isinstance(future.exception(), StatementCancelledError):
            return hs2_messages.CANCELED
        return hs2_messages.FINISHED if future.exception() is None else hs2_messages.FAILED

    def failure(self) -> ThriftStruct | None:
        """Return the status of a failed or cancelled operation; None if it runs or has succeeded."""
        state = self.state
        if state == hs2_messages.CANCELED and self._running is not None:
            error = None if self._running.future.cancelled() else self._running.future.exception()
            return error_status(error or StatementCancelledError(_CANCELLED))
        if state == hs2_messages.FAILED and self._running is not None:
            error = self._running.future.exception()
            return None if error is None else error_status(error)
        return None

    def fetch(self, rows: int, *, from_first: bool) -> Running[Fetched]:
        """Begin to read up to ``rows`` rows.

        The future holds the position of the first one, the encoded columns, and whether more rows follow.
        """
        cursor = self.cursor
        assert cursor is not None  # noqa: S101 - the caller has checked it

        def read() -> Fetched:
            if from_first:
                cursor.restart()
            first = cursor.position
            columns = cursor.take(rows)
            return first, columns, cursor.may_have_more()

        self._fetching = self.thread.submit(read)
        return self._fetching

    def cancel(self) -> None:
        """Cancel the operation, and a fetch of its rows, in the background: each in one thread, which lasts until it ends."""
        with self._cancelling:
            self._cancel_running(self._running)
            self._cancel_running(self._fetching)

    def _cancel_running(self, running: Running[T] | None) -> None:
        if running is None or running.future.done() or running.cancelled.is_set():
            return
        end = partial(self.thread.cancel_until_done, running)
        threading.Thread(target=end, name="hiveacid-cancel", daemon=True).start()
        running.cancelled.set()  # a further call may come before the thread's first attempt

    def close(self) -> None:
        """Release the result."""
        if self._limit is not None:
            self.limits.cancel(self._limit)
        if self._cursor is not None:
            self._cursor.close()
        self._cursor, self._told_of_result = None, False

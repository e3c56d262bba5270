"""Operations: statements and metadata calls of a session, with states, results and errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hiveacid.errors import StatementCancelledError
from hiveacid.serve import hs2_structs
from hiveacid.serve.results import Result, ResultCursor, RowsResult
from hiveacid.serve.status import error_status
from hiveacid.serve.time_limits import TimeLimit, TimeLimits
from hiveacid.sql.cancellation import Running, StatementThread
from hiveacid.sql.execute.small_results import WRITTEN

WRITTEN_NAMES = [name for name, _ in WRITTEN]
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
    _running: Running[Any] | None = None
    _fetching: Running[Any] | None = None
    _limit: TimeLimit | None = None
    _told_of_result: bool = False
    _cancelling: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def number(self) -> str:
        """The operation's name in the audit log."""
        return self.guid.hex()[:8]

    def handle(self) -> Any:
        """Return the handle for the client; ``hasResultSet`` of a running statement follows from its text."""
        return hs2_structs.TOperationHandle(
            operationId=hs2_structs.THandleIdentifier(guid=self.guid, secret=self.secret),
            operationType=self.kind,
            hasResultSet=self.tell_result(),
            modifiedRowCount=None if self.modified_rows is None else float(self.modified_rows),
        )

    def start(self, timeout: float = 0.0, on_timeout: Callable[[], None] | None = None) -> Running[Any]:
        """Begin; after ``timeout`` seconds, if not 0, ``on_timeout`` (`cancel`) is called unless the operation has ended."""
        self._running = self.thread.submit(self._run, only_reads=self.only_reads)
        if timeout > 0:
            limit = self._limit = self.limits.after(timeout, on_timeout or self.cancel)
            self._running.future.add_done_callback(lambda _: limit.cancel())  # a fetch has no limit
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
        if self._cursor is None and self._told_of_result and self.state == hs2_structs.FINISHED:
            self._cursor = ResultCursor(RowsResult([("result", "string")], []))
        return self._cursor

    def tell_result(self) -> bool:
        """Tell the client whether there is a result. While the operation runs, this follows from its statement."""
        if self.state in (hs2_structs.PENDING, hs2_structs.RUNNING):
            self._told_of_result = self._told_of_result or self.expects_result
            return self.expects_result
        return self.cursor is not None

    @property
    def state(self) -> int:
        """The ``TOperationState``."""
        running = self._running
        if running is None:
            return hs2_structs.INITIALIZED
        future = running.future
        if not future.done():
            return hs2_structs.RUNNING if future.running() else hs2_structs.PENDING
        if future.cancelled() or isinstance(future.exception(), StatementCancelledError):
            return hs2_structs.CANCELED
        return hs2_structs.FINISHED if future.exception() is None else hs2_structs.FAILED

    def failure(self) -> Any:
        """Return the status of a failed or cancelled operation; None if it runs or has succeeded."""
        state = self.state
        if state == hs2_structs.CANCELED and self._running is not None:
            error = None if self._running.future.cancelled() else self._running.future.exception()
            return error_status(error or StatementCancelledError(_CANCELLED))
        if state == hs2_structs.FAILED and self._running is not None:
            error = self._running.future.exception()
            return None if error is None else error_status(error)
        return None

    def fetch(self, rows: int, *, from_first: bool) -> Running[tuple[int, list[bytes], bool]]:
        """Begin to read up to ``rows`` rows.

        The future holds the position of the first one, the encoded columns, and whether more rows follow.
        """
        cursor = self.cursor
        assert cursor is not None  # noqa: S101 - the caller has checked it

        def read() -> tuple[int, list[bytes], bool]:
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
            for running in (self._running, self._fetching):
                if running is None or running.future.done() or running.cancelled.is_set():
                    continue
                end = partial(self.thread.cancel_until_done, running)
                threading.Thread(target=end, name="hiveacid-cancel", daemon=True).start()
                running.cancelled.set()  # a further call may come before the thread's first attempt

    def close(self) -> None:
        """Release the result."""
        if self._limit is not None:
            self._limit.cancel()
        if self._cursor is not None:
            self._cursor.close()
        self._cursor, self._told_of_result = None, False

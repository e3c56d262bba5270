"""Sender of lineage: tells an OpenLineage receiver of each commit, from a thread of its own.

A commit only puts a value into a queue. Nothing that happens to the events delays or fails it.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from functools import cache
from typing import TYPE_CHECKING

from hiveacid.transactions.pending_commit import ReportedCommit

if TYPE_CHECKING:
    from openlineage.client.transport import Transport

logger = logging.getLogger(__name__)

MOST_WAITING = 1000
"""Number of commits that wait for their turn; those beyond it are not told."""
_IDLE = 10.0  # seconds without a commit after which the thread ends
_PATIENCE = 5.0  # seconds that the end of the process waits for the last events


class LineageSender:
    """Sends events in the order of `report`. Its thread begins with the first one, and ends when nothing comes."""

    def __init__(self) -> None:
        """Make a sender without a thread."""
        self._process = os.getpid()
        self._waiting: queue.Queue[tuple[str, str, ReportedCommit]] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed: set[str] = set()  # targets whose last event was not taken

    def report(self, target: str, namespace: str, commit: ReportedCommit) -> None:
        """Queue an event for a target, which is a URL of the setting; never waits.

        ``namespace``: of the job and the tables.
        """
        if self._process != os.getpid():
            # a forked child leaves its parent's events, and locks, to it
            vars(self).update(vars(LineageSender()))
        with self._lock:
            try:
                self._waiting.put_nowait((target, namespace, commit))
            except queue.Full:
                self._warn(target, f"{MOST_WAITING} others wait", commit)
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._send_all, name="hiveacid-lineage", daemon=True)
                self._thread.start()
                atexit.register(self.flush)

    def flush(self, seconds: float = _PATIENCE) -> None:
        """Wait until all events were sent, but not longer than ``seconds``. Those of a parent process are its own."""
        if self._process != os.getpid():
            return
        with self._waiting.all_tasks_done:
            done = self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, seconds)
        if not done:
            logger.warning("lineage: %d events were not sent before the end", self._waiting.unfinished_tasks)

    def _send_all(self) -> None:
        transports: dict[str, Transport] = {}
        try:
            while True:
                try:
                    target, namespace, commit = self._waiting.get(timeout=_IDLE)
                except queue.Empty:
                    with self._lock:
                        if self._waiting.empty():
                            self._thread = None
                            atexit.unregister(self.flush)
                            return
                    continue
                try:
                    self._send(transports, target, namespace, commit)
                finally:
                    self._waiting.task_done()
        finally:
            for transport in transports.values():
                transport.close()

    def _send(
        self, transports: dict[str, Transport], target: str, namespace: str, commit: ReportedCommit
    ) -> None:
        try:
            from hiveacid.transactions.openlineage_events import make_event, open_transport  # noqa: PLC0415 - an extra

            if target not in transports:
                transports[target] = open_transport(target)
            transports[target].emit(make_event(namespace, commit))
        except Exception as error:  # noqa: BLE001 - whatever the library, its plug-ins or the receiver do
            self._warn(target, str(error), commit)
        else:
            if target in self._failed:
                self._failed.discard(target)
                logger.info("lineage: %s takes events again", target)

    def _warn(self, target: str, why: str, commit: ReportedCommit) -> None:
        """Log an event that is lost: a warning for the first one of an outage."""
        level = logging.DEBUG if target in self._failed else logging.WARNING
        self._failed.add(target)
        logger.log(level, "lineage: %s was not told of transaction %s: %s", target, commit.txn_id, why)


@cache
def sender_of_process() -> LineageSender:
    """Return the sender that all connections of this process share."""
    return LineageSender()

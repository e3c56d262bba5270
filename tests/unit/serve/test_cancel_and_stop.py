"""Cancelled operations and the stop of a server, where statements do not end."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hiveacid.serve import sessions
from hiveacid.serve.operations import ClientOperation
from hiveacid.serve.service import _only_reads
from hiveacid.serve.sessions import Sessions
from hiveacid.sql.cancellation import Running


class Endless:
    """A `StatementThread` whose statements end when ``released`` is set."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.cancelled: list[Running[Any]] = []

    def submit(self, _: object, *, only_reads: bool) -> Running[Any]:
        running = Running[Any]("tag", only_reads)
        running.future.set_running_or_notify_cancel()
        return running

    def cancel_until_done(self, running: Running[Any]) -> None:
        self.cancelled.append(running)
        self.released.wait(60)


def test_an_operation_has_one_thread_that_cancels_it() -> None:
    thread = Endless()
    operation = ClientOperation(cast("Any", thread), lambda: None, 0)
    running = operation.start()
    before = set(threading.enumerate())
    for _ in range(20):
        operation.cancel()
    cancelling = set(threading.enumerate()) - before
    thread.released.set()
    for one in cancelling:
        one.join(60)
    assert len(cancelling) == 1
    assert thread.cancelled == [running]


def test_the_ends_of_sessions_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_SHORTEST_END", 0.5)
    released = threading.Event()
    server = Sessions(cast("Any", None), 60.0)
    for number in range(6):
        guid, caller = bytes([number]), SimpleNamespace(user="ann", host="")
        session = SimpleNamespace(
            operations={}, end=lambda: released.wait(60), caller=caller, guid=guid, number=""
        )
        server._sessions[guid] = cast("Any", session)
        server._users.append("ann")
    began = time.monotonic()
    try:
        server.close_all(0.0)
        assert 0.5 <= time.monotonic() - began < 2.0
    finally:
        released.set()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT updated_at, replace(name, 'a', 'b') FROM created",
        "(SELECT 1)",
        "/* DROPS */ BEGIN IF true THEN SELECT 1; END IF; END",
        "FROM t SELECT a",
    ],
)
def test_a_statement_that_reads_is_told_by_its_words(text: str) -> None:
    assert _only_reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "WITH s AS (SELECT 1 AS a) DELETE FROM other.db.t WHERE a IN (SELECT a FROM s)",
        "WITH s AS (SELECT 1 AS a) MERGE INTO other.db.t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
        "FROM s INSERT INTO t SELECT a",
        "BEGIN CREATE TABLE t AS SELECT 1 AS a; SELECT 1; END",
        "BEGIN DROP TABLE t; END",
        "BEGIN EXECUTE IMMEDIATE what; END",
        "UPDATE t SET a = 1",
    ],
)
def test_a_statement_that_may_change_something_is_told_by_its_words(text: str) -> None:
    assert not _only_reads(text)

"""Threads and client sessions that end leave no socket, and no thread of the JVM, behind."""

from __future__ import annotations

import gc
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.serve.authentication import Anyone, Authentication
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Sessions
from support.hs2_client import PATIENCE, Hs2Client

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession

MARGIN = 10
"""Connections that others may open meanwhile; each thread or session that leaks would leave one."""


def held(spark: NativeSession) -> tuple[int, int]:
    """Return the number of descriptors of this process, and of the JVM's threads for connections (``Thread-7``)."""
    jvm: Any = spark._jvm
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    return len(list(Path("/proc/self/fd").iterdir())), len(re.findall(r"\bThread-\d", threads))


def settles(spark: NativeSession, before: tuple[int, int]) -> bool:
    """Wait until there are as few as before."""
    end = time.monotonic() + PATIENCE
    while any(now > then + MARGIN for now, then in zip(held(spark), before, strict=True)):
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.1)  # the JVM's threads end by themselves
    return True


@pytest.mark.exhaustive("another case of the same test stays", cases=("3000",))
@pytest.mark.parametrize("count", [60, 3000])
def test_threads_that_used_a_native_session_leave_no_connection(native: NativeSession, count: int) -> None:
    parser: Any = native._jsparkSession.sessionState().sqlParser()

    def parse() -> None:
        parser.parseExpression("1")  # the JVM calls the parser in Python, which calls the JVM's

    def run(work: Any, times: int) -> None:
        for _ in range(times):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    run(parse, 5)
    before = held(native)
    run(parse, count)
    run(lambda: native.sql("SELECT 1").collect(), 20)
    assert settles(native, before), (before, held(native))


@pytest.mark.parametrize("count", [60, 600])
def test_threads_of_the_jvm_that_called_the_parser_leave_no_connection(
    native: NativeSession, count: int
) -> None:
    """Spark Connect has such a thread for each execution."""
    parser: Any = native._jsparkSession.sessionState().sqlParser()
    jvm: Any = native._jvm
    parsed: list[str] = []

    class Work:
        def run(self) -> None:
            parsed.append(parser.parseExpression("1").toString())

        class Java:
            implements = ("java.lang.Runnable",)

    def run(times: int) -> None:
        for _ in range(times):
            thread = jvm.java.lang.Thread(Work())
            thread.start()
            thread.join()

    run(30)
    native._sql_gateway.sweep()  # as the heartbeat does
    before = held(native)
    run(count)
    native._sql_gateway.sweep()
    assert settles(native, before), (before, held(native))
    assert parsed == ["1"] * (30 + count)


@pytest.mark.exhaustive("another case of the same test stays", cases=("300",))
@pytest.mark.parametrize("count", [25, 300])
def test_sessions_of_clients_leave_no_connection(native: NativeSession, count: int) -> None:
    options = ServerOptions.of("127.0.0.1", 0, Authentication(Anyone()))
    server = Server(Service(Sessions(native, 3600.0), native.version), options)
    server.start()
    try:

        def sessions(number: int) -> None:
            for turn in range(number):
                with Hs2Client(server.port) as client:
                    client.run("SELECT 1")
                    if turn % 2:  # the others end by the end of their connection
                        client.call("CloseSession")

        sessions(5)
        before = held(native)
        sessions(count)
        assert settles(native, before), (before, held(native))
    finally:
        server.stop(0.0)

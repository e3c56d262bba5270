"""Java objects that the parser inside Spark returns or throws: not released before the JVM has them."""

from __future__ import annotations

import gc
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException, ParseException, UnsupportedOperationException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiveacid.sql.native.session import NativeSession


class PromptReleases:
    """Stands in for the queue of Py4J's finalizer thread: waits until the JVM has released the object."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Any, threading.Event] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while task := self._tasks.get():
            (client, target), done = task
            client.garbage_collect_object(target, enqueue=False)
            done.set()

    def appendleft(self, task: Any) -> None:
        done = threading.Event()
        self._tasks.put((task, done))
        assert done.wait(60)

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join()


@pytest.fixture
def collected(native: NativeSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeSession]:
    """Collect garbage at the worst moment: a callback has ended, its answer is not sent yet.

    Objects from before the test are frozen: a collection looks at those of the callback only, and takes milliseconds.
    """
    from py4j.clientserver import ClientServerConnection  # noqa: PLC0415

    native.sql("CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    native.sql("INSERT INTO t VALUES (1)")
    call = ClientServerConnection._call_proxy
    releases = PromptReleases()

    def call_and_collect(self: Any, target: str, stream: Any) -> Any:
        answer = call(self, target, stream)
        gc.collect()
        return answer

    gc.collect()
    gc.freeze()
    with monkeypatch.context() as patch:
        patch.setattr(ClientServerConnection, "_call_proxy", call_and_collect)
        patch.setattr(native.sparkContext._gateway._gateway_client, "finalizer_deque", releases)
        # a log record that pytest captures would keep its error, and with it the Java exception
        patch.setattr(logging.getLogger("py4j.clientserver"), "disabled", True)
        yield native
    gc.unfreeze()
    releases.close()


def test_a_plan_is_there_when_the_jvm_reads_the_answer(collected: NativeSession) -> None:
    plain = SparkSession(collected.sparkContext, collected._jsparkSession)
    for session in (collected, plain):
        assert [row["n"] for row in session.sql("SELECT 1 AS n").collect()] == [1]
        assert [row["id"] for row in session.sql("SELECT id FROM t").collect()] == [1]
        assert session.range(1).selectExpr("id + 1 AS n").collect()[0]["n"] == 1


def test_an_error_is_there_when_the_jvm_reads_the_answer(collected: NativeSession) -> None:
    plain = SparkSession(collected.sparkContext, collected._jsparkSession)
    with pytest.raises(ParseException, match="SELEC"):
        plain.sql("SELEC")
    with pytest.raises(IllegalArgumentException, match="column nope does not exist"):
        plain.sql("SELECT nope FROM t")
    with pytest.raises(UnsupportedOperationException, match="transactions of several statements"):
        plain.sql("COMMIT")

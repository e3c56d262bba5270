"""Jobs of a metastore's queue keep what they are to be done with, or are not done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.compaction_queue import parse_properties
from hiveacid.stores.hms.store import MetastoreStore
from support.servers.thrift_server import HANG_UP, Answer, Server

PROPERTIES = "2:1:k1:v5:orc.x3:a:b"


class Queue:
    """One job of the queue; ``loses``: the answer that gives it to a worker."""

    def __init__(self, *, loses: bool) -> None:
        self.loses = loses
        self.state, self.worker, self.error = "initiated", "", ""
        self.asked: list[Any] = []

    def __call__(self, name: str, arguments: Any) -> Any:
        if name == "find_next_compact2":
            self.state, self.worker = "working", arguments.rqst.workerId
            given = protocol.CompactionInfoStruct(
                id=5, dbname="shop", tablename="orders", type=2, properties=PROPERTIES, workerId=self.worker
            )
            return HANG_UP if self.loses else {"success": protocol.OptionalCompactionInfoStruct(ci=given)}
        if name == "show_compact":
            row = protocol.ShowCompactResponseElement(
                id=5, dbname="shop", tablename="orders", type=2, state=self.state, workerid=self.worker
            )
            return {"success": protocol.ShowCompactResponse(compacts=[row])}
        if name == "mark_failed":
            self.state, self.error = "failed", arguments.cr.errorMessage
            return {}
        if name == "compact2":
            self.asked.append(arguments.rqst)
            return {"success": protocol.CompactionResponse(id=6, state="initiated", accepted=True)}
        return {"success": "4.0.1"}


@pytest.fixture
def connected(start: Callable[[Answer], Server]) -> Iterator[Callable[[Queue], MetastoreStore]]:
    made: list[MetastoreStore] = []

    def connect(queue: Queue) -> MetastoreStore:
        made.append(MetastoreStore(f"thrift://127.0.0.1:{start(queue).port}?timeout=20"))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def test_a_job_whose_answer_was_lost_has_failed_and_says_why(
    connected: Callable[[Queue], MetastoreStore],
) -> None:
    """Without its properties it would be done in another way than was asked for."""
    queue = Queue(loses=True)
    assert connected(queue).claim_compaction("w") is None
    assert queue.state == "failed"
    assert "request it again" in queue.error


def test_a_job_that_is_given_back_keeps_its_properties(connected: Callable[[Queue], MetastoreStore]) -> None:
    queue = Queue(loses=False)
    store = connected(queue)
    job = store.claim_compaction("w")
    assert job is not None
    assert job.request.properties == parse_properties(PROPERTIES) == (("k", "v"), ("orc.x", "a:b"))
    store.release_compaction(job.id, "w")
    assert queue.asked[0].properties == dict(parse_properties(PROPERTIES))

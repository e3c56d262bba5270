"""Lineage: an event for each commit, which neither waits for its receiver nor depends on it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings, setting_types
from hiveacid.config.setting_definitions import OPENLINEAGE_NAMESPACE, OPENLINEAGE_TO
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import OperationSummary, TableOperation
from hiveacid.errors import ConfigError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Client
from hiveacid.transactions import lineage
from hiveacid.transactions.lineage import LineageSender, sender_of_process
from hiveacid.transactions.openlineage_events import make_event
from hiveacid.transactions.pending_commit import ReportedCommit
from support.directories.shelves import definition

CREATE = "CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
PATIENCE = 60.0
T, S = TableName("shop", "t"), TableName("shop", "s")


class Receiver:
    """A receiver over HTTP; while ``open`` is not set, it does not answer. A client that lost patience sends an event again."""

    def __init__(self) -> None:
        self.open, self.arrived, self.status, self.answers = threading.Event(), threading.Event(), 201, 0
        self.events: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str | None]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.events.append(event)
                receiver.requests.append((self.path, self.headers["Authorization"]))
                receiver.arrived.set()
                receiver.open.wait(PATIENCE)
                receiver.answers += 1
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.open.set()
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture(autouse=True)
def _threads_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_IDLE", 0.05)


def commit(
    verb: str = "INSERT", *, reads: set[TableName] | None = None, sources: set[TableName] | None = None
) -> ReportedCommit:
    summary = OperationSummary(verb, "the text", inserted=2, updated=1, deleted=3, files=1, bytes=99)
    writes = ((TableOperation(T, summary), WriteId(4)),)
    client = Client("ann", "host7", "beeline")
    return ReportedCommit(
        TxnId(17), client, 1_700_000_000_123, frozenset(reads or ()), frozenset(sources or ()), writes
    )


def append(root: Path, settings: dict[str, str]) -> None:
    """Append a row in a warehouse with these settings."""
    store = open_store(str(root), None, Settings(), SystemClock())[0]
    if store.get_table(TableName("default", "t")) is None:
        made = definition(CREATE, str(root / "t"))
        Path(made.location).mkdir()
        store.create_table(made)
    store.close()
    with open_warehouse(str(root), settings=settings) as warehouse:
        warehouse.table("t").append(pa.table({"id": pa.array([1], pa.int32())}))


def test_a_file_gets_a_line_for_each_commit(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    for _ in range(2):
        append(tmp_path, {OPENLINEAGE_TO.name: f"file://{file}", OPENLINEAGE_NAMESPACE.name: "lake"})
    sender_of_process().flush(PATIENCE)
    first, second = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert first["run"]["runId"] != second["run"]["runId"]
    assert (first["eventType"], first["job"]["namespace"], first["job"]["name"]) == (
        "COMPLETE", "lake", "stream default.t",
    )  # fmt: skip
    (output,) = second["outputs"]
    assert (output["namespace"], output["name"]) == ("lake", "default.t")
    assert output["facets"]["version"]["datasetVersion"] == "2"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert first["inputs"] == []


def test_without_the_setting_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineageSender, "report", lambda *_: pytest.fail("nobody asked for it"))
    append(tmp_path, {})


def test_an_event_says_who_did_what() -> None:
    event = make_event("lake", commit("MERGE", reads={T, S}))
    assert event.eventTime == "2023-11-14T22:13:20.123+00:00"
    assert event.job.name == "merge shop.t"
    assert event.job.facets is not None
    assert event.job.facets["sql"].query == "the text"  # type: ignore[attr-defined]
    assert event.run.facets is not None
    facet: Any = event.run.facets["hiveacid_commit"]
    assert (facet.transaction, facet.user, facet.host, facet.agent) == (17, "ann", "host7", "beeline")
    assert event.outputs is not None
    assert event.outputs[0].outputFacets is not None
    rows: Any = event.outputs[0].outputFacets["outputStatistics"]
    assert (rows.rowCount, rows.size, rows.fileCount) == (3, 99, 1)
    changed: Any = event.outputs[0].outputFacets["hiveacid_changedRows"]
    assert (changed.operation, changed.inserted, changed.updated, changed.deleted) == ("MERGE", 2, 1, 3)


@pytest.mark.parametrize(
    ("verb", "reads", "sources", "inputs"),
    [
        ("INSERT", {T}, set(), []),
        ("INSERT", {T}, {S}, ["shop.s"]),
        ("INSERT OVERWRITE", {T}, {T}, ["shop.t"]),
        ("UPDATE", {T, S}, set(), ["shop.s", "shop.t"]),
        ("INSERT, DELETE", {T}, set(), ["shop.t"]),
    ],
)
def test_a_written_table_is_an_input_if_its_rows_were_read(
    verb: str, reads: set[TableName], sources: set[TableName], inputs: list[str]
) -> None:
    event = make_event("lake", commit(verb, reads=reads, sources=sources))
    assert [dataset.name for dataset in event.inputs or ()] == inputs


def test_a_commit_does_not_wait_for_the_receiver(tmp_path: Path, receiver: Receiver) -> None:
    append(tmp_path, {OPENLINEAGE_TO.name: receiver.url})
    assert receiver.answers == 0  # committed and closed
    receiver.open.set()
    sender_of_process().flush(PATIENCE)
    assert {event["job"]["name"] for event in receiver.events} == {"stream default.t"}


def test_the_end_of_the_process_waits_for_the_last_events(tmp_path: Path) -> None:
    append(tmp_path, {})
    code = (
        "import pyarrow as pa, sys\n"
        "import hiveacid.transactions.openlineage_events\n"  # no matter how long that takes here
        "from hiveacid.arrow.warehouse import open_warehouse\n"
        "settings = {'hiveacid.openlineage.to': f'file://{sys.argv[1]}/events'}\n"
        "open_warehouse(sys.argv[1], settings=settings).table('t').append(pa.table({'id': pa.array([1], pa.int32())}))\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, timeout=600)
    assert len((tmp_path / "events").read_text(encoding="utf-8").splitlines()) == 1


def test_a_forked_child_leaves_the_events_of_its_parent_to_it(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not wait for them at its end, and sends its own."""
    sender, file = LineageSender(), tmp_path / "events"
    sender.report(receiver.url, "lake", commit())
    assert receiver.arrived.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        sender.flush(0.01)
        sender.report(f"file://{file}", "lake", commit())
        sender.flush(PATIENCE)
        os._exit(1 if "were not sent" in caplog.text else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1
    receiver.open.set()
    sender.flush(PATIENCE)
    assert len({event["run"]["runId"] for event in receiver.events}) == 1


def test_the_receiver_gets_the_key_and_events_in_their_order(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k3y")
    receiver.open.set()
    sender = LineageSender()
    for verb in ("INSERT", "UPDATE", "DELETE"):
        sender.report(receiver.url, "lake", commit(verb))
    sender.report(f"{receiver.url}/other/place", "lake", commit())
    sender.flush(PATIENCE)
    told = {
        event["run"]["runId"]: (event["job"]["name"], *request)
        for event, request in zip(receiver.events, receiver.requests, strict=True)
    }
    place, key = "/api/v1/lineage", "Bearer k3y"
    assert [*told.values()] == [
        ("insert shop.t", place, key), ("update shop.t", place, key), ("delete shop.t", place, key),
        ("insert shop.t", "/other/place", key),
    ]  # fmt: skip


def test_a_receiver_that_refuses_is_told_of_once_until_it_takes_events_again(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hiveacid.transactions.lineage")
    receiver.open.set()
    sender = LineageSender()
    for status in (400, 400, 201, 400):
        receiver.status = status
        sender.report(receiver.url, "lake", commit())
        sender.flush(PATIENCE)
    # a thread of another test may log here, too
    said = [record.levelname for record in caplog.records if record.name == "hiveacid.transactions.lineage"]
    assert said == ["WARNING", "INFO", "WARNING"]
    assert "was not told of transaction 17: 400" in caplog.text


@pytest.mark.parametrize("target", ["http://127.0.0.1:9", "file:///nowhere/at/all"])
def test_what_cannot_be_reached_fails_no_commit(
    tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    append(tmp_path, {OPENLINEAGE_TO.name: target})
    sender_of_process().flush(PATIENCE)
    assert f"{target} was not told of transaction" in caplog.text
    with open_warehouse(str(tmp_path)) as warehouse:
        assert warehouse.table("t").to_arrow().num_rows == 1


def test_events_beyond_the_limit_are_dropped_and_counted(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "MOST_WAITING", 2)
    sender = LineageSender()
    for _ in range(5):  # one is being sent, or still waits
        sender.report(receiver.url, "lake", commit())
    assert "2 others wait" in caplog.text
    sender.flush(0.01)
    assert "events were not sent before the end" in caplog.text
    receiver.open.set()
    sender.flush(PATIENCE)
    assert len({event["run"]["runId"] for event in receiver.events}) in {2, 3}


def test_the_thread_ends_when_nothing_comes_and_begins_again(tmp_path: Path) -> None:
    sender, file = LineageSender(), tmp_path / "events"
    for expected in (1, 2):
        sender.report(f"file://{file}", "lake", commit())
        sender.flush(PATIENCE)
        for thread in threading.enumerate():
            if thread.name == "hiveacid-lineage":
                thread.join(PATIENCE)
                assert not thread.is_alive()
        assert len(file.read_text(encoding="utf-8").splitlines()) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected off"),
        ("events.jsonl", "expected off"),
        ("file://host/x", "expected off"),
        ("ftp://host/x", "expected off"),
        ("http://", "expected off"),
        ("http://host:port", "not a URL"),
        ("https://ann:tea@host", "OPENLINEAGE_API_KEY"),
        ("https://host/?key=tea", "OPENLINEAGE_API_KEY"),
    ],
)
def test_a_target_that_cannot_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Settings.of({OPENLINEAGE_TO.name: text})


def test_without_the_library_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_types, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'hiveacid\[openlineage\]'"):
        Settings.of({OPENLINEAGE_TO.name: "file:///events"})
    assert Settings.of({OPENLINEAGE_TO.name: "off"}).get(OPENLINEAGE_TO) == "off"

"""Actions of operators, their lines in the audit log, and the page that follows."""

from __future__ import annotations

import json
import logging
from urllib.parse import parse_qs, urlsplit

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.services.http_server import Access
from hiveacid.web.login import Gate, Headers
from support.busy_store import DATABASE, BusyStore
from support.web_site import SiteOf, header

T = TableName(DATABASE, "t")
JSON = ("Accept", "application/json")


@pytest.fixture
def site(quiet: BusyStore, caplog: pytest.LogCaptureFixture) -> SiteOf:
    caplog.set_level(logging.INFO, "hiveacid.audit")
    quiet.store.create_database(DatabaseDefinition(DATABASE, str(quiet.root / DATABASE)))
    quiet.table(T)
    quiet.commit(T, 5)
    made = SiteOf(quiet.store)
    made.keeper.turn()
    return made


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "hiveacid.audit"]


def token_of(site: SiteOf) -> str:
    """Return the token of the only visitor."""
    visitor = site.gate.visitor(Headers("127.0.0.1", ()))
    assert visitor is not None
    return visitor.token


def test_a_compaction_is_queued_and_its_page_says_so(site: SiteOf, caplog: pytest.LogCaptureFixture) -> None:
    form = {
        "token": token_of(site),
        "database": DATABASE,
        "table": "t",
        "kind": "minor",
        "back": "/?q=t&size=10",
    }
    page = site.post("/actions/compact", form)
    assert page.status == 303
    target = header(page, "location") or ""
    assert target.startswith("/?q=t&size=10&notice=")
    shown = site.html(target)
    assert "A minor compaction of shop.t is queued." in shown
    assert '<span class="badge need-running">' in shown
    (job,) = site.store.show_compactions()
    assert (job.request.kind, job.request.pool, job.initiator, job.state) == (
        "minor",
        "default",
        "web-local",
        "initiated",
    )
    (line,) = audit_lines(caplog)
    assert line == (
        'event=web_compact user="local" host="127.0.0.1" done="A minor compaction of shop.t is queued." '
        'database="shop" table="t" kind="minor"'
    )
    forged = target.replace("queued", "dropped")
    assert "dropped" not in site.html(forged)
    assert "notice" not in parse_qs(urlsplit(site.html(target).partition('href="/tables.json')[2]).query)


def post(site: SiteOf, action: str, **form: object) -> tuple[int, str]:
    page = site.post(f"/actions/{action}", {"token": token_of(site), **form}, JSON)
    found = json.loads(page.body)
    return int(page.status), found.get("done") or found["error"]


def test_what_waits_is_not_queued_twice(site: SiteOf, caplog: pytest.LogCaptureFixture) -> None:
    assert post(site, "compact", database=DATABASE, table="t")[0] == 200
    status, text = post(site, "compact", database=DATABASE, table="t")
    assert status == 409
    assert "already" in text
    assert 'error="' in audit_lines(caplog)[-1]


def test_an_automatic_job_that_waits_gives_way_to_that_of_an_operator(site: SiteOf) -> None:
    """It may wait for its window, and so did one that was queued again, because it had its reason."""
    automatic = CompactionRequest(TableName(DATABASE, "t"), None, "major", reason="many deltas")
    first = site.store.enqueue_compaction(automatic, "initiator").id
    assert post(site, "compact", database=DATABASE, table="t")[0] == 200
    assert post(site, "compact", database=DATABASE, table="t")[0] == 409
    assert post(site, "retry", compaction=first)[0] == 409
    site.store.end_compaction(first + 1, "aborted")
    assert post(site, "retry", compaction=first)[0] == 200
    assert [(job.state, job.request.reason) for job in site.store.show_compactions()] == [
        ("did not initiate", "many deltas"), ("aborted", None), ("initiated", None),
    ]  # fmt: skip


def test_partitions_with_deltas_are_compacted(site: SiteOf, quiet: BusyStore) -> None:
    name = TableName(DATABASE, "p")
    quiet.table(name, ("1", "2", "3"))
    for number in (0, 2):
        quiet.commit(name, 5, where=quiet.root / DATABASE / "p" / f"day={number}")
    site.keeper.turn()
    assert post(site, "compact", database=DATABASE, table="p") == (
        200,
        "2 major compactions of shop.p are queued.",
    )
    assert [job.request.partition for job in site.store.show_compactions()] == ["day=1", "day=3"]
    assert post(site, "compact", database=DATABASE, table="p", partition="day=2")[0] == 200
    assert post(site, "compact", database=DATABASE, table="p", partition="day=9")[0] == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"table": "none"}, 404),
        ({"table": "t", "kind": "rebalance"}, 400),
        ({"table": "x" * 400}, 400),
        ({}, 400),
    ],
)
def test_wrong_forms_are_refused(site: SiteOf, form: dict[str, str], status: int) -> None:
    assert post(site, "compact", database=DATABASE, **form)[0] == status
    assert site.store.show_compactions() == ()


def test_a_failed_job_is_queued_again(site: SiteOf, quiet: BusyStore) -> None:
    job = quiet.compact(T, "fail", "disk full")
    assert post(site, "retry", compaction=job) == (
        200,
        f"Compaction {job} is queued again, as compaction {job + 1}.",
    )
    assert post(site, "retry", compaction=job + 1)[0] == 409
    assert post(site, "retry", compaction=99)[0] == 409
    assert post(site, "retry", compaction="x")[0] == 400
    assert post(site, "abort_compaction", compaction=job + 1) == (200, f"Compaction {job + 1} is aborted.")
    assert post(site, "abort_compaction", compaction=job + 1)[0] == 409
    assert [one.state for one in site.store.show_compactions()] == ["failed", "aborted"]


def test_a_transaction_is_aborted(site: SiteOf, quiet: BusyStore, caplog: pytest.LogCaptureFixture) -> None:
    txn_id = quiet.lock("ann", "t", LockType.EXCLUSIVE)
    assert post(site, "abort", transaction=txn_id) == (200, f"Transaction {txn_id} is aborted.")
    assert site.store.txn_state(txn_id) == "aborted"
    assert f'transaction="{txn_id}"' in audit_lines(caplog)[-1]
    assert post(site, "abort", transaction=999)[0] == 404
    assert post(site, "abort", transaction=10**30)[0] == 400
    assert post(site, "drop", transaction=1)[0] == 404


def test_who_only_looks_sees_no_buttons_and_cannot_act(
    site: SiteOf, caplog: pytest.LogCaptureFixture
) -> None:
    looking = SiteOf(site.store, Gate.of(Access()))
    looking.keeper.turn()
    for target in ("/", "/transactions", "/locks", "/compactions", "/tables/shop/t"):
        assert "/actions/" not in looking.html(target)
    assert post(looking, "compact", database=DATABASE, table="t")[0] == 403
    assert site.store.show_compactions() == ()
    assert audit_lines(caplog)[-1].startswith("event=web_refused")


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\n//evil"]
)
def test_an_action_leads_to_no_other_host(site: SiteOf, back: str) -> None:
    form = {"token": token_of(site), "database": DATABASE, "table": "t", "back": back}
    assert (header(site.post("/actions/compact", form), "location") or "").startswith("/?notice=")


def test_the_timeline_of_a_table_begins_at_its_size_now(site: SiteOf, quiet: BusyStore) -> None:
    """It was compacted since it was measured."""
    quiet.advance(60)
    quiet.commit(T, 500)
    quiet.advance(60)
    quiet.compact(T)
    found = site.json("/tables/shop/t?range=all")
    assert found["deltas"] == 0
    assert found["sizes"][-1][1] == found["bytes"]
    assert found["sizes"][0][1] == 0
    assert max(size for _, size in found["sizes"]) > found["bytes"]

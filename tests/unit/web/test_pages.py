"""What the pages say, as JSON and as HTML, of a store in use; what may be asked."""

from __future__ import annotations

import json
import re

import pytest

from hiveacid.web.figures import ConflictSample, Overview
from hiveacid.web.pages import conflicts
from support.busy_store import HOSTILE
from support.web_site import SiteOf, header

PAGES = (
    "/", "/?q=order&sort=bytes&order=asc&size=10", "/transactions?state=all", "/locks", "/compactions?state=active",
    "/compactions?q=space&range=all", "/services", "/tables/shop/orders?range=all", "/tables/shop/orders?kind=compaction",
    "/tables/shop/events/partitions", "/tables/shop/orders/files", "/tables/shop/events/files?by=file&state=used",
    "/tables/shop/orders/schema", "/tables/shop/plain_copy", "/tables/shop/%3Cimg%20src=x%20onerror=alert(1)%3E",
)  # fmt: skip


@pytest.mark.parametrize("target", PAGES)
def test_each_page_has_the_same_values_as_json(busy: SiteOf, target: str) -> None:
    """By the end of the path and by the header."""
    assert "<h1>" in busy.html(target)
    path, question, query = target.partition("?")
    named = busy.get(f"{'/tables' if path == '/' else path}.json{question}{query}")
    assert (named.status, named.kind) == (200, "application/json")
    asked = busy.json(target)
    assert json.loads(named.body)["title"] == asked["title"]
    assert {"pager", "now", "columns", "summary"} & set(asked)


@pytest.mark.parametrize("target", PAGES)
def test_no_text_of_a_store_becomes_markup(busy: SiteOf, target: str) -> None:
    page = busy.html(target)
    assert "<img src=x" not in page
    assert re.findall(r"<img [^>]*>", page) == re.findall(r'<img src="/static/icon[^>]*>', page)
    assert not re.search(r"\son\w+=\"", page)
    assert "style=" not in page


def test_tables_come_by_their_need_with_a_sentence_each(busy: SiteOf) -> None:
    found = busy.json("/")
    by_name = {row["table"]: row for row in found["tables"]}
    assert found["tables"][0]["need"] == "failing"
    assert "No space left on device" in by_name["returns"]["advice"]
    assert by_name["orders"]["need"] == "due"
    assert by_name["prices"]["advice"] == "A compaction runs."
    assert by_name["suppliers"]["advice"] == "A compaction is queued."
    assert "Automatic compaction is off" in by_name["archive"]["advice"]
    assert by_name["plain_copy"]["need"] == "none"
    assert by_name["orders"]["deltas"] == 16
    assert by_name["orders"]["deleted_share"] == pytest.approx(100 / by_name["orders"]["rows"])
    assert by_name["events"]["partitions"] == 3
    assert found["needs"]["failing"] == 1
    assert busy.json("/?need=due")["pager"]["total"] == 1
    assert [row["table"] for row in busy.json("/?sort=name&q=s&size=10")["tables"]] == sorted(
        row["table"] for row in busy.json("/?sort=name&q=s&size=10")["tables"]
    )


def test_open_transactions_show_what_they_hold_back(busy: SiteOf) -> None:
    found = busy.json("/transactions")
    by_user = {row["user"]: row for row in found["transactions"]}
    assert by_user["ann"]["blocks"] == 3
    assert by_user["ann"]["holds_back_count"] == 1
    assert by_user["ben"]["waits_for"] == by_user["ann"]["id"]
    assert by_user["ben"]["tables"] == ["shop.orders"]
    assert by_user["hive"]["compaction"] is not None
    aborted = busy.json("/transactions?state=aborted")["transactions"]
    assert "50003" in [row["code"] for row in aborted]


def test_locks_are_a_graph_of_waits(busy: SiteOf) -> None:
    found = busy.json("/locks")
    names = {int(txn): user.partition("@")[0] for txn, user in found["users"].items()}
    edges = {(names[wait["txn_id"]], names[wait["waits_for"]]) for wait in found["waits"]}
    assert edges == {("ben", "ann"), ("cleo", "ben"), ("dan", "ben"), ("finn", "eve")}
    assert found["deadlocked"] == 0
    assert busy.json("/locks?state=waiting")["pager"]["total"] == 4
    assert 'class="node root"' in busy.html("/locks")


def test_the_queue_has_durations_and_errors(busy: SiteOf) -> None:
    jobs = {row["table"]: row for row in busy.json("/compactions?range=all")["compactions"]}
    assert HOSTILE in jobs["returns"]["error"]
    assert jobs["returns"]["may_retry"]
    assert jobs["suppliers"]["may_abort"]
    assert (jobs["customers"]["waited"], jobs["customers"]["seconds"]) == (8.0, 75.0)
    assert busy.json("/compactions?state=failed")["pager"]["total"] == 1


def test_services_show_their_last_job(busy: SiteOf) -> None:
    found = busy.json("/services")
    assert {row["kind"] for row in found["services"]} == {"initiator", "worker", "cleaner", "housekeeper"}
    assert found["missing"] == []
    worker = next(row for row in found["services"] if row["kind"] == "worker")
    assert worker["last_job"]["table"] == "prices"


def test_the_timeline_has_commits_compactions_cleanings_and_aborts(busy: SiteOf) -> None:
    found = busy.json("/tables/shop/orders?range=all&size=200")
    kinds = [event["kind"] for event in found["events"]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "commit": 62, "compaction": 2, "cleaning": 2, "abort": 1,
    }  # fmt: skip
    times = [event["time"] for event in found["events"]]
    assert times == sorted(times, reverse=True)
    assert sum(event["inserted"] or 0 for event in found["events"]) == sum(
        120 + hour % 24 * 15 for hour in range(60)
    )
    sizes = [size for _, size in found["sizes"]]
    assert sizes[-1] == found["bytes"]
    assert max(sizes) > 2 * sizes[-1]
    assert busy.json("/tables/shop/orders?range=1h")["pager"]["total"] < 10
    assert busy.json("/tables/shop/returns?kind=failure")["events"][0]["text"].startswith(
        "java.io.IOException"
    )


def test_a_table_shows_its_figures_over_time(busy: SiteOf) -> None:
    """As they were recorded, and as they are now; a range begins with what held at its begin."""
    found = busy.json("/tables/shop/orders?range=all")
    points = found["figures"]
    assert [point["time"] for point in points] == sorted({point["time"] for point in points})
    # of hours 0, 6, … 54; hour 6 is not the last of its day, and older than two days
    assert [point["deltas"] for point in points[:-1]] == [1, 13, 19, 1, 7, 13, 19, 1, 7]
    assert (points[-1]["deltas"], points[-1]["time"]) == (found["deltas"], found["measured"])
    assert points[1]["deleted"] == pytest.approx(100 * 325 / 3440)
    moment = "2023-11-15T{}:00"
    some = busy.json(f"/tables/shop/orders?from={moment.format('11')}&to={moment.format('23')}")["figures"]
    assert some == points[1:4]
    page = busy.html("/tables/shop/orders?range=all")
    for label in (
        "Deltas, with delete deltas: from 1 to ",
        "Delete deltas: from 0 to ",
        "Deleted rows, per cent: from ",
    ):
        assert f'aria-label="{label}' in page
    assert "No other figures are known" in busy.html("/tables/shop/stock?range=all")
    assert "No other figures" not in busy.html("/tables/shop/plain_copy?range=all")


def test_the_store_shows_its_figures_and_conflicts_over_time(busy: SiteOf) -> None:
    found = busy.json("/?range=all")
    assert [point["bytes"] for point in found["trend"]] == [
        9000 + 600 * number for number in range(10) if number != 1
    ]
    page = busy.html("/?range=all")
    assert 'aria-label="Size: from 8.8 KiB to 14.1 KiB"' in page
    assert "Nothing is recorded in this time range" in busy.html("/?range=1h&to=2020-01-01")
    past = busy.json("/transactions?from=2023-11-14&to=2023-11-17T04:00")["conflicts"]
    assert (past["conflicts"], len(past["samples"])) == (4, 7)
    assert past["rate"] == past["conflicts"] / past["begun"] > 0


def test_conflicts_of_counts_out_of_order_are_not_negative() -> None:
    """As after a clock that was set back: 10 transactions had begun, then 4, then 6."""
    samples = (ConflictSample(1, 10, 5), ConflictSample(2, 4, 1), ConflictSample(3, 6, 2))
    found = conflicts(Overview(samples=samples), 0, 9)
    assert (found["begun"], found["conflicts"], found["rate"]) == (2, 1, 0.5)


def test_a_range_may_be_two_moments(busy: SiteOf) -> None:
    now = busy.json("/tables/shop/orders")["now"]
    inside = busy.json("/tables/shop/orders?from=2023-11-14T22:30&to=2023-11-15T22:30&size=200")
    assert now > 1_700_000_000_000
    assert 0 < inside["pager"]["total"] < 40
    assert all(1_700_001_000_000 < event["time"] <= 1_700_087_400_000 for event in inside["events"])
    assert "2023-11-14 22:30:00 to" in busy.html(
        "/tables/shop/orders?from=2023-11-14T22:30&to=2023-11-15T22:30"
    )


@pytest.mark.parametrize("page", ["/", "/transactions", "/compactions", "/tables/shop/orders"])
@pytest.mark.parametrize(
    ("moments", "status"),
    [
        ("from=0001-01-01&to=9999-12-31T23:59:59.999999", 200),
        ("from=2026-01-01&to=1960-01-01", 200),
        ("to=9999-12-31T23:59-14:00", 400),
        ("from=0001-01-01T00:00%2B14:00", 400),
    ],
)
def test_a_range_may_end_where_the_calendar_does(busy: SiteOf, page: str, moments: str, status: int) -> None:
    """Charts failed to write the year 10000, and the page with them."""
    assert busy.get(f"{page}?{moments}").status == status


def test_files_say_why_they_are_read_or_not(busy: SiteOf) -> None:
    found = busy.json("/tables/shop/orders/files?size=200")
    assert {row["state"] for row in found["listed"]} >= {"used", "obsolete"}
    used = busy.json("/tables/shop/orders/files?state=used&by=file")
    assert sum(row["bytes"] for row in used["listed"]) == found["bytes"]


def test_partitions_show_their_figures(busy: SiteOf) -> None:
    found = busy.json("/tables/shop/events/partitions")
    deltas = {row["partition"]: row["deltas"] for row in found["listed"]}
    assert deltas["day=2026-11-28"] == 5
    assert len(deltas) == 3


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/?page=0", 400), ("/?page=-1", 400), ("/?page=9999999999999999999999", 400), ("/?size=1000000", 400),
        ("/?size=%D9%A3%D9%A3", 400), ("/?sort=x", 400), ("/?need=x", 400), ("/transactions?state=x", 400),
        (f"/?q={'x' * 301}", 400), ("/compactions?range=1y", 400), ("/compactions?from=yesterday", 400),
        ("/tables/shop/orders?from=2026-13-01", 400), ("/nothing", 404), ("/tables/shop/none", 404),
        ("/tables/none/none", 404), ("/tables/shop/orders/nothing", 404), ("/tables/shop", 404), ("/static/../app.py", 404),
        ("/static/app.py", 404), (f"/?{'&'.join(f'a{n}=1' for n in range(40))}", 400), ("/login/", 404),
    ],
)  # fmt: skip
def test_parameters_have_bounds(busy: SiteOf, target: str, status: int) -> None:
    page = busy.get(target)
    assert page.status == status, page.body
    assert b"Traceback" not in page.body


def test_a_page_beyond_the_last_is_the_last(busy: SiteOf) -> None:
    assert busy.json("/?page=400&size=10")["pager"]["page"] == 2


def test_no_page_loads_anything_from_elsewhere(busy: SiteOf) -> None:
    for target in PAGES:
        page = busy.get(target)
        policy = header(page, "content-security-policy") or ""
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert header(page, "cache-control") == "no-store"
        assert header(page, "x-content-type-options") == "nosniff"
        links = re.findall(rb'(?:href|src|action)="([^"]*)"', page.body)
        assert all(link.startswith((b"/", b"#")) and not link.startswith(b"//") for link in links)


def test_links_keep_the_state_of_a_page(busy: SiteOf) -> None:
    page = busy.html("/?q=s&need=fine&size=10")
    assert 'href="/?q=s&amp;need=fine&amp;size=10&amp;sort=bytes"' in page
    assert 'href="/tables.json?q=s&amp;need=fine&amp;size=10"' in page


def test_live_answers_without_the_store(busy: SiteOf) -> None:
    assert busy.get("/live").body == b"ok\n"

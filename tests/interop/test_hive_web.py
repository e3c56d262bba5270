"""The pages of hiveacid web on a real metastore: each is there, says what Hive does not tell, and operators can act."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hive_server import HiveServers

from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.web.login import Headers
from support.busy_store import DATABASE, BusyStore
from support.web_site import SiteOf

T = TableName(DATABASE, "t")
PAGES = (
    "/", "/transactions?state=all", "/locks", "/compactions?range=all", "/services", "/tables/shop/t?range=all",
    "/tables/shop/p/partitions", "/tables/shop/t/files?by=file", "/tables/shop/t/schema",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(hive: HiveServers) -> Iterator[SiteOf]:
    store = MetastoreStore(hive.url, owner="ann")
    root = Path(hive.place) / "pages"
    store.create_database(DatabaseDefinition(DATABASE, str(root / DATABASE)))
    busy = BusyStore(store, root)
    busy.table(T)
    busy.table(TableName(DATABASE, "p"), ("1", "<b>"))
    for _ in range(3):
        busy.commit(T, 10, 2)
    busy.lock("ann", "t", LockType.SHARED_READ)
    made = SiteOf(store)
    made.keeper.turn()
    yield made
    store.close()


@pytest.mark.parametrize("target", PAGES)
def test_each_page_is_there(site: SiteOf, target: str) -> None:
    assert "<h1>" in site.html(target)


def test_what_hive_tells_is_shown(site: SiteOf) -> None:
    row = next(one for one in site.json("/?q=shop.t")["tables"])
    assert (row["deltas"], row["files"], row["rows"], row["deletes"]) == (6, 6, 30, 6)
    assert "day=&lt;b&gt;" in site.html("/tables/shop/p/partitions")
    assert len(site.json("/transactions")["transactions"]) == 1
    assert site.json("/locks")["locks"][0]["table"] == "t"
    events = site.json("/tables/shop/t?range=all")["events"]
    assert [event["write_id"] for event in events] == [3, 2, 1]
    assert "keeps no commits" in site.html("/tables/shop/t?range=all")
    assert "keeps no figures of the past" in site.html("/")


def test_a_compaction_is_queued_in_the_metastore(site: SiteOf) -> None:
    visitor = site.gate.visitor(Headers("127.0.0.1", ()))
    assert visitor is not None
    form = {"token": visitor.token, "database": DATABASE, "table": "t"}
    page = site.post("/actions/compact", form, ("Accept", "application/json"))
    assert json.loads(page.body) == {"done": "A major compaction of shop.t is queued."}
    (job,) = site.store.show_compactions()
    assert (job.request.table, job.request.kind, job.state) == (T, "major", "initiated")
    assert site.json("/?q=shop.t")["tables"][0]["need"] == "running"

"""The pages of hiveacid web on a real PostgreSQL say the same as those of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from support.busy_store import BusyStore
from support.servers.databases import Server
from support.web_site import SiteOf

PAGES = (
    "/", "/transactions?state=all", "/locks", "/compactions?range=all", "/services", "/tables/shop/orders?range=all",
    "/tables/shop/events/partitions", "/tables/shop/orders/files?by=file", "/tables/shop/orders/schema",
)  # fmt: skip


def filled(store: SqlStore, root: Path) -> SiteOf:
    BusyStore(store, root).fill()
    site = SiteOf(store)
    site.keeper.turn()
    return site


@pytest.fixture(scope="module")
def sites(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SiteOf, SiteOf]]:
    """Return the site of a PostgreSQL store and that of an SQLite store, in the same use."""
    root = tmp_path_factory.mktemp("sqlite")
    stores = SqlStore(postgres_server.make_database("web")), SqlStore(sqlite_url(root / "store.db"))
    yield filled(stores[0], tmp_path_factory.mktemp("postgres")), filled(stores[1], root)
    for store in stores:
        store.close()


@pytest.mark.parametrize("target", PAGES)
def test_each_page_is_there(sites: tuple[SiteOf, SiteOf], target: str) -> None:
    assert "<h1>" in sites[0].html(target)


@pytest.mark.parametrize(
    ("target", "list_of", "names"),
    [
        ("/?sort=name", "tables", ("table", "need", "deltas", "files", "rows", "deletes")),
        ("/locks", "waits", ("txn_id", "waits_for", "root", "depth", "deadlocked")),
        ("/compactions?range=all", "compactions", ("id", "table", "state", "error", "may_retry")),
        ("/services", "services", ("name", "kind")),
        ("/tables/shop/orders/files?size=200", "listed", ("path", "state", "reason", "files")),
        (
            "/transactions?state=all",
            "transactions",
            ("id", "state", "user", "code", "locks", "blocks", "waits_for"),
        ),
    ],
)
def test_both_say_the_same(
    sites: tuple[SiteOf, SiteOf], target: str, list_of: str, names: tuple[str, ...]
) -> None:
    rows = [[{name: row[name] for name in names} for row in site.json(target)[list_of]] for site in sites]
    assert rows[0] == rows[1]
    assert rows[0]

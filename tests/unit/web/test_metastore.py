"""The pages of a store that tells as little as a Hive Metastore."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.stores.sql.store import SqlStore
from support.web_site import SiteOf

PAGES = (
    "/", "/transactions?state=all", "/locks", "/compactions?range=all", "/services", "/tables/shop/orders?range=all",
    "/tables/shop/events/partitions", "/tables/shop/orders/files?by=file", "/tables/shop/orders/schema",
)  # fmt: skip


class Metastore:
    """A store whose optional calls are missing, as those of a Hive Metastore are."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Hand the calls on that a metastore has."""
        if name in (
            "show_services",
            "changed_partitions",
            "commits",
            "housekeep",
            "announce_service",
            "list_streams",
            "recorded_figures",
            "count_transactions",
        ):
            return self._refuse
        return getattr(self._store, name)

    def maintained_by_hiveacid(self) -> bool:
        """Tell that Hive has services of its own."""
        return False

    def _refuse(self, *_: object) -> NoReturn:
        raise UnsupportedFeatureError("a Hive Metastore does not tell")


@pytest.fixture(scope="module")
def metastore(busy: SiteOf) -> SiteOf:
    site = SiteOf(Metastore(busy.store))
    site.keeper.turn()
    return site


@pytest.mark.parametrize("target", PAGES)
def test_each_page_of_a_metastore_is_there(metastore: SiteOf, target: str) -> None:
    assert "<h1>" in metastore.html(target)
    assert metastore.json(target)["title"]


def test_pages_say_what_a_metastore_does_not_tell(metastore: SiteOf) -> None:
    for target, text in (
        ("/services", "does not tell which of its services run"),
        ("/transactions", "tells neither why a transaction was aborted"),
        ("/transactions", "Conflicts are not known of a Hive Metastore"),
        ("/tables/shop/orders?range=all", "keeps no commits"),
        ("/tables/shop/orders?range=all", "keeps no figures of the past, either"),
        ("/", "The store is a Hive Metastore. It keeps no figures of the past."),
    ):
        assert text in metastore.html(target)
    assert "No initiator runs" not in metastore.html("/")
    events = metastore.json("/tables/shop/orders?range=all")["events"]
    assert {event["kind"] for event in events} == {"commit", "compaction", "cleaning"}
    assert any(event["time"] is None and event["files"] for event in events)
    assert {row["need"] for row in metastore.json("/")["tables"]} >= {"failing", "due", "running", "fine"}
    assert metastore.json("/services")["workers"][0]["name"] == "host-3-4711-ab12cd34.worker0"

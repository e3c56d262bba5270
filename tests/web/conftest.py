"""A browser for all tests, and servers of stores in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from hiveacid.config import Settings
from hiveacid.services.http_server import Access
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from hiveacid.table.read.inventory import StandaloneAccess
from hiveacid.web.login import Gate
from hiveacid.web.server import WebServer
from support.browser import Serve, browser, show_as, why_no_browser
from support.busy_store import BusyStore
from support.clock import ManualClock
from support.servers.databases import Server


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """Return the browser."""
    reason = why_no_browser()
    if reason is not None:
        pytest.skip(reason)
    with browser() as made:
        yield made


@pytest.fixture
def chrome(driver: Chrome) -> Chrome:
    """Return the browser as on a desk, logged in nowhere."""
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    show_as(driver)
    driver.get_log("browser")
    return driver


@pytest.fixture(scope="session")
def serve() -> Iterator[Serve]:
    """Return a function that serves a store, and returns the address."""
    with ExitStack() as stack:

        def start(store: SqlStore, gate: Gate, *, measured: bool = True) -> str:
            stack.callback(store.close)
            access = StandaloneAccess(LocalFileSystem(), store, store)
            server = WebServer(access, Settings(), gate, 0, "tests")
            if measured:
                server.keeper.turn()
            stack.enter_context(server)
            return f"http://127.0.0.1:{server.port}"

        yield start


def fill(store: SqlStore, root: Path, clock: ManualClock | None = None) -> SqlStore:
    (BusyStore(store, root) if clock is None else BusyStore(store, root, clock.advance)).fill()
    return store


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def busy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> str:
    """Return the address of a store in use, which tests do not change: SQLite, and a real PostgreSQL."""
    root = tmp_path_factory.mktemp("busy")
    if request.param == "sqlite":
        clock = ManualClock()
        store = fill(SqlStore(sqlite_url(root / "store.db"), clock=clock), root, clock)
    else:
        server: Server = request.getfixturevalue("postgres_server")
        store = fill(SqlStore(server.make_database("browser")), root)
    return serve(store, Gate.of(Access(), ("local",)))


@pytest.fixture
def changing(tmp_path: Path) -> SqlStore:
    """Return a store in use that a test may change; its server closes it."""
    clock = ManualClock()
    return fill(SqlStore(sqlite_url(tmp_path / "store.db"), clock=clock), tmp_path, clock)

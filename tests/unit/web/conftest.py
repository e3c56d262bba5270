"""A busy store, filled once, for tests that only look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from support.busy_store import BusyStore
from support.clock import ManualClock
from support.web_site import SiteOf


def open_busy(root: Path) -> BusyStore:
    """Return an empty store with a clock that its scenes move."""
    clock = ManualClock()
    return BusyStore(SqlStore(sqlite_url(root / "store.db"), clock=clock), root, clock.advance)


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteOf]:
    """Return the site of a store in use, which tests must not change."""
    made = open_busy(tmp_path_factory.mktemp("busy"))
    made.fill()
    site = SiteOf(made.store)
    site.keeper.turn()
    yield site
    made.store.close()


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[BusyStore]:
    """Return an empty store."""
    made = open_busy(tmp_path)
    yield made
    made.store.close()

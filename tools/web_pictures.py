"""Take the pictures of docs/web.md: pages of hiveacid web on a store that this script fills, in Chromium.

    PYTHONPATH=src:tests python tools/web_pictures.py

The clock of the store is its own, so that the pictures change only with the pages.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hiveacid.config import Settings
from hiveacid.services.http_server import Access
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from hiveacid.table.read.inventory import StandaloneAccess
from hiveacid.web.login import Gate
from hiveacid.web.server import WebServer
from support.browser import PHONE, browser, show_as
from support.busy_store import BusyStore
from support.clock import ManualClock

PLACE = Path(__file__).parent.parent / "docs" / "web"
DESK = (1120, 660)
BEGIN = datetime(2026, 9, 1, 6, tzinfo=UTC)
PICTURES = (
    ("tables", "/", DESK, "light"),
    ("table", "/tables/shop/orders?range=7d", DESK, "dark"),
    ("locks", "/locks", DESK, "light"),
    ("phone", "/transactions", PHONE, "light"),
)
LARGEST = 150_000  # bytes


def main() -> int:
    """Write the pictures; return 1 if one is too large."""
    clock = ManualClock(int(BEGIN.timestamp() * 1000))
    too_large = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = SqlStore(sqlite_url(root / "store.db"), clock=clock)
        BusyStore(store, root, clock.advance, odd="carts").fill()
        access = StandaloneAccess(LocalFileSystem(), store, store)
        gate = Gate.of(Access(), ("local",))
        with WebServer(access, Settings(), gate, 0, "s3a://lake/wh") as server, browser() as driver:
            server.keeper.turn()
            for name, target, size, scheme in PICTURES:
                show_as(driver, size, scheme)
                driver.get(f"http://127.0.0.1:{server.port}{target}")
                file = PLACE / f"{name}.png"
                file.write_bytes(driver.get_screenshot_as_png())
                too_large += file.stat().st_size > LARGEST
                print(f"{file.name}: {file.stat().st_size:,} bytes")
        store.close()
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())

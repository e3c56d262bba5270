"""Chromium without a window, which reaches no host but this machine's servers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from hiveacid.stores.sql.store import SqlStore
from hiveacid.web.login import Gate

DESKTOP, PHONE = (1280, 800), (390, 844)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--ignore-certificate-errors",
    "--force-device-scale-factor=1", "--hide-scrollbars", "--lang=en", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip


class Serve(Protocol):
    """Serves a store; ``measured``: the first page has all figures."""

    def __call__(self, store: SqlStore, gate: Gate, *, measured: bool = True) -> str:
        """Return the address."""


def why_no_browser() -> str | None:
    """Return what is missing, or None."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} is not installed (tools/browser.sh)" if missing else None


@contextmanager
def browser() -> Iterator[Chrome]:
    """Yield a browser with a profile of its own."""
    with TemporaryDirectory(prefix="hiveacid-browser-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options, Service(shutil.which("chromedriver")))
        try:
            driver.set_page_load_timeout(60)
            yield driver
        finally:
            driver.quit()


def show_as(driver: Chrome, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> None:
    """Set the width and height of pages, and light or dark."""
    width, height = size
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < DESKTOP[0]},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def picture(driver: Chrome, path: Path) -> None:
    """Take a picture of what is seen."""
    path.write_bytes(driver.get_screenshot_as_png())

"""Look at the built site: nothing comes from another host, and Chromium draws three of its pages with their pictures.

    python tools/site_pictures.py site [DIRECTORY for the pictures]

Without Chromium only the first is checked, and a line says so. Pillow judges the pictures.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

from PIL import Image

PAGES = ("index.html", "life-of-a-snapshot.html", "states.html")
FEWEST_COLOURS = 50  # a blank page, or one without its style, has fewer
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Without a sandbox, because CI is root in a container; the names of other hosts are not even looked up.
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--allow-file-access-from-files"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=15000"),
)


class Loaded(HTMLParser):
    """The addresses that a page loads by itself (what a reader may click does not count)."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads."""
        values = dict(attrs)
        if tag == "link" and (values.get("rel") or "").split()[:1] not in (
            ["stylesheet"],
            ["icon"],
            ["preload"],
        ):
            return
        if tag != "a":
            self.addresses += [values[name] or "" for name in ("src", "href", "data") if name in values]


def foreign_addresses(site: Path) -> list[str]:
    """Return what pages and style sheets load from other hosts."""
    found = []
    for path in sorted(site.rglob("*.html")):
        loaded = Loaded()
        loaded.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.name}: {address}" for address in loaded.addresses if urlsplit(address).netloc]
    for path in sorted(site.rglob("*.css")):
        addresses = re.findall(r"url\(\s*[\"']?(https?:)?//[^)]*\)", path.read_text(encoding="utf-8"))
        found += [f"{path.name}: {address}" for address in addresses]
    return found


def browse(browser: str, page: Path, *options: str) -> str:
    """Open a page in a new profile; return what the browser prints."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *OPTIONS, f"--user-data-dir={profile}", *options, page.resolve().as_uri()]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90)
    return done.stdout


def faults_of(browser: str, page: Path, picture: Path) -> list[str]:
    """Take a picture of a page; return what is wrong with it."""
    wanted = page.read_text(encoding="utf-8").count('<pre class="mermaid">')
    shown = browse(browser, page, "--dump-dom")
    # the theme puts a drawing into a div in place of its text
    drawn = shown.count('<div class="mermaid"')
    faults = [] if drawn == wanted else [f"{page.name}: {drawn} of {wanted} diagrams are drawn"]
    browse(browser, page, "--window-size=1280,1600", f"--screenshot={picture}")
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(maxcolors=2**24) or []
    if len(colours) < FEWEST_COLOURS:
        faults.append(f"{page.name}: the picture is blank ({len(colours)} colours)")
    print(f"== {page.name}: {wanted} diagrams, {len(colours)} colours")
    return faults


def main(arguments: list[str]) -> int:
    """Check the site; return the exit code."""
    site = Path(arguments[0])
    faults = [f"loaded from another host: {address}" for address in foreign_addresses(site)]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("== no Chromium here: the pages are not looked at")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            pictures = Path(arguments[1] if len(arguments) > 1 else temporary)
            pictures.mkdir(exist_ok=True)
            for name in PAGES:
                faults += faults_of(browser, site / name, pictures / f"{Path(name).stem}.png")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

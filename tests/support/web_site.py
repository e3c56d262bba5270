"""The pages of a store, asked without a socket."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette

from hiveacid.config import Settings
from hiveacid.services.http_server import Access, Page, Request
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.read.inventory import StandaloneAccess
from hiveacid.web.app import Site
from hiveacid.web.figures import FigureKeeper
from hiveacid.web.login import Gate
from hiveacid.web.pages import Source
from hiveacid.web.server import answer

HOST = "127.0.0.1:8765"


@dataclass
class SiteOf:
    """The site of a store; ``gate``: by default everybody is the operator ``local``."""

    store: Any
    gate: Gate = field(default_factory=lambda: Gate.of(Access(), ("local",)))
    peer: str = "127.0.0.1"

    def __post_init__(self) -> None:
        """Make the application; measure nothing yet."""
        self.access = StandaloneAccess(LocalFileSystem(), self.store, self.store)
        self.keeper = FigureKeeper(self.access, Settings())
        self.source = Source(self.access, Settings(), self.keeper)
        self.app: Starlette = Site(self.source, self.gate, "a store").app()

    def get(self, target: str, *headers: tuple[str, str]) -> Page:
        return answer(self.app, Request("GET", target, (("Host", HOST), *headers), b"", self.peer))

    def json(self, target: str, *headers: tuple[str, str]) -> dict[str, Any]:
        page = self.get(target, ("Accept", "application/json"), *headers)
        assert page.kind == "application/json", page.body
        found: dict[str, Any] = json.loads(page.body)
        return found

    def html(self, target: str, *headers: tuple[str, str]) -> str:
        page = self.get(target, *headers)
        assert page.status == 200, page.body.decode()
        return page.body.decode()

    def post(self, target: str, form: dict[str, object], *headers: tuple[str, str]) -> Page:
        sent = (("Host", HOST), ("Content-Type", "application/x-www-form-urlencoded"), *headers)
        return answer(self.app, Request("POST", target, sent, urlencode(form).encode(), self.peer))

    def token(self, *headers: tuple[str, str]) -> str:
        """Return the token of the forms that an operator gets."""
        match = re.search(
            r'name="token" value="([0-9a-f]{64})"', self.html("/transactions?state=all", *headers)
        )
        return unescape(match[1]) if match else ""


def header(page: Page, name: str) -> str | None:
    """Return a header of an answer."""
    return next((value for key, value in page.headers if key.lower() == name.lower()), None)

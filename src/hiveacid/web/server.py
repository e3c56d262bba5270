"""The server of the pages: the application behind `hiveacid.services.http_server`, whose deadlines and limits it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from starlette.applications import Starlette

from hiveacid.config import Settings
from hiveacid.services.http_server import HttpServer, Page, Request
from hiveacid.table.read.inventory import TableAccess
from hiveacid.web.app import LONGEST_FORM, Site
from hiveacid.web.figures import FigureKeeper
from hiveacid.web.login import Gate
from hiveacid.web.pages import Source

if TYPE_CHECKING:
    from hiveacid.services.runner import LoopState

_CONNECTIONS = 64


class WebServer:
    """Serves the pages of a store while it is open.

    with WebServer(access, settings, gate, 8765, "the store's name") as server:
        print(server.port)
    """

    def __init__(
        self,
        access: TableAccess,
        settings: Settings,
        gate: Gate,
        port: int,
        place: str = "",
        loops: Callable[[], Mapping[str, LoopState]] = dict,
    ) -> None:
        """Listen on ``port``; 0 takes a free one, which the attribute ``port`` holds. Raises ConfigError if that fails."""
        self.keeper = FigureKeeper(access, settings)
        app = Site(Source(access, settings, self.keeper, loops), gate, place).app()
        scheme = "http" if gate.access.tls is None else "https"
        self._server = HttpServer(
            gate.access,
            port,
            lambda request: answer(app, request, scheme, self.port),
            connections=_CONNECTIONS,
            longest_body=LONGEST_FORM,
        )
        self.port = self._server.port

    def __enter__(self) -> Self:
        """Begin to measure tables and to answer."""
        self.keeper.start()
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.close()
        self.keeper.close()


def answer(app: Starlette, request: Request, scheme: str = "http", port: int = 0) -> Page:
    """Return the application's answer to a request.

    ``.json`` at the end of the path, or an Accept header that names JSON and not HTML, asks for JSON; ``/tables.json`` is
    the first page.
    """
    path, _, query = request.target.partition("?")
    accept = ",".join(value for name, value in request.headers if name.lower() == "accept")
    wants_json = path.endswith(".json") or ("application/json" in accept and "text/html" not in accept)
    path = path.removesuffix(".json")
    path = "/" if path == "/tables" else path
    if not path.startswith("/"):
        return Page(HTTPStatus.BAD_REQUEST, "text/plain", b"Bad Request\n")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": scheme,
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "client": (request.peer, 0),
        "server": ("", port),
        "headers": [
            (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in request.headers
        ],
        "hiveacid.json": wants_json,
    }
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    headers: list[tuple[str, str]] = []
    body = bytearray()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = HTTPStatus(message["status"])
            headers.extend(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]
            )
        else:
            body.extend(message.get("body", b""))

    asyncio.run(app(scope, receive, send))
    kind = next((value for name, value in headers if name == "content-type"), "text/plain")
    others = tuple((name, value) for name, value in headers if name not in ("content-type", "content-length"))
    return Page(status, kind, bytes(body), others)

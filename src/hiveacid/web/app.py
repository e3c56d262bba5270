"""The application: routes, who may see what, and the answer as HTML or JSON."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib import resources
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hiveacid import errors
from hiveacid.core.model import TableName
from hiveacid.serve.audit import audit
from hiveacid.web import charts, pages, table_pages, texts
from hiveacid.web.actions import ACTIONS, act
from hiveacid.web.login import SESSION_SECONDS, Gate, Headers, RefusedError, Visitor
from hiveacid.web.pages import Data, Source
from hiveacid.web.query import PAGE_SIZES, RANGES, BadParameterError, Query

logger = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LONGEST_FORM = 65_536
"""Bytes of a form."""
_MOST_FIELDS = 30
_STATIC = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_YEAR = 31_536_000

PageData: TypeAlias = Callable[[Source, Query], Data]
_PAGES: Mapping[str, PageData] = {
    "": pages.overview,
    "transactions": pages.transactions,
    "locks": pages.locks,
    "compactions": pages.compactions,
    "services": pages.services,
}
_VIEWS: Mapping[str, Callable[[Source, Query, TableName], Data]] = {
    "timeline": table_pages.timeline,
    "partitions": table_pages.partitions,
    "files": table_pages.files,
    "schema": table_pages.schema,
}


def status_of_error(error: Exception) -> HTTPStatus:
    """Return the status of the answer to a request that failed."""
    if isinstance(error, RefusedError):
        return error.status
    for kinds, status in (
        (
            (errors.NoSuchTableError, errors.NoSuchDatabaseError, errors.NoSuchTransactionError),
            HTTPStatus.NOT_FOUND,
        ),
        ((BadParameterError, errors.CatalogError), HTTPStatus.BAD_REQUEST),
        (errors.StoreUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
        (
            (
                errors.CompactionError,
                errors.TransactionStateError,
                errors.NotTransactionalError,
                errors.UnsupportedFeatureError,
            ),
            HTTPStatus.CONFLICT,
        ),
    ):
        if isinstance(error, kinds):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


@dataclass
class Site:
    """The pages of a source behind a gate. ``place``: what the heading calls the store."""

    source: Source
    gate: Gate
    place: str
    _environment: Environment = field(init=False, repr=False)
    _static: dict[str, tuple[bytes, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Load templates, style sheet and script."""
        folder = resources.files("hiveacid.web") / "static"
        self._static = {name: (folder.joinpath(name).read_bytes(), kind) for name, kind in _STATIC.items()}
        self._environment = Environment(
            loader=PackageLoader("hiveacid.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )  # fmt: skip
        self._environment.filters |= {
            "bytes": texts.format_bytes, "count": texts.format_count, "seconds": texts.format_seconds,
            "time": texts.format_time, "path": partial(quote, safe=""),
        }  # fmt: skip
        versions = {
            name: hashlib.sha256(content).hexdigest()[:12] for name, (content, _) in self._static.items()
        }
        self._environment.globals |= {
            "charts": charts, "Series": charts.Series, "place": self.place, "ranges": list(RANGES), "sizes": PAGE_SIZES,
            "versions": versions, "asks_for_password": self.gate.asks_for_password,
        }  # fmt: skip

    def app(self) -> Starlette:
        """Return the application."""
        own = [
            Route("/live", self._live),
            Route("/static/{name}", self._static_file),
            Route("/login", self._guarded(self._login), methods=["GET", "POST"]),
            Route("/logout", self._guarded(self._logout), methods=["POST"]),
            Route("/actions/{action}", self._guarded(self._act), methods=["POST"]),
            Route("/tables/{database}/{table}", self._guarded(self._table_page)),
            Route("/tables/{database}/{table}/{view}", self._guarded(self._table_page)),
        ]
        return Starlette(routes=[*own, Route("/{page:path}", self._guarded(self._page))])

    def _guarded(self, handler: Callable[[Request, Headers], Response]) -> Callable[[Request], Response]:
        """Return the handler with errors as pages, and the headers of all answers.

        It blocks, and the server gives each request a thread: its loop has nothing else to do.
        """

        async def answer(request: Request) -> Response:
            try:
                form = request.method == "POST"
                response = handler(request, await _with_form(request) if form else _headers(request))
            except Exception as error:  # noqa: BLE001 - the page shows it, or the log
                response = self._error_page(request, error)
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return answer  # type: ignore[return-value]

    def _error_page(self, request: Request, error: Exception) -> Response:
        status = status_of_error(error)
        if status is HTTPStatus.FORBIDDEN:
            audit(
                "web_refused",
                "",
                request.client.host if request.client else "",
                path=request.url.path,
                reason=str(error),
            )
        if isinstance(error, errors.HiveAcidError):
            text, code = str(error), error.code
        else:
            logger.error("%s failed", request.url.path, exc_info=error)
            text, code = "An unexpected error: the log of this process has the details.", "INTERNAL"
        data: Data = {"title": status.phrase, "status": int(status), "error": text, "code": code}
        return self._render(request, None, Query("", {}), "error.html", data, status)

    async def _live(self, request: Request) -> Response:
        del request
        return Response("ok\n", media_type="text/plain", headers=HEADERS)

    async def _static_file(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            return Response(status_code=HTTPStatus.NOT_FOUND, headers=HEADERS)
        caching = {"Cache-Control": f"max-age={_YEAR}, immutable"}
        return Response(found[0], media_type=found[1], headers=HEADERS | caching)

    def _page(self, request: Request, headers: Headers) -> Response:
        name = request.path_params["page"]
        if name not in _PAGES:
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such page.")
        return self._show(request, headers, f"{name or 'overview'}.html", _PAGES[name])

    def _table_page(self, request: Request, headers: Headers) -> Response:
        parts = request.path_params
        view = _VIEWS.get(parts.get("view", "timeline"))
        if view is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such page of a table.")
        name = TableName(parts["database"], parts["table"])
        return self._show(request, headers, "table.html", lambda source, query: view(source, query, name))

    def _show(self, request: Request, headers: Headers, template: str, data: PageData) -> Response:
        visitor = self.gate.visitor(headers)
        pairs = _parameters(request)
        notice, seal = pairs.pop("notice", ""), pairs.pop("seal", "")
        query = Query(request.scope["raw_path"].decode("latin-1"), pairs)
        if visitor is None:
            return self._ask_to_log_in(request, query)
        if not notice or not self.gate.is_sealed(visitor, notice, seal):
            notice = ""
        return self._render(
            request, visitor, query, template, data(self.source, query), HTTPStatus.OK, notice
        )

    def _render(
        self,
        request: Request,
        visitor: Visitor | None,
        query: Query,
        template: str,
        data: Data,
        status: HTTPStatus,
        notice: str = "",
    ) -> Response:
        if request.scope["hiveacid.json"]:
            text = json.dumps(data, default=str, ensure_ascii=False)
            return Response(text, status, media_type="application/json")
        context = {
            "visitor": visitor,
            "query": query,
            "section": template.partition(".")[0],
            "data": data,
            "notice": notice,
            **data,
        }
        return Response(
            self._environment.get_template(template).render(context), status, media_type="text/html"
        )

    def _ask_to_log_in(self, request: Request, query: Query) -> Response:
        if request.scope["hiveacid.json"]:
            text = json.dumps({"error": "log in: HTTP's basic authentication", "status": 401})
            challenge = {"WWW-Authenticate": 'Basic realm="hiveacid", charset="UTF-8"'}
            return Response(text, HTTPStatus.UNAUTHORIZED, challenge, "application/json")
        return RedirectResponse(
            f"/login?{urlencode({'next': query.link(page=query.values.get('page'))})}", HTTPStatus.SEE_OTHER
        )

    def _login(self, request: Request, headers: Headers) -> Response:
        form = _form(request)
        back = _own_path(form.get("next") or _parameters(request).get("next", "/"))
        data: Data = {"title": "Log in", "next": back, "user": "", "wrong": False}
        if request.method == "GET" or not self.gate.asks_for_password:
            return self._render(request, None, Query("/login", {}), "login.html", data, HTTPStatus.OK)
        self.gate.require_same_origin(headers)
        user = form.get("user", "")
        session = self.gate.log_in(user, form.get("password", ""))
        if session is None:
            audit("login_refused", user, headers.peer, reason="wrong user or password", over="web")
            data |= {"wrong": True, "user": user}
            return self._render(request, None, Query("/login", {}), "login.html", data, HTTPStatus.FORBIDDEN)
        audit("login", user, headers.peer, over="web")
        response = RedirectResponse(back, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            headers.session_cookie,
            session,
            SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self.gate.access.tls is not None,
        )
        return response

    def _logout(self, request: Request, headers: Headers) -> Response:
        visitor = self.gate.visitor(headers)
        if visitor is not None:
            self.gate.require_token(visitor, _form(request).get("token", ""), headers)
            self.gate.log_out(visitor)
            audit("logout", visitor.user, visitor.host, over="web")
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        response.delete_cookie(headers.session_cookie)
        return response

    def _act(self, request: Request, headers: Headers) -> Response:
        visitor, form = self.gate.visitor(headers), _form(request)
        action = request.path_params["action"]
        if visitor is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "Nobody is logged in: log in and repeat the action.")
        if action not in ACTIONS:
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such action.")
        self.gate.require_action(visitor, form.get("token", ""), headers)
        done = act(self.source, visitor, action, form)
        if request.scope["hiveacid.json"]:
            return Response(json.dumps({"done": done}), media_type="application/json")
        back = _own_path(form.get("back", "/"))
        sealed = urlencode({"notice": done, "seal": self.gate.seal(visitor, done)})
        return RedirectResponse(f"{back}{'&' if '?' in back else '?'}{sealed}", HTTPStatus.SEE_OTHER)


def _headers(request: Request) -> Headers:
    values = tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw)
    return Headers(request.client.host if request.client else "", values, request.scope["server"][1])


async def _with_form(request: Request) -> Headers:
    """Read the form of a request into its state; fields that occur twice count as missing."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip()
        != "application/x-www-form-urlencoded"
    ):
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A form is expected.")
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST, "The form has too many fields, or is not UTF-8."
        ) from error
    names = [name for name, _ in pairs]
    request.state.form = {name: value for name, value in pairs if names.count(name) == 1}
    return _headers(request)


def _parameters(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl(request.scope["query_string"].decode("latin-1"), max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise BadParameterError(f"the address has more than {_MOST_FIELDS} parameters") from error


def _form(request: Request) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(request.state, "form", {})
    return found


def _own_path(text: str) -> str:
    """Return a path of this site; the first page for anything else, which could lead to another host."""
    is_own = text.startswith("/") and not text.startswith("//") and text.isprintable() and "\\" not in text
    return text if is_own else "/"

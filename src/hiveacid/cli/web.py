"""``hiveacid web``: pages in a browser for operators, until it is stopped."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    connection_options,
    grouped_options,
    parse_settings,
    settings_option,
)
from hiveacid.cli.processes import log_to, stop_signals
from hiveacid.errors import ConfigError

if TYPE_CHECKING:
    from hiveacid.config import Settings
    from hiveacid.services.runner import LoopState
    from hiveacid.table.read.inventory import TableAccess
    from hiveacid.web.login import Gate
    from hiveacid.web.server import WebServer

logger = logging.getLogger(__name__)

DEFAULT_PORT = 8765
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class GateOptions:
    """Values of --password-file, --operator, --user-header, --proxy and --proxy-token-file: who may see the pages, and act."""

    password_file: Path | None
    operators: tuple[str, ...]
    user_header: str | None
    proxy: str | None
    proxy_token_file: Path | None = field(repr=False)

    def gate(self, host: str, names: tuple[str, ...], certificate: Path | None, key: Path | None) -> Gate:
        """Return the gate of an address. Raises ConfigError for an address that is open to others without protection."""
        if find_spec("starlette") is None or find_spec("jinja2") is None:
            raise ConfigError("the pages need starlette and jinja2: pip install 'hiveacid[web]'")
        from hiveacid.services.http_server import Access, read_token, server_tls  # noqa: PLC0415 - keeps --help fast
        from hiveacid.web.login import Gate  # noqa: PLC0415

        token = None if self.proxy_token_file is None else read_token(self.proxy_token_file)
        access = Access(
            host,
            frozenset(name.lower() for name in names),
            token,
            server_tls(certificate, key),
            patience=10.0,
        )
        return Gate.of(access, self.operators, self.password_file, self.user_header, self.proxy)


gate_options = grouped_options("gate", GateOptions, (
    click.option(
        "--password-file", type=_FILE, help="Users who may log in, as for hiveacid serve (serve --new-user)."
    ),
    click.option(
        "--operator", "operators", multiple=True, metavar="NAME",
        help="A user who may compact, retry and abort; may be repeated. Without a log-in everybody is the user local.",
    ),
    click.option(
        "--user-header", metavar="HEADER", help="Header in which the reverse proxy --proxy names the user."
    ),
    click.option(
        "--proxy", metavar="ADDRESS", help="Address or network of the reverse proxy; no other client may connect."
    ),
    click.option(
        "--proxy-token-file", type=_FILE,
        help="The proxy must send this file's text (Authorization: Bearer TEXT); needed for one on this machine.",
    ),
))  # fmt: skip
"""Add the options of `GateOptions`; the command gets one as ``gate``."""


def web_server(
    gate: Gate,
    port: int,
    access: TableAccess,
    settings: Settings,
    place: str,
    loops: Callable[[], dict[str, LoopState]] = dict,
) -> WebServer:
    """Listen, and log the address. Raises ConfigError if the port is in use."""
    from hiveacid.web.server import WebServer  # noqa: PLC0415 - an extra

    server = WebServer(access, settings, gate, port, place, loops)
    may_act = ", ".join(sorted(gate.operators)) or "nobody (--operator)"
    logger.info("%s, where %s may act", gate.access.url(server.port), may_act)
    return server


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to listen on; one that other machines reach needs authentication and TLS.")  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: any free port."
)
@click.option("--host-name", "names", multiple=True, metavar="NAME",
              help="Another name of this machine (Host header); may be repeated.")  # fmt: skip
@click.option("--certificate", type=_FILE, help="Answer over TLS with this certificate chain (PEM).")
@click.option(
    "--private-key", type=_FILE, help="Private key of the certificate, if its file does not contain it."
)
@gate_options
@settings_option("A hiveacid setting, such as a threshold of compactions; may be repeated.")
@click.option("--log", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@connection_options
def web(
    *,
    connection: ConnectionOptions,
    gate: GateOptions,
    host: str,
    port: int,
    names: tuple[str, ...],
    certificate: Path | None,
    private_key: Path | None,
    settings: tuple[str, ...],
    style: str,
    log_level: str,
) -> None:
    """Show tables, transactions, locks, compactions and services in a browser, until SIGTERM or SIGINT.

    Needs no Spark: a compaction that an operator asks for is queued, and hiveacid services carries it out. The log goes to
    standard error, with a line for each action.
    """
    from hiveacid.config import Settings  # noqa: PLC0415 - keeps --help fast

    pairs = dict(parse_settings(settings))
    log_to(sys.stderr, style, log_level)
    with ExitStack() as stack:
        checked = gate.gate(host, names, certificate, private_key)
        access = stack.enter_context(connection.standalone_access())
        signals = stack.enter_context(stop_signals())
        place = (
            connection.warehouse or f"thrift://{urlsplit(connection.store or '').netloc.rpartition('@')[2]}"
        )
        stack.enter_context(web_server(checked, port, access, Settings.of(pairs), place))
        while not signals:
            time.sleep(0.2)
        logger.info("stopped")

"""``hiveacid services``: a process that runs initiator, workers, cleaner and housekeeper."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    Seconds,
    connection_options,
    exit_on_errors,
    parse_settings,
    require_pyspark,
    settings_option,
)
from hiveacid.cli.processes import log_to, run_until_signal, watch_jvm
from hiveacid.cli.web import DEFAULT_PORT, GateOptions, gate_options, web_server
from hiveacid.config import setting_definitions

if TYPE_CHECKING:
    from hiveacid.services import Services, Turn
    from hiveacid.services.monitoring import Endpoint
    from hiveacid.web.server import WebServer

logger = logging.getLogger(__name__)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _check_pool_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return a valid pool name; print an error and exit for an invalid one."""
    del context, parameter
    from hiveacid.stores.refusals import pool_name  # noqa: PLC0415 - keeps --help fast

    with exit_on_errors():
        return pool_name(value)


@click.command()
@click.option("--initiator", is_flag=True, help="Queue due compactions.")
@click.option(
    "--workers", type=click.IntRange(min=0), default=None, metavar="N", help="Compact, N at a time."
)
@click.option("--cleaner", is_flag=True, help="Delete directories that no reader needs any more.")
@click.option("--housekeeper", is_flag=True, help="Abort silent transactions, drop old rows, record figures.")
@click.option(
    "--pool", default="default", show_default=True, callback=_check_pool_name, help="The pool of the workers."
)
@click.option(
    "--once",
    is_flag=True,
    help="Do one turn of each, print the results and end; exit code 1 if a compaction or a cleaning failed.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Answer /health, /metrics, /live and /ready on this port."
)
@click.option(
    "--web", "web_port", type=click.IntRange(0, 65535), is_flag=False, flag_value=DEFAULT_PORT, metavar="[PORT]",
    help=f"Show pages for operators, as hiveacid web does, on this port ({DEFAULT_PORT}) of the same address.",
)  # fmt: skip
@gate_options
@click.option(
    "--host",
    "--listen",
    "listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address of --port. One that other machines reach answers only /live and /ready, unless --token-file and "
    "--certificate are given.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another name that clients may call this machine by (Host header); may be repeated.",
)
@click.option(
    "--token-file", type=_FILE, help="Clients must send this file's text: Authorization: Bearer TEXT."
)
@click.option("--certificate", type=_FILE, help="Answer over TLS with this certificate chain (PEM).")
@click.option(
    "--private-key", type=_FILE, help="Private key of the certificate, if its file does not contain it."
)
@click.option(
    "--grace", type=Seconds(min=0), default=30.0, show_default=True, metavar="SECONDS",
    help="After a stop signal: time for a running compaction to end before it goes back into the queue.",
)  # fmt: skip
@settings_option("A hiveacid setting; may be repeated.")
@click.option("--log", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@connection_options
def services(
    *,
    connection: ConnectionOptions,
    initiator: bool,
    workers: int | None,
    cleaner: bool,
    housekeeper: bool,
    pool: str,
    once: bool,
    port: int | None,
    web_port: int | None,
    gate: GateOptions,
    listen: str,
    names: tuple[str, ...],
    token_file: Path | None,
    certificate: Path | None,
    private_key: Path | None,
    grace: float,
    settings: tuple[str, ...],
    style: str,
    log_level: str,
) -> None:
    """Compact and clean in the background, until SIGTERM or SIGINT.

    Without --initiator, --workers, --cleaner or --housekeeper, the process runs all of them, with as many workers as
    hive.compactor.worker.threads says and without a cleaner if hive.compactor.cleaner.on is false. With a Hive
    Metastore it runs a worker only, because the other services are Hive's. Several processes, on several machines, may
    share a store: no two of them take the same job. The log goes to standard error.
    """
    require_pyspark()
    from hiveacid.services import Services  # noqa: PLC0415 - imports PySpark
    from hiveacid.services.http_server import PROBES, Access  # noqa: PLC0415
    from hiveacid.services.monitoring import Endpoint  # noqa: PLC0415

    run_all = not (initiator or cleaner or housekeeper or workers is not None)
    if not (run_all or initiator or cleaner or housekeeper or workers):
        raise click.UsageError("--workers 0 alone leaves nothing to do")
    if once and (port is not None or web_port is not None):
        raise click.UsageError("--port and --web are for a process that keeps running: leave out --once")
    if web_port is None and gate != GateOptions(None, (), None, None, None):
        raise click.UsageError(
            "--password-file, --operator, --user-header, --proxy and --proxy-token-file are for the pages: give --web, too"
        )
    if port is None and token_file is not None:
        raise click.UsageError("--token-file is for the answers of --port: give it, too")
    pairs = parse_settings(settings)
    log_to(sys.stderr, style, log_level)
    with ExitStack() as stack:
        endpoint = pages = None
        if web_port is not None:
            pages = partial(web_server, gate.gate(listen, names, certificate, private_key), web_port)
        if port is not None:
            access = Access.of(listen, names, token_file, certificate, private_key)
            endpoint = stack.enter_context(Endpoint(port, access))  # /health answers while Spark starts
            paths = " and ".join(sorted(PROBES)) if access.probes_only else "/health and /metrics"
            logger.info("%s%s", access.url(endpoint.port), paths)
        session = stack.enter_context(connection.session())
        for name, value in pairs:
            session.set(name, value)
        all_services = run_all and session.context.store.maintained_by_hiveacid()
        service_set = Services(
            session,
            initiator=initiator or all_services,
            workers=max(1, session.settings.get(setting_definitions.WORKER_THREADS))
            if run_all
            else workers or 0,
            cleaner=cleaner or (all_services and session.settings.get(setting_definitions.CLEANER_ON)),
            housekeeper=housekeeper or all_services,
            pool=pool,
        )
        if once:
            turn = service_set.step()
            _print_turn(turn)
            if turn.failed:
                raise click.exceptions.Exit(1)
        else:
            _run(service_set, endpoint, grace, pages)


def _run(
    service_set: Services, endpoint: Endpoint | None, grace: float, pages: Callable[..., WebServer] | None
) -> None:
    """Run until a signal comes; a second signal ends the process without waiting for running compactions.

    ``pages``: makes the server of the pages.
    """
    from hiveacid.services.runner import Runner  # noqa: PLC0415 - imports PySpark

    runner = Runner(service_set)
    spark = service_set.context.env.spark
    watch = watch_jvm(spark, endpoint)
    context = service_set.context

    def start() -> None:
        runner.start()
        if endpoint is not None:
            endpoint.attach(service_set, runner)
        logger.info("started")

    def stop(orderly: bool) -> None:  # noqa: FBT001 - a callback
        if orderly:
            runner.stop(grace)

    with ExitStack() as stack:
        if pages is not None:
            stack.enter_context(pages(context, context.settings, context.warehouse, lambda: runner.loops))
        run_until_signal(start, stop, watch, grace, spark)


def _print_turn(turn: Turn) -> None:
    """Print the results of a turn, one JSON object a line."""
    for txn_id in turn.aborted:
        click.echo(json.dumps({"aborted_transaction": int(txn_id)}))
    for finding in turn.findings:
        row = {
            "table": str(finding.table),
            "partition": finding.partition,
            "kind": finding.decision.kind.value if finding.decision.kind else None,
            "reason": finding.decision.reason,
            "compaction_id": finding.job.id if finding.job else None,
        }
        click.echo(json.dumps(row, ensure_ascii=False))
    for report in turn.compactions:
        click.echo(json.dumps({"compaction": asdict(report)}, ensure_ascii=False))
    for path in turn.cleaned.removed:
        click.echo(json.dumps({"removed": path}, ensure_ascii=False))
    for error in turn.cleaned.errors:
        click.echo(json.dumps({"error": error}, ensure_ascii=False))

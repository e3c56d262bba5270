"""``hiveacid serve``: a server for clients of HiveServer2's protocol, until it is stopped."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    Seconds,
    connection_options,
    exit_on_errors,
    grouped_options,
    parse_settings,
    require_pyspark,
    settings_option,
)
from hiveacid.cli.processes import log_to, run_until_signal, watch_jvm
from hiveacid.config import setting_definitions
from hiveacid.serve.authentication import Anyone, Authentication, Kerberos, Ldap, PasswordFile, hash_line

if TYPE_CHECKING:
    from hiveacid.services.runner import Runner
    from hiveacid.sql.native.session import NativeSession

logger = logging.getLogger(__name__)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SPARK = {"spark.scheduler.mode": "FAIR"}  # a long query of one client does not hold back the others
# Tasks of a local master run in the server's JVM. One that lacks memory fails; by Spark's default it would end the JVM.
_LOCAL_SPARK = {"spark.executor.killOnFatalError.depth": "0"}


@dataclass(frozen=True)
class _LoginOptions:
    """Options that say how clients authenticate."""

    password_file: Path | None
    ldap: str | None
    ldap_user_dn: str | None
    ldap_ca: Path | None
    keytab: Path | None
    principal: str | None

    def authentication(self) -> Authentication:
        """Return the authentication. Raises ConfigError for unusable files and names."""
        if sum(option is not None for option in (self.password_file, self.ldap, self.keytab)) > 1:
            raise click.UsageError("give only one of --password-file, --ldap and --keytab")
        if (self.ldap is None) != (self.ldap_user_dn is None):
            raise click.UsageError("--ldap and --ldap-user-dn must be given together")
        if (self.keytab is None) != (self.principal is None):
            raise click.UsageError("--keytab and --principal must be given together")
        if self.password_file is not None:
            return Authentication(PasswordFile(self.password_file))
        if self.ldap is not None and self.ldap_user_dn is not None:
            return Authentication(Ldap.of(self.ldap, self.ldap_user_dn, self.ldap_ca))
        if self.keytab is not None and self.principal is not None:
            return Authentication(None, Kerberos.of(self.principal, self.keytab))
        return Authentication(Anyone())


def _new_user(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Ask for a password, print a user's line of the password file, and exit."""
    del parameter
    if value is None:
        return
    with exit_on_errors():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        click.echo(hash_line(value, password))
    context.exit(0)


_login_options = grouped_options("logins", _LoginOptions, (
    click.option("--password-file", type=_FILE, help="Users with hashed passwords, a line each (--new-user)."),
    click.option("--new-user", metavar="NAME", callback=_new_user, is_eager=True, expose_value=False,
                  help="Ask for a password, print the user's line for --password-file, and end."),
    click.option("--ldap", metavar="URL", help="Check passwords by a bind at this server: ldaps://HOST[:PORT]."),
    click.option("--ldap-user-dn", metavar="DN", help="Name to bind as: uid={user},ou=people,dc=example,dc=com."),
    click.option("--ldap-ca", type=_FILE, help="Certificates of the LDAP server's authority (PEM)."),
    click.option(
        "--keytab", type=_FILE, help="Accept Kerberos tickets for the principal whose key is in this file."
    ),
    click.option("--principal", metavar="NAME", help="Principal of this server: hive/HOST@REALM."),
))  # fmt: skip


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to listen on; one that other machines reach needs authentication and TLS.")  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=10000, show_default=True, help="0: any free port."
)
@click.option("--http", is_flag=True, help="Speak HTTP (path /cliservice) instead of the binary transport.")
@click.option("--host-name", "names", multiple=True, metavar="NAME",
              help="With --http: another name of this machine (Host header); may be repeated.")  # fmt: skip
@click.option("--master", metavar="URL", help="Spark's master (default: local[*]).")
@_login_options
@click.option("--certificate", type=_FILE, help="Answer over TLS with this certificate chain (PEM).")
@click.option(
    "--private-key", type=_FILE, help="Private key of the certificate, if its file does not contain it."
)
@click.option("--idle-timeout", type=Seconds(min=1), default=14400.0, show_default=True,
              metavar="SECONDS", help="Close a session that is unused for this long.")  # fmt: skip
@click.option("--http-idle-timeout", type=Seconds(min=1), default=1800.0, show_default=True, metavar="SECONDS",
              help="With --http: close a session without a transaction after this; its client may have died.")  # fmt: skip
@click.option("--services", "with_services", is_flag=True,
              help="Compact and clean in this process, as hiveacid services does.")  # fmt: skip
@click.option("--health-port", type=click.IntRange(0, 65535),
              help="Answer /health and /metrics on this port of the loopback address.")  # fmt: skip
@click.option("--grace", type=Seconds(min=0), default=30.0, show_default=True, metavar="SECONDS",
              help="After a stop signal: time for running statements to end.")  # fmt: skip
@settings_option("A hiveacid setting for all sessions; may be repeated.")
@click.option("--log", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@connection_options
def serve(
    *,
    connection: ConnectionOptions,
    host: str,
    port: int,
    http: bool,
    names: tuple[str, ...],
    master: str | None,
    logins: _LoginOptions,
    certificate: Path | None,
    private_key: Path | None,
    idle_timeout: float,
    http_idle_timeout: float,
    with_services: bool,
    health_port: int | None,
    grace: float,
    settings: tuple[str, ...],
    style: str,
    log_level: str,
) -> None:
    """Serve JDBC clients, BI tools and dbt over the protocol of HiveServer2, until SIGTERM or SIGINT.

    Each session has its own current database, settings and transaction. A session whose client closes it or disconnects
    is rolled back. Without --password-file, --ldap or --keytab every local user may connect, and only the loopback
    address is possible. The log goes to standard error.
    """
    require_pyspark()
    from hiveacid.serve.server import Server, ServerOptions, bind  # noqa: PLC0415 - --help must not import pyspark
    from hiveacid.serve.service import Service  # noqa: PLC0415
    from hiveacid.serve.sessions import Sessions  # noqa: PLC0415
    from hiveacid.serve.transports import ClientLimits  # noqa: PLC0415
    from hiveacid.services.monitoring import Endpoint  # noqa: PLC0415

    pairs = dict(parse_settings(settings))
    log_to(sys.stderr, style, log_level)
    with ExitStack() as stack:
        options = ServerOptions.of(
            host, port, logins.authentication(), names, certificate, private_key, http=http,
            limits=ClientLimits(idle=idle_timeout),
        )  # fmt: skip
        bound = stack.enter_context(bind(options))  # a port in use is told before Spark starts
        endpoint = None if health_port is None else stack.enter_context(Endpoint(health_port))
        spark = _SPARK | ({} if master is None else {"spark.master": master})
        if master is None or master.startswith("local"):
            spark |= _LOCAL_SPARK
        session = stack.enter_context(connection.native_session(spark, pairs))
        sessions = Sessions(session, idle_timeout, http_idle_timeout)
        server = Server(Service(sessions, session.version), options, bound)
        watch = watch_jvm(session, endpoint)
        runner = _start_services(session, endpoint) if with_services else None
        if endpoint is not None:
            endpoint.report_server(server.metrics)
            logger.info("http://127.0.0.1:%s/health and /metrics", endpoint.port)

        def start() -> None:
            server.start()
            logger.info("serving on %s:%s (%s)", host, server.port, "HTTP" if http else "binary")

        def stop(orderly: bool) -> None:  # noqa: FBT001 - a callback
            server.stop(grace if orderly else 0.0)
            if runner is not None and orderly:
                runner.stop(grace)

        run_until_signal(start, stop, watch, grace * (1 if runner is None else 2), session)


def _start_services(session: NativeSession, endpoint: object) -> Runner:
    """Start initiator, workers, cleaner and housekeeper; with a Hive Metastore only workers."""
    from hiveacid.services import Services  # noqa: PLC0415 - imports PySpark
    from hiveacid.services.monitoring import Endpoint  # noqa: PLC0415
    from hiveacid.services.runner import Runner  # noqa: PLC0415

    own = session.newSession().acid
    is_own_store = own.context.store.maintained_by_hiveacid()
    services = Services(
        own,
        initiator=is_own_store,
        workers=max(1, own.settings.get(setting_definitions.WORKER_THREADS)),
        cleaner=is_own_store and own.settings.get(setting_definitions.CLEANER_ON),
        housekeeper=is_own_store,
    )
    runner = Runner(services)
    runner.start()
    if isinstance(endpoint, Endpoint):
        endpoint.attach(services, runner)
    return runner

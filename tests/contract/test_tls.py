"""TLS to real database servers: who is refused, and which options of the URL are refused rather than ignored."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_plus

import pymysql
import pytest

from hiveacid.errors import ConfigError, HiveAcidError, StoreUnavailableError
from hiveacid.stores.sql.dialects.mariadb_and_mysql import _require_tls
from hiveacid.stores.sql.store import SqlStore
from support.servers.absent import skip_without
from support.servers.certificates import Keys, make_keys
from support.servers.databases import PASSWORD, MariadbServer, MysqlServer, PostgresServer, Server


class TlsPostgres(PostgresServer):
    """Takes encrypted connections only, from ``guarded`` with a certificate of its own only."""

    keys: Keys

    def _arguments(self) -> list[str]:
        rules = self.home / "data" / "pg_hba.conf"
        rules.write_text(
            "hostssl all guarded 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
            encoding="utf-8",
        )
        own = (f"ssl_cert_file={self.keys.certificate}", f"ssl_key_file={self.keys.secret}")
        options = ("ssl=on", *own, f"ssl_ca_file={self.keys.certificate}")
        return [*super()._arguments(), *(word for option in options for word in ("-c", option))]


class TlsMariadb(MariadbServer):
    """Takes encrypted connections only, from ``guarded`` with a certificate only."""

    keys: Keys

    def _arguments(self) -> list[str]:
        own = [f"--ssl-cert={self.keys.certificate}", f"--ssl-key={self.keys.secret}"]
        return [
            *super()._arguments(),
            *own,
            f"--ssl-ca={self.keys.certificate}",
            "--require-secure-transport=ON",
        ]


class TlsMysql(TlsMariadb, MysqlServer):
    """The same as MySQL."""


@dataclass(frozen=True)
class Secured:
    """A server that insists on TLS, its authority, a client's certificate by it, and somebody else's authority."""

    server: Server
    authority: Path
    client: Keys
    other: Path

    @property
    def is_postgres(self) -> bool:
        return isinstance(self.server, PostgresServer)

    def url(self, options: str, host: str = "localhost", user: str | None = None) -> str:
        url = self.server.url("secured").replace("127.0.0.1", host)
        if user is not None:
            url = url.replace(f"//{url.split('//')[1].split('@')[0]}@", f"//{user}@")
        return f"{url}?{options}" if options else url

    def verified(self, authority: Path | None = None) -> str:
        file = quote_plus(str(authority or self.authority))
        return f"sslmode=verify-full&sslrootcert={file}" if self.is_postgres else f"ssl_ca={file}"


@pytest.fixture(scope="module", params=[TlsPostgres, TlsMariadb, TlsMysql])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    kind = request.param
    skip_without(kind.why_not())
    place = tmp_path_factory.mktemp("keys")
    server = kind()
    keys = make_keys(server.home, "server")
    if server._owner() is not None:
        for file in (keys.certificate, keys.secret):
            shutil.chown(file, server._owner())
    authority = Path(shutil.copy(keys.certificate, place / "ca.pem"))
    server.keys = keys
    try:
        server.start()
        server.make_database("secured")
        client = make_keys(place, "client", common="guarded", by=keys)
        yield Secured(server, authority, client, make_keys(place, "other").certificate)
    finally:
        server.remove()


def encrypted(store: SqlStore) -> bool:
    """Tell what the server says of the connection."""
    asked = (
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        if store._database.dialect.pipelines
        else "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
    )
    return bool(store._database.read(lambda connection: connection.exec_driver_sql(asked).one()[-1]))


def test_a_verified_connection(secured: Secured) -> None:
    store = SqlStore(secured.url(secured.verified()))
    assert encrypted(store)
    assert store.valid_txns().open == ()
    store.close()


def test_an_authority_without_the_host_name(secured: Secured) -> None:
    """The weaker modes of the security page: any host, but no other authority; one authority of a directory."""
    options = (
        "sslmode=verify-ca&sslrootcert={}" if secured.is_postgres else "ssl_ca={}&ssl_check_hostname=false"
    )
    store = SqlStore(secured.url(options.format(quote_plus(str(secured.authority))), host="127.0.0.1"))
    assert encrypted(store)
    store.close()
    with pytest.raises(StoreUnavailableError, match="verif"):
        SqlStore(secured.url(options.format(quote_plus(str(secured.other))), host="127.0.0.1"))
    if secured.is_postgres:
        return
    directory = secured.authority.parent / "hashed"
    directory.mkdir()
    hashed = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(secured.authority)],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    shutil.copy(secured.authority, directory / f"{hashed}.0")
    store = SqlStore(secured.url(f"ssl_capath={quote_plus(str(directory))}"))
    assert encrypted(store)
    store.close()


def test_the_authorities_of_the_system_do_not_vouch_for_ours(secured: Secured) -> None:
    option = "sslmode=verify-full&sslrootcert=system" if secured.is_postgres else "ssl=true"
    with pytest.raises(HiveAcidError, match=r"verif|sslrootcert|SSL|certificate"):
        SqlStore(secured.url(option))


def test_servers_that_are_not_verified_are_refused(secured: Secured) -> None:
    """A certificate of another authority, or of another host."""
    for url in (
        secured.url(secured.verified(secured.other)),
        secured.url(secured.verified(), host="127.0.0.1"),
    ):
        with pytest.raises(StoreUnavailableError, match=r"verif|does not match"):
            SqlStore(url)


def test_plain_text_is_refused_by_a_server_that_requires_tls(secured: Secured) -> None:
    option = "sslmode=disable" if secured.is_postgres else "ssl=false"
    with pytest.raises((StoreUnavailableError, ConfigError)):
        SqlStore(secured.url(option))
    if not secured.is_postgres:
        with pytest.raises(pymysql.OperationalError):
            pymysql.connect(
                host="127.0.0.1", port=secured.server.port, user="hiveacid", password=PASSWORD.encode(),
                ssl_disabled=True,
            )  # fmt: skip


def test_without_options_nothing_is_verified(secured: Secured) -> None:
    """Both drivers encrypt if the server offers it (sslmode=prefer), whoever the server is: not what to rely on."""
    store = SqlStore(secured.url("", host="127.0.0.1"))
    assert encrypted(store)
    store.close()


def test_a_client_certificate(secured: Secured) -> None:
    """Instead of a password (PostgreSQL's ``cert``, MariaDB's ``REQUIRE X509``); without it the role is refused."""
    owner = SqlStore(secured.url(secured.verified()))
    make = (
        ("CREATE ROLE guarded LOGIN SUPERUSER",)
        if secured.is_postgres
        else (
            "DROP USER IF EXISTS guarded@'127.0.0.1'",
            "CREATE USER guarded@'127.0.0.1' REQUIRE SUBJECT '/CN=guarded'",
            "GRANT ALL ON secured.* TO guarded@'127.0.0.1'",
        )
    )
    for statement in make:
        owner._database.write_statement(lambda connection, text=statement: connection.exec_driver_sql(text))
    own = ("sslcert", "sslkey") if secured.is_postgres else ("ssl_cert", "ssl_key")
    files = f"&{own[0]}={secured.client.certificate}&{own[1]}={secured.client.secret}"
    store = SqlStore(secured.url(secured.verified() + files, user="guarded"))
    assert store.valid_txns().open == ()
    store.close()
    with pytest.raises(StoreUnavailableError):
        SqlStore(secured.url(secured.verified(), user="guarded"))
    owner.close()


def test_options_that_would_protect_nothing_are_refused(secured: Secured) -> None:
    """Misspelt, without the option that they need, given twice, of the other driver, or without a file."""
    file = quote_plus(str(secured.authority))
    other_file = quote_plus(str(secured.authority) + ".not-there")
    verified = secured.verified()
    both = (
        f"{verified}&{verified}",
        "SSLMODE=verify-full",
        "tls=true",
        "sslca=x",
        "ssl_mode=VERIFY_IDENTITY",
    )
    odd = (
        "sslmode=verify_full", "sslmod=verify-full", f"sslrootcert={file}", f"sslrootcert={file}&sslmode=require",
        f"sslmode=verify-full&sslrootcert={other_file}", f"sslcert={file}", f"ssl_ca={file}",
        f"sslmode=prefer&sslcert={file}", f"sslmode=verify-full&sslroot={file}",
    ) if secured.is_postgres else (
        "ssl=yes-please", "ssl=false", f"ssl_ca={file}&ssl_verify_identity=true", "ssl_verify_cert=true",
        f"ssl_ca={other_file}", "ssl_ca=", "sslmode=verify-full", f"SSL_CA={file}", f"ssl_key={file}",
        f"ssl_ca={file}&ssl_check_hostname=maybe", f"ssl-ca={file}", "ssl_disabled=true",
    )  # fmt: skip
    accepted = []
    for options in (*both, *odd):
        try:
            SqlStore(secured.url(options)).close()
        except HiveAcidError:
            continue
        accepted.append(options)
    assert accepted == []


def test_the_mode_may_stand_in_the_environment(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGSSLMODE counts for PostgreSQL as for all who use libpq."""
    if not secured.is_postgres:
        pytest.skip("a variable of libpq")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    SqlStore(secured.url(f"sslrootcert={secured.authority}")).close()
    with pytest.raises(StoreUnavailableError):
        SqlStore(secured.url(f"sslrootcert={secured.other}"))


def test_a_server_without_tls_is_refused_where_the_url_asks_for_it(
    postgres_server: Server, mariadb_server: Server, tmp_path: Path
) -> None:
    file = make_keys(tmp_path, "any").certificate
    for server, options in ((postgres_server, "sslmode=require"), (mariadb_server, f"ssl_ca={file}")):
        with pytest.raises(StoreUnavailableError, match="SSL"):
            SqlStore(f"{server.url()}?{options}")
    plain = pymysql.connect(
        host="127.0.0.1",
        port=mariadb_server.port,
        user="hiveacid",
        password=PASSWORD.encode(),
        ssl_disabled=True,
    )
    with pytest.raises(ConfigError, match="offers no TLS"):
        _require_tls(plain, None)

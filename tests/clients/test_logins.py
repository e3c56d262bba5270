"""Log-ins of ``hiveacid serve`` with real peers: OpenLDAP, MIT Kerberos, chains of certificates (make clients).

Servers of tests without a real client run no Spark, which no refused call reaches.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from hiveacid.errors import ConfigError, StoreUnavailableError
from hiveacid.serve import hs2_messages
from hiveacid.serve.authentication import Authentication, Kerberos, Ldap
from hiveacid.serve.hs2_messages import CALL, Decoder, encode_message, encode_struct
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Sessions
from support.hs2_client import CallError, Hs2Client, raw_client
from support.servers import hs2_process, openldap
from support.servers.absent import skip_without
from support.servers.certificates import Keys, make_keys
from support.servers.kdc import REALM, Kdc, missing_programs
from support.servers.openldap import USER_DN, Directory, directory

SERVICE = "hive/localhost"

PYTHON = Path(__file__).parents[2] / ".venv-clients/bin/python"
PROGRAM = Path(__file__).parent / "programs/login.py"
USERS = {
    "ann": "tea",
    "a,b": "jam",
    "x*y)(": "gin",
    "café": "thé",
    "#1": "oil",
    "a+uid=b": "rye",
    "nobody": "",
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    skip_without(openldap.why_not())
    with directory(tmp_path_factory.mktemp("directory"), USERS) as running:
        yield running


@pytest.fixture
def ldap(people: Directory) -> Ldap:
    return Ldap.of(f"ldaps://localhost:{people.tls_port}", USER_DN, people.authority.certificate)


@contextmanager
def serving(
    authentication: Authentication, keys: Keys | None = None, *, http: bool = False
) -> Iterator[Server]:
    files = () if keys is None else (keys.certificate, keys.secret)
    options = ServerOptions.of("127.0.0.1", 0, authentication, (), *files, http=http)
    server = Server(Service(Sessions(cast("Any", None), 60.0), "4"), options)
    server.start()
    yield server
    server.stop(0.0)


@pytest.mark.parametrize("user", [user for user, password in USERS.items() if password])
def test_a_directory_accepts_each_user_with_its_password_only(ldap: Ldap, user: str) -> None:
    assert ldap.accepts(user, USERS[user])
    for password in ("", "wrong", USERS[user] + "\0", "x" * 1024):
        assert not ldap.accepts(user, password)


@pytest.mark.parametrize(
    "user",
    ["bob", "nobody", "*", "an*", "ann,ou=people", "ann+cn=ann", "ann\0", "ann)(uid=*", "\\2a", "\\", 'a"n', "ann;",
     " ann", "ann "],
)  # fmt: skip
def test_a_name_is_one_value_whatever_its_characters(ldap: Ldap, user: str) -> None:
    assert not ldap.accepts(user, "tea")


def test_a_directory_that_accepts_binds_without_a_password_lets_nobody_in(people: Directory) -> None:
    """Such a bind succeeds there (RFC 4513, 5.1.2), so that the server must not try it."""
    authentication = Authentication(Ldap.of(f"ldap://127.0.0.1:{people.plain_port}", USER_DN))
    with serving(authentication) as server:
        for password in ("", "wrong"):
            with pytest.raises(CallError, match="wrong user or password"):
                Hs2Client(server.port, "ann", password, opened=False)
        with Hs2Client(server.port, "ann", "tea", opened=False):
            pass


def test_a_directory_that_is_away_or_not_trusted_is_one_clear_error(
    people: Directory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_keys(tmp_path, "other", common="other")
    for url, ca, reason in (
        (f"ldaps://localhost:{people.tls_port}", other.certificate, "certificate verify failed"),
        (f"ldaps://127.0.0.1:{people.tls_port}", people.authority.certificate, "IP address mismatch"),
        (f"ldap://localhost:{people.tls_port}", None, "incomplete|refused|reset"),
        ("ldap://localhost:1", None, "refused"),
    ):
        ldap = Ldap.of(url, USER_DN, ca)
        with pytest.raises(StoreUnavailableError, match=reason):
            ldap.accepts("ann", "tea")
    caplog.clear()
    with serving(Authentication(ldap)) as server, pytest.raises(CallError) as caught:
        Hs2Client(server.port, "ann", "tea", opened=False)
    assert caught.value.status == "the password cannot be checked now"
    assert (
        "the password of ann cannot be checked: no valid answer from the LDAP server localhost:1"
        in caplog.text
    )


def test_clients_trust_a_chain_of_certificates_and_no_other(
    people: Directory, tmp_path: Path, ldap: Ldap
) -> None:
    root = make_keys(tmp_path, "root", common="root")
    middle = make_keys(tmp_path, "middle", common="middle", by=root, authority=True)
    keys = make_keys(tmp_path, "server", by=middle)
    keys.certificate.write_bytes(keys.certificate.read_bytes() + middle.certificate.read_bytes())
    with serving(Authentication(ldap), keys) as server:
        trusting = ssl.create_default_context(cafile=root.certificate)
        with Hs2Client(server.port, "ann", "tea", opened=False, tls=trusting):
            pass
        with pytest.raises(ssl.SSLCertVerificationError):
            Hs2Client(
                server.port, "ann", "tea", opened=False,
                tls=ssl.create_default_context(cafile=people.authority.certificate),
            )  # fmt: skip
        with pytest.raises((EOFError, OSError)):  # without TLS
            Hs2Client(server.port, "ann", "tea", opened=False)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    missing = missing_programs()
    skip_without(f"{', '.join(missing)} is not installed" if missing else None)
    pytest.importorskip(
        "gssapi", reason="the package gssapi is not installed: pip install 'hiveacid[kerberos]'"
    )
    running = Kdc(tmp_path_factory.mktemp("realm"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def keys_of(kdc: Kdc) -> dict[str, Path]:
    return {name: kdc.keytab(name) for name in (SERVICE, "ann", "eve/admin", "http/localhost")}


@pytest.fixture
def keytabs(kdc: Kdc, keys_of: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    return keys_of


@pytest.fixture
def gate(keytabs: dict[str, Path]) -> Authentication:
    return Authentication(None, Kerberos.of(f"{SERVICE}@{REALM}", keytabs[SERVICE]))


def context(user: str, keytab: Path, service: str = SERVICE) -> Any:
    """Return a user's side of a negotiation."""
    import gssapi  # noqa: PLC0415 - see the fixture

    kind = gssapi.NameType.kerberos_principal
    ticket = gssapi.Credentials(
        name=gssapi.Name(user, kind),
        usage="initiate",
        store={"client_keytab": str(keytab), "ccache": f"MEMORY:{user}"},
    )
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
    return gssapi.SecurityContext(
        name=gssapi.Name(service, kind), creds=ticket, usage="initiate", flags=flags
    )


def begun(server: Server, token: bytes) -> Hs2Client:
    client = raw_client(server.port)
    client.message(1, b"GSSAPI")
    client.message(2, token)
    return client


def choose(ours: Any, client: Hs2Client, choice: bytes) -> None:
    """Go on after the first token, and choose a layer and a name. Raises CallError."""
    assert not ours.step(client.reply(2))
    client.message(2, b"")
    assert ours.unwrap(client.reply(2)).message == b"\1\0\0\0"
    client.message(5, ours.wrap(choice, encrypt=False).message)
    client.reply(5)


def test_tickets_of_the_realm_log_in_once(
    gate: Authentication, keytabs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(gate) as server:
        for user, name in (("ann", b""), ("ann", b"ann"), ("eve/admin", f"eve/admin@{REALM}".encode())):
            ours = context(user, keytabs[user])
            token = ours.step()
            with begun(server, token) as client:
                choose(ours, client, b"\1\0\0\0" + name)
            with begun(server, token) as client, pytest.raises(CallError, match="replay"):
                client.reply(2)
    assert "replay" in caplog.text


def test_other_tickets_names_and_layers_are_refused(gate: Authentication, keytabs: dict[str, Path]) -> None:
    with serving(gate) as server:
        for choice, reason in (
            (b"\1\0\0\0bob", "act as another"), (b"\4\0\0\0", "use TLS"), (b"", "use TLS")
        ):  # fmt: skip
            ours = context("ann", keytabs["ann"])
            with begun(server, ours.step()) as client, pytest.raises(CallError, match=reason):
                choose(ours, client, choice)
        token = context("ann", keytabs["ann"]).step()
        other = context("ann", keytabs["ann"], "http/localhost").step()
        for wrong in (
            b"\0",
            b"\0" * 60000,
            token[:50],
            token[:-1] + b"x",
            b"\x60\x84\x7f\xff\xff\xff",
            other,
        ):
            with (
                begun(server, wrong) as client,
                pytest.raises(CallError, match="the ticket was not accepted"),
            ):
                client.reply(2)
        ours = context("ann", keytabs["ann"])
        with begun(server, ours.step()) as client:
            ours.step(client.reply(2))
            client.message(2, b"")
            client.reply(2)
            client.message(5, b"\1\0\0\0")
            with pytest.raises(CallError, match="choice"):
                client.reply(5)
        with pytest.raises(CallError, match="PLAIN is not offered here; this server offers GSSAPI"):
            Hs2Client(server.port, "ann", "tea", opened=False)


def test_each_request_over_http_needs_a_ticket_of_its_own(
    gate: Authentication, keytabs: dict[str, Path]
) -> None:
    def status(server: Server, authorization: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("localhost", server.port, timeout=60)
        headers = {"Content-Type": "application/x-thrift", "Authorization": authorization}
        connection.request("POST", "/cliservice", b"no message", headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("WWW-Authenticate", "")

    with serving(gate, http=True) as server:
        ticket = f"Negotiate {base64.b64encode(context('ann', keytabs['ann']).step()).decode()}"
        assert status(server, ticket)[0] == 400  # it was accepted, and the message was read
        for wrong in (
            ticket,
            "Negotiate",
            "Negotiate !",
            "Negotiate AAAA",
            ticket.replace("Negotiate", "Basic"),
            "",
        ):
            assert status(server, wrong) == (401, "Negotiate")


def test_a_keytab_without_the_key_or_open_to_others_is_refused(keytabs: dict[str, Path]) -> None:
    for principal, name, reason in (
        (f"hive/other@{REALM}", SERVICE, "no usable key of hive/other"),
        ("hive", SERVICE, "SERVICE/HOST@REALM"),
        (f"{SERVICE}@{REALM}", "ann", "chmod 600"),
    ):
        keytabs["ann"].chmod(0o644)
        with pytest.raises(ConfigError, match=reason):
            Kerberos.of(principal, keytabs[name])


def said(*command: object, **environment: str) -> str:
    """Run a program; return what it printed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL,
        env=os.environ | environment,
    )  # fmt: skip
    return done.stdout + done.stderr


def beeline(
    port: int, transport: str, more: str, script: str, *options: object, java: tuple[str, ...] = ()
) -> str:
    http = ";transportMode=http;httpPath=cliservice" if transport == "http" else ""
    command = ["java", *java, "-cp", f"{hs2_process.JARS}/*", "org.apache.hive.beeline.BeeLine"]
    return said(*command, "-u", f"jdbc:hive2://localhost:{port}/default{http}{more}", "-e", script, *options)


@pytest.mark.parametrize("transport", ["binary", "http"])
def test_beeline_logs_in_by_kerberos(
    kdc: Kdc, keytabs: dict[str, Path], tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--keytab", keytabs[SERVICE], "--principal", f"{SERVICE}@{REALM}"]
    options += ["--http"] if transport == "http" else []
    java = (
        f"-Djava.security.krb5.conf={kdc.place / 'krb5.conf'}", "-Djavax.security.auth.useSubjectCredsOnly=false"
    )  # fmt: skip
    service, script = f";principal={SERVICE}@{REALM}", "START TRANSACTION; SHOW TRANSACTIONS; SELECT 41 + 1"
    with hs2_process.serving(tmp_path / "wh", *map(str, options)) as port:
        subprocess.run(["kinit", "-k", "-t", keytabs["ann"], "ann"], check=True)
        shown = beeline(port, transport, service, script, java=java)
        assert "| 42 " in shown, shown
        assert "| ann " in shown
        by_password = beeline(port, transport, "", script, "-n", "ann", "-p", "tea", java=java)
        assert "PLAIN is not offered here" in by_password or "401" in by_password, by_password
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
        without = beeline(port, transport, service, script, java=java)
        assert "Could not" in without, without
        assert "| 42 " not in without, without


def open_session_by_curl(port: int, place: Path, *options: str) -> tuple[str, bytes]:
    """Send one call over HTTP; return the status and the answer."""
    call, answer = place / "call", place / "answer"
    request = hs2_messages.TOpenSessionReq(client_protocol=9)
    arguments = hs2_messages.CALLS["OpenSession"].arguments(req=request)
    call.write_bytes(encode_message("OpenSession", CALL, 1, encode_struct(arguments)))
    status = said(
        "curl", "-s", *options, "-o", answer, "-w", "%{http_code}", "-H", "Content-Type: application/x-thrift",
        "--data-binary", f"@{call}", f"http://localhost:{port}/cliservice",
    )  # fmt: skip
    return status, answer.read_bytes()


@pytest.mark.parametrize("transport", ["binary", "http"])
def test_clients_of_python_and_curl_log_in_by_kerberos(
    keytabs: dict[str, Path], tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_module = "True" in said(
        PYTHON, "-c", "import importlib.util as u; print(u.find_spec('kerberos') is not None)"
    )
    skip_without(
        None if has_module else "no package kerberos for clients: .venv-clients/bin/pip install kerberos"
    )
    options = ["--keytab", keytabs[SERVICE], "--principal", f"{SERVICE}@{REALM}"]
    options += ["--http"] if transport == "http" else []
    with hs2_process.serving(tmp_path / "wh", *map(str, options)) as port:
        subprocess.run(["kinit", "-k", "-t", keytabs["ann"], "ann"], check=True)
        shown = {client: said(PYTHON, PROGRAM, client, transport, port) for client in ("impyla", "pyhive")}
        assert "[(42,)]" in shown["impyla"], shown
        if transport == "binary":
            assert "[(42,)]" in shown["pyhive"], shown
        else:  # it sends the ticket of its first request with the second one, too (pyhive.hive._set_kerberos_header)
            assert "[(42,)]" not in shown["pyhive"], shown
            negotiated = ("--negotiate", "-u", ":", "--service-name", "hive")
            status, answer = open_session_by_curl(port, tmp_path, *negotiated)
            assert (status, Decoder(answer).message().method) == ("200", "OpenSession")
            assert open_session_by_curl(port, tmp_path)[0] == "401"
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
        assert "[(42,)]" not in said(PYTHON, PROGRAM, "impyla", transport, port)


@pytest.mark.parametrize("transport", ["binary", "http"])
def test_real_clients_log_in_by_a_directory_over_tls(
    people: Directory, tmp_path: Path, transport: str
) -> None:
    root = make_keys(tmp_path, "root", common="root")
    keys, store = make_keys(tmp_path, "server", by=root), tmp_path / "trust"
    options = [
        "--ldap", f"ldaps://localhost:{people.tls_port}", "--ldap-user-dn", USER_DN,
        "--ldap-ca", people.authority.certificate, "--certificate", keys.certificate, "--private-key", keys.secret,
        *(["--http"] if transport == "http" else []),
    ]  # fmt: skip
    trust = (
        "keytool",
        "-importcert",
        "-noprompt",
        "-keystore",
        store,
        "-storepass",
        "trusted",
        "-file",
        root.certificate,
    )
    subprocess.run([str(part) for part in trust], check=True, capture_output=True)
    clients = ("impyla", "pyhive") if transport == "http" else ("impyla",)
    with hs2_process.serving(tmp_path / "wh", *map(str, options)) as port:

        def by_python(client: str, user: str, password: str, authority: Keys = root) -> str:
            command = (PYTHON, PROGRAM, client, transport, port, user, password)
            return said(*command, SSL_CERT_FILE=str(authority.certificate))

        for client in clients:
            assert "[(42,)]" in by_python(client, "ann", "tea")
            assert "[(42,)]" in by_python(client, "a,b", "jam")
            for user, password in (("ann", "jam"), ("ann", ""), ("an*", "tea"), ("ann,ou=people", "tea")):
                assert "42" not in by_python(client, user, password)
            untrusted = by_python(client, "ann", "tea", people.authority)
            assert "CERTIFICATE_VERIFY_FAILED" in untrusted or "Could not connect" in untrusted, untrusted
        tls = f";ssl=true;sslTrustStore={store};trustStorePassword=trusted"
        assert "| 42 " in beeline(port, transport, tls, "SELECT 41 + 1", "-n", "ann", "-p", "tea")
        refused = beeline(port, transport, tls, "SELECT 41 + 1", "-n", "ann", "-p", "jam")
        assert "wrong user or password" in refused or "401" in refused, refused
        untrusted = beeline(port, transport, ";ssl=true", "SELECT 41 + 1", "-n", "ann", "-p", "tea")
        assert "unable to find valid certification path" in untrusted, untrusted

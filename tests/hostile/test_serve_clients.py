"""Hostile clients of ``hiveacid serve``: garbage, huge lengths, deep nesting, slow bytes, calls without a login."""

from __future__ import annotations

import base64
import logging
import random
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import ClientProtocolError, ConfigError, StoreUnavailableError
from hiveacid.serve import hs2_messages
from hiveacid.serve.authentication import Anyone, Authentication, Ldap, PasswordFile, hash_line
from hiveacid.serve.hs2_messages import CALL, Decoder, encode_message, encode_struct
from hiveacid.serve.metadata import matches
from hiveacid.serve.operations import ClientOperation, TimeLimits
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Caller, ClientSession, Sessions
from hiveacid.serve.transports import BytesInFlight, ClientLimits, Wire
from hiveacid.services.http_server import Access, server_tls
from hiveacid.sql.cancellation import Running
from support.hs2_client import CallError, Hs2Client, raw_client
from support.servers.certificates import make_keys

ENOUGH = 60.0  # seconds until a test gives up
LIMITS = ClientLimits(handshake=0.5, patience=0.5, message=4 << 20)


def serving(authentication: Authentication, **more: Any) -> Iterator[Server]:
    """Serve without Spark, which no refused call reaches."""
    service = Service(Sessions(cast("Any", None), 60.0), "4")
    options = ServerOptions.of("127.0.0.1", 0, authentication, http=more.pop("http", False), limits=LIMITS)
    server = Server(service, ServerOptions(**{**vars(options), **more}))
    server.start()
    yield server
    server.stop(0.0)


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Authentication(Anyone()), max_connections=8)


@pytest.fixture
def web() -> Iterator[Server]:
    yield from serving(Authentication(Anyone()), http=True)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    path = tmp_path / "users"
    path.write_text(f"# users\n{hash_line('ann', 'tea')}\n")
    path.chmod(0o600)
    yield from serving(Authentication(PasswordFile(path), refusal_delay=0.0))


def closes(client: socket.socket) -> bool:
    """Tell whether the server hangs up in time, whatever it sends before."""
    client.settimeout(ENOUGH)
    with suppress(ConnectionError):
        while client.recv(4096):
            pass
    return True


def logs_in(server: Server, user: str = "ann", word: str = "x") -> bool:
    with Hs2Client(server.port, user, word, opened=False):
        return True


def test_garbage_and_huge_lengths_end_only_their_own_connection(server: Server) -> None:
    with Hs2Client(server.port, opened=False) as calm:
        seed = random.SystemRandom().randrange(1 << 30)
        garbage = random.Random(seed)
        heads = [b"", struct.pack(">BI", 1, 5) + b"PLAIN" + struct.pack(">BI", 5, 6) + b"\0ann\0x"]
        tails = [
            garbage.randbytes(300),
            b"\xff" * 300,
            b"\x7f\xff\xff\xff",
            struct.pack(">I", 300) + b"\0" * 300,
        ]
        for head in heads:
            for tail in tails:
                with socket.create_connection(("127.0.0.1", server.port), ENOUGH) as client:
                    client.sendall(head + tail)
                    assert closes(client), seed
        with pytest.raises(CallError) as caught:
            calm.call("CloseSession", sessionHandle=hs2_messages.TSessionHandle())
        assert caught.value.status.statusCode == 4


def test_slow_clients_lose_their_connection_and_block_no_others(server: Server) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port), ENOUGH) for _ in range(8)]
    assert logs_in(server)  # in the place of the oldest one
    began = time.monotonic()
    dripping = socket.create_connection(("127.0.0.1", server.port), ENOUGH)
    dripping.settimeout(0.1)
    closed = False
    while not closed and time.monotonic() - began < ENOUGH:
        try:
            dripping.send(b"\x01")
            closed = dripping.recv(1) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            closed = True
    assert closed
    for client in [*idle, dripping]:
        client.close()


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns so often that each order of their steps comes about."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_handshakes_of_tls_that_stop_hold_no_more_threads_than_connections(tmp_path: Path) -> None:
    keys = make_keys(tmp_path, "server")
    tls = server_tls(keys.certificate, keys.secret)
    patient = ClientLimits(handshake=ENOUGH, patience=ENOUGH)
    more = {"access": Access(tls=tls), "limits": patient, "max_connections": 8}
    others = set(threading.enumerate())  # of servers that other tests share

    def threads() -> list[threading.Thread]:
        new = set(threading.enumerate()) - others
        return [thread for thread in new if thread.name.startswith("hiveacid-connection")]

    for server in serving(Authentication(Anyone()), **more):
        silent = [socket.create_connection(("127.0.0.1", server.port), ENOUGH) for _ in range(60)]
        for client in silent[:52]:
            assert closes(client)
        end = time.monotonic() + ENOUGH
        while len(threads()) > 8:
            assert time.monotonic() < end, threads()
            time.sleep(0.05)
        trusting = ssl.create_default_context(cafile=keys.certificate)
        with Hs2Client(server.port, opened=False, tls=trusting):
            pass
        for client in silent:
            client.close()


def test_calls_before_a_login_are_refused(guarded: Server) -> None:
    body = encode_struct(
        hs2_messages.CALLS["OpenSession"].arguments(req=hs2_messages.TOpenSessionReq(client_protocol=9))
    )
    message = encode_message("OpenSession", CALL, 1, body)
    for data in (message, struct.pack(">I", len(message)) + message, struct.pack(">BI", 5, 0)):
        with socket.create_connection(("127.0.0.1", guarded.port), ENOUGH) as client:
            client.sendall(data)
            assert closes(client)
    assert not len(guarded._service.sessions)


def test_only_the_right_password_of_a_known_user_is_accepted(guarded: Server) -> None:
    assert logs_in(guarded, "ann", "tea")
    for user, password in (("ann", "jam"), ("bob", "tea"), ("ann", ""), ("", ""), ("ann", "x" * 2000)):
        with pytest.raises(CallError, match="wrong user or password"):
            logs_in(guarded, user, password)
    with pytest.raises(CallError, match="act as another"):
        raw_client(guarded.port).negotiate(b"PLAIN", b"bob\0ann\0tea")


def test_kerberos_is_refused_with_what_is_offered(guarded: Server) -> None:
    client = raw_client(guarded.port)
    with pytest.raises(CallError, match="GSSAPI is not offered here; this server offers PLAIN"):
        client.negotiate(b"GSSAPI", b"")
    client.close()


CALLED = b"POST /cliservice HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-thrift\r\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (CALLED.replace(b"application/x-thrift", b"text/plain") + b"\r\n", b"415"),
        (CALLED.replace(b"localhost", b"evil.example") + b"\r\n", b"421"),
        (CALLED + b"\r\n", b"411"),
        (CALLED + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (CALLED + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab", b"400"),
        (CALLED + b"Content-Length: 3\r\n\r\nabc", b"400"),
        (CALLED + b"Authorization: Basic " + base64.b64encode(b"ann\nERROR:x") + b"\r\n\r\n", b"401"),
        (CALLED + b"Authorization: Basic dXNlcjrp\xe9\r\n\r\n", b"411"),
        (b"\x80\x01\x00\x01\r\n\r\n", b"400"),
        (b"A" * (17 << 10), b"431"),
    ],
)
def test_http_requests_that_are_no_calls(web: Server, text: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", web.port), ENOUGH) as client:
        client.sendall(text)
        answer = b""
        with suppress(ConnectionError):
            while piece := client.recv(4096):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 " + status)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for call in (hs2_messages.CALLS["OpenSession"], hs2_messages.CALLS["GetTables"]):
        with suppress(ClientProtocolError):
            Decoder(data).arguments(call)
    with suppress(ClientProtocolError):
        Decoder(data).message()


def test_deep_nesting_and_lengths_beyond_the_end_are_refused() -> None:
    for data in (
        b"\x0c\x00\x05" * 100_000,  # structs inside structs
        b"\x0f\x00\x05" + b"\x0f\x00\x00\x00\x01" * 100_000,  # lists inside lists
        b"\x0f\x00\x05\x02\x7f\xff\xff\xff",
        b"\x0d\x00\x05\x0b\x0b\x7f\xff\xff\xff",
        b"\x0b\x00\x05\xff\xff\xff\xff",
    ):
        with pytest.raises(ClientProtocolError):
            Decoder(data).arguments(hs2_messages.CALLS["OpenSession"])


@pytest.mark.parametrize(
    "line",
    [
        *("", "ann", "ann:tea", "ann:scrypt$1$8$1$AAAA$AAAA", "a b:scrypt$16384$8$1$c2FsdHNhbHQ=$AAAA"),
        *(f"ann:scrypt${n}$8$1$c2FsdHNhbHQ=$" + "A" * 43 + "=" for n in (1073741824, 16383, 131072)),
    ],
)
def test_damaged_password_files_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "users"
    path.write_text(f"{line}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        PasswordFile(path)


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o620])
def test_a_password_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "users"
    path.write_text(hash_line("ann", "tea"))
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod"):
        PasswordFile(path)


def test_ldap_refuses_what_would_leak_passwords_or_accept_everyone() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        Ldap.of("ldap://directory.example", "uid={user},dc=example")
    with pytest.raises(ConfigError, match="user"):
        Ldap.of("ldaps://directory.example", "uid=ann,dc=example")
    assert not Ldap.of("ldaps://directory.example", "uid={user},dc=example").accepts("ann", "")


def test_patterns_match_in_time_that_no_pattern_blows_up() -> None:
    assert matches("%a_c%", "xxabcxx")
    assert not matches("a\\_c", "abc")
    assert matches("a\\_c", "a_c")
    began = time.monotonic()
    assert not matches("%a" * 200 + "b", "a" * 250)
    assert time.monotonic() - began < 5


def test_many_clients_that_log_in_wrongly_do_not_stop_a_right_one(guarded: Server) -> None:
    def wrong() -> None:
        for _ in range(5):
            with suppress(CallError, OSError, EOFError):
                logs_in(guarded, "ann", "wrong")

    threads = [threading.Thread(target=wrong) for _ in range(10)]
    for thread in threads:
        thread.start()
    assert logs_in(guarded, "ann", "tea")
    for thread in threads:
        thread.join()


def test_a_changed_password_file_counts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"{hash_line('ann', 'tea')}\n{hash_line('bob', 'jam')}\n")
    path.chmod(0o600)
    authentication = Authentication(PasswordFile(path), refusal_delay=0.0)
    assert authentication.accepts("ann", "tea")
    path.write_text(f"{hash_line('bob', 'jam')}\n")
    assert not authentication.accepts("ann", "tea")
    path.write_text(f"{hash_line('ann', 'oil')}\n")
    assert not authentication.accepts("ann", "tea")
    assert authentication.accepts("ann", "oil")


def test_the_name_of_a_mechanism_cannot_forge_lines_of_the_log(guarded: Server) -> None:
    with pytest.raises(CallError, match=r"EVIL\?\?ERROR is not offered"):
        raw_client(guarded.port).negotiate(b"EVIL\r\nERROR", b"")


def test_an_ldap_answer_without_a_result_is_no_success() -> None:
    with socket.create_server(("127.0.0.1", 0)) as directory:

        def answer() -> None:
            client, _ = directory.accept()
            with client:
                client.recv(4096)
                client.sendall(bytes((0x30, 7, 2, 1, 1, 0x61, 2, 10, 0)))

        thread = threading.Thread(target=answer)
        thread.start()
        ldap = Ldap.of(f"ldap://127.0.0.1:{directory.getsockname()[1]}", "uid={user}")
        with pytest.raises(StoreUnavailableError, match="answer"):
            ldap.accepts("ann", "wrong")
        thread.join()


def test_a_machine_without_threads_refuses_one_client_and_serves_the_next(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name.startswith("hiveacid-connection"):
            raise RuntimeError("can't start new thread")
        started(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        with socket.create_connection(("127.0.0.1", server.port), ENOUGH) as client:
            assert closes(client)
    assert logs_in(server)


def test_a_connection_that_the_server_closed_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        wire = Wire(ours, LIMITS)
        assert not wire.gone()
        wire.close()
        assert wire.gone()


class Queue:
    """Thread of a session whose statements end when the test says so."""

    def submit(self, work: object, *, only_reads: bool = False) -> Running[Any]:  # noqa: ARG002 - as the session calls it
        del work
        return Running("")


def test_a_time_limit_does_not_count_for_the_fetches_after_the_statement() -> None:
    operation = ClientOperation(cast("Any", Queue()), lambda: None, 0)
    running = operation.start(1e9)
    limit = operation._limit
    assert limit is not None
    assert limit in operation.limits._waiting.queue
    running.future.set_result(None)
    assert limit not in operation.limits._waiting.queue


def test_a_session_is_not_idle_right_after_a_long_statement() -> None:
    sessions = Sessions(cast("Any", None), 60.0)
    session = ClientSession(Caller("ann", "", "", lambda: False), *cast("Any", (None, Queue())))
    operation = ClientOperation(session.thread, lambda: None, 0)
    session.operations[b""] = operation
    running = operation.start()
    sessions._sessions[session.guid] = session
    session.used -= 3600
    sessions.close_idle()
    running.future.set_result(None)
    sessions.close_idle()
    assert len(sessions) == 1


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "hiveacid.audit"]


def test_log_ins_and_broken_messages_are_audited_with_user_and_address(
    guarded: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hiveacid.audit")
    with Hs2Client(guarded.port, "ann", "tea", opened=False) as client:
        client.send(b"garbage")
        assert closes(client.socket)
    with pytest.raises(CallError):
        logs_in(guarded, "eve\nERROR \x9b", "jam")
    end = time.monotonic() + ENOUGH
    while len(audited(caplog)) < 3:
        assert time.monotonic() < end, audited(caplog)
        time.sleep(0.01)
    login, broken, refused = audited(caplog)
    assert login == 'event=login user="ann" host="127.0.0.1"'
    assert broken.startswith('event=protocol_error user="ann" host="127.0.0.1" reason="')
    assert refused.startswith('event=login_refused user="eve\\nERROR \\u009b" host="127.0.0.1" reason="')
    assert refused.isprintable()


def test_refused_requests_are_audited_with_their_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    path.write_text(f"{hash_line('ann', 'tea')}\n")
    path.chmod(0o600)
    for server in serving(Authentication(PasswordFile(path), refusal_delay=0.0), http=True):
        with socket.create_connection(("127.0.0.1", server.port), ENOUGH) as client:
            token = base64.b64encode(b"ann:jam")
            client.sendall(CALLED + b"Authorization: Basic " + token + b"\r\nContent-Length: 1\r\n\r\nx")
            assert closes(client)
        end = time.monotonic() + ENOUGH
        while not audited(caplog):
            assert time.monotonic() < end
            time.sleep(0.01)
    assert audited(caplog)[0].startswith('event=login_refused user="ann" host="127.0.0.1"')


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">bhbi", 15, 99, 12, 3_000_000) + b"\0" * 3_000_000,  # an unknown list of empty structs
        struct.pack(">bhbbi", 13, 3, 11, 11, 250_000) + struct.pack(">ii", 0, 0) * 250_000,  # settings
        struct.pack(">bhbi", 15, 99, 15, 500_000) + struct.pack(">bi", 2, 0) * 500_000,  # lists of lists
    ],
)
def test_messages_of_many_values_are_refused_at_once(server: Server, body: bytes) -> None:
    call = hs2_messages.CALLS["ExecuteStatement"]
    data = struct.pack(">bh", 12, 1) + body + b"\0\0"
    began = time.thread_time()
    with pytest.raises(ClientProtocolError, match="too many values"):
        Decoder(data, 5000).arguments(call)
    assert time.thread_time() - began < 0.5
    with Hs2Client(server.port, opened=False) as client:
        client.send(encode_message("ExecuteStatement", CALL, 1, data))
        assert closes(client.socket)


def test_unknown_lists_of_numbers_are_skipped_by_arithmetic() -> None:
    data = struct.pack(">bhbhbi", 12, 1, 15, 99, 2, 30_000_000) + b"\0" * 30_000_000 + b"\0\0"
    began = time.thread_time()
    Decoder(data, 5000).arguments(hs2_messages.CALLS["ExecuteStatement"])
    assert time.thread_time() - began < 0.5


def test_only_statements_may_be_large(server: Server) -> None:
    large = "x" * (2 << 20)
    with Hs2Client(server.port, opened=False) as client:
        with pytest.raises(CallError) as caught:
            client.call("ExecuteStatement", sessionHandle=hs2_messages.TSessionHandle(), statement=large)
        assert caught.value.status.statusCode == hs2_messages.INVALID_HANDLE
        body = encode_struct(
            hs2_messages.CALLS["OpenSession"].arguments(req=hs2_messages.TOpenSessionReq(username=large))
        )
        client.send(encode_message("OpenSession", CALL, 1, body))
        assert closes(client.socket)


def test_large_messages_share_a_bound_and_small_ones_do_not_count() -> None:
    in_flight = BytesInFlight(300_000)
    with ExitStack() as held:
        for size in (200_000, 60_000, 60_000, 100_000):
            held.enter_context(in_flight.hold(size))
        with pytest.raises(ClientProtocolError, match="too many large"):
            held.enter_context(in_flight.hold(100_000))
    with in_flight.hold(300_000):
        pass


def test_time_limits_share_one_thread_and_act_in_their_order() -> None:
    limits, before = TimeLimits(), threading.active_count()
    acted: list[int] = []
    done = threading.Event()
    waiting = [limits.after(3600 + number, lambda: acted.append(-1)) for number in range(1000)]
    limits.after(0.2, lambda: (acted.append(2), done.set()))
    limits.after(0.1, lambda: acted.append(1))
    limits.cancel(limits.after(0.0, lambda: acted.append(3)))
    assert threading.active_count() <= before + 1
    assert done.wait(ENOUGH)
    assert acted == [1, 2]
    for limit in waiting:
        limits.cancel(limit)
    limits.after(3600, done.set)
    assert len(limits._waiting.queue) < 10


def test_a_name_in_a_directory_has_one_spelling() -> None:
    ldap = Ldap.of("ldap://127.0.0.1:1", "uid={user}")
    assert {ldap.canonical_name(name) for name in ("ann", "ANN", "an\u00adn", "\uff41nn")} == {"ann"}
    authentication = Authentication(Anyone())
    assert authentication.canonical_name("ANN") == "ANN"
    assert not authentication.accepts("a\x9bnn", "x")


def test_a_lack_of_descriptors_is_logged_and_the_next_client_is_served(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        """The socket, which once cannot accept."""

        def accept(self) -> Any:
            server._socket = listening
            raise OSError(24, "Too many open files")

        def shutdown(self, how: int) -> None:
            listening.shutdown(how)

        def close(self) -> None:
            listening.close()

    listening = server._socket
    server._socket = cast("Any", Full())
    assert logs_in(server)  # the thread of the server waits in the true socket, then meets the other one
    assert logs_in(server)
    assert any("Too many open files" in record.getMessage() for record in caplog.records)

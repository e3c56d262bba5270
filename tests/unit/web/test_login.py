"""Who a visitor is and may act: without log-in, by password, by a proxy; sessions, tokens and origins."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

import pytest

from hiveacid.errors import ConfigError
from hiveacid.serve.authentication import hash_line
from hiveacid.services.http_server import Access, Request
from hiveacid.web.login import SESSION_SECONDS, Gate, Headers, RefusedError, Visitor
from hiveacid.web.server import answer
from support.web_site import SiteOf, header

OPEN = Access("0.0.0.0", tls=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))  # noqa: S104 - not listened on
PROXY = Access(token="secret")  # noqa: S106


@dataclass
class Seconds:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that refused log-ins would have waited."""
    seconds: list[float] = []
    # Not `time.sleep` itself: threads that other tests have left would go round without a pause, and fill the list.
    monkeypatch.setattr("hiveacid.serve.authentication.sleep", seconds.append)
    return seconds


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    file.write_text("\n".join(hash_line(name, f"{name}'s word") for name in ("ann", "ben")))
    file.chmod(0o600)
    return file


def headers(*pairs: tuple[str, str], peer: str = "127.0.0.1") -> Headers:
    return Headers(peer, (("Host", "h:1"), *pairs))


def cookie(session: str) -> tuple[str, str]:
    return "Cookie", f"other=1; {headers().session_cookie}={session}"


def basic(user: str, password: str) -> tuple[str, str]:
    return "Authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def refused(gate: Gate, sent: Headers) -> HTTPStatus:
    with pytest.raises(RefusedError) as found:
        gate.visitor(sent)
    return found.value.status


def test_without_log_in_everybody_is_local_and_may_only_look() -> None:
    visitor = Gate.of(Access()).visitor(headers())
    assert visitor is not None
    assert (visitor.user, visitor.is_operator) == ("local", False)
    operator = Gate.of(Access(), ("local",)).visitor(headers())
    assert operator is not None
    assert operator.is_operator


@pytest.mark.parametrize(
    ("access", "options", "text"),
    [
        (Access("0.0.0.0"), {}, "needs authentication"),  # noqa: S104
        (OPEN, {}, "needs authentication"),
        (Access("10.1.1.1"), {"user_header": "X-User", "proxy": "10.1.1.2"}, "and TLS"),
        (Access(), {"user_header": "X-User"}, "given together"),
        (Access(), {"proxy": "10.0.0.1"}, "given together"),
        *(
            (access, {"user_header": "X-User", "proxy": proxy}, "give --proxy-token-file")
            for access in (Access(), OPEN)
            for proxy in ("127.0.0.1", "0.0.0.0/0", "126.0.0.0/7", "::1", "::/0", "::ffff:127.0.0.1")
        ),
        (Access(), {"user_header": "X-User", "proxy": "nginx"}, "the proxy's address nginx"),
        (PROXY, {}, "--proxy-token-file is the proxy's"),
    ],
)
def test_an_address_is_not_opened_without_protection(
    access: Access, options: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Gate.of(access, **options)


def test_a_session_begins_with_the_right_password_and_ends(users: Path) -> None:
    seconds = Seconds()
    made = Gate.of(OPEN, ("ann",), users)
    gate = Gate(made.access, made.authentication, made.operators, seconds=seconds)
    assert gate.visitor(headers()) is None
    assert gate.log_in("ann", "ben's word") is None
    assert gate.log_in("nobody", "") is None
    session = gate.log_in("ann", "ann's word")
    assert session is not None
    visitor = gate.visitor(headers(cookie(session)))
    assert visitor is not None
    assert (visitor.user, visitor.is_operator) == ("ann", True)
    for wrong in (
        session[:-1],
        session + "0",
        session.replace(".", "!", 1),
        "",
        "..",
        "1.2.3",
        f"9{session}",
    ):
        assert gate.visitor(headers(cookie(wrong))) is None, wrong
    assert gate.visitor(headers(cookie(session), cookie(session))) is None
    seconds.now += SESSION_SECONDS + 1
    assert gate.visitor(headers(cookie(session))) is None


def test_a_session_ends_with_a_log_out_a_new_password_and_another_process(users: Path) -> None:
    gate = Gate.of(OPEN, (), users)
    first, second = gate.log_in("ann", "ann's word") or "", gate.log_in("ben", "ben's word") or ""
    visitor = gate.visitor(headers(cookie(first)))
    assert visitor is not None
    gate.log_out(visitor)
    assert gate.visitor(headers(cookie(first))) is None
    assert Gate.of(OPEN, (), users).visitor(headers(cookie(second))) is None
    assert gate.visitor(headers(cookie(second))) is not None
    stamp = users.stat().st_mtime + 10
    users.write_text(hash_line("ben", "another"))
    os.utime(users, (stamp, stamp))
    assert gate.visitor(headers(cookie(second))) is None


def test_a_log_out_ends_each_spelling_of_the_session(users: Path) -> None:
    """Base64 has several texts of one name: the last bits of ``am8`` are not used."""
    users.write_text(hash_line("jo", "jo's word"))
    gate = Gate.of(OPEN, (), users)
    session = gate.log_in("jo", "jo's word") or ""
    same = session.replace(".am8.", ".am9.")
    assert session != same
    visitor = gate.visitor(headers(cookie(session)))
    assert visitor is not None
    gate.log_out(visitor)
    assert gate.visitor(headers(cookie(session))) is gate.visitor(headers(cookie(same))) is None


def test_scripts_use_basic_authentication(users: Path) -> None:
    gate = Gate.of(OPEN, (), users)
    visitor = gate.visitor(headers(basic("ben", "ben's word")))
    assert visitor is not None
    assert visitor.user == "ben"
    for wrong in (basic("ben", "x"), ("Authorization", "Basic %%%"), ("Authorization", "Bearer x")):
        assert gate.visitor(headers(wrong)) is None


def test_only_the_proxy_may_name_a_user() -> None:
    gate = Gate.of(OPEN, ("ann",), user_header="X-User", proxy="10.0.0.0/30")
    visitor = gate.visitor(headers(("x-user", "ann"), peer="10.0.0.2"))
    assert visitor is not None
    assert (visitor.user, visitor.is_operator) == ("ann", True)
    assert refused(gate, headers(("X-User", "ann"), peer="10.0.0.4")) == 403
    for sent in (
        (),
        (("X-User", "ann"), ("X-User", "ben")),
        (("X-User", ""),),
        (("X-User", "a b"),),
        (("X-Usr", "ann"),),
    ):
        assert refused(gate, headers(*sent, peer="10.0.0.2")) == 403


def check(gate: Gate, visitor: Visitor, token: str, *pairs: tuple[str, str]) -> str:
    with pytest.raises(RefusedError) as found:
        gate.require_action(visitor, token, headers(*pairs))
    assert found.value.status == 403
    return str(found.value)


def test_an_action_needs_token_role_and_origin(users: Path) -> None:
    gate = Gate.of(OPEN, ("ann",), users)
    ann, ben = (
        gate.visitor(headers(cookie(gate.log_in(name, f"{name}'s word") or ""))) for name in ("ann", "ben")
    )
    assert ann is not None
    assert ben is not None
    gate.require_action(ann, ann.token, headers(("Origin", "https://h:1"), ("Sec-Fetch-Site", "same-origin")))
    gate.require_action(ann, ann.token, headers())
    assert "another session" in check(gate, ann, ben.token)
    assert "another session" in check(gate, ann, "")
    assert "another session" in check(gate, ann, "é" * 64)
    assert "may look, but not act" in check(gate, ben, ben.token)
    for pair in (
        ("Origin", "https://evil"), ("Origin", "null"), ("Origin", "https://h:1.evil"), ("Origin", ""),
        ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"), ("Host", "h:2"),
    ):  # fmt: skip
        assert "another site" in check(gate, ann, ann.token, pair), pair


def test_a_notice_is_of_one_session(users: Path) -> None:
    gate = Gate.of(OPEN, (), users)
    ann = gate.visitor(headers(basic("ann", "ann's word")))
    ben = gate.visitor(headers(basic("ben", "ben's word")))
    assert ann is not None
    assert ben is not None
    seal = gate.seal(ann, "done")
    assert gate.is_sealed(ann, "done", seal)
    assert not gate.is_sealed(ann, "all rows are lost", seal)
    assert not gate.is_sealed(ben, "done", seal)


def test_a_wrong_password_waits_a_second(users: Path, waits: list[float]) -> None:
    gate = Gate.of(OPEN, (), users)
    assert gate.log_in("ann", "ann's word") is not None
    assert gate.visitor(headers(basic("ann", "ann's word"))) is not None
    assert gate.visitor(headers()) is None
    assert waits == []
    assert gate.log_in("ann", "x") is None
    assert gate.log_in("nobody", "x") is None
    assert gate.visitor(headers(basic("ann", ""))) is None
    assert waits == [1.0, 1.0, 1.0]


def test_further_log_ins_do_not_open_a_session_that_was_logged_out(users: Path) -> None:
    seconds = Seconds()
    gate = Gate(OPEN, Gate.of(OPEN, (), users).authentication, seconds=seconds)
    of_ben = gate.log_in("ben", "ben's word") or ""
    first = gate.log_in("ann", "ann's word") or ""
    visitor = gate.visitor(headers(cookie(first)))
    assert visitor is not None
    gate.log_out(visitor)
    opened = []
    for _ in range(150):
        seconds.now += 1
        opened.append(gate.log_in("ann", "ann's word") or "")
    is_open = [gate.visitor(headers(cookie(session))) is not None for session in (first, *opened)]
    assert is_open == [False] * 51 + [True] * 100
    assert gate.visitor(headers(cookie(of_ben))) is not None


def test_servers_of_one_host_have_cookies_of_their_own(users: Path, busy: SiteOf) -> None:
    """Otherwise the log-in at one of them would end the session at the other."""
    app = SiteOf(busy.store, Gate.of(Access(), (), users)).app
    form = urlencode({"user": "ann", "password": "ann's word"}).encode()
    sent = (("Host", "127.0.0.1:1"), ("Content-Type", "application/x-www-form-urlencoded"))
    first = header(answer(app, Request("POST", "/login", sent, form), port=1), "Set-Cookie") or ""
    assert first.startswith("hiveacid_session_1=")
    session = first.partition(";")[0]
    for port, status in ((1, 200), (2, 303)):
        page = answer(app, Request("GET", "/", (*sent, ("Cookie", session))), port=port)
        assert page.status == status


def test_a_lost_password_file_is_for_the_log_only(
    users: Path, busy: SiteOf, caplog: pytest.LogCaptureFixture
) -> None:
    site = SiteOf(busy.store, Gate.of(Access(), (), users))
    users.unlink()
    for sent in (cookie("9.YW5u.0"), basic("ann", "x")):
        page = site.get("/", sent)
        assert page.status == 503
        assert b"the password cannot be checked now" in page.body
        assert str(users).encode() not in page.body
    assert site.post("/login", {"user": "ann", "password": "x"}).status == 503
    assert caplog.text.count(str(users)) == 3

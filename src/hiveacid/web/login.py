"""Log-in to the pages, roles, and protection against requests that another page forges."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from hiveacid.errors import ClientProtocolError, ConfigError
from hiveacid.serve.authentication import Anyone, Authentication, PasswordFile, is_user_name
from hiveacid.services.http_server import Access

LOCAL_USER = "local"
"""Name of every visitor of a loopback address without authentication."""
SESSION_SECONDS = 12 * 3600
_MOST_SESSIONS = 100  # of a user: a further log-in ends the oldest
_DIGITS = 12  # of an expiry
_LOOPBACK = ("127.0.0.0/8", "::1/128", "::ffff:127.0.0.0/104")


class RefusedError(ClientProtocolError):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        """Keep the status."""
        self.status = status
        super().__init__(text)


@dataclass(frozen=True)
class Visitor:
    """A person who is logged in. ``token``: the text that each action of this session has to bring."""

    user: str
    host: str
    is_operator: bool
    token: str = field(repr=False)
    session: str = field(default="", repr=False)


@dataclass(frozen=True)
class Headers:
    """Parts of a request that tell who sends it; each header as often as it was sent. ``port``: the server's."""

    peer: str
    values: tuple[tuple[str, str], ...]
    port: int = 0

    @property
    def session_cookie(self) -> str:
        """Name of the session's cookie: a browser sends all cookies of a host to each of its ports."""
        return f"hiveacid_session_{self.port}"

    def all(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for key, value in self.values if key.lower() == name.lower()]

    def one(self, name: str) -> str | None:
        """Return the value of a header that was sent once, else None."""
        found = self.all(name)
        return found[0] if len(found) == 1 else None

    def cookie(self, name: str) -> str | None:
        """Return a cookie that was sent once, else None."""
        pairs = [pair.strip().partition("=") for text in self.all("cookie") for pair in text.split(";")]
        found = [value for key, _, value in pairs if key == name]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that authenticates people: the header with the user's name, and the addresses it connects from."""

    header: str
    peers: IPv4Network | IPv6Network

    @classmethod
    def of(cls, header: str, peer: str) -> Proxy:
        """Parse an address or network. Raises ConfigError."""
        try:
            return cls(header, ip_network(peer))
        except ValueError as error:
            raise ConfigError(f"the proxy's address {peer}: {error}") from error

    @property
    def may_be_here(self) -> bool:
        """Tell whether some of the addresses are those of this machine to itself, which all its users have."""
        return any(
            isinstance(own, type(self.peers)) and own.overlaps(self.peers)
            for own in map(ip_network, _LOOPBACK)
        )

    def user(self, headers: Headers) -> str:
        """Return the name that the proxy states. Raises RefusedError for other peers, and for no or several names."""
        if ip_address(headers.peer) not in self.peers:
            raise RefusedError(HTTPStatus.FORBIDDEN, "only the reverse proxy may connect")
        name = headers.one(self.header)
        if name is None or not is_user_name(name):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"the proxy sent no user in {self.header}, or several")
        return name


@dataclass(frozen=True)
class Gate:
    """Tells who a visitor is, and whether an action may be carried out.

    ``operators``: users who may act; all others only look. A session is a signed cookie: it ends after `SESSION_SECONDS`,
    with the process, at a log-out, and when the user's password changes.
    """

    access: Access
    authentication: Authentication
    operators: frozenset[str] = frozenset()
    proxy: Proxy | None = None
    seconds: Callable[[], float] = time.monotonic
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    # Signatures by user: another text of the same name in base64 is the same session.
    _sessions: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(
        cls,
        access: Access,
        operators: tuple[str, ...] = (),
        password_file: Path | None = None,
        user_header: str | None = None,
        proxy: str | None = None,
    ) -> Gate:
        """Check that the ways to log in protect the address. Raises ConfigError."""
        if (user_header is None) != (proxy is None):
            raise ConfigError("--user-header and --proxy must be given together")
        if password_file is not None and proxy is not None:
            raise ConfigError("give either --password-file or --user-header, not both")
        if not access.is_local and (access.tls is None or (password_file is None and proxy is None)):
            raise ConfigError(
                f"listening on {access.address} needs authentication (--password-file, or --user-header and --proxy) and TLS "
                "(--certificate): other machines reach it"
            )
        stated = None if user_header is None or proxy is None else Proxy.of(user_header, proxy)
        if stated is not None and stated.may_be_here and access.token is None:
            raise ConfigError(
                "every user of this machine reaches a loopback address and could name any user: give --proxy-token-file, and let "
                "the proxy send that text as Authorization: Bearer"
            )
        if stated is None and access.token is not None:
            raise ConfigError("--proxy-token-file is the proxy's: give --user-header and --proxy, too")
        passwords = Anyone() if password_file is None else PasswordFile(password_file)
        return cls(access, Authentication(passwords), frozenset(operators), stated)

    @property
    def asks_for_password(self) -> bool:
        """Tell whether visitors log in here."""
        return self.proxy is None and not self.authentication.open_to_all

    def visitor(self, headers: Headers) -> Visitor | None:
        """Return who sends a request, None without a log-in. Raises RefusedError, and HiveAcidError for a lost file."""
        if self.proxy is not None:
            return self._visitor(self.proxy.user(headers), headers, "")
        if self.authentication.open_to_all:
            return self._visitor(LOCAL_USER, headers, "")
        session = headers.cookie(headers.session_cookie) or ""
        user = self._user_of(session)
        if user is not None:
            return self._visitor(user, headers, session)
        user = self._basic_user(headers.one("authorization"))
        return None if user is None else self._visitor(user, headers, "")

    def _visitor(self, user: str, headers: Headers, session: str) -> Visitor:
        token = self._sign("action", user, session)
        return Visitor(user, headers.peer, user in self.operators, token, session)

    def log_in(self, user: str, password: str) -> str | None:
        """Return the value of the session's cookie, None for a wrong password."""
        if not self.authentication.accepts(user, password):
            return None
        expiry = str(int(self.seconds()) + SESSION_SECONDS)
        name = base64.urlsafe_b64encode(user.encode()).decode().rstrip("=")
        signature = self._sign("session", user, expiry, self.authentication.password_fingerprint(user))
        with self._lock:
            self._sessions[user] = (*self._of_others(user, signature), signature)[-_MOST_SESSIONS:]
        return f"{expiry}.{name}.{signature}"

    def log_out(self, visitor: Visitor) -> None:
        """End a session."""
        with self._lock:
            self._sessions[visitor.user] = self._of_others(visitor.user, visitor.session.rpartition(".")[2])

    def _of_others(self, user: str, signature: str) -> tuple[str, ...]:
        """Return the user's sessions but one."""
        return tuple(other for other in self._sessions.get(user, ()) if other != signature)

    def require_action(self, visitor: Visitor, token: str, headers: Headers) -> None:
        """Raise RefusedError unless an operator sent this form from a page of this process."""
        self.require_token(visitor, token, headers)
        if not visitor.is_operator:
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                f"{visitor.user} may look, but not act: hiveacid web --operator names who may",
            )

    def require_token(self, visitor: Visitor, token: str, headers: Headers) -> None:
        """Raise RefusedError unless the form is from a page of this process and of this session."""
        self.require_same_origin(headers)
        if not hmac.compare_digest(token.encode("utf-8", "replace"), visitor.token.encode()):
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                "the form is of another session: load the page again and repeat the action",
            )

    def seal(self, visitor: Visitor, text: str) -> str:
        """Return a text that proves that this process wrote another one for a visitor."""
        return self._sign("notice", visitor.token, text)

    def is_sealed(self, visitor: Visitor, text: str, seal: str) -> bool:
        """Tell whether this process wrote a text for a visitor."""
        return hmac.compare_digest(seal.encode("utf-8", "replace"), self.seal(visitor, text).encode())

    def require_same_origin(self, headers: Headers) -> None:
        """Raise RefusedError if a browser says that another page sent the request."""
        origins, hosts = headers.all("origin"), headers.all("host")
        is_own = len(hosts) == 1 and all(
            origin.partition("://")[2].lower() == hosts[0].lower() for origin in origins
        )
        if not is_own or any(site not in ("same-origin", "none") for site in headers.all("sec-fetch-site")):
            raise RefusedError(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")

    def _user_of(self, session: str) -> str | None:
        expiry, _, rest = session.partition(".")
        name, _, signature = rest.partition(".")
        if not (expiry.isascii() and expiry.isdigit() and len(expiry) < _DIGITS):
            return None
        try:
            user = base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            return None
        fingerprint = self.authentication.password_fingerprint(user)
        right = self._sign("session", user, expiry, fingerprint)
        is_right = hmac.compare_digest(signature.encode("utf-8", "replace"), right.encode())
        is_open = right in self._sessions.get(user, ())
        return user if is_right and is_open and int(expiry) > self.seconds() and fingerprint else None

    def _basic_user(self, authorization: str | None) -> str | None:
        """Return the user of HTTP's basic authentication, which scripts use."""
        scheme, _, credentials = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return user if self.authentication.accepts(user, password) else None

    def _sign(self, *parts: str) -> str:
        return hmac.digest(self.key, "\0".join(parts).encode("utf-8", "surrogateescape"), "sha256").hex()

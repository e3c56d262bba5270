"""Ways to check a client: none (loopback only), a file of hashed passwords, a bind at an LDAP server, Kerberos.

A simple bind (RFC 4511) is the only request to an LDAP server that is needed to check a password. With Kerberos, clients
prove who they are by tickets for the principal of this server (GSS-API, RFC 4752).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import secrets
import socket
import ssl
import threading
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hiveacid.errors import ClientProtocolError, ConfigError, HiveAcidError, StoreUnavailableError
from hiveacid.stores.hms.transport import gssapi_library

if TYPE_CHECKING:
    import gssapi


logger = logging.getLogger(__name__)

_USER = re.compile(r"[^\s:/\\\x00-\x1f\x7f-\x9f]{1,256}")
_LONGEST_PASSWORD = 1024
_OF_OTHERS = 0o026  # permissions that a file with secrets must not give
_N, _R, _P = 1 << 14, 8, 1  # 16 MB and some 50 ms for each attempt
_MAX_CHECKS = 4  # at a time: each takes 16 MB
_MAX_WORK = 1 << 24  # n · r · p of a line
_MAX_MEMORY = 1 << 27  # bytes of one check; scrypt needs 128 · n · r
_REMEMBER_SECONDS = 300.0  # a correct password is not checked again: HTTP sends it with each request
_MAX_REMEMBERED = 1000


class RefusedLoginError(ClientProtocolError):
    """A log-in that was refused; ``user``: the name that the client gave, if any."""

    def __init__(self, text: str, user: str = "") -> None:
        """Keep the name."""
        self.user = user
        super().__init__(text)


def is_user_name(text: str) -> bool:
    """Tell whether a text can be the name of a user."""
    return _USER.fullmatch(text) is not None


class Passwords:
    """Checks a user's password; as it stands it accepts none."""

    def accepts(self, user: str, password: str) -> bool:  # noqa: ARG002
        """Tell whether the password is the user's. Raises HiveAcidError if the check is impossible now."""
        return False

    def password_fingerprint(self, user: str) -> str:  # noqa: ARG002
        """Return a text that changes if this checker learns of a new password. Raises HiveAcidError."""
        return ""

    def canonical_name(self, user: str) -> str:
        """Return the only name of a user for whom several spellings are accepted."""
        return user


class Anyone(Passwords):
    """Accepts every user with every password, as Hive's ``NONE``; for loopback addresses only."""

    def accepts(self, user: str, password: str) -> bool:
        """Accept."""
        del user, password
        return True


@dataclass(frozen=True)
class _Hash:
    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(_scrypt(password, self.salt, self.n, self.r, self.p), self.digest)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY, dklen=32)


def hash_line(user: str, password: str) -> str:
    """Return the line of a password file: ``user:scrypt$n$r$p$salt$digest``. Raises ConfigError."""
    if not _USER.fullmatch(user) or user.startswith("#"):
        raise ConfigError(
            "a user's name has 1 to 256 characters, and no space, colon or slash; it does not begin with #"
        )
    if not 0 < len(password) <= _LONGEST_PASSWORD:
        raise ConfigError(f"a password has 1 to {_LONGEST_PASSWORD} characters")
    salt = os.urandom(16)
    parts = (base64.b64encode(data).decode() for data in (salt, _scrypt(password, salt, _N, _R, _P)))
    return f"{user}:scrypt${_N}${_R}${_P}${'$'.join(parts)}"


class PasswordFile(Passwords):
    """Users with scrypt hashes of their passwords, a line each. The file is read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ConfigError for a file that is unreadable, damaged, or open to other users."""
        self._path = path
        self._slots = threading.BoundedSemaphore(_MAX_CHECKS)
        self._read: tuple[float, dict[str, _Hash]] = (-1.0, {})
        self._decoy = _parse_hash(hash_line("nobody", secrets.token_hex(16)).partition(":")[2], "decoy")
        self._users()

    def accepts(self, user: str, password: str) -> bool:
        """Check the password, a few at a time. An unknown user takes as long as an existing one."""
        entry = self._users().get(user)
        with self._slots:
            is_right = (entry or self._decoy).matches(password)
        return is_right and entry is not None

    def password_fingerprint(self, user: str) -> str:
        """Return the hash in the file, empty if the user is not there."""
        entry = self._users().get(user)
        return "" if entry is None else entry.digest.hex()

    def _users(self) -> dict[str, _Hash]:
        try:
            status = self._path.stat()
            if status.st_mtime != self._read[0]:
                if status.st_mode & _OF_OTHERS:
                    raise ConfigError(f"{self._path} can be read or written by other users: chmod 600 it")
                self._read = status.st_mtime, _parse_file(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the password file cannot be read: {error}") from error
        return self._read[1]


def _parse_file(text: str) -> dict[str, _Hash]:
    users = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            user, _, rest = line.strip().partition(":")
            if not _USER.fullmatch(user) or user in users:
                raise ConfigError(
                    f"line {number} of the password file: the name of the user is invalid, or occurs twice"
                )
            users[user] = _parse_hash(rest, f"line {number} of the password file")
    if not users:
        raise ConfigError(
            "the password file names no user: hiveacid serve --new-user NAME prints a line for it"
        )
    return users


def _parse_hash(text: str, where: str) -> _Hash:
    try:
        scheme, n, r, p, salt, digest = text.split("$")
        parsed = _Hash(
            int(n),
            int(r),
            int(p),
            base64.b64decode(salt, validate=True),
            base64.b64decode(digest, validate=True),
        )
    except (ValueError, binascii.Error) as error:
        raise ConfigError(f"{where} is not of the form user:scrypt$n$r$p$salt$digest") from error
    is_sound = parsed.n > 1 and parsed.r > 0 and parsed.p > 0 and parsed.n * parsed.r * parsed.p <= _MAX_WORK
    is_sound = is_sound and parsed.n & (parsed.n - 1) == 0 and parsed.n * parsed.r * 128 < _MAX_MEMORY
    if scheme != "scrypt" or not is_sound or len(parsed.digest) != 32 or len(parsed.salt) < 8:  # noqa: PLR2004 - bytes
        raise ConfigError(f"{where} has no usable scrypt hash")
    return parsed


@dataclass
class Authentication:
    """Checks names and passwords. Remembers correct ones for five minutes, or until the password file changes them.

    ``kerberos``: checks tickets instead. ``refusal_delay``: seconds before a wrong password is answered, so that nobody
    tries many.
    """

    passwords: Passwords | None
    kerberos: Kerberos | None = None
    refusal_delay: float = 1.0
    _remembered: dict[bytes, float] = field(default_factory=dict, repr=False)
    _key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def open_to_all(self) -> bool:
        """True if no password is checked."""
        return isinstance(self.passwords, Anyone)

    @property
    def challenge(self) -> str:
        """The header ``WWW-Authenticate`` of a refusal over HTTP."""
        return 'Basic realm="hiveacid"' if self.kerberos is None else "Negotiate"

    def canonical_name(self, user: str) -> str:
        """Return the only name of a user, for sessions, limits and logs."""
        return user if self.passwords is None else self.passwords.canonical_name(user)

    def accepts(self, user: str, password: str) -> bool:
        """Tell whether a client may connect. Raises StoreUnavailableError, whose reason the log gets, if it cannot be told now."""
        is_right = self._is_right(user, password)
        if not is_right and user:  # drivers without a name ask for the challenge
            sleep(self.refusal_delay)
        return is_right

    def password_fingerprint(self, user: str) -> str:
        """Return a text that changes with the user's password, empty for an unknown user. Raises as `accepts`."""
        if self.passwords is None:
            return ""
        try:
            return self.passwords.password_fingerprint(user)
        except HiveAcidError as error:
            raise _impossible(user, error) from error

    def _is_right(self, user: str, password: str) -> bool:
        if self.passwords is None or not is_user_name(user) or len(password) > _LONGEST_PASSWORD:
            return False
        if self.open_to_all:
            return True
        fingerprint = self.password_fingerprint(user)
        key = hmac.digest(self._key, f"{user}\0{fingerprint}\0{password}".encode(), "sha256")
        now = monotonic()
        with self._lock:
            if self._remembered.get(key, 0.0) > now:
                return True
        try:
            if not password or not self.passwords.accepts(user, password):
                return False
        except HiveAcidError as error:
            raise _impossible(user, error) from error
        with self._lock:
            valid = {other: expiry for other, expiry in self._remembered.items() if expiry > now}
            self._remembered = {} if len(valid) >= _MAX_REMEMBERED else valid
            self._remembered[key] = now + _REMEMBER_SECONDS
        return True


def _impossible(user: str, error: HiveAcidError) -> StoreUnavailableError:
    """Log why a password cannot be checked; return the error for the client, who may be anybody."""
    logger.warning("the password of %s cannot be checked: %s", user, error)
    return StoreUnavailableError("the password cannot be checked now")


_TIMEOUT = 10.0  # seconds
_MAX_BYTES = 1 << 16  # of an answer
_SPECIAL = re.compile(r'([,+"\\<>;=#\x00-\x1f])')
_MESSAGE = b"\1"  # number of the only message
_SUCCESS = 0
_WRONG_CREDENTIALS = (32, 48, 49)  # no such entry, an entry without a password, a wrong password
_PORTS = {"ldap": 389, "ldaps": 636}


@dataclass(frozen=True)
class Ldap(Passwords):
    """Checks passwords by binding as the user. ``user_dn``: a distinguished name with ``{user}`` in it."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    user_dn: str

    @classmethod
    def of(cls, url: str, user_dn: str, ca: Path | None = None) -> Ldap:
        """Parse ``ldaps://host[:port]``; ``ldap://``, which sends passwords unencrypted, is for loopback addresses."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"{url}: the port must be a number from 0 to 65535") from error
        if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or parts.username:
            raise ConfigError(f"{url}: expected ldaps://HOST or ldaps://HOST:PORT")
        if parts.scheme == "ldap" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ConfigError(f"{url}: passwords would travel unencrypted: use ldaps://")
        if user_dn.count("{user}") != 1:
            raise ConfigError(
                "the distinguished name of users needs {user} once, as in uid={user},ou=people,dc=example"
            )
        try:
            tls = ssl.create_default_context(cafile=ca) if parts.scheme == "ldaps" else None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{ca}: not a file of certificates: {error}") from error
        return cls(parts.hostname, port or _PORTS[parts.scheme], tls, user_dn)

    def accepts(self, user: str, password: str) -> bool:
        """Bind as the user. Raises StoreUnavailableError if the server does not answer as LDAP servers do."""
        if not password:  # an unauthenticated bind would succeed (RFC 4513, 5.1.2)
            return False
        if user != user.strip():
            return False  # a directory ignores the blanks: it would be a second name of the same person
        try:
            with socket.create_connection((self.host, self.port), _TIMEOUT) as plain:
                plain.settimeout(_TIMEOUT)
                client = plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname=self.host)
                with client:
                    # a name inside a distinguished name (RFC 4514)
                    escaped = _SPECIAL.sub(lambda match: f"\\{ord(match[1]):02x}", user)
                    client.sendall(_bind_request(self.user_dn.replace("{user}", escaped), password))
                    code = _result_code(client)
        except (OSError, ValueError) as error:
            raise StoreUnavailableError(
                f"no valid answer from the LDAP server {self.host}:{self.port}: {error}"
            ) from error
        if code not in (_SUCCESS, *_WRONG_CREDENTIALS):
            raise StoreUnavailableError(
                f"the LDAP server {self.host}:{self.port} refused the bind: result {code}"
            )
        return code == _SUCCESS

    def canonical_name(self, user: str) -> str:
        """Return the name as a directory compares it (RFC 4518): without case, width and invisible characters."""
        letters = unicodedata.normalize("NFKC", user)
        return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf").casefold()


def _bind_request(name: str, password: str) -> bytes:
    bind = _element(2, b"\3") + _element(4, name.encode()) + _element(0x80, password.encode())
    return _element(0x30, _element(2, _MESSAGE) + _element(0x60, bind))


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:  # noqa: PLR2004 - the short form of a length
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _result_code(client: socket.socket) -> int:
    """Read a bind response. Raises ValueError, OSError."""
    data = bytearray()
    until = monotonic() + _TIMEOUT
    while True:
        client.settimeout(max(0.001, until - monotonic()))  # one for the whole answer
        piece = client.recv(4096)
        data += piece
        try:
            _, message, _ = _parse(bytes(data))
            break
        except IndexError:
            if not piece or len(data) > _MAX_BYTES:
                raise ValueError("the answer is incomplete") from None
    try:
        _, number, rest = _parse(message)
        tag, response, _ = _parse(rest)
        kind, code, _ = _parse(response)
    except IndexError:
        raise ValueError("the answer is not LDAP") from None
    if number != _MESSAGE or tag != 0x61 or kind != 10 or not code:  # noqa: PLR2004 - a bind response, an enumeration
        raise ValueError("the answer is not a bind response")
    return int.from_bytes(code, "big")


def _parse(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag, content and the bytes behind. Raises IndexError if the element is incomplete."""
    tag, size, start = data[0], data[1], 2
    if size & 0x80:
        count = size & 0x7F
        if not 0 < count <= 4:  # noqa: PLR2004 - bytes of a length
            raise ValueError("the answer is not LDAP")
        start += count
        if len(data) < start:
            raise IndexError
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size:
        raise IndexError
    return tag, data[start : start + size], data[start + size :]


_PRINCIPAL = re.compile(r"[^\s@/\\]+/[^\s@/\\]+@[^\s@/\\]+")
_CLIENT = re.compile(r"[^\s@\\]{1,256}")
_NO_LAYER = b"\1\0\0\0"  # RFC 4752, 3.3: SASL neither signs nor encrypts


class RefusedTicketError(ClientProtocolError):
    """A ticket, or a later message of the negotiation, that was not accepted."""


@dataclass(frozen=True)
class Kerberos:
    """Accepts the users of one realm."""

    realm: str
    credentials: gssapi.Credentials

    @classmethod
    def of(cls, principal: str, keytab: Path) -> Kerberos:
        """Take the key of ``principal`` (SERVICE/HOST@REALM) from a keytab; the KDC is not asked. Raises ConfigError."""
        gssapi = gssapi_library()
        if not _PRINCIPAL.fullmatch(principal):
            raise ConfigError(
                f"{principal}: expected SERVICE/HOST@REALM, as in hive/db.example.com@EXAMPLE.COM"
            )
        if keytab.stat().st_mode & _OF_OTHERS:
            raise ConfigError(f"{keytab} can be read or written by other users: chmod 600 it")
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        try:
            credentials = gssapi.Credentials(name=name, usage="accept", store={"keytab": f"FILE:{keytab}"})
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(f"{keytab} has no usable key of {principal}: {error}") from error
        return cls(principal.partition("@")[2], credentials)


class TicketCheck:
    """The negotiation with one client. All methods raise RefusedTicketError."""

    def __init__(self, kerberos: Kerberos) -> None:
        """Begin before the client's first token."""
        gssapi = gssapi_library()
        self._refused: type[Exception] = gssapi.exceptions.GSSError
        self._mechanism = gssapi.MechType.kerberos
        self._context = gssapi.SecurityContext(creds=kerberos.credentials, usage="accept")
        self._context.__DEFER_STEP_ERRORS__ = False  # raise them at once, whatever Kerberos would answer
        self._realm = kerberos.realm

    @property
    def complete(self) -> bool:
        """True when the ticket was accepted."""
        return bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        """Return the answer to a client's token, which may be empty."""
        try:
            return self._context.step(token) or b""
        except self._refused as error:
            raise RefusedTicketError(f"the ticket was not accepted: {str(error)!a}") from error

    def user(self) -> str:
        """Return the name of the client whose ticket was accepted; its realm must be the server's."""
        if not self.complete or self._context.mech != self._mechanism:
            raise RefusedTicketError("the ticket was not accepted: exactly one Kerberos token is expected")
        principal = str(self._context.initiator_name)
        name, _, realm = principal.rpartition("@")
        if realm != self._realm or not _CLIENT.fullmatch(name) or not name.isprintable():
            raise RefusedTicketError(f"{principal!a} is not a user of the realm {self._realm}")
        return name

    def offer(self) -> bytes:
        """Return the message that offers no layer of SASL."""
        return bytes(self._context.wrap(_NO_LAYER, False).message)  # noqa: FBT003 - not encrypted, as RFC 4752 says

    def require_choice(self, message: bytes) -> None:
        """Check the answer to `offer`: its layer, and the name of the user that the client wants to be."""
        try:
            choice = self._context.unwrap(message).message
        except self._refused as error:
            raise RefusedTicketError(f"the choice of a layer was not accepted: {str(error)!a}") from error
        if choice[:4] != _NO_LAYER:
            raise RefusedTicketError("SASL does not encrypt here (auth-int, auth-conf): use TLS")
        if choice[4:].decode("utf-8", "replace") not in ("", self.user(), f"{self.user()}@{self._realm}"):
            raise RefusedTicketError("a user may not act as another one")

"""A simple bind at an LDAP server (RFC 4511), the only request that is needed to check a password."""

from __future__ import annotations

import re
import socket
import ssl
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hiveacid.errors import ConfigError, StoreUnavailableError

_TIMEOUT = 10.0  # seconds
_MAX_BYTES = 1 << 16  # of an answer
_SPECIAL = re.compile(r'([,+"\\<>;=#\x00-\x1f])')
_MESSAGE = b"\1"  # number of the only message
_SUCCESS = 0
_WRONG_CREDENTIALS = (32, 48, 49)  # no such entry, an entry without a password, a wrong password
_PORTS = {"ldap": 389, "ldaps": 636}


@dataclass(frozen=True)
class Ldap:
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
                    client.sendall(_bind_request(self.user_dn.replace("{user}", _escaped(user)), password))
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

    def password_fingerprint(self, user: str) -> str:
        """Return a constant; of a file of passwords it would be a text that changes with the password."""
        del user
        return ""

    def canonical_name(self, user: str) -> str:
        """Return the name as a directory compares it (RFC 4518): without case, width and invisible characters."""
        letters = unicodedata.normalize("NFKC", user)
        return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf").casefold()


def _escaped(user: str) -> str:
    """Escape a name inside a distinguished name (RFC 4514)."""
    return _SPECIAL.sub(lambda match: f"\\{ord(match[1]):02x}", user)


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
    until = time.monotonic() + _TIMEOUT
    while True:
        client.settimeout(max(0.001, until - time.monotonic()))  # one for the whole answer
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

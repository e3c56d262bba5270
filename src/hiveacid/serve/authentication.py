"""Ways to check a client: none (loopback only), a file of hashed passwords, a bind at an LDAP server, Kerberos."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hiveacid.errors import ClientProtocolError, ConfigError, HiveAcidError

if TYPE_CHECKING:
    from hiveacid.serve.kerberos import Kerberos

logger = logging.getLogger(__name__)

_USER = re.compile(r"[^\s:/\\\x00-\x1f\x7f-\x9f]{1,256}")
_LONGEST_PASSWORD = 1024
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


class Passwords(Protocol):
    """Checks a user's password."""

    def accepts(self, user: str, password: str) -> bool:
        """Tell whether the password is the user's. Raises HiveAcidError if the check is impossible now."""

    def password_fingerprint(self, user: str) -> str:
        """Return a text that changes if this checker learns of a new password. Raises HiveAcidError."""

    def canonical_name(self, user: str) -> str:
        """Return the only name of a user for whom several spellings are accepted."""


class Anyone:
    """Accepts every user with every password, as Hive's ``NONE``; for loopback addresses only."""

    def accepts(self, user: str, password: str) -> bool:
        """Accept."""
        del user, password
        return True

    def password_fingerprint(self, user: str) -> str:
        """Return a constant text."""
        del user
        return ""

    def canonical_name(self, user: str) -> str:
        """Return the name."""
        return user


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


class PasswordFile:
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

    def canonical_name(self, user: str) -> str:
        """Return the name."""
        return user

    def _users(self) -> dict[str, _Hash]:
        try:
            status = self._path.stat()
            if status.st_mtime != self._read[0]:
                if status.st_mode & 0o026:
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

    ``kerberos``: checks tickets instead.
    """

    passwords: Passwords | None
    kerberos: Kerberos | None = None
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
        """Tell whether a client may connect. Raises HiveAcidError, which the log gets, if the check is impossible now."""
        if self.passwords is None or not _USER.fullmatch(user) or len(password) > _LONGEST_PASSWORD:
            return False
        if self.open_to_all:
            return True
        fingerprint = self.passwords.password_fingerprint(user)
        key = hmac.digest(self._key, f"{user}\0{fingerprint}\0{password}".encode(), "sha256")
        now = time.monotonic()
        with self._lock:
            if self._remembered.get(key, 0.0) > now:
                return True
        try:
            if not password or not self.passwords.accepts(user, password):
                return False
        except HiveAcidError as error:
            logger.warning("the password of %s cannot be checked: %s", user, error)
            raise
        with self._lock:
            valid = {other: expiry for other, expiry in self._remembered.items() if expiry > now}
            self._remembered = {} if len(valid) >= _MAX_REMEMBERED else valid
            self._remembered[key] = now + _REMEMBER_SECONDS
        return True

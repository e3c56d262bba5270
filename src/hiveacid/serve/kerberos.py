"""Kerberos: clients prove who they are by tickets for the principal of this server (GSS-API, RFC 4752)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.errors import ClientProtocolError, ConfigError
from hiveacid.stores.hms.thrift.transport import gssapi_library

if TYPE_CHECKING:
    from pathlib import Path

_PRINCIPAL = re.compile(r"[^\s@/\\]+/[^\s@/\\]+@[^\s@/\\]+")
_CLIENT = re.compile(r"[^\s@\\]{1,256}")
_NO_LAYER = b"\1\0\0\0"  # RFC 4752, 3.3: SASL neither signs nor encrypts


class RefusedTicketError(ClientProtocolError):
    """A ticket, or a later message of the negotiation, that was not accepted."""


@dataclass(frozen=True)
class Kerberos:
    """Accepts the users of one realm."""

    realm: str
    credentials: Any

    @classmethod
    def of(cls, principal: str, keytab: Path) -> Kerberos:
        """Take the key of ``principal`` (SERVICE/HOST@REALM) from a keytab; the KDC is not asked. Raises ConfigError."""
        gssapi = gssapi_library()
        if not _PRINCIPAL.fullmatch(principal):
            raise ConfigError(
                f"{principal}: expected SERVICE/HOST@REALM, as in hive/db.example.com@EXAMPLE.COM"
            )
        if keytab.stat().st_mode & 0o006:
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

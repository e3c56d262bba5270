"""URL of a store, and its passwords, which no output may show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, quote_plus

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from hiveacid.errors import ConfigError

PASSWORD_VARIABLE = "HIVEACID_STORE_PASSWORD"  # noqa: S105 - the name of a variable
_PASSWORD_OPTIONS = ("password", "passwd", "sslpassword")
_PASSWORD_VARIABLES = {"postgresql": "PGPASSWORD", "mysql": "MYSQL_PWD", "mariadb": "MYSQL_PWD"}
_READ_BY_DRIVER = "PGPASSWORD"


@dataclass(frozen=True)
class StoreUrl:
    """A store's URL with its password; as text it shows no password."""

    url: URL = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    def __str__(self) -> str:
        """Return the URL without passwords."""
        hidden = {key: "***" for key in _PASSWORD_OPTIONS if key in self.url.query}
        url_text = self.url.update_query_dict(hidden).render_as_string(hide_password=True)
        return url_text.replace(quote("***"), "***")

    def masked(self, text: str) -> str:
        """Mask the passwords, in every encoding, in a text from a driver or server."""
        spellings = {
            encoded
            for secret in self.secrets
            for encoded in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
        }
        for encoded in sorted(spellings, key=len, reverse=True):
            text = text.replace(encoded, "***")
        return text


def parse_store_url(text: str | URL, environment: Mapping[str, str]) -> StoreUrl:
    """Parse an SQLAlchemy URL. A password may also come from the environment.

    ``HIVEACID_STORE_PASSWORD`` serves every server, ``MYSQL_PWD`` MariaDB and MySQL; PostgreSQL's driver itself knows
    ``PGPASSWORD``, ``PGPASSFILE`` and ``~/.pgpass``. Raises ConfigError, which does not repeat the text.
    """
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigError(
            "the store's URL does not parse; it looks like sqlite:///path or postgresql+psycopg://host/name"
        ) from None
    if isinstance(text, str) and backend != "sqlite" and _has_blank_option(text):
        raise ConfigError("an option in the store's URL has no value; write name=value, or leave it out")
    variable = _PASSWORD_VARIABLES.get(backend)
    if variable and url.password is None and not any(key in url.query for key in _PASSWORD_OPTIONS[:2]):
        password = environment.get(PASSWORD_VARIABLE)
        if variable != _READ_BY_DRIVER:
            password = password or environment.get(variable)
        url = url.set(password=password) if password else url
    secrets = {str(url.password or ""), environment.get(variable or "", "")}
    secrets |= {str(url.query[key]) for key in _PASSWORD_OPTIONS if key in url.query}
    return StoreUrl(url, frozenset(secrets - {""}))


def _has_blank_option(text: str) -> bool:
    """Tell whether the URL has an option without a value, like ``sslmode=``, which SQLAlchemy and libpq would ignore."""
    query = text.rpartition("@")[2].partition("?")[2]
    return any(not value for _, value in parse_qsl(query, keep_blank_values=True))


def has_password(text: str) -> bool:
    """Tell whether a URL contains a password."""
    address = parse_store_url(text, {})
    return bool(address.secrets)

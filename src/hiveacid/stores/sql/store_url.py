"""URL of a store: its passwords, which no output may show, and its TLS options.

Options that would leave a connection unprotected are refused, because the drivers treat incomplete options differently.
Without a ``sslmode``, libpq reads ``sslrootcert`` and still falls back to plain text. PyMySQL and SQLAlchemy overwrite each
other's ``ssl_…`` options, and the certificate is then not verified.
"""

from __future__ import annotations

import ssl
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


_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_ENCRYPTING = _MODES[3:]
_VERIFYING = _MODES[4:]
_AUTHORITIES = ("sslrootcert", "sslcrl", "sslcrldir")
_MARIADB = ("ssl", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "ssl_check_hostname")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def check_postgres(url: URL, environment: Mapping[str, str]) -> None:
    """Raise ConfigError if libpq would not verify the server, or not encrypt, although the URL's options request it.

    libpq itself refuses unknown options. ``PGSSLMODE`` counts if the URL has no ``sslmode``.
    """
    parameters = _single(url)
    mode = parameters.get("sslmode", environment.get("PGSSLMODE"))
    if mode is not None and mode not in _MODES:
        raise ConfigError(f"sslmode={mode} in the store's URL or PGSSLMODE: {', '.join(_MODES)} are possible")
    if "service" in parameters or parameters.get("sslrootcert") == "system":
        return  # the service file may have the mode; with the system's authorities libpq itself insists on verify-full
    for option in parameters:
        if option in _AUTHORITIES and mode not in _VERIFYING:
            raise ConfigError(
                f"{option}= in the store's URL verifies nothing with sslmode={mode or 'prefer (the default)'}: "
                "add sslmode=verify-full"
            )
        if option in ("sslcert", "sslkey") and mode not in _ENCRYPTING:
            raise ConfigError(f"{option}= in the store's URL needs sslmode=verify-full (at least require)")


def mariadb_context(url: URL) -> tuple[URL, ssl.SSLContext | None]:
    """Return the URL without its TLS options, and the context that they ask for; None: the URL has none.

    With any of them the connection is encrypted, and the server's certificate and host name are verified, by the
    authorities of ``ssl_ca`` or ``ssl_capath``, else by the system's. Raises ConfigError for other options that begin
    with ``ssl``, for values that are neither true nor false, and for files that cannot be read.
    """
    parameters = {name: value for name, value in _single(url).items() if name.lower().startswith("ssl")}
    if not parameters:
        return url, None
    unknown = sorted(set(parameters) - set(_MARIADB))
    if unknown:
        raise ConfigError(
            f"unknown TLS option {unknown[0]}= in the store's URL; there are {', '.join(_MARIADB)}"
        )
    if not _flag(parameters, "ssl"):
        raise ConfigError(
            "ssl=false in the store's URL: leave the option out for a connection that is not verified"
        )
    if "ssl_key" in parameters and "ssl_cert" not in parameters:
        raise ConfigError("ssl_key= in the store's URL needs ssl_cert=, the certificate of the key")
    try:
        context = ssl.create_default_context(
            cafile=parameters.get("ssl_ca"), capath=parameters.get("ssl_capath")
        )
        if "ssl_cert" in parameters:
            context.load_cert_chain(parameters["ssl_cert"], parameters.get("ssl_key"))
    except (OSError, ValueError) as error:
        files = ", ".join(f"{name}={parameters[name]}" for name in _MARIADB[1:5] if name in parameters)
        raise ConfigError(f"the TLS files in the store's URL cannot be used ({files}): {error}") from error
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # as PyMySQL: authorities that servers make lack identifiers
    context.check_hostname = _flag(parameters, "ssl_check_hostname")
    return url.difference_update_query(list(parameters)), context


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "true")
    if text.lower() not in _FLAGS:
        raise ConfigError(f"{name}={text} in the store's URL: true or false")
    return _FLAGS[text.lower()]


def _single(url: URL) -> dict[str, str]:
    """Return the options that are given once. Raises ConfigError if one that begins with ``ssl`` is given twice."""
    parameters = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            if name.lower().startswith("ssl"):
                raise ConfigError(f"{name}= is given twice in the store's URL")
            continue
        parameters[name] = value
    return parameters

"""TLS options in the URL of a database server. Options that would leave a connection unprotected are refused.

The drivers treat incomplete options differently. Without a ``sslmode``, libpq reads ``sslrootcert`` and still falls back to
plain text. PyMySQL and SQLAlchemy overwrite each other's ``ssl_…`` options, and the certificate is then not verified.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from sqlalchemy import URL

from hiveacid.errors import ConfigError

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

"""Metastores: their address, ``thrift://host:9083,host2:9083?tls=true``, and the capabilities of their two generations.

The address is checked before any connection is made. No other module asks for a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import parse_qsl

from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import ConfigError, StoreVersionError, UnsupportedFeatureError

SCHEME = "thrift"
DEFAULT_PORT = 9083
_HIGHEST_PORT = 65535
_YES = ("true", "1", "yes")
_NO = ("false", "0", "no")
_OPTIONS = ("auth", "principal", "catalog", "tls", "ca", "timeout", "connect_timeout")
_CATALOG = "hive"  # the only catalog for which a metastore keeps transactions, locks and compactions


@dataclass(frozen=True)
class MetastoreAddress:
    """The metastores of one catalog, in the order of attempts, with connection options.

    ``principal``: the metastores' Kerberos name, with ``_HOST`` for the host; None: no authentication.
    ``ca``: a file of certificates to trust instead of the system's. Times in seconds: ``timeout`` for an answer
    (``hive.metastore.client.socket.timeout``, 600 s), ``connect_timeout`` for one server to be there, TLS and
    Kerberos included.
    """

    servers: tuple[tuple[str, int], ...]
    tls: bool = False
    ca: str | None = None
    timeout: float = 600.0
    connect_timeout: float = 10.0
    principal: str | None = None

    def __str__(self) -> str:
        """Return the URL without options."""
        return f"{SCHEME}://" + ",".join(f"{host}:{port}" for host, port in self.servers)


def is_metastore(url: str | None) -> bool:
    """Tell whether a store's URL names a metastore."""
    return url is not None and url.strip().lower().startswith(f"{SCHEME}:")


def parse_metastore_url(url: str) -> MetastoreAddress:
    """Parse the URL of one or several metastores; each may repeat ``thrift://`` as in ``hive.metastore.uris``.

    Options: ``tls=true``, ``ca=FILE``, ``timeout=SECONDS``, ``connect_timeout=SECONDS``, ``auth=none`` or
    ``auth=kerberos&principal=hive/_HOST@REALM``. Raises ConfigError; UnsupportedFeatureError for passwords.
    """
    addresses, _, query = url.strip().partition("?")
    servers = tuple(_server(server.strip()) for server in addresses.split(",") if server.strip())
    if not servers:
        raise ConfigError(f"{url!r} names no metastore; it looks like thrift://host:{DEFAULT_PORT}")
    parameters = parse_qsl(query, keep_blank_values=True)
    options = dict(parameters)
    if len(options) != len(parameters):
        raise ConfigError("an option is given twice in the metastore's URL")
    return _with_options(servers, options)


def _server(address: str) -> tuple[str, int]:
    scheme, separator, port_text = address.partition("://")
    if separator and scheme.lower() != SCHEME:
        raise ConfigError(f"{address!r} is not a metastore's URL; it looks like thrift://host:{DEFAULT_PORT}")
    port_text = (port_text if separator else address).rstrip("/")
    if "@" in port_text:
        raise UnsupportedFeatureError(
            "a user or password in a metastore's URL: passwords are not supported; auth=kerberos is"
        )
    if "/" in port_text:
        raise ConfigError(
            f"{address!r}: a metastore's URL has no path; the warehouse is a setting of its own"
        )
    if port_text.startswith("["):
        host, _, port = port_text[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = port_text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT)):
        raise ConfigError(f"{address!r} is not a metastore's URL; it looks like thrift://host:{DEFAULT_PORT}")
    return host, int(port or DEFAULT_PORT)


def _with_options(servers: tuple[tuple[str, int], ...], options: Mapping[str, str]) -> MetastoreAddress:
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ConfigError(
            f"unknown option {unknown[0]!r} in a metastore's URL; there are {', '.join(_OPTIONS)}"
        )
    catalog = options.get("catalog", _CATALOG)
    if catalog.lower() != _CATALOG:
        raise UnsupportedFeatureError(
            f"catalog={catalog}: a metastore numbers writes, locks and cleans by db.table, without a catalog, so a "
            "transactional table outside the catalog hive is not safe in it, for Hive neither (docs/metastore.md)"
        )
    principal = _principal(options)
    tls = _flag(options.get("tls", "false"))
    ca = options.get("ca")
    if ca is not None and not tls:
        raise ConfigError("ca= in a metastore's URL needs tls=true")
    return MetastoreAddress(
        servers,
        tls,
        ca,
        _seconds(options, "timeout", 600.0),
        _seconds(options, "connect_timeout", 10.0),
        principal,
    )


def _principal(options: Mapping[str, str]) -> str | None:
    auth = options.get("auth", "none").lower()
    principal = options.get("principal")
    if auth == "kerberos":
        if principal is None or "/" not in principal:
            raise ConfigError(
                f"auth=kerberos needs principal=, the metastore's own (hive/_HOST@REALM), not {principal}"
            )
        return principal
    if auth not in ("none", "nosasl"):
        raise UnsupportedFeatureError(
            f"auth={auth}: metastores with LDAP, DIGEST or other SASL are not supported yet; "
            "plain, TLS and Kerberos connections are"
        )
    if principal is not None:
        raise ConfigError("principal= in a metastore's URL needs auth=kerberos")
    return None


def _flag(text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise ConfigError(f"tls={text} in a metastore's URL: true or false")
    return text.lower() in _YES


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ConfigError(f"{name}={text} in a metastore's URL: a number of seconds above 0")
    return seconds


_LOCK_NUMBERS = MappingProxyType(
    {LockType.SHARED_READ: 1, LockType.SHARED_WRITE: 2, LockType.EXCLUSIVE: 3, LockType.EXCL_WRITE: 4}
)


@dataclass(frozen=True)
class Capabilities:
    """A generation of metastores.

    ``locks``: lock types as numbers on the wire. ``txn_types``: transactions say what they are for.
    ``dynamic_rows``: a lock for partitions that are not known yet keeps its transaction from being forgotten.
    ``requests``: fields of create_table_req, alter_table_req and others, by which hiveacid declares what it can do; metastores of
    Hive 4 then show and create transactional tables. Those of Hive 3 have neither. ``shared_inserts``: writers
    that replace rows lock out readers, so that an insert needs no more than a reader's lock.
    ``remote_workers``: its compaction queue gives jobs to workers that are other processes.
    ``write_notifications``: listeners hear of a transaction's files with its write id (``add_write_notification_log``).
    ``layout``: the ``hiveacid.layout.level`` that its Hive reads.
    """

    locks: Mapping[LockType, int]
    requests: Mapping[str, object]
    txn_types: bool
    dynamic_rows: bool
    shared_inserts: bool
    remote_workers: bool
    write_notifications: bool
    layout: str


_PROCESSOR: Mapping[str, object] = MappingProxyType(
    {
        "processorCapabilities": [
            *("EXTREAD", "EXTWRITE", "HIVECACHEINVALIDATE", "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE"),
            *("HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE", "HIVEMANAGESTATS"),
        ],
        "processorIdentifier": "hiveacid",
    }
)
HIVE3 = Capabilities(
    locks=MappingProxyType({**_LOCK_NUMBERS, LockType.EXCL_WRITE: _LOCK_NUMBERS[LockType.EXCLUSIVE]}),
    requests=MappingProxyType({}),
    txn_types=False,
    dynamic_rows=False,
    shared_inserts=True,
    remote_workers=False,
    write_notifications=False,
    layout="hive3",
)
HIVE4 = Capabilities(
    locks=_LOCK_NUMBERS,
    requests=_PROCESSOR,
    txn_types=True,
    dynamic_rows=True,
    shared_inserts=False,
    remote_workers=True,
    write_notifications=True,
    layout="hive4",
)


def capabilities_of(version: str) -> Capabilities:
    """Return the capabilities of a metastore by its answer to ``getVersion``, which is "3.0" for all Hive 3 versions.

    Raises StoreVersionError for Hive 2 and older, which have no write ids.
    """
    major = version.strip().partition(".")[0]
    if not major.isdigit():
        raise StoreVersionError(
            f"the metastore says that it is of version {version!r}; 3.1 and 4.x are supported"
        )
    if int(major) < 3:  # noqa: PLR2004 - Hive 3
        raise StoreVersionError(
            f"the metastore is of version {version}; transactional tables need 3.1 or 4.x (write ids)"
        )
    return HIVE3 if int(major) == 3 else HIVE4  # noqa: PLR2004

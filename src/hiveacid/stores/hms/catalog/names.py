"""Names that are safe in a metastore: it builds SQL from some of them, and stores them in lower case."""

from __future__ import annotations

import re

from hiveacid.core.model import TableName
from hiveacid.errors import CatalogError
from hiveacid.ports.transactions import Client
from hiveacid.stores import refusals

_NAME = re.compile(r"\w+", re.ASCII)
_QUOTES = re.compile(r"['\\]")
_NOT_IN_PARTITIONS = frozenset("'\\")


def plain_database(name: str) -> str:
    """Return the name of a database; CatalogError unless it is of letters, digits and underscores."""
    refusals.database_name(name)
    return _plain(name)


def plain_table(name: TableName) -> TableName:
    """Return a table's name; CatalogError unless it is of letters, digits and underscores."""
    refusals.table_name(name)
    _plain(name.database)
    _plain(name.name)
    return name


def plain_partition(name: str | None) -> str | None:
    """Return a partition's name with its values escaped as Hive does; CatalogError for quotes."""
    refusals.partition_name(name)
    if name is not None and _NOT_IN_PARTITIONS & set(name):
        raise CatalogError(f"{name!r} is not a partition's name: quotes and backslashes are escaped in it")
    return name


def without_quotes(client: Client) -> Client:
    """Return a client whose texts do no harm in the SQL of Hive 3, which they go into as they are."""
    return Client(*(_QUOTES.sub("_", text) for text in (client.user, client.host, client.agent)))


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name) or name != name.lower():
        raise CatalogError(
            f"a metastore has no {name!r}: names are of lower-case letters, digits and underscores"
        )
    return name

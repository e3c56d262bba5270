"""Comparison of locations, and the rule which of them may not overlap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hiveacid.core.model import TableName

STORE_DIRECTORY = ".hiveacid"
"""Directory of hiveacid's own files inside a warehouse, its SQLite store among them."""
STORE_FILE = "store.db"
"""Name of that store."""
_LOCAL = re.compile(r"file:/+")
_HDFS = re.compile(r"^hdfs://[^/]*")
_DEFAULT_HDFS = "hdfs:///"


def lies_in(inner: str, outer: str) -> bool:
    """Tell whether a location is, or lies in, another one; both are absolute paths or URIs."""
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")


def on_any_hdfs(location: str) -> str:
    """Return a location without the name of its HDFS."""
    return _HDFS.sub("hdfs://", location)


def may_lie_in(inner: str, outer: str) -> bool:
    """Tell whether a location is, or lies in, another one, as in `lies_in`.

    ``hdfs:///x`` is on the default file system, which may be that of the other location.
    """
    if inner.startswith(_DEFAULT_HDFS) or outer.startswith(_DEFAULT_HDFS):
        inner, outer = on_any_hdfs(inner), on_any_hdfs(outer)
    return lies_in(inner, outer)


def overlap(one: str, other: str) -> bool:
    """Tell whether two locations are the same, or one lies in the other; both as in `may_lie_in`."""
    return may_lie_in(one, other) or may_lie_in(other, one)


def is_same_location(one: str, other: str) -> bool:
    """Tell whether two locations are the same; ``file:/x``, ``file:///x/`` and ``/x`` are."""
    return _normalized(one) == _normalized(other)


def _normalized(location: str) -> str:
    return _LOCAL.sub("/", location, count=1).rstrip("/")


@dataclass(frozen=True)
class Place:
    """A directory of a table, partition, database, warehouse or store.

    ``owner``: as in a message. ``table``: of the table or partition. ``holds_others``: tables may lie in it, as in a
    database's directory.
    """

    location: str
    owner: str
    table: TableName | None = None
    is_partition: bool = False
    holds_others: bool = False


def place_of_database(name: str, location: str) -> Place:
    """Return the directory of a database."""
    return Place(location, f"database {name}", holds_others=True)


def place_of_table(name: TableName, location: str) -> Place:
    """Return the directory of a table."""
    return Place(location, f"table {name}", name)


def place_of_partition(name: TableName, location: str) -> Place:
    """Return the directory of a partition of a table; only one outside the table's directory needs to be compared."""
    return Place(location, f"a partition of {name}", name, is_partition=True)


def first_overlapping_place(
    new: Place, others: Iterable[Place], real_path: Callable[[str], str]
) -> Place | None:
    """Return the place with which a new one conflicts; None if it is free.

    DROP and INSERT OVERWRITE delete files below a location. It must therefore not overlap with that of another table or
    partition, or of the store, and must not be, or contain, the warehouse or the directory of a database. ``real_path``
    resolves symbolic links. A table's own directory is free for it and for its partitions.
    """
    wanted = real_path(new.location)
    for other in others:
        if new.table is not None and other.table == new.table and not other.is_partition:
            continue
        place = real_path(other.location)
        if may_lie_in(place, wanted) if other.holds_others else overlap(place, wanted):
            return other
    return None

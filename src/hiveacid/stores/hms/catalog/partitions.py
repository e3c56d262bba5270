"""Partitions of a metastore's tables, many per call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.core.model import Partition, TableName
from hiveacid.core.schema.locations import is_same_location
from hiveacid.core.schema.partitions import format_partition
from hiveacid.errors import AlreadyExistsError, WriteConflictError
from hiveacid.stores.hms.catalog import definitions
from hiveacid.stores.refusals import misplaced_partition

if TYPE_CHECKING:
    from hiveacid.stores.hms.thrift.client import MetastoreClient

_ALL = -1  # partitions
_MOST_NAMES = 1000  # of one request
_MOST_NEW = 500  # of one request, each with its definition

Values = tuple[str | None, ...]


def fetch_partitions(client: MetastoreClient, name: TableName) -> list[Any]:
    """Return all partitions as the metastore has them."""
    return list(client.call("get_partitions", name.database, name.name, _ALL) or ())


def fetch_partitions_by_name(client: MetastoreClient, name: TableName, names: Sequence[str]) -> Iterator[Any]:
    """Return the existing partitions among those with Hive's ``names``."""
    for start in range(0, len(names), _MOST_NAMES):
        some = list(names[start : start + _MOST_NAMES])
        yield from client.call("get_partitions_by_names", name.database, name.name, some) or ()


def add_missing_partitions(
    client: MetastoreClient, table: Any, partitions: Sequence[Partition], now: int
) -> Mapping[Values, Partition]:
    """Add those partitions that a table (``Table``) lacks; return all of them as they are in the end.

    Another client may add some of them at the same time; its definitions stay. ``now``: milliseconds.
    """
    name = TableName(table.dbName, table.tableName)
    wanted: dict[Values, Partition] = {}
    for one in partitions:
        wanted.setdefault(_values(one), one)
    columns = [column.name for column in table.partitionKeys or ()]
    there = _by_values(
        fetch_partitions_by_name(client, name, [format_partition(columns, values) for values in wanted])
    )
    fresh = [one for values, one in wanted.items() if values not in there]
    met = False
    for start in range(0, len(fresh), _MOST_NEW):
        some = fresh[start : start + _MOST_NEW]
        if not _add_all_or_none(client, table, some, now):
            for one in some:
                met = not _add_all_or_none(client, table, [one], now) or met
    mine = {_values(one): one for one in fresh}
    return _by_values(fetch_partitions(client, name)) if met else {**there, **mine}


def _add_all_or_none(client: MetastoreClient, table: Any, partitions: Sequence[Partition], now: int) -> bool:
    """Add all partitions; return False and add none if one of them exists meanwhile."""
    try:
        client.call("add_partitions", [definitions.raw_partition(table, one, now) for one in partitions])
    except AlreadyExistsError:
        return False
    return True


def require_in_place(name: TableName, new: Sequence[Partition], there: Mapping[Values, Partition]) -> None:
    """Raise WriteConflictError unless each new partition lies where its rows were written."""
    for one in new:
        found = there.get(_values(one))
        if found is None or not is_same_location(found.location, one.location):
            raise WriteConflictError(misplaced_partition(name, one, found))


def _by_values(raws: Sequence[Any] | Iterator[Any]) -> dict[Values, Partition]:
    return {one.values: one for one in map(definitions.partition_of, raws)}


def _values(partition: Partition) -> Values:
    return tuple(value or None for value in partition.values)

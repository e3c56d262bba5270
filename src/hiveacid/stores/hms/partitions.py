"""Partitions of a metastore's tables, many per call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hiveacid.core.model import Partition, TableName
from hiveacid.core.schema.location_overlap import is_same_location
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.schema.storage_formats import differs_in_layout
from hiveacid.errors import AlreadyExistsError, UnsupportedFeatureError, WriteConflictError
from hiveacid.stores.hms import definitions
from hiveacid.stores.hms.thrift.failover_client import MetastoreClient
from hiveacid.stores.refusals import misplaced_partition

_ALL = -1  # partitions
_MAX_NAMES = 1000  # of one request
_MAX_NEW = 500  # of one request, each with its definition

Values = tuple[str | None, ...]


def fetch_partitions(client: MetastoreClient, name: TableName) -> list[Any]:
    """Return all partitions as the metastore has them."""
    return list(client.call("get_partitions", name.database, name.name, _ALL) or ())


def fetch_partition_names(client: MetastoreClient, name: TableName) -> list[str]:
    """Return the names of all partitions."""
    return list(client.call("get_partition_names", name.database, name.name, _ALL) or ())


def require_format_of_table(table: Any, raws: Iterable[Any]) -> None:
    """Raise UnsupportedFeatureError for a partition whose files are not laid out as the table (``Table``) says.

    Hive keeps a format with each partition: SET FILEFORMAT or SET SERDEPROPERTIES of the table leaves theirs as it was.
    """
    expected = definitions.storage_of(table.sd)
    columns = [column.name for column in table.partitionKeys or ()]
    for raw in raws:
        if differs_in_layout(definitions.storage_of(raw.sd), expected):
            shown = format_partition(columns, definitions.partition_of(raw).values)
            raise UnsupportedFeatureError(
                f"partition {shown} of {table.dbName}.{table.tableName} has another file format or SerDe properties than "
                "the table, and partitions are read only with those of the table. In Hive, set the partition's "
                "(ALTER TABLE ... PARTITION (...) SET FILEFORMAT or SET SERDEPROPERTIES) or copy its rows to a new table"
            )


def fetch_partitions_by_name(client: MetastoreClient, name: TableName, names: Sequence[str]) -> Iterator[Any]:
    """Return the existing partitions among those with Hive's ``names``."""
    for start in range(0, len(names), _MAX_NAMES):
        chunk = list(names[start : start + _MAX_NAMES])
        yield from client.call("get_partitions_by_names", name.database, name.name, chunk) or ()


def add_missing_partitions(
    client: MetastoreClient, table: Any, partitions: Sequence[Partition], now: int
) -> Mapping[Values, Partition]:
    """Add those partitions that a table (``Table``) lacks; return all of them as they are in the end.

    Another client may add some of them at the same time; its definitions stay. ``now``: milliseconds.
    """
    name = TableName(table.dbName, table.tableName)
    requested: dict[Values, Partition] = {}
    for partition in partitions:
        requested.setdefault(partition.values, partition)
    columns = [column.name for column in table.partitionKeys or ()]
    existing = _by_values(
        fetch_partitions_by_name(client, name, [format_partition(columns, values) for values in requested])
    )
    fresh = [partition for values, partition in requested.items() if values not in existing]
    met = False
    for start in range(0, len(fresh), _MAX_NEW):
        chunk = fresh[start : start + _MAX_NEW]
        if not _add_all_or_none(client, table, chunk, now):
            for partition in chunk:
                met = not _add_all_or_none(client, table, [partition], now) or met
    new_partitions = {partition.values: partition for partition in fresh}
    return _by_values(fetch_partitions(client, name)) if met else {**existing, **new_partitions}


def _add_all_or_none(client: MetastoreClient, table: Any, partitions: Sequence[Partition], now: int) -> bool:
    """Add all partitions; return False and add none if one of them exists meanwhile."""
    try:
        client.call(
            "add_partitions", [definitions.raw_partition(table, partition, now) for partition in partitions]
        )
    except AlreadyExistsError:
        return False
    return True


def require_in_place(name: TableName, new: Sequence[Partition], there: Mapping[Values, Partition]) -> None:
    """Raise WriteConflictError unless each new partition lies where its rows were written."""
    for partition in new:
        match = there.get(partition.values)
        if match is None or not is_same_location(match.location, partition.location):
            raise WriteConflictError(misplaced_partition(name, partition, match))


def _by_values(raws: Sequence[Any] | Iterator[Any]) -> dict[Values, Partition]:
    return {partition.values: partition for partition in map(definitions.partition_of, raws)}

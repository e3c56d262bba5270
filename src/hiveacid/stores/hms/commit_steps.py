"""Steps of a commit in a metastore before the commit itself: counts of rows, and events about new files for listeners.

Each writer adds the rows that it inserts and subtracts those that it deletes, as in Hive. Hive 4 answers ``count(*)`` from a
count that is marked as exact. Hive's compaction marks a count as exact without counting the rows. If a writer dropped the
count, Hive starts again from 0, and later answers are wrong.

Replication copies the files, Impala reads them. Hive sends the events only where ``hive.metastore.dml.events`` is set
(``ql.metadata.Hive``: addWriteNotificationLog, fireInsertEvent), in the transaction and before its commit. If that fails,
the statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType

from hiveacid.core.format.names import layout_name
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableName, TxnId, WriteId, partition_value_shown
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.ports.transactions import Written
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.definitions import ACCURATE, sent_location
from hiveacid.stores.hms.thrift_structs import ThriftStruct

_ROWS = "numRows"
_COUNTS = frozenset({ACCURATE, _ROWS, "rawDataSize"})
NO_ROWS: Mapping[str, str] = MappingProxyType({_ROWS: "0"})
"""Parameters of a new table or partition: a count that writers can add to."""


@dataclass(frozen=True)
class RowChange:
    """Change of a row count. ``rows``: number of added rows, negative for removed ones; None: unknown.

    ``replaced``: the added rows replace all earlier ones.
    """

    rows: int | None = None
    replaced: bool = False

    def followed_by(self, later: RowChange) -> RowChange:
        """Return this change and a later one as one."""
        if later.replaced:
            return later
        unknown = self.rows is None or later.rows is None
        return RowChange(None if unknown else (self.rows or 0) + (later.rows or 0), self.replaced)

    def count_after(self, before: int | None) -> int | None:
        """Return the count after the change; None if it is unknown, as after more deletions than there were rows."""
        if self.rows is None or self.replaced:
            return self.rows
        after = None if before is None else before + self.rows
        return None if after is None or after < 0 else after


_UNKNOWN = RowChange()


@dataclass
class CountedWrites:
    """Writes of a transaction to a table. ``changes``: by Hive's partition names; None: the table without partitions."""

    table: TableName
    changes: dict[str | None, RowChange]
    _undo_changes: dict[str | None, RowChange] = field(default_factory=dict)

    def apply(self, raw: ThriftStruct, partition: str | None, write_id: WriteId | None) -> bool:
        """Change the row count in a definition; tell whether the definition changes.

        ``write_id``: the writer's. If the definition already holds it, this call is a repetition and changes nothing. It is
        None with Hive 3, which does not keep write ids; the counts are then removed.
        """
        if write_id is None:
            return reset_counts(raw, None)
        if raw.writeId == write_id:
            return False
        before = _count(raw)
        after = self.changes.get(partition, _UNKNOWN).count_after(before)
        if after is not None:
            self._undo_changes[partition] = RowChange((before or 0) - after)
        return reset_counts(raw, write_id, after)

    def take_back(self, raw: ThriftStruct, partition: str | None, write_id: WriteId | None) -> bool:
        """Undo `apply` for a transaction that did not commit, unless others have counted the rows since."""
        change = self._undo_changes.pop(partition, _UNKNOWN)
        if change.rows is None or ACCURATE in (raw.parameters or {}):
            return False
        return reset_counts(raw, write_id, change.count_after(_count(raw)))


def counted_writes(written: Sequence[Written]) -> Iterator[CountedWrites]:
    """Yield the writes of a transaction by table."""
    for name, writes in groupby(
        sorted(written, key=lambda write: write.table), key=lambda write: write.table
    ):
        by_partition: dict[str | None, RowChange] = {}
        for write in writes:
            change = RowChange(write.rows, write.replaced)
            before = by_partition.get(write.partition)
            by_partition[write.partition] = change if before is None else before.followed_by(change)
        yield CountedWrites(name, by_partition)


def with_zero_row_count(partitions: Sequence[Partition]) -> list[Partition]:
    """Return new partitions with a row count, to which writers can add."""
    return [
        replace(partition, properties=(*partition.properties, *NO_ROWS.items())) for partition in partitions
    ]


def reset_counts(raw: ThriftStruct, write_id: WriteId | None, rows: int | None = None) -> bool:
    """Remove the mark of exact counts and all counts, then set the row count to ``rows`` if given.

    Returns whether the definition changes.

    ``write_id``: the writer's id, which is stored. An ANALYZE that began earlier and does not see this id then cannot
    set the mark again (``ObjectStore.isCurrentStatsValidForTheQuery`` of Hive 4).
    """
    before = raw.parameters or {}
    raw.parameters = {key: value for key, value in before.items() if key not in _COUNTS}
    if rows is not None:
        raw.parameters[_ROWS] = str(rows)
    changed = bool(raw.parameters != before)
    if write_id is not None and raw.writeId != write_id:
        raw.writeId = write_id
        changed = True
    return changed


def own_write_id_list(name: TableName, write_id: WriteId | None) -> str | None:
    """Return the write-id list to pass with a writer's id; a metastore does not store the id without a list.

    The list tells a metastore which counts the writer may mark as exact. hiveacid sets no mark, so any list will do.
    """
    return None if write_id is None else ValidWriteIdList(name, write_id).to_string()


def _count(raw: ThriftStruct) -> int | None:
    text = (raw.parameters or {}).get(_ROWS, "")
    return int(text) if text.isdecimal() else None


Values = tuple[str | None, ...]


def group_by_partition(files: Sequence[NewFiles]) -> Iterator[tuple[TableName, Values, NewFiles]]:
    """Group the files that several statements of a transaction wrote by table and partition; leave out empty groups."""
    places: dict[tuple[TableName, Values], list[NewFiles]] = {}
    for one in files:
        places.setdefault((one.table, one.values), []).append(one)
    for (table, values), ones in places.items():
        paths = tuple(dict.fromkeys(path for one in ones for path in one.paths))
        if paths:
            yield table, values, NewFiles(table, values, paths, any(one.replaced for one in ones))


def send_write_notification(
    client: MetastoreClient,
    txn_id: TxnId,
    write_id: WriteId,
    table: TableName,
    values: Values,
    files: NewFiles,
) -> None:
    """Send the files of a transaction in a transactional table; listeners get them with the commit (Hive 4)."""
    request = protocol.WriteNotificationLogRequest(
        txnId=txn_id,
        writeId=write_id,
        db=table.database,
        table=table.name,
        fileInfo=_information(files, replaced=True),  # Hive says so of every write
        partitionVals=_sent(values) or None,
    )
    client.call("add_write_notification_log", request)


def send_insert_event(client: MetastoreClient, table: TableName, values: Values, files: NewFiles) -> None:
    """Send the files in a plain table, and in every table of Hive 3; listeners get them at once."""
    request = protocol.FireEventRequest(
        successful=True,
        data=protocol.FireEventRequestData(insertData=_information(files, replaced=files.replaced)),
        dbName=table.database,
        tableName=table.name,
        partitionVals=_sent(values) or None,
    )
    client.call("fire_listener_event", request)


def _information(files: NewFiles, *, replaced: bool) -> ThriftStruct:
    directories = [_acid_directory(path) for path in files.paths]
    return protocol.InsertEventRequestData(
        replace=replaced,
        filesAdded=[sent_location(path) for path in files.paths],
        filesAddedChecksum=[""] * len(files.paths),  # as Hive where a file system has none
        subDirectoryList=[directory for directory in directories if directory is not None] or None,
    )


def _acid_directory(path: str) -> str | None:
    """Return the name of the base or delta that a file lies in."""
    return next((name for name in reversed(path.split("/")[:-1]) if layout_name(name)), None)


def _sent(values: Values) -> list[str]:
    return [*map(partition_value_shown, values)]

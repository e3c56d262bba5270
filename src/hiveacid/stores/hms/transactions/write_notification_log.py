"""Events about new files for a metastore's listeners: replication copies the files, Impala reads them.

Hive sends them only where ``hive.metastore.dml.events`` is set (``ql.metadata.Hive``: addWriteNotificationLog,
fireInsertEvent), in the transaction and before its commit. If that fails, the statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hiveacid.core.format.names import parse_directory
from hiveacid.core.model import TableName, TxnId, WriteId, partition_value_shown
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.errors import BadDirectoryNameError
from hiveacid.stores.hms.catalog.definitions import sent_location
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.thrift.failover_client import MetastoreClient

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


def _information(files: NewFiles, *, replaced: bool) -> Any:
    directories = [_acid_directory(path) for path in files.paths]
    return protocol.InsertEventRequestData(
        replace=replaced,
        filesAdded=[sent_location(path) for path in files.paths],
        filesAddedChecksum=[""] * len(files.paths),  # as Hive where a file system has none
        subDirectoryList=[directory for directory in directories if directory is not None] or None,
    )


def _acid_directory(path: str) -> str | None:
    """Return the name of the base or delta that a file lies in."""
    for name in reversed(path.split("/")[:-1]):
        try:
            parsed = parse_directory(name)
        except BadDirectoryNameError:
            continue
        if parsed is not None:
            return name
    return None


def _sent(values: Values) -> list[str]:
    return [*map(partition_value_shown, values)]

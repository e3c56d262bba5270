"""What a metastore's listeners are told of files: replication copies them, Impala reads them.

Hive tells it only where ``hive.metastore.dml.events`` is set (``ql.metadata.Hive``: addWriteNotificationLog,
fireInsertEvent), in the transaction, before its commit; if that fails, the statement fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.core.commits import NewFiles
from hiveacid.core.model import DEFAULT_PARTITION, TableName, TxnId, WriteId
from hiveacid.core.names import parse_directory
from hiveacid.errors import BadDirectoryNameError
from hiveacid.stores.hms import event_protocol
from hiveacid.stores.hms.definitions import sent_location

if TYPE_CHECKING:
    from hiveacid.stores.hms.client import MetastoreClient

Values = tuple[str | None, ...]


def by_place(files: Sequence[NewFiles]) -> Iterator[tuple[TableName, Values, NewFiles]]:
    """Put together what several statements of a transaction wrote to one table or partition; leave out empty ones."""
    places: dict[tuple[TableName, Values], list[NewFiles]] = {}
    for one in files:
        places.setdefault((one.table, one.values), []).append(one)
    for (table, values), ones in places.items():
        paths = tuple(dict.fromkeys(path for one in ones for path in one.paths))
        if paths:
            yield table, values, NewFiles(table, values, paths, any(one.replaced for one in ones))


def write(
    client: MetastoreClient,
    txn_id: TxnId,
    write_id: WriteId,
    table: TableName,
    values: Values,
    files: NewFiles,
) -> None:
    """Tell of a transaction's files in a transactional table; listeners hear of them with the commit (Hive 4)."""
    request = event_protocol.WriteNotificationLogRequest(
        txnId=txn_id,
        writeId=write_id,
        db=table.database,
        table=table.name,
        fileInfo=_information(files, replaced=True),  # Hive says so of every write
        partitionVals=_sent(values) or None,
    )
    client.call("add_write_notification_log", request)


def insert(client: MetastoreClient, table: TableName, values: Values, files: NewFiles) -> None:
    """Tell of files in a plain table, and in every table of Hive 3; listeners hear of them at once."""
    request = event_protocol.FireEventRequest(
        successful=True,
        data=event_protocol.FireEventRequestData(insertData=_information(files, replaced=files.replaced)),
        dbName=table.database,
        tableName=table.name,
        partitionVals=_sent(values) or None,
    )
    client.call("fire_listener_event", request)


def _information(files: NewFiles, *, replaced: bool) -> Any:
    directories = [_acid_directory(path) for path in files.paths]
    return event_protocol.InsertEventRequestData(
        replace=replaced,
        filesAdded=[sent_location(path) for path in files.paths],
        filesAddedChecksum=[""] * len(files.paths),  # as Hive where a file system has none
        subDirectoryList=[one for one in directories if one is not None] or None,
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
    return [value or DEFAULT_PARTITION for value in values]

"""Steps before a commit, which are repeated after a lost answer, and events about new files for a metastore's listeners.

Replication copies the files, Impala reads them. Hive sends the events only where ``hive.metastore.dml.events`` is set
(``ql.metadata.Hive``: addWriteNotificationLog, fireInsertEvent), in the transaction and before its commit. If that fails,
the statement fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from hiveacid.core.format.names import parse_directory
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId, partition_value_shown
from hiveacid.core.schema.location_overlap import is_same_location
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.errors import (
    BadDirectoryNameError,
    CommitStateUnknownError,
    HiveAcidError,
    StoreUnavailableError,
)
from hiveacid.stores.hms.catalog import MetastoreCatalog
from hiveacid.stores.hms.definitions import sent_location
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.thrift.failover_client import ROUNDS, MetastoreClient

logger = logging.getLogger(__name__)


def retry_lost_answer(step: Callable[[], object]) -> None:
    """Run a repeatable step again after a lost answer. Raises StoreUnavailableError after the last attempt."""
    for turn in range(1, ROUNDS + 1):
        try:
            step()
        except CommitStateUnknownError as lost:
            if turn == ROUNDS:
                message = str(lost).rpartition(";")[0] or str(lost)
                raise StoreUnavailableError(f"{message}; nothing was committed: try again") from lost
        else:
            return


def create_table(
    catalog: MetastoreCatalog, table: TableDefinition, new_tables: list[TableDefinition]
) -> None:
    """Create a table whose name is locked. A table that exists after a lost answer is therefore the same one.

    The table is added to ``new_tables`` as soon as it may exist, for :func:`drop_created_tables`.
    """

    def create() -> None:
        if table in new_tables and _is_made(catalog, table):
            return
        try:
            catalog.create_table(table, empty=True)
        except CommitStateUnknownError:
            new_tables.append(table)
            raise

    retry_lost_answer(create)
    new_tables.append(table)


def drop_created_tables(catalog: MetastoreCatalog, tables: list[TableDefinition]) -> None:
    """Drop the tables that :func:`create_table` made, or may have made, as far as the metastore can be reached."""
    for table in tables:
        try:
            retry_lost_answer(partial(_drop, catalog, table))
        except HiveAcidError as error:  # the caller reports the error before this one
            logger.warning("%s may be left without rows: drop it (%s)", table.name, error)


def _drop(catalog: MetastoreCatalog, table: TableDefinition) -> None:
    if _is_made(catalog, table):
        catalog.drop_table(table.name)


def _is_made(catalog: MetastoreCatalog, table: TableDefinition) -> bool:
    existing = catalog.get_table(table.name)
    return existing is not None and is_same_location(existing.location, table.location)


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

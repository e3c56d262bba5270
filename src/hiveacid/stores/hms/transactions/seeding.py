"""Seeding: the first write ids and transaction ids of a table that comes from another store."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from hiveacid.config.property_definitions import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from hiveacid.core.format.write_id_lists import NO_OPEN_ID
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks import LockComponent, LockType
from hiveacid.errors import StoreError, UnsupportedFeatureError
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import Client, Operation
from hiveacid.ports.write_ids import STAND_IN_PREFIX, current_write_ids_of
from hiveacid.stores import refusals
from hiveacid.stores.hms.capabilities import Capabilities
from hiveacid.stores.hms.catalog.names import plain_table
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.thrift.failover_client import MetastoreClient
from hiveacid.stores.hms.transactions import transactions
from hiveacid.stores.refusals import ids_given

MOST_SINGLY = 20_000
"""Most write ids, from the lowest aborted one on, that can be allocated one by one."""
_BATCH = 500
_TURNS, _PAUSE = 40, 0.25  # ten seconds until skipped ids count as ended


class SeededStore(WarehouseStore, Protocol):
    """The parts of `MetastoreStore` that seeding needs: the methods of the ports, and the client."""

    client: MetastoreClient
    capabilities: Capabilities
    clock: Clock

    def drop_raw(self, name: TableName, *, delete_data: bool = False) -> None:
        """See `MetastoreCatalog.drop_raw`."""


def seed_write_ids(
    store: SeededStore, client: Client, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]
) -> None:
    """Continue the write ids of another store.

    Ids below the lowest aborted one take a single call (a call of Hive's replication, which both versions have). From
    there on each id gets a transaction, and the aborted ones a record of a write. Without such a record the metastore
    would soon forget them, and readers would accept their files. Raises TransactionStateError if the table has write ids,
    UnsupportedFeatureError for too many.
    """
    ids = refusals.seed(high_watermark, aborted)
    plain_table(table)
    if _top(store, table) > 0:
        raise ids_given(table)
    first = int(min(ids, default=WriteId(high_watermark + 1)))
    if high_watermark - first >= MOST_SINGLY:
        raise UnsupportedFeatureError(
            f"{table}: write id {first} was aborted, and {high_watermark - first} came after it; a metastore can be told "
            f"of {MOST_SINGLY} at most: compact the table and let the cleaner do its work first"
        )
    if first > 1:
        request = protocol.ReplTblWriteIdStateRequest(
            validWriteIdlist=f"{table}:{first - 1}:{NO_OPEN_ID}::",
            user=client.user,
            hostName=client.host,
            dbName=table.database,
            tableName=table.name,
        )
        store.client.call("repl_tbl_writeid_state", request)
    lost_ids = set(ids)
    for start in range(first, int(high_watermark) + 1, _BATCH):
        _spend(store, client, table, range(start, min(start + _BATCH, int(high_watermark) + 1)), lost_ids)
    if _top(store, table) != high_watermark:
        raise StoreError(
            f"the metastore gives write ids of {table} from {_top(store, table)} on, not {high_watermark}"
        )


def restart_write_ids(store: SeededStore, table: TableDefinition, mark: tuple[str, str]) -> None:
    """Make write ids begin at 1 again for a name that is about to get a table.

    A metastore of Hive 4 keeps the write ids of a table that was dropped without its files, but forgets which of them
    were aborted. A stand-in table of the same name on an empty directory, dropped with its files, removes them. The
    property ``mark`` identifies a stand-in that an interrupted call left behind.
    """
    name = table.name
    if _top(store, name) == 0:
        return
    database = store.get_database(name.database)
    location = f"{database.location if database else table.location}/{STAND_IN_PREFIX}{secrets.token_hex(8)}"
    store.create_table(
        replace(
            table,
            location=location,
            partition_columns=(),
            bucketing=None,
            properties=((TRANSACTIONAL.name, "true"), (TRANSACTIONAL_PROPERTIES.name, "insert_only"), mark),
        )
    )
    store.drop_raw(name, delete_data=True)
    if _top(store, name) > 0:
        raise ids_given(name)


def _top(store: SeededStore, table: TableName) -> int:
    return int(current_write_ids_of(store, table).high_watermark)


def _spend(store: SeededStore, client: Client, table: TableName, ids: range, lost: set[WriteId]) -> None:
    txn_ids = store.open_txns(client, len(ids))
    allocated = store.allocate_write_ids(txn_ids, table)
    if list(allocated) != list(ids):
        store.abort_txns(txn_ids, "write ids came from somewhere else")
        raise StoreError(f"write ids of {table} were taken by somebody else while they were seeded")
    for txn_id, write_id in zip(txn_ids, allocated, strict=True):
        if write_id not in lost:
            store.commit_txn(txn_id)
            continue
        component = LockComponent(
            LockType.SHARED_READ, table.database, table.name, operation=Operation.INSERT
        )
        store.lock(txn_id, [component])
        store.abort_txns([txn_id], "aborted where the table comes from")


def seed_txns(store: SeededStore, client: Client, high_watermark: TxnId) -> None:
    """Make later transaction ids higher, and wait until those in between count as ended.

    A metastore of Hive 4 counts missing ids as open for a second, because they may still appear. Raises
    UnsupportedFeatureError with Hive 3, which has no call for it (and no file names with transaction ids).
    """
    refusals.seedable(high_watermark)
    if store.valid_txns().high_watermark >= high_watermark:
        return
    if not store.capabilities.txn_types:
        raise UnsupportedFeatureError(
            f"transaction ids up to {high_watermark} cannot be adopted by a Hive 3 metastore, which assigns its own"
        )
    store.client.call("seed_txn_id", protocol.SeedTxnIdRequest(seedTxnId=high_watermark))
    (first,) = store.open_txns(client)
    transactions.commit_txn(store.client, first, wrote=False)
    for _ in range(_TURNS):
        if not any(txn_id <= high_watermark for txn_id in store.valid_txns().open):
            return
        store.clock.sleep(_PAUSE)

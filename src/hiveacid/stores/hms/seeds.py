"""Write ids and transaction ids that a metastore is to begin with, for a table that comes from somewhere else."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.core.locks import LockComponent, LockType
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.write_ids import NO_OPEN_ID
from hiveacid.errors import StoreError, UnsupportedFeatureError
from hiveacid.ports import Operation
from hiveacid.stores import checks
from hiveacid.stores.hms import protocol, txns
from hiveacid.stores.hms.names import plain_table
from hiveacid.stores.refusals import ids_given

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition
    from hiveacid.ports import Client
    from hiveacid.stores.hms.store import MetastoreStore

MOST_SINGLY = 20_000
"""So many write ids are given out one by one, from the lowest aborted one up."""
_BATCH = 500
_STAND_IN = ".hiveacid-"
_TURNS, _PAUSE = 40, 0.25  # ten seconds for ids that nobody opened to count as ended


def seed_write_ids(
    store: MetastoreStore, who: Client, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]
) -> None:
    """Begin where another store stopped.

    What is below the lowest aborted id is said in one call (that of Hive's replication, which both versions have). From
    there on each id gets a transaction, and the aborted ones a note of what they wrote: without it the metastore
    would soon forget them, and believe their files. Raises TransactionStateError if the table has write ids,
    UnsupportedFeatureError for too many.
    """
    ids = checks.seed(high_watermark, aborted)
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
            user=who.user,
            hostName=who.host,
            dbName=table.database,
            tableName=table.name,
        )
        store.client.call("repl_tbl_writeid_state", request)
    lost = set(ids)
    for start in range(first, int(high_watermark) + 1, _BATCH):
        _spend(store, who, table, range(start, min(start + _BATCH, int(high_watermark) + 1)), lost)
    if _top(store, table) != high_watermark:
        raise StoreError(
            f"the metastore gives write ids of {table} from {_top(store, table)} on, not {high_watermark}"
        )


def forget_write_ids(store: MetastoreStore, table: TableDefinition, mark: tuple[str, str]) -> None:
    """Let the write ids of a name begin anew that a table is about to get.

    A metastore of Hive 4 keeps them where a table was dropped and its files were not, but not which of them were
    aborted. A table of the same name on an empty directory of its own, dropped with it, takes them along. Until then it
    has a property ``mark``, so that the next call knows it, where this one was kept from dropping it (`is_stand_in`).
    """
    name = table.name
    if _top(store, name) == 0:
        return
    database = store.get_database(name.database)
    place = f"{database.location if database else table.location}/{_STAND_IN}{secrets.token_hex(8)}"
    store.create_table(
        replace(
            table,
            location=place,
            partition_columns=(),
            bucketing=None,
            properties=(("transactional", "true"), ("transactional_properties", "insert_only"), mark),
        )
    )
    environment = protocol.EnvironmentContext(properties={})
    call = "drop_table_with_environment_context"
    store.client.call(call, name.database, name.name, True, environment)  # noqa: FBT003 - deleteData
    if _top(store, name) > 0:
        raise ids_given(name)


def is_stand_in(table: TableDefinition) -> bool:
    """Tell whether a table is what `forget_write_ids` made, and was kept from dropping."""
    return table.location.rpartition("/")[2].startswith(_STAND_IN)


def _top(store: MetastoreStore, table: TableName) -> int:
    return int(store.valid_write_ids(store.valid_txns(), [table])[table].high_watermark)


def _spend(store: MetastoreStore, who: Client, table: TableName, ids: range, lost: set[WriteId]) -> None:
    opened = store.open_txns(who, len(ids))
    given = store.allocate_write_ids(opened, table)
    if list(given) != list(ids):
        store.abort_txns(opened, "write ids came from somewhere else")
        raise StoreError(f"write ids of {table} were taken by somebody else while they were seeded")
    for txn_id, write_id in zip(opened, given, strict=True):
        if write_id not in lost:
            store.commit_txn(txn_id)
            continue
        told = LockComponent(LockType.SHARED_READ, table.database, table.name, operation=Operation.INSERT)
        store.lock(txn_id, [told])
        store.abort_txns([txn_id], "aborted where the table comes from")


def seed_txns(store: MetastoreStore, who: Client, high_watermark: TxnId) -> None:
    """Make later transaction ids higher, and wait until those in between count as ended.

    A metastore of Hive 4 takes ids that are missing for open as long as they might come (a second). Raises
    UnsupportedFeatureError with Hive 3, which has no call for it (nor names that hold transaction ids).
    """
    if store.valid_txns().high_watermark >= high_watermark:
        return
    if not store.can.txn_types:
        raise UnsupportedFeatureError(
            f"transaction ids up to {high_watermark} cannot be taken over by a Hive 3 metastore: it gives its own"
        )
    store.client.call("seed_txn_id", protocol.SeedTxnIdRequest(seedTxnId=high_watermark))
    (first,) = store.open_txns(who)
    txns.commit(store.client, first, wrote=False)
    for _ in range(_TURNS):
        if not any(one <= high_watermark for one in store.valid_txns().open):
            return
        store.clock.sleep(_PAUSE)

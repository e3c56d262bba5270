"""Transactions and write ids of a metastore. Its snapshots are lists of ids with a bit per id that marks aborted ones.

Seeding gives a table that comes from another store its first write ids and transaction ids.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from hiveacid import errors
from hiveacid.config.property_definitions import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from hiveacid.core.format.write_id_lists import NO_OPEN_ID, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import LAST_ID, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import (
    STAND_IN_PREFIX,
    Client,
    HeartbeatAnswer,
    Operation,
    TransactionRow,
    TxnKind,
    current_write_ids_of,
)
from hiveacid.stores import refusals
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.definitions import plain_table, without_quotes
from hiveacid.stores.hms.metastores import Capabilities
from hiveacid.stores.hms.thrift_structs import ThriftStruct
from hiveacid.stores.limits import Limits
from hiveacid.stores.refusals import ids_given, not_open

logger = logging.getLogger(__name__)

# TxnType. READ_ONLY (2) is not used: ``get_open_txns`` leaves those out, so a reader could not ask for its own state.
_TYPES = {TxnKind.COMPACTION: 3}
_STATES = {2: "ABORTED", 3: "OPEN"}  # TxnState
_MAX_TABLES = 500  # of one request


class MetastoreTransactions:
    """Methods of the transaction and write-id ports that are single calls of the metastore."""

    client: MetastoreClient
    capabilities: Capabilities
    _limits: Limits
    clock: Clock
    _own_timeout: float | None  # the metastore's own hive.txn.timeout in seconds, None if unknown
    _txn_client: Client  # of the transactions that were opened last

    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """Open transactions. Their kind is sent to Hive 4 only, because Hive 3 has no field for it."""
        refusals.client(client)
        sender = client if self.capabilities.txn_types else without_quotes(client)
        self._txn_client = sender
        refusals.open_count(count, self._limits)
        request = protocol.OpenTxnRequest(
            num_txns=count, user=sender.user, hostname=sender.host, agentInfo=sender.agent
        )
        if self.capabilities.txn_types:
            request.txn_type = _TYPES.get(kind)
        sent = self.clock.now()
        answer = self.client.call("open_txns", request)
        opened = tuple(TxnId(checked_id(txn_id)) for txn_id in sorted(answer.txn_ids))
        self.client.retry_deadlines.opened(opened, self._own_timeout or self._limits.txn_timeout, sent)
        return opened

    def valid_txns(self) -> ValidTxnList:
        """Return the current snapshot."""
        return txn_list(self.client.call("get_open_txns"))

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Return the current snapshot as seen by an open transaction; conflicts count from its opening, not from here."""
        txns = self.valid_txns()
        state = _state(txns, txn_id)
        if state != TransactionState.OPEN:
            raise not_open(txn_id, state)
        return txns

    def txn_state(self, txn_id: TxnId) -> str:
        """Return open, aborted, committed or unknown.

        A metastore forgets aborted transactions that wrote nothing: those appear as committed.
        """
        return _state(self.valid_txns(), txn_id)

    def ended_up_to(self, table: TableName) -> WriteId:
        """Return 0: a metastore's own cleaner forgets write ids, and records no lowest ones of partitions."""
        _ = table
        return WriteId(0)

    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """Return the write ids of aborted transactions that the metastore has not forgotten; each of them may come."""
        del may_come
        return current_write_ids_of(self, table).aborted

    def min_open_txn_id(self) -> TxnId:
        """Return the lowest open transaction id, or the next one."""
        txns = self.valid_txns()
        return txns.open[0] if txns.open else TxnId(txns.high_watermark + 1)

    def last_txn_id(self) -> TxnId:
        """Return the high watermark of a snapshot; a metastore has one counter, which it holds while it opens."""
        return self.valid_txns().high_watermark

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Return the tables' lists as of a snapshot.

        A metastore omits write ids of transactions that were opened after the snapshot if an older transaction has since
        got a higher one. They would count as committed, so those that are still open or aborted are added.
        """
        lists = _fetch_write_id_lists(self.client, txns, tables)
        now = self.valid_txns()
        if now.high_watermark == txns.high_watermark or not lists:
            return lists
        later = _fetch_write_id_lists(self.client, now, tables)
        return {name: _with_later_ids(id_list, later[name]) for name, id_list in lists.items()}

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Record in a metastore of Hive 4, for each table, the lowest write id that may be invisible to the transaction.

        With ``metastore.txn.use.minhistorywriteid`` the cleaner waits for these ids instead of open transactions; otherwise
        the call has no effect. Hive does the same (``DbTxnManager.addWriteIdsToMinHistory``).
        """
        if not self.capabilities.txn_types or not write_ids:
            return
        lowest = {
            str(id_list.table): int(id_list.min_open or id_list.high_watermark + 1) for id_list in write_ids
        }
        self.client.call("add_write_ids_to_min_history", txn_id, lowest)

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """Allocate each open transaction its write id; a repeated call returns the same one."""
        plain_table(table)
        if not txn_ids:
            return ()
        distinct_ids = sorted(set(txn_ids))
        try:
            allocated = _allocate(self.client, distinct_ids, table)
        except errors.HiveAcidError:
            # No Hive version says usefully that a transaction has ended, or that only some already have an id: find it out.
            txns = self.valid_txns()
            for txn_id in distinct_ids:
                state = _state(txns, txn_id)
                if state != TransactionState.OPEN:
                    raise not_open(txn_id, state) from None
            if len(distinct_ids) == 1:
                raise
            allocated = {}
            for txn_id in distinct_ids:
                allocated |= _allocate(self.client, [txn_id], table)
        return tuple(allocated[txn_id] for txn_id in txn_ids)

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Send a heartbeat, one call per run of consecutive ids, so that no other client's transactions are kept alive."""
        aborted: set[int] = set()
        missing: set[int] = set()
        sent = self.clock.now()
        for low, high in _runs(sorted(set(txn_ids))):
            answer = self.client.call(
                "heartbeat_txn_range", protocol.HeartbeatTxnRangeRequest(min=low, max=high)
            )
            aborted |= answer.aborted or set()
            missing |= answer.nosuch or set()
            ended = {*map(TxnId, aborted), *map(TxnId, missing)}
            # at once: the call for the next run may fail
            self.client.retry_deadlines.record_heartbeat(
                {i for i in txn_ids if low <= i <= high} - ended, sent
            )
            self.client.retry_deadlines.ended(ended)
        return HeartbeatAnswer(tuple(map(TxnId, sorted(aborted))), tuple(map(TxnId, sorted(missing))))

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """List open and aborted transactions by id."""
        rows = self.client.call("get_open_txns_info").open_txns
        return tuple(
            TransactionRow(
                TxnId(row.id),
                _STATES.get(row.state, "OPEN"),
                row.startedTime or 0,
                row.lastHeartbeatTime or 0,
                row.user or "",
                row.hostname or "",
            )
            for row in sorted(rows, key=lambda row: int(row.id))
        )


def _state(txns: ValidTxnList, txn_id: TxnId) -> str:
    if txn_id in txns.open:
        return TransactionState.OPEN
    if txns.is_aborted(txn_id):
        return TransactionState.ABORTED
    return TransactionState.COMMITTED if 1 <= txn_id <= txns.high_watermark else TransactionState.UNKNOWN


def _with_later_ids(earlier: ValidWriteIdList, later: ValidWriteIdList) -> ValidWriteIdList:
    listed_ids = {*earlier.open, *earlier.aborted}
    later_ids = [
        write_id
        for write_id in (*later.open, *later.aborted)
        if write_id <= earlier.high_watermark and write_id not in listed_ids
    ]
    return ValidWriteIdList(
        earlier.table, earlier.high_watermark, (*earlier.open, *later_ids), earlier.aborted
    )


def _fetch_write_id_lists(
    client: MetastoreClient, txns: ValidTxnList, tables: Sequence[TableName]
) -> dict[TableName, ValidWriteIdList]:
    id_lists: dict[TableName, ValidWriteIdList] = {}
    plain_names = list(dict.fromkeys(plain_table(name) for name in tables))
    for start in range(0, len(plain_names), _MAX_TABLES):
        names = {str(name): name for name in plain_names[start : start + _MAX_TABLES]}
        request = protocol.GetValidWriteIdsRequest(
            fullTableNames=list(names), validTxnList=format_txn_list(txns)
        )
        for raw in client.call("get_valid_write_ids", request).tblValidWriteIds:
            table = names.get(raw.fullTableName.lower())
            if table is not None:
                id_lists[table] = write_id_list(table, raw)
    missing_names = [name for name in plain_names if name not in id_lists]
    if missing_names:
        raise errors.StoreError(f"the metastore gave no write ids of {missing_names[0]}")
    return id_lists


def _allocate(client: MetastoreClient, txn_ids: Sequence[TxnId], table: TableName) -> dict[int, WriteId]:
    request = protocol.AllocateTableWriteIdsRequest(
        dbName=table.database, tableName=table.name, txnIds=list(txn_ids)
    )
    answer = client.call("allocate_table_write_ids", request)
    allocated = {
        int(allocation.txnId): WriteId(checked_id(allocation.writeId)) for allocation in answer.txnToWriteIds
    }
    if not set(allocated).issuperset(txn_ids):
        raise errors.StoreError(
            f"the metastore gave write ids of {table} to {sorted(allocated)}, not to {list(txn_ids)}"
        )
    return allocated


def _runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive ones; ``ids`` ascend."""
    for _, group in groupby(enumerate(ids), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield run[0], run[-1]


def commit_txn(client: MetastoreClient, txn_id: TxnId, *, wrote: bool) -> None:
    """Commit. After a lost answer the call is repeated: a metastore confirms a commit that it has already made.

    The metastore always checks for conflicts. A writer that waited for a lock may therefore be refused although it saw all
    rows; it tries again. ``exclWriteEnabled`` requests the check in Hive 4 and in vendors' builds named 3.1. Hive 3.1
    itself always checks and ignores unknown fields.

    ``wrote``: whether the transaction has written anything. A metastore that has forgotten the transaction may have
    aborted it and cleaned up.
    """
    request = protocol.CommitTxnRequest(txnid=txn_id, exclWriteEnabled=False)
    try:
        client.call("commit_txn", request)
    except errors.CommitStateUnknownError as lost:
        try:
            client.call("commit_txn", request)
        except errors.NoSuchTransactionError:
            if wrote:
                raise lost from None
        except errors.StoreError:
            # StoreUnavailableError would suggest that nothing was committed, but the first call may have committed
            if wrote:
                raise lost from None
            raise
    except errors.NoSuchTransactionError as error:
        if wrote or _state(txn_list(client.call("get_open_txns")), txn_id) != TransactionState.COMMITTED:
            raise errors.NoSuchTransactionError(
                f"transaction {txn_id} is not known: it was never opened, or ended long ago"
            ) from error
    except errors.StoreUnavailableError:
        raise  # nothing was sent
    except errors.StoreError as refused:
        _require_committed_although(refused, client, txn_id)


def _require_committed_although(refused: errors.StoreError, client: MetastoreClient, txn_id: TxnId) -> None:
    """Raise ``refused`` unless the transaction has committed.

    An internal error of a metastore may come after its commit: from a listener, or from its database.
    """
    try:
        state = _state(txn_list(client.call("get_open_txns")), txn_id)
    except errors.StoreError as error:
        raise errors.CommitStateUnknownError(
            f"commit_txn failed ({refused}), and the state of transaction {txn_id} could not be read afterwards; it may be "
            "committed: look before you try again"
        ) from error
    if state != TransactionState.COMMITTED:
        raise refused
    logger.warning("transaction %d is committed, although the metastore answered: %s", txn_id, refused)


def abort_txns(client: MetastoreClient, txn_ids: Sequence[TxnId]) -> tuple[TxnId, ...]:
    """Abort the open transactions and return them, one call each, because an answer about many does not name them."""
    running = set(txn_list(client.call("get_open_txns")).open)
    ended_txns = []
    for txn_id in sorted(set(txn_ids) & running):
        try:
            client.call("abort_txn", protocol.AbortTxnRequest(txnid=txn_id))
        except (errors.NoSuchTransactionError, errors.TransactionAbortedError, errors.TransactionStateError):
            continue  # it ended meanwhile
        ended_txns.append(txn_id)
    return tuple(ended_txns)


def split_by_aborted_bits(ids: Sequence[int], bits: bytes | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ids into open and aborted ones: bit i of a Java ``BitSet`` marks the i-th as aborted."""
    marks = bits or b""
    aborted = tuple(
        txn_id
        for index, txn_id in enumerate(ids)
        if index // 8 < len(marks) and marks[index // 8] >> index % 8 & 1
    )
    aborted_ids = set(aborted)
    return tuple(txn_id for txn_id in ids if txn_id not in aborted_ids), aborted


def checked_id(number: int) -> int:
    """Return an id of a metastore's answer. Raises StoreError for an id that no metastore allocates."""
    if not 0 <= number <= LAST_ID:
        raise errors.StoreError(
            f"the metastore answered with the id {number}, which is not between 0 and {LAST_ID}"
        )
    return number


def txn_list(answer: ThriftStruct) -> ValidTxnList:
    """Return a ``GetOpenTxnsResponse`` as a snapshot."""
    running, aborted = split_by_aborted_bits(answer.open_txns, answer.abortedBits)
    return ValidTxnList(
        TxnId(checked_id(answer.txn_high_water_mark)), tuple(map(TxnId, running)), tuple(map(TxnId, aborted))
    )


def format_txn_list(txns: ValidTxnList) -> str:
    """Format a snapshot as ``get_valid_write_ids`` takes it: every id spelt out, which all versions read."""
    top = txns.min_open if txns.open else NO_OPEN_ID
    return f"{txns.high_watermark}:{top}:{_joined(txns.open)}:{_joined(txns.aborted)}"


def write_id_list(table: TableName, answer: ThriftStruct) -> ValidWriteIdList:
    """Convert a ``TableValidWriteIds``."""
    running, aborted = split_by_aborted_bits(answer.invalidWriteIds, answer.abortedBits)
    return ValidWriteIdList(
        table,
        WriteId(checked_id(answer.writeIdHighWaterMark)),
        tuple(map(WriteId, running)),
        tuple(map(WriteId, aborted)),
    )


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


MOST_SINGLY = 20_000
"""Most write ids, from the lowest aborted one on, that can be allocated one by one."""
_BATCH = 500
_SKIP_ATTEMPTS, _SKIP_PAUSE = 40, 0.25  # ten seconds until skipped ids count as ended


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
        raise errors.UnsupportedFeatureError(
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
        raise errors.StoreError(
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
        raise errors.StoreError(
            f"write ids of {table} were allocated by another client while they were seeded"
        )
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
        raise errors.UnsupportedFeatureError(
            f"transaction ids up to {high_watermark} cannot be adopted by a Hive 3 metastore, which assigns its own"
        )
    store.client.call("seed_txn_id", protocol.SeedTxnIdRequest(seedTxnId=high_watermark))
    (first,) = store.open_txns(client)
    commit_txn(store.client, first, wrote=False)
    for _ in range(_SKIP_ATTEMPTS):
        if not any(txn_id <= high_watermark for txn_id in store.valid_txns().open):
            return
        store.clock.sleep(_SKIP_PAUSE)

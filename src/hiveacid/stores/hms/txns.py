"""Transactions and write ids of a metastore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    NoSuchTransactionError,
    StoreError,
    TransactionAbortedError,
    TransactionStateError,
)
from hiveacid.ports import Client, HeartbeatAnswer, TransactionRow, TxnKind
from hiveacid.stores import checks
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.lists import sent, txn_list, write_id_list
from hiveacid.stores.hms.names import plain_table
from hiveacid.stores.refusals import not_open

if TYPE_CHECKING:
    from hiveacid.stores.hms.client import MetastoreClient
    from hiveacid.stores.hms.versions import Capabilities
    from hiveacid.stores.limits import Limits

# TxnType. Not READ_ONLY (2): ``get_open_txns`` leaves those out, and a reader has to be able to ask for itself.
_TYPES = {TxnKind.COMPACTION: 3}
_STATES = {2: "ABORTED", 3: "OPEN"}  # TxnState
_MOST_TABLES = 500  # of one request


def open_txns(
    client: MetastoreClient, can: Capabilities, limits: Limits, who: Client, count: int, kind: TxnKind
) -> tuple[TxnId, ...]:
    """Open transactions; a metastore of Hive 3 does not hear what they are for."""
    checks.client(who)
    checks.batch(count, limits)
    request = protocol.OpenTxnRequest(num_txns=count, user=who.user, hostname=who.host, agentInfo=who.agent)
    if can.txn_types:
        request.txn_type = _TYPES.get(kind)
    answer = client.call("open_txns", request)
    return tuple(TxnId(one) for one in sorted(answer.txn_ids))


def valid_txns(client: MetastoreClient) -> ValidTxnList:
    """Return who is committed now."""
    return txn_list(client.call("get_open_txns"))


def take_snapshot(client: MetastoreClient, txn_id: TxnId) -> ValidTxnList:
    """Return who is committed now as seen by an open transaction."""
    txns = valid_txns(client)
    state = _state(txns, txn_id)
    if state != "open":
        raise not_open(txn_id, state)
    return txns


def txn_state(client: MetastoreClient, txn_id: TxnId) -> str:
    """Return open, aborted, committed or unknown.

    A metastore forgets aborted transactions that wrote nothing: those are committed as far as anybody can tell.
    """
    return _state(valid_txns(client), txn_id)


def _state(txns: ValidTxnList, txn_id: TxnId) -> str:
    if txn_id in txns.open:
        return "open"
    if txns.is_aborted(txn_id):
        return "aborted"
    return "committed" if 1 <= txn_id <= txns.high_watermark else "unknown"


def min_open_txn_id(client: MetastoreClient) -> TxnId:
    """Return the lowest open transaction id, or the next one."""
    txns = valid_txns(client)
    return txns.open[0] if txns.open else TxnId(txns.high_watermark + 1)


def valid_write_ids(
    client: MetastoreClient, txns: ValidTxnList, tables: Sequence[TableName]
) -> Mapping[TableName, ValidWriteIdList]:
    """Return the tables' lists as of a snapshot.

    A metastore forgets ids of transactions that were opened after the snapshot, where an older transaction took a
    higher one since: they would count as committed. Those that are still open or aborted are added.
    """
    lists = _lists(client, txns, tables)
    now = valid_txns(client)
    if now.high_watermark == txns.high_watermark or not lists:
        return lists
    later = _lists(client, now, tables)
    return {name: _without_young(found, later[name]) for name, found in lists.items()}


def _without_young(found: ValidWriteIdList, later: ValidWriteIdList) -> ValidWriteIdList:
    known = {*found.open, *found.aborted}
    young = [one for one in (*later.open, *later.aborted) if one <= found.high_watermark and one not in known]
    return ValidWriteIdList(found.table, found.high_watermark, (*found.open, *young), found.aborted)


def _lists(
    client: MetastoreClient, txns: ValidTxnList, tables: Sequence[TableName]
) -> dict[TableName, ValidWriteIdList]:
    found: dict[TableName, ValidWriteIdList] = {}
    wanted = list(dict.fromkeys(plain_table(name) for name in tables))
    for start in range(0, len(wanted), _MOST_TABLES):
        names = {str(name): name for name in wanted[start : start + _MOST_TABLES]}
        request = protocol.GetValidWriteIdsRequest(fullTableNames=list(names), validTxnList=sent(txns))
        for one in client.call("get_valid_write_ids", request).tblValidWriteIds:
            table = names.get(one.fullTableName.lower())
            if table is not None:
                found[table] = write_id_list(table, one)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise StoreError(f"the metastore gave no write ids of {missing[0]}")
    return found


def note_reading(
    client: MetastoreClient, can: Capabilities, txn_id: TxnId, lists: Sequence[ValidWriteIdList]
) -> None:
    """Tell a metastore of Hive 4 the lowest write id of each table that a transaction does not see for sure.

    With ``metastore.txn.use.minhistorywriteid`` its cleaner waits for that and not for open transactions; without, the
    call does nothing. Hive does the same (``DbTxnManager.addWriteIdsToMinHistory``).
    """
    if not can.txn_types or not lists:
        return
    lowest = {str(one.table): int(one.min_open or one.high_watermark + 1) for one in lists}
    client.call("add_write_ids_to_min_history", txn_id, lowest)


def allocate_write_ids(
    client: MetastoreClient, txn_ids: Sequence[TxnId], table: TableName
) -> tuple[WriteId, ...]:
    """Give each open transaction its write id, the same one if asked again."""
    plain_table(table)
    if not txn_ids:
        return ()
    wanted = sorted(set(txn_ids))
    try:
        given = _allocated(client, wanted, table)
    except (
        HiveAcidError
    ):  # for one that has ended, and for some that have their ids, no version has good words
        txns = valid_txns(client)
        for txn_id in wanted:
            state = _state(txns, txn_id)
            if state != "open":
                raise not_open(txn_id, state) from None
        if len(wanted) == 1:
            raise
        given = {}
        for txn_id in wanted:
            given |= _allocated(client, [txn_id], table)
    return tuple(given[one] for one in txn_ids)


def _allocated(client: MetastoreClient, txn_ids: Sequence[TxnId], table: TableName) -> dict[int, WriteId]:
    request = protocol.AllocateTableWriteIdsRequest(
        dbName=table.database, tableName=table.name, txnIds=list(txn_ids)
    )
    answer = client.call("allocate_table_write_ids", request)
    given = {int(one.txnId): WriteId(one.writeId) for one in answer.txnToWriteIds}
    if not set(given).issuperset(txn_ids):
        raise StoreError(
            f"the metastore gave write ids of {table} to {sorted(given)}, not to {list(txn_ids)}"
        )
    return given


def heartbeat(client: MetastoreClient, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
    """Say that transactions are alive; a call for each run of ids, so that nobody else's are kept alive."""
    aborted: set[int] = set()
    missing: set[int] = set()
    for low, high in _runs(sorted(set(txn_ids))):
        answer = client.call("heartbeat_txn_range", protocol.HeartbeatTxnRangeRequest(min=low, max=high))
        aborted |= answer.aborted or set()
        missing |= answer.nosuch or set()
    return HeartbeatAnswer(tuple(map(TxnId, sorted(aborted))), tuple(map(TxnId, sorted(missing))))


def _runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    low = high = None
    for one in ids:
        if low is None or high is None or one != high + 1:
            if low is not None and high is not None:
                yield low, high
            low = one
        high = one
    if low is not None and high is not None:
        yield low, high


def commit(client: MetastoreClient, txn_id: TxnId, *, wrote: bool) -> None:
    """Commit. A lost answer is asked for again: a metastore tells who committed already that all is well.

    Conflicts are always looked for: who waited for a lock may be refused although it saw everything, and tries
    again; without being asked, a metastore that knows ``exclWriteEnabled`` looks for none: Hive 4, and vendors' builds
    that call themselves 3.1. Hive 3.1 itself always looks, and passes over fields that it does not know.
    ``wrote``: whether there is anything to lose; a metastore that has forgotten the transaction may have aborted it and
    cleaned up.
    """
    request = protocol.CommitTxnRequest(txnid=txn_id, exclWriteEnabled=False)
    try:
        client.call("commit_txn", request)
    except CommitStateUnknownError as lost:
        try:
            client.call("commit_txn", request)
        except NoSuchTransactionError:
            if wrote:
                raise lost from None
        except StoreError:  # "not there", or "no ticket", would say that nothing happened
            if wrote:
                raise lost from None
            raise
    except NoSuchTransactionError as error:
        if wrote or txn_state(client, txn_id) != "committed":
            raise NoSuchTransactionError(
                f"transaction {txn_id} is not known: it was never opened, or ended long ago"
            ) from error


def abort_txns(client: MetastoreClient, txn_ids: Sequence[TxnId]) -> tuple[TxnId, ...]:
    """Abort those that are open; return them. One by one: an answer about many would not say which."""
    running = set(valid_txns(client).open)
    ended = []
    for txn_id in sorted(set(txn_ids) & running):
        try:
            client.call("abort_txn", protocol.AbortTxnRequest(txnid=txn_id))
        except (NoSuchTransactionError, TransactionAbortedError, TransactionStateError):
            continue  # it ended meanwhile
        ended.append(txn_id)
    return tuple(ended)


def show_transactions(client: MetastoreClient) -> tuple[TransactionRow, ...]:
    """List open and aborted transactions by id."""
    rows = client.call("get_open_txns_info").open_txns
    return tuple(
        TransactionRow(
            TxnId(one.id),
            _STATES.get(one.state, "OPEN"),
            one.startedTime or 0,
            one.lastHeartbeatTime or 0,
            one.user or "",
            one.hostname or "",
        )
        for one in sorted(rows, key=lambda one: int(one.id))
    )

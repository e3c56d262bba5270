"""Locks of a metastore. A lock request also announces the writes: without that, no conflict is looked for.

A lock's component names the operation, and the metastore records it (``TXN_COMPONENTS``) when the request is queued.
The record also keeps an aborted transaction's write id from being forgotten while its files may lie somewhere. It has
to be there before the first file is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiveacid.core.model import LockId, TableDefinition, TableKind, TableName, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import StoreError, TransactionStateError
from hiveacid.ports.transactions import Client, LockAnswer, LockRow
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.definitions import plain_database, plain_partition, plain_table
from hiveacid.stores.hms.metastores import Capabilities
from hiveacid.stores.hms.thrift_structs import ThriftStruct
from hiveacid.stores.refusals import lock_in_use, request_gone

OPERATIONS = {"i": 2, "u": 3, "d": 4}  # DataOperationType
_SELECT, _NO_TXN = 1, 6
_DATABASE, _TABLE, _PARTITION = 1, 2, 3  # LockLevel
_STATES = {1: LockState.ACQUIRED, 2: LockState.WAITING, 4: LockState.NOT_ACQUIRED}
_TYPE_NAMES = {1: "SHARED_READ", 2: "SHARED_WRITE", 3: "EXCLUSIVE", 4: "EXCL_WRITE"}

FindTable = Callable[[TableName], TableDefinition | None]


@dataclass(frozen=True)
class Requests:
    """Builder of lock requests, for one generation of metastores and with the tables' definitions."""

    capabilities: Capabilities
    find: FindTable

    def component(self, component: LockComponent) -> ThriftStruct:
        """Convert a component to the metastore's struct."""
        plain_database(component.database)
        if component.table is None:
            return protocol.LockComponent(
                type=self.capabilities.locks[component.type],
                level=_DATABASE,
                dbname=component.database,
                operationType=_NO_TXN,
                isTransactional=False,
                isDynamicPartitionWrite=False,
            )
        name = plain_table(TableName(component.database, component.table))
        message = protocol.LockComponent(
            type=self.capabilities.locks[component.type],
            level=_TABLE if component.partition is None else _PARTITION,
            dbname=component.database,
            tablename=component.table,
            partitionname=plain_partition(component.partition),
            operationType=_SELECT if component.type is LockType.SHARED_READ else _NO_TXN,
            isTransactional=False,
            isDynamicPartitionWrite=False,
        )
        if component.operation is not None:
            self._writing(message, component, self.find(name))
        return message

    def _writing(
        self, message: ThriftStruct, component: LockComponent, table: TableDefinition | None
    ) -> None:
        # A missing table is being created (CREATE TABLE AS); only transactional ones announce an operation.
        if table is not None and table.kind is TableKind.PLAIN:
            return
        message.isTransactional = True
        message.operationType = OPERATIONS[component.operation or "u"]
        partitioned = table is not None and bool(table.partition_columns)
        if partitioned and component.partition is None:
            if self.capabilities.dynamic_rows:
                message.isDynamicPartitionWrite = True
            else:  # a record without conflicts; the records of the partitions follow before the commit
                message.operationType = OPERATIONS["i"]
        if (
            self.capabilities.shared_inserts
            and component.operation == "i"
            and component.type is LockType.SHARED_WRITE
        ):
            message.type = self.capabilities.locks[LockType.SHARED_READ]


class MetastoreLocks:
    """Implements :class:`hiveacid.ports.transactions.LockPort` except for new requests, which also record writes."""

    client: MetastoreClient
    capabilities: Capabilities
    _txn_client: Client

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """Check a waiting request again."""
        try:
            answer = self.client.call("check_lock", protocol.CheckLockRequest(lockid=lock_id))
        except TransactionStateError as error:
            raise request_gone(lock_id) from error
        return self._answered(answer)

    def unlock(self, lock_id: LockId) -> None:
        """Withdraw a waiting request; one that is gone is not an error. An acquired one ends with its transaction."""
        try:
            self.client.call("unlock", protocol.UnlockRequest(lockid=lock_id))
        except TransactionStateError as error:
            components = [row for row in self.show_locks() if row.lock_id.startswith(f"{lock_id}.")]
            if components and components[0].txn_id is not None:
                raise lock_in_use(lock_id, components[0].txn_id) from error

    def show_locks(self) -> tuple[LockRow, ...]:
        """List locks by request."""
        answer = self.client.call("show_locks", protocol.ShowLocksRequest(isExtended=True))
        rows = sorted(answer.locks or (), key=lambda row: (row.lockid, row.lockIdInternal or 0))
        return tuple(_row(row) for row in rows)

    def _queue_request(
        self, txn_id: TxnId, components: Sequence[LockComponent], find: FindTable
    ) -> LockAnswer:
        """Queue a request and check it."""
        requests = Requests(self.capabilities, find)
        request = protocol.LockRequest(
            component=[requests.component(component) for component in components],
            txnid=txn_id,
            user=self._txn_client.user,
            hostname=self._txn_client.host,
            agentInfo=self._txn_client.agent,
        )
        return self._answered(self.client.call("lock", request))

    def _answered(self, answer: ThriftStruct) -> LockAnswer:
        lock_id = LockId(answer.lockid)
        state = _STATES.get(answer.state)
        if state is None:
            raise StoreError(f"the metastore gave up lock request {lock_id}")
        blocked_by = self._blocker(lock_id) if state is LockState.WAITING else None
        return LockAnswer(lock_id, state, blocked_by)

    def _blocker(self, lock_id: LockId) -> str | None:
        """Name the lock that a request waits for."""
        rows = {row.lock_id: row for row in self.show_locks()}
        own_lock = next(
            (row for key, row in rows.items() if key.startswith(f"{lock_id}.") and row.blocked_by), None
        )
        if own_lock is None or own_lock.blocked_by is None:
            return None
        other = rows.get(own_lock.blocked_by)
        if other is None:
            return f"lock {own_lock.blocked_by}"
        subject = ".".join(part for part in (other.database, other.table) if part)
        partition = f"/{other.partition}" if other.partition else ""
        return (
            f"lock {own_lock.blocked_by} ({other.type} on {subject}{partition}, transaction {other.txn_id})"
        )


def _row(lock: ThriftStruct) -> LockRow:
    blocked = f"{lock.blockedByExtId}.{lock.blockedByIntId}" if lock.blockedByExtId else None
    return LockRow(
        lock_id=f"{lock.lockid}.{lock.lockIdInternal or 1}",
        database=lock.dbname,
        table=lock.tablename or None,
        partition=lock.partname or None,
        state=_STATES.get(lock.state, LockState.WAITING).value,
        blocked_by=blocked,
        type=_TYPE_NAMES.get(lock.type, str(lock.type)),
        txn_id=TxnId(lock.txnid) if lock.txnid else None,
        last_heartbeat=lock.lastheartbeat or 0,
        acquired_at=lock.acquiredat or None,
        user=lock.user or "",
        host=lock.hostname or "",
        agent=lock.agentInfo or "",
    )

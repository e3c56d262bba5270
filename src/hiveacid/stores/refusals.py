"""Refusals of all stores, in the same words everywhere.

Some refuse arguments before a store reads its state, others a call that the state does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from hiveacid import errors
from hiveacid.core.compaction.queue_records import CompactionRequest, Service
from hiveacid.core.model import (
    LAST_SEED,
    DatabaseDefinition,
    LockId,
    Partition,
    TableDefinition,
    TableName,
    TxnId,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.schema.location_overlap import Place
from hiveacid.core.transactions.commit_records import StreamKey, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import CatalogError, ConfigError, TransactionStateError
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.transactions import Client, Start, TxnKind, Written
from hiveacid.stores.limits import Limits

_Definition: TypeAlias = TableDefinition | ViewDefinition | DatabaseDefinition

CONFLICT = "50003"
"""Reason code of an abort by a write conflict (``TxnErrorMsg.ABORT_WRITE_CONFLICT``)."""
TIME_OUT = "50004"
"""Reason code of an abort by the reaper (``TxnErrorMsg.ABORT_TIMEOUT``)."""
STOPPED = "stopped"
"""Reason code of an abort by the owner, whose writer has stopped. That holds for all codes but `TIME_OUT`."""


def not_open(
    txn_id: TxnId, state: str, reason: str | None = None, code: str | None = None
) -> errors.HiveAcidError:
    """Return the error for a call that needs an open transaction; ``state``: the result of ``txn_state``."""
    if state == TransactionState.UNKNOWN:
        return errors.NoSuchTransactionError(
            f"transaction {txn_id} is not known: it was never opened, or ended long ago"
        )
    if state != TransactionState.ABORTED:
        return errors.TransactionStateError(f"transaction {txn_id} is {state} already")
    for kind in (errors.WriteConflictError, errors.StreamFencedError, errors.StreamReplayedError):
        if code == kind.code and reason is not None:
            return kind(reason)
    suffix = "" if not reason else f": {reason}"
    return errors.TransactionAbortedError(
        f"transaction {txn_id} was aborted{suffix}; open a new one and start over"
    )


def require_same_table(
    existing: TableDefinition, changed: TableDefinition, seen: TableDefinition | None = None
) -> None:
    """Raise WriteConflictError for a changed definition that was read from an earlier table of the same name.

    ``seen``: as in `require_unchanged`.
    """
    if changed.incarnation and not existing.is_same_table(changed):
        raise errors.WriteConflictError(
            f"{existing.name} was dropped and created again meanwhile; nothing was changed: run the statement again"
        )
    require_unchanged(existing, seen)


def require_unchanged(existing: _Definition | None, seen: _Definition | None) -> None:
    """Raise WriteConflictError unless a definition is still the one that the caller has changed (``seen``; None: any)."""
    if seen is not None and existing != seen:
        raise errors.WriteConflictError(altered_meanwhile(seen.name))


def altered_meanwhile(name: TableName | str) -> str:
    """Return the reason why a change of a definition is refused that is not the present one any more."""
    return f"{name} was altered meanwhile by another client; nothing was changed: run the statement again"


def read_only(txn_id: TxnId) -> errors.HiveAcidError:
    """Return the error raised when a read-only transaction is asked to write."""
    return errors.TransactionStateError(f"transaction {txn_id} is read-only and may not write")


def too_many_open(limit: int) -> errors.HiveAcidError:
    """Return the error for a transaction beyond hive.max.open.txns."""
    return errors.TransactionError(f"hive.max.open.txns allows {limit} open transactions and no more")


def request_gone(lock_id: LockId) -> errors.HiveAcidError:
    """Return the error for a lock request that is no longer there."""
    return errors.TransactionStateError(
        f"lock request {lock_id} is not there: it was withdrawn, or its transaction ended"
    )


def lock_in_use(lock_id: LockId, txn_id: TxnId) -> errors.HiveAcidError:
    """Return the error for a lock that must not be released before its transaction ends."""
    return errors.TransactionStateError(
        f"lock request {lock_id} protects what transaction {txn_id} wrote; it ends with the transaction"
    )


def ids_given(table: TableName) -> errors.HiveAcidError:
    """Return the error raised when write ids are seeded too late."""
    return errors.TransactionStateError(f"{table} has write ids already; they cannot be seeded any more")


def timed_out(seconds: float) -> str:
    """Return the reason of an abort by the reaper."""
    return f"no heartbeat for more than hive.txn.timeout ({seconds:g} s)"


def scheduled(request: CompactionRequest, state: str, compaction_id: int) -> errors.HiveAcidError:
    """Return the error for a compaction that is queued or running (Hive's words)."""
    partition = "" if request.partition is None else f"/{request.partition}"
    return errors.CompactionRefusedError(
        f"Compaction is already scheduled with state='{state}' and id={compaction_id} "
        f"for {request.table}{partition}"
    )


def no_compaction(compaction_id: int) -> errors.HiveAcidError:
    """Return the error for an unknown compaction."""
    return errors.CompactionError(f"compaction {compaction_id} is not known")


def compaction_not_working(compaction_id: int, state: str) -> errors.HiveAcidError:
    """Return the error for the start of a job that no worker has claimed."""
    return errors.TransactionStateError(f"compaction {compaction_id} is {state}, not working")


def not_with_worker(compaction_id: int, worker: str) -> errors.HiveAcidError:
    """Return the error for a worker that continues a job which the store has taken from it."""
    return errors.TransactionStateError(
        f"compaction {compaction_id} is not with {worker} any more: it was silent for too long"
    )


def compaction_lost(txn_id: TxnId) -> errors.TransactionAbortedError:
    """Return the error for the commit of a compaction whose job is not its own any more."""
    return errors.TransactionAbortedError(
        f"the compaction of transaction {txn_id} was ended, or its table renamed, while it was at work, and another one may have "
        "replaced the same directories; nothing of it is visible"
    )


def not_ready_for_cleaning(compaction_id: int, state: str) -> errors.HiveAcidError:
    """Return the error for the postponed cleaning of a job that is not ready for cleaning."""
    return errors.TransactionStateError(f"compaction {compaction_id} is {state}, not ready for cleaning")


def no_database(name: str) -> errors.HiveAcidError:
    """Return the error for an unknown database."""
    return errors.NoSuchDatabaseError(f"database {name!r} does not exist")


def no_table(name: TableName) -> errors.HiveAcidError:
    """Return the error for an unknown table."""
    return errors.NoSuchTableError(f"table '{name}' does not exist")


def database_exists(name: str) -> errors.HiveAcidError:
    """Return the error for a second database of one name."""
    return errors.already_exists("database", repr(name))


def table_exists(name: TableName) -> errors.HiveAcidError:
    """Return the error for a second table of one name."""
    return errors.already_exists("table", f"'{name}'")


def no_view(name: TableName) -> errors.HiveAcidError:
    """Return the error for an unknown view."""
    return errors.NoSuchTableError(f"view '{name}' does not exist")


def view_exists(name: TableName) -> errors.HiveAcidError:
    """Return the error for a table or view with the name of an existing view."""
    return errors.already_exists("view", f"'{name}'")


def location_taken(location: str, other: Place) -> errors.HiveAcidError:
    """Return the error for a database, table or partition whose location conflicts with that of another one."""
    return errors.CatalogError(
        f"the location {location} is not free: {other.owner} {other.location} is there"
    )


def misplaced_partition(table: TableName, new: Partition, existing: Partition | None) -> str:
    """Return the reason why a commit fails if another client created the same new partition at another location."""
    values = ", ".join(new.key)
    now = "was dropped again" if existing is None else f"lies in {existing.location}"
    return (
        f"another client made partition ({values}) of {table} meanwhile, and it {now}: rows written to {new.location} "
        "would not be seen; nothing was changed, run the statement again"
    )


def database_not_empty(name: str, tables: int) -> errors.HiveAcidError:
    """Return the error raised when a database that is dropped still has tables or views."""
    return errors.CatalogError(
        f"database {name!r} is not empty: it has {tables} tables and views; drop them first"
    )


LONGEST_DATABASE = 128
LONGEST_TABLE = 256
LONGEST_POOL = 64
LONGEST_QUERY = 256
LONGEST_WRITER = 256
COMPACTION_KINDS = ("minor", "major", "rebalance")


def require_storable(subject: str, value: str) -> str:
    """Return a text that every database can keep; CatalogError for NUL and lone surrogates."""
    if "\0" in value:
        raise CatalogError(f"{subject} holds a NUL character: {value!r}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CatalogError(f"{subject} is not valid Unicode: {value!r}") from error
    return value


def storable_text(value: str | None) -> str | None:
    """Return a program's text (a reason, an error) in a form that every database can keep."""
    if value is None:
        return None
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def storable_operations(operations: Sequence[TableOperation]) -> tuple[TableOperation, ...]:
    """Return operation summaries with texts that every database can keep."""
    return tuple(
        TableOperation(
            table_name(operation.table),
            replace(operation.summary, statement=storable_text(operation.summary.statement)),
        )
        for operation in operations
    )


def database_name(name: str) -> str:
    """Return the name of a database; CatalogError if it is empty, too long or holds a NUL."""
    return _name("the name of the database", name, LONGEST_DATABASE)


def table_name(name: TableName) -> TableName:
    """Return a table's name; CatalogError if a part is empty, too long or holds a NUL."""
    database_name(name.database)
    _name("the name of the table", name.name, LONGEST_TABLE)
    return name


def _name(subject: str, value: str, longest: int) -> str:
    if not value:
        raise CatalogError(f"{subject} is empty")
    if len(value) > longest:
        raise CatalogError(f"{subject} has {len(value)} characters, more than {longest}: {value[:40]!r}...")
    return require_storable(subject, value)


def partition_name(name: str | None) -> str | None:
    """Return the name of a partition or None; CatalogError if it is empty or holds a NUL."""
    if name is None:
        return None
    if not name:
        raise CatalogError("the name of the partition is empty")
    return require_storable("the name of the partition", name)


def client(one: Client) -> None:
    """Raise CatalogError for a client with texts that no store can keep."""
    for field, value in (("user", one.user), ("host", one.host), ("agent", one.agent)):
        require_storable(f"the client's {field}", value)


def open_count(count: int, limits: Limits) -> None:
    """Raise ConfigError for a number of transactions to open below 1 or above hive.txn.max.open.batch."""
    if not 1 <= count <= limits.max_open_batch:
        msg = f"{count} transactions at once: hive.txn.max.open.batch allows 1 to {limits.max_open_batch}"
        raise ConfigError(msg)


def components(request: Sequence[LockComponent]) -> tuple[LockComponent, ...]:
    """Return the components of a lock request; ConfigError if there is none or one makes no sense."""
    if not request:
        raise ConfigError("a lock request names at least one database, table or partition")
    for component in request:
        database_name(component.database)
        if component.table is not None:
            _name("the name of the table", component.table, LONGEST_TABLE)
        elif component.partition is not None:
            raise ConfigError(f"a lock on partition {component.partition!r} names no table")
        partition_name(component.partition)
    return tuple(request)


def start(wanted: Start, kind: TxnKind) -> None:
    """Check the requests of a transaction's start. Raises ConfigError, CatalogError, TransactionStateError."""
    if wanted.locks:
        components(wanted.locks)
    for name in (*wanted.tables, *wanted.writes):
        table_name(name)
    if wanted.writes and kind is TxnKind.READ_ONLY:
        raise TransactionStateError(f"a read-only transaction may not write to {wanted.writes[0]}")


def written(changes: Sequence[Written]) -> tuple[Written, ...]:
    """Return the writes without duplicates. Raises CatalogError for impossible names."""
    for write in changes:
        table_name(write.table)
        partition_name(write.partition)
    return tuple(dict.fromkeys(changes))


def seed(high_watermark: WriteId, aborted: Iterable[WriteId]) -> tuple[WriteId, ...]:
    """Return aborted ids, sorted and unique. Raises ConfigError unless they lie within 1..high watermark, or if that is too high."""
    seedable(high_watermark)
    ids = tuple(sorted(set(aborted)))
    if high_watermark < 0 or (ids and not 1 <= ids[0] <= ids[-1] <= high_watermark):
        msg = f"aborted write ids {ids[:10]} are not between 1 and the high watermark {high_watermark}"
        raise ConfigError(msg)
    return ids


def seedable(high_watermark: int) -> None:
    """Raise ConfigError for an id so high that later ids would exceed the range."""
    if high_watermark > LAST_SEED:
        msg = f"id {high_watermark} cannot be adopted: the highest id that a store counts on from is {LAST_SEED}"
        raise ConfigError(msg)


def compaction(request: CompactionRequest) -> None:
    """Raise ConfigError for an unknown kind of compaction, CatalogError for texts that no store can keep."""
    table_name(request.table)
    partition_name(request.partition)
    if request.kind not in COMPACTION_KINDS:
        msg = f"{request.kind!r} is not a kind of compaction; there are {', '.join(COMPACTION_KINDS)}"
        raise ConfigError(msg)
    pool_name(request.pool)
    require_storable("the order of the compaction", request.order_by or "")
    require_storable("the reason of the compaction", request.reason or "")
    for key, value in request.properties:
        require_storable("a property of the compaction", key + value)


def pool_name(name: str) -> str:
    """Return the name of a worker pool; CatalogError if it is empty, too long or holds a NUL."""
    return _name("the name of the worker pool", name, LONGEST_POOL)


def stream(key: StreamKey, writer: str = "-", checkpoint: str = "-") -> StreamKey:
    """Return a stream; CatalogError for a name that is empty, too long or can't be kept."""
    table_name(key.table)
    _name("the name of the stream", key.query, LONGEST_QUERY)
    _name("the writer of the stream", writer, LONGEST_WRITER)
    _name("the checkpoint of the stream", checkpoint, LONGEST_WRITER)
    return key


def service(one: Service) -> None:
    """Raise CatalogError for a service with texts that no store can keep."""
    _name("the name of the service", one.name, LONGEST_TABLE)
    _name("the kind of the service", one.kind, LONGEST_POOL)
    require_storable("the pool of the service", one.pool or "")
    require_storable("the version of the service", one.version or "")


def database(definition: DatabaseDefinition) -> None:
    """Raise CatalogError for a database with an impossible name or location."""
    database_name(definition.name)
    require_storable("the location of the database", definition.location)


def table(definition: TableDefinition) -> None:
    """Raise CatalogError for a table with an impossible name or location."""
    table_name(definition.name)
    require_storable("the location of the table", definition.location)


def partitions(ones: Sequence[Partition]) -> None:
    """Raise CatalogError for partitions with impossible values or locations."""
    for partition in ones:
        require_storable("the location of the partition", partition.location)
        for value in partition.values:
            require_storable("a partition value", value or "")


def changes(ones: CatalogChanges) -> None:
    """Raise CatalogError for impossible names in the catalog changes of a commit."""
    for definition in (*ones.tables, *ones.altered):
        table(definition)
    for name, partition in (*((new.table, new.partition) for new in ones.partitions), *ones.dropped):
        table_name(name)
        partitions([partition])
    for seeded in ones.seeded:
        table_name(seeded.table)
        seed(seeded.high_watermark, seeded.aborted)

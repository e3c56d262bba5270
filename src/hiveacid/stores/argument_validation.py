"""Validation of arguments, shared by all stores and applied before a store reads its own state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hiveacid.core.compaction.queue_records import CompactionRequest, Service
from hiveacid.core.model import (
    LAST_SEED,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableName,
    WriteId,
)
from hiveacid.core.transactions.commit_records import TableOperation
from hiveacid.core.transactions.locks import LockComponent
from hiveacid.core.transactions.stream_progress import StreamKey
from hiveacid.errors import CatalogError, ConfigError, TransactionStateError
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.transactions import Client, Start, TxnKind, Written
from hiveacid.stores.limits import Limits

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

"""`Connection`: writes a stream of rows into one table, with the API of Hive's ``HiveStreamingConnection``.

`StreamingQueryWriter` writes the batches of a streaming query through it, each exactly once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from hiveacid.catalog.opening import begin_session, open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.core.model import Column, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey, StreamProgress, batch_error
from hiveacid.errors import (
    BadRecordError,
    ConfigError,
    SchemaMismatchError,
    StreamReplayedError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore, WarehouseStore
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.streaming.records import Records, to_batches
from hiveacid.streaming.stream_target import StreamTarget, require_no_update_events
from hiveacid.streaming.stream_transaction import StreamContext, StreamTransaction
from hiveacid.table.context import require_table
from hiveacid.table.write import stream_progress
from hiveacid.table.write.write_conflicts import repeat_after_conflicts
from hiveacid.transactions.transaction import Transaction

T = TypeVar("T")
logger = logging.getLogger(__name__)

ATTEMPTS = 5
"""Number of attempts at a write whose partitions others overwrite."""
_ASK_AFTER = 1000  # ms between two questions to the store whether the transaction is open
_HARMLESS = (BadRecordError, SchemaMismatchError, ConfigError)  # raised before a call has added any row


@dataclass(frozen=True)
class Statistics:
    """Figures of a connection since it was opened (Hive's ``ConnectionStats``).

    ``records_written``: rows of committed transactions. ``bytes_written``: bytes of their files.
    """

    records_written: int = 0
    committed_transactions: int = 0
    aborted_transactions: int = 0
    bytes_written: int = 0


class Connection:
    """Writer of rows into one transactional ORC table without a Spark job: begin, write, commit.

    One thread at a time may use a connection; any number of connections may write to a table. A background thread sends
    heartbeats. If the process dies, the rows of its open transaction are never visible.
    """

    def __init__(
        self,
        table: str | TableName,
        *,
        warehouse: str | None = None,
        store: str | WarehouseStore | None = None,
        partition: Mapping[str, object] | None = None,
        agent: str = "hiveacid streaming",
        settings: Mapping[str, str] | None = None,
        overwrite: bool = False,
        fs: FileSystem | None = None,
    ) -> None:
        """Connect to a table.

        ``warehouse``, ``store``: as `hiveacid.connect` takes them; ``store`` may be an open one, which stays open.
        ``partition``: values of static partition columns; the records contain the others. ``overwrite``: a transaction's rows
        replace the rows of their partitions, or of an unpartitioned table, as INSERT OVERWRITE does. ``fs``: the storage; by
        default the disks of this machine, and object stores and HDFS as the environment gives access to them. Raises
        NoSuchTableError, UnsupportedFeatureError, ConfigError, NoSuchColumnError, SchemaMismatchError.
        """
        effective = Settings.of(settings or {})
        clock = SystemClock()
        self._own_store: WarehouseStore | None = None
        if store is None or isinstance(store, str):
            require_existing_warehouse(warehouse, store)
            store, _ = open_store(warehouse, store, effective, clock)
            self._own_store = store
        effective, transactions = begin_session(store, settings or {}, clock, agent)
        self._context = StreamContext(fs or AnyFileSystem(), store, transactions, effective)
        self._partition = dict(partition or {})
        self._overwrite = overwrite
        self._current: StreamTransaction | None = None
        self._closed = False
        self._checked: TableDefinition | None = None  # has no update events
        self._records_read = 0  # records given so far
        self._asked_at = 0  # ms
        self._busy = threading.Lock()
        self.stats = Statistics()
        self.ids: tuple[TxnId, WriteId] | None = None
        """Transaction id and write id of the transaction that was begun last (Hive's ``TxnToWriteId``)."""
        try:
            self.table = table if isinstance(table, TableName) else TableName.parse(table)
            self._target = self._look_up_target()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection; an open transaction is aborted."""
        self.close()

    def begin_transaction(self) -> None:
        """Begin a transaction, on the table as it is now.

        Raises TransactionStateError (a transaction is open already), LockTimeoutError, NoSuchTableError.
        """
        with self._exclusive():
            if self._closed:
                raise TransactionStateError("the connection is closed")
            if self._current is not None:
                raise TransactionStateError("a transaction is open: commit or abort it before the next")
            for _ in range(ATTEMPTS):
                self._target = self._look_up_target()
                begun = StreamTransaction.begin(self._context, self._target, overwrite=self._overwrite)
                if begun is not None:
                    self._current, self.ids = begun, (begun.txn.txn_id, begun.write_id)
                    self._asked_at = self._now()
                    return
        raise WriteConflictError(f"{self.table} is changed repeatedly by other clients: try later")

    def write(self, records: Records) -> int:
        """Add Arrow data or dicts to the open transaction (`streaming.records.to_batches`); return the number of rows.

        A bad record raises BadRecordError, and the call adds no row. After BadRecordError, SchemaMismatchError and
        ConfigError the transaction stays open; any other error aborts it. Raises TransactionAbortedError if the
        transaction timed out.
        """
        with self._exclusive():
            current = self._require_open()
            try:
                self._require_alive(current.txn)
                batches = to_batches(records, self._target.columns, self._records_read + 1)
                for rows in batches:
                    current.write(rows)
            except _HARMLESS:
                raise
            except BaseException as error:
                self._abort_after(current, error)
                raise
            count: int = sum(rows.num_rows for rows in batches)
            self._records_read += count
            return count

    def commit(self) -> int:
        """Make the transaction's rows visible; return their number.

        Raises TransactionAbortedError, WriteConflictError, StorageError; then no row is visible.
        Raises CommitStateUnknownError if the store's answer was lost.
        """
        with self._exclusive():
            current = self._require_open()
            try:
                rows = current.commit()
            except BaseException as error:
                self._abort_after(current, error)
                raise
            self._current = None
            self.stats = replace(
                self.stats,
                records_written=self.stats.records_written + rows,
                committed_transactions=self.stats.committed_transactions + 1,
                bytes_written=self.stats.bytes_written + current.bytes,
            )
            return rows

    def abort(self) -> None:
        """Abort the open transaction. Raises TransactionStateError if none is open."""
        with self._exclusive():
            self._require_open()
            self._abort_current("aborted by its client")

    def add_stream_progress(self, batch: StreamBatch) -> None:
        """Commit the progress of a query's batch together with the open transaction. Raises the errors of `add_batch`."""
        with self._exclusive():
            stream_progress.add_batch(self._context, self._require_open().txn, batch)

    def register_stream(
        self, query: str, run: str, checkpoint: str, *, restart: bool = False
    ) -> tuple[StreamProgress | None, StreamProgress]:
        """Register a run of a query, as `StreamingQueryWriter.register`; return the progress before and after."""
        stream = StreamKey(self.table, query)
        return stream_progress.register_stream(self._context, stream, run, checkpoint, restart=restart)

    @property
    def in_transaction(self) -> bool:
        """Tell whether a transaction is open."""
        return self._current is not None

    @property
    def store(self) -> TransactionStore:
        """Return the transaction store."""
        return self._context.transactions.store

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that the records hold: all of the table's but static partition columns."""
        return self._target.columns

    @property
    def definition(self) -> TableDefinition:
        """Return the table's definition as the last transaction began with it."""
        return self._target.table

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction; commit it at the end of the block, or abort it on an error."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self.in_transaction:
                self.abort()
            raise
        self.commit()

    def close(self) -> None:
        """Abort the open transaction, if there is one, and end the heartbeats. A second call does nothing."""
        with self._exclusive():
            if self._closed:
                return
            self._closed = True
            try:
                self._abort_current("the stream was closed")
            finally:
                self._context.transactions.heartbeats.close()
                if self._own_store is not None:
                    self._own_store.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise TransactionStateError("another thread uses this connection: open one for each")
        try:
            yield
        finally:
            self._busy.release()

    def _look_up_target(self) -> StreamTarget:
        context = self._context
        table = require_table(context.catalog, self.table)
        target = StreamTarget.of(table, self._partition, context.settings)
        if not self._overwrite and not table.is_same_table(self._checked):
            require_no_update_events(context, table)
            self._checked = table
        return target

    def _require_open(self) -> StreamTransaction:
        if self._current is None:
            raise TransactionStateError("no transaction is open: begin_transaction() comes first")
        return self._current

    def _now(self) -> int:
        return self._context.transactions.clock.now()

    def _require_alive(self, txn: Transaction) -> None:
        """Raise TransactionAbortedError if the transaction timed out; ask the store at most once a second."""
        now = self._now()
        if not 0 <= now - self._asked_at < _ASK_AFTER:
            answer = self._context.transactions.store.heartbeat([txn.txn_id])
            if answer.aborted or answer.missing:
                raise TransactionAbortedError(
                    f"transaction {txn.txn_id} was aborted (timed out, or by ABORT TRANSACTIONS); nothing of it is visible, "
                    "begin another"
                )
            self._asked_at = now
        self._context.transactions.heartbeats.check(txn.txn_id)

    def _abort_after(self, current: StreamTransaction, error: BaseException) -> None:
        """Abort the transaction. Raises TransactionAbortedError if files are missing because it had timed out."""
        try:
            lost = self._context.transactions.abort_error(current.txn, error)
        finally:
            self._abort_current(str(error)[:200] or "a write failed")
        if lost is not None:
            raise lost from error

    def _abort_current(self, reason: str) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.abort(reason)
            self.stats = replace(self.stats, aborted_transactions=self.stats.aborted_transactions + 1)


def retry_conflicts(work: str, attempt: Callable[[], T]) -> T:
    """Return the result of ``attempt``, which is called again after each WriteConflictError, `ATTEMPTS` times in all.

    ``work``: what an attempt writes, for the error. Raises WriteConflictError after the last attempt.
    """
    return repeat_after_conflicts(work, ATTEMPTS - 1, lambda _: attempt(), _attempts_exhausted)


def _attempts_exhausted(work: str, times: int, error: WriteConflictError) -> WriteConflictError:
    return WriteConflictError(
        f"{work} was tried {times} times, each time in a new transaction, and other writers overwrote the "
        f"same table or partitions first. Nothing was written. Run it again. Last conflict: {error}"
    )


@dataclass(frozen=True)
class StreamingQueryWriter:
    """Registered writer of one run of a streaming query. ``first``: this run had not registered before."""

    connection: Connection
    progress: StreamProgress
    first: bool

    @classmethod
    def register(
        cls, connection: Connection, query: str, run: str, checkpoint: str, *, restart: bool = False
    ) -> StreamingQueryWriter:
        """Register a run of the query, or let it continue.

        Raises StreamFencedError (a newer run has taken over), StreamCheckpointError (see ``core.transactions.commit_records``).
        """
        before, progress = connection.register_stream(query, run, checkpoint, restart=restart)
        return cls(connection, progress, first=before is None or before.epoch != progress.epoch)

    def deliver(self, batch_id: int, rows: Callable[[], Iterable[Records]]) -> int | None:
        """Write a batch in one transaction; return its number of rows, None if the table already has the batch.

        ``rows`` returns the arguments for `Connection.write`; it is called again if another transaction overwrote a
        partition. Raises the errors of `Connection.write` and `Connection.commit`, and StreamFencedError; then no row of
        the batch is visible.
        """
        progress = self.progress
        batch = StreamBatch(progress.stream, progress.checkpoint, progress.epoch, batch_id)
        try:
            refused = batch_error(progress, batch)
            if refused is not None:
                raise refused
            return retry_conflicts(
                f"batch {batch_id} of stream {batch.stream}", lambda: self._attempt(batch, rows())
            )
        except StreamReplayedError as replayed:
            logger.info("%s", replayed)
            return None

    def _attempt(self, batch: StreamBatch, rows: Iterable[Records]) -> int:
        connection = self.connection
        connection.begin_transaction()
        try:
            connection.add_stream_progress(batch)
            for records in rows:
                connection.write(records)
        except BaseException:
            if connection.in_transaction:
                connection.abort()
            raise
        return connection.commit()

"""`Connection`: a stream of rows into one table, in the shape of Hive's ``HiveStreamingConnection``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hiveacid.catalog.opening import open_store, require_existing_warehouse, settings_of_store
from hiveacid.config import Settings, keys
from hiveacid.core.model import TableName
from hiveacid.errors import (
    BadRecordError,
    ConfigError,
    SchemaMismatchError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.clock import SystemClock
from hiveacid.streaming.records import RecordWriter, Rejects, writer_for
from hiveacid.streaming.stream_target import StreamTarget, require_no_old_events
from hiveacid.streaming.transaction_batch import StreamContext, TransactionBatch
from hiveacid.table.context import require_table
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.transaction import Transactions, this_client

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition
    from hiveacid.core.transactions.stream_progress import StreamBatch
    from hiveacid.ports.store import TransactionStore, WarehouseStore

T = TypeVar("T")
logger = logging.getLogger(__name__)

ATTEMPTS = 5
"""Number of attempts at a write whose partitions others overwrite."""
_ASK_AFTER = 1000  # ms since the store last said that the transaction is alive
_HARMLESS = (BadRecordError, SchemaMismatchError, ConfigError)  # raised before anything of a call was taken


@dataclass(frozen=True)
class Statistics:
    """Figures of a connection since it was opened (Hive's ``ConnectionStats``).

    ``records_written``: rows of committed transactions. ``bytes_written``: of their files. Aborted transactions
    count where they were begun or left over in a batch.
    """

    records_written: int = 0
    records_rejected: int = 0
    committed_transactions: int = 0
    aborted_transactions: int = 0
    bytes_written: int = 0


class Connection:
    """Rows into one transactional ORC table without a Spark job: begin, write, commit.

    Several transactions may be opened at once (``batch_size``): they share a directory and its files, and readers
    see each as it commits. One thread at a time may use a connection; any number of connections may write to a
    table. Heartbeats go by themselves. Nothing of a transaction is visible before its commit, and nothing at all
    if the process dies.
    """

    def __init__(
        self,
        table: str | TableName,
        *,
        warehouse: str | None = None,
        store: str | WarehouseStore | None = None,
        partition: Mapping[str, object] | None = None,
        writer: RecordWriter | None = None,
        batch_size: int = 1,
        agent: str = "hiveacid streaming",
        settings: Mapping[str, str] | None = None,
        rejects: Rejects | None = None,
        overwrite: bool = False,
    ) -> None:
        """Connect to a table.

        ``warehouse``, ``store``: as `hiveacid.connect` takes them; ``store`` may be an open one, which stays open.
        ``partition``: values of static partition columns; those of the others come with the records.
        ``writer``: what the records are (Arrow data and Python dicts tell themselves). ``batch_size``:
        transactions opened at once. ``rejects``: gets bad records, which are errors otherwise. ``overwrite``: as
        INSERT OVERWRITE, a transaction's rows replace what their partitions hold, all of a table without any. Raises
        NoSuchTableError, UnsupportedFeatureError, ConfigError, NoSuchColumnError, SchemaMismatchError.
        """
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size}: a batch has at least one transaction")
        if overwrite and batch_size > 1:
            raise ConfigError("overwrite=True: each transaction is a batch of its own (batch_size=1)")
        chosen = Settings.of(settings or {})
        clock = SystemClock()
        given: Any = store
        own = given is None or isinstance(given, str)
        if own:
            require_existing_warehouse(warehouse, given)
        self._own = open_store(warehouse, given, chosen, clock)[0] if own else None
        opened: Any = self._own or given
        chosen = Settings.of(settings_of_store(opened, settings or {}))
        heartbeats = Heartbeats(opened, chosen.get(keys.TXN_TIMEOUT) / 2)
        transactions = Transactions(opened, heartbeats, clock, this_client(agent))
        self._services = StreamContext(LocalFileSystem(), opened, transactions, chosen)
        self._partition = dict(partition or {})
        self._writer = writer
        self._size = batch_size
        self._overwrite = overwrite
        self._rejects = rejects
        self._batch: TransactionBatch | None = None
        self._open = False
        self._closed = False
        self._seen = 0  # records given so far
        self._asked = 0  # ms
        self._busy = threading.Lock()
        self.stats = Statistics()
        try:
            self.table = _name(table)
            self._target = self._look()
            if writer is not None:
                writer.check(self._target.columns)
            require_no_old_events(self._services.fs, opened, opened, self._target.table)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it; a transaction that is open is aborted."""
        self.close()

    def begin_transaction(self) -> None:
        """Begin the next transaction of the batch, or open a new batch.

        Raises TransactionStateError (one is open already), LockTimeoutError, NoSuchTableError.
        """
        with self._alone():
            if self._open:
                raise TransactionStateError("a transaction is open: commit or abort it before the next")
            for _ in range(ATTEMPTS):
                if self._batch is None or self._batch.is_used_up:
                    self._renew()
                assert self._batch is not None  # noqa: S101 - `_renew`
                if self._batch.begin():
                    self._open = True
                    self._asked = self._now()
                    return
                # the table is another one by now, or was overwritten: a batch of now
                self._batch.close("the table was changed or overwritten after the batch was opened")
        raise WriteConflictError(f"{self.table} is overwritten again and again: try later")

    def write(self, records: Any) -> int:
        """Take records into the open transaction; return how many rows they made.

        A bad record is an error (BadRecordError), and then nothing of this call is taken, or goes to ``rejects``.
        Raises SchemaMismatchError, ConfigError, too, and the transaction stays open; after any other error the
        batch is aborted. Raises TransactionAbortedError where the transaction timed out.
        """
        with self._alone():
            batch = self._require_open()
            try:
                self._require_alive(batch)
                writer = self._writer or writer_for(records)
                writer.check(self._target.columns)
                found = writer.read(records, self._target.columns, self._seen + 1, self._rejects)
                for rows in found.batches:
                    batch.write(rows)
            except _HARMLESS:
                raise
            except BaseException as error:
                self._give_up(str(error))
                raise
            self._seen += found.records
            self.stats = replace(self.stats, records_rejected=self.stats.records_rejected + found.rejected)
            return sum(rows.num_rows for rows in found.batches)

    def commit(self) -> int:
        """Make the transaction's rows visible; return their number.

        Raises TransactionAbortedError, WriteConflictError, StorageError, and then nothing of it is visible and the
        batch is aborted; CommitStateUnknownError if the store's answer was lost.
        """
        with self._alone():
            batch = self._require_open()
            before = batch.bytes
            try:
                rows = batch.commit()
            except BaseException as error:
                self._give_up(str(error))
                raise
            self._open = False
            self.stats = replace(
                self.stats,
                records_written=self.stats.records_written + rows,
                committed_transactions=self.stats.committed_transactions + 1,
                bytes_written=self.stats.bytes_written + batch.bytes - before,
            )
            if batch.is_used_up:
                batch.close()
            return rows

    def abort(self) -> None:
        """Give up the open transaction; the others of the batch stay. Raises TransactionStateError without one."""
        with self._alone():
            batch = self._require_open()
            self._open = False
            batch.abort("aborted by its client")
            self._count_aborted(1)
            if batch.is_used_up:
                batch.close()

    def carry(self, batch: StreamBatch) -> None:
        """Let the progress of a query's batch go with the commit of the open transaction (``streaming.query``)."""
        with self._alone():
            self._require_open().txn.add_stream_batch(batch)

    @property
    def in_transaction(self) -> bool:
        """Tell whether a transaction is open."""
        return self._open

    @property
    def store(self) -> TransactionStore:
        """Return the store that transactions are in."""
        return self._services.transactions.store

    @property
    def definition(self) -> TableDefinition:
        """Return the table as it was when the batch in use was opened."""
        return self._target.table

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin, and commit at the end of the block, or abort on an error."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._open:
                self.abort()
            raise
        self.commit()

    @property
    def transactions(self) -> tuple[tuple[int, int], ...]:
        """Return transaction id and write id of each transaction of the batch (Hive's ``TxnToWriteId``)."""
        if self._batch is None:
            return ()
        ids = (txn.txn_id for txn in self._batch.transactions)
        return tuple(zip(map(int, ids), map(int, self._batch.write_ids), strict=True))

    def close(self) -> None:
        """Abort what is left of the batch and end the heartbeats. Safe to call twice."""
        with self._alone():
            if self._closed:
                return
            self._closed, self._open = True, False
            try:
                if self._batch is not None and not self._batch.closed:
                    self._count_aborted(self._batch.close())
            finally:
                self._services.transactions.heartbeats.close()
                if self._own is not None:
                    self._own.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise TransactionStateError("another thread uses this connection: open one for each")
        try:
            yield
        finally:
            self._busy.release()

    def _look(self) -> StreamTarget:
        return StreamTarget.of(require_table(self._services.catalog, self.table), self._partition)

    def _renew(self) -> None:
        """Open a batch on the table as it is now."""
        if self._closed:
            raise TransactionStateError("the connection is closed")
        self._target = self._look()
        self._batch = TransactionBatch.open(
            self._services, self._target, self._size, overwrite=self._overwrite
        )

    def _require_open(self) -> TransactionBatch:
        if self._batch is None or not self._open:
            raise TransactionStateError("no transaction is open: begin_transaction() comes first")
        return self._batch

    def _now(self) -> int:
        return self._services.transactions.clock.now()

    def _require_alive(self, batch: TransactionBatch) -> None:
        """Raise TransactionAbortedError where the transaction timed out; the store is asked once a second."""
        heartbeats = self._services.transactions.heartbeats
        now = self._now()
        if now - self._asked >= _ASK_AFTER:
            answer = self._services.transactions.store.heartbeat([batch.txn.txn_id])
            if answer.aborted or answer.missing:
                raise TransactionAbortedError(
                    f"transaction {batch.txn.txn_id} was aborted (timed out, or by ABORT TRANSACTIONS); nothing of it "
                    "is visible, begin another"
                )
            self._asked = now
        heartbeats.check(batch.txn.txn_id)

    def _give_up(self, reason: str) -> None:
        self._open = False
        if self._batch is not None and not self._batch.closed:
            ended = self._batch.txn.ended
            self._count_aborted(ended + self._batch.close(reason[:200] or "a write failed"))

    def _count_aborted(self, count: int) -> None:
        self.stats = replace(self.stats, aborted_transactions=self.stats.aborted_transactions + count)


def retry_conflicts(work: str, attempt: Callable[[], T]) -> T:
    """Return the result of ``attempt``, which is called again after each WriteConflictError, `ATTEMPTS` times in all.

    ``work``: what an attempt writes, for the error. Raises WriteConflictError after the last attempt.
    """
    for count in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except WriteConflictError as error:
            if count == ATTEMPTS:
                raise WriteConflictError(
                    f"{work} was tried {count} times, each time in a new transaction, and other writers overwrote the "
                    f"same table or partitions first. Nothing was written. Run it again. Last conflict: {error}"
                ) from error
            logger.info("%s lost a race; trying again", work)
    raise AssertionError  # the loop returns or raises


def _name(table: str | TableName) -> TableName:
    if isinstance(table, TableName):
        return table
    database, dot, name = table.strip().replace("`", "").rpartition(".")
    return TableName((database if dot else "default").lower(), name.lower())

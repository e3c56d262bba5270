"""Batch of transactions that are opened together (Hive's ``TransactionBatch``); each writes directories of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hiveacid.config import Settings
from hiveacid.core.format.acid_columns import BucketProperty
from hiveacid.core.model import (
    Constraint,
    TableDefinition,
    TableKind,
    WriteId,
    not_null_columns,
    null_violation,
    require_no_check,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.errors import ConstraintViolationError, StorageError, StoreError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import RecordKeys, StripeBlock, encode_rows
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.transactions import Begun, Operation, Remains
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport
from hiveacid.storage.staging import delete_staging, new_staging_directory
from hiveacid.streaming.stream_target import StreamTarget, split_by_partition_and_bucket
from hiveacid.table.cast_to_table_columns import single_batch
from hiveacid.table.partitions import PartitionValues, partition_name
from hiveacid.table.write.output_directories import OutputDirectories, known_partitions, record_written
from hiveacid.table.write.publish import PublishedFiles, StripeFile
from hiveacid.table.write.write_conflicts import insert_lock_type, is_overwritten
from hiveacid.transactions.transaction import Transaction, Transactions

logger = logging.getLogger(__name__)

_MAX_BUFFERED_BYTES = 128 << 20  # rows in memory
_BYTES_OF_ARRAY = 1000  # beside its values: a record of ten columns alone takes 9 KB
_ROWS = 1_000_000  # per batch that is encoded, in one stripe or more


@dataclass
class StreamFile:
    """Rows of one transaction for one bucket of one partition. ``buffered``: bytes of rows in memory."""

    table: TableDefinition
    codec: str
    write_id: WriteId
    values: PartitionValues
    bucket: int
    stripes: StripeFile
    buffered: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)  # rows in memory
    _rows: int = 0  # number of all rows

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, which stay in memory until `spill`."""
        self._batches.append(rows)
        self.buffered += _memory_of(rows)
        self._rows += rows.num_rows

    def join(self) -> None:
        """Join the rows in memory, because those of single records take a hundred times the memory of their values."""
        self._batches = _join_batches(self._batches)
        self.buffered = sum(map(_memory_of, self._batches))

    def spill(self) -> None:
        """Stage the rows in memory as stripes."""
        self.stripes.append(self._encode())
        self._batches, self.buffered = [], 0

    def staged(self) -> StagedFile:
        """Stage all rows; return the file. Raises StorageError if its stripes hold another number of rows than was added."""
        self.spill()
        if self.stripes.rows != self._rows:
            raise StorageError(
                f"{self._rows} rows were written to {self.stripes.path}, but its stripes hold {self.stripes.rows}; nothing "
                "was committed"
            )
        return self.stripes.staged(StagedKind.INSERTED, self.values, self.bucket)

    def _encode(self) -> Iterator[StripeBlock]:
        row = self.stripes.rows
        for batch in _join_batches(self._batches):
            keys = None
            if self.table.kind is TableKind.FULL_ACID:
                keys = RecordKeys(int(self.write_id), BucketProperty(1, self.bucket).encode(), row)
            row += batch.num_rows
            yield encode_rows(batch, self.table.columns, keys, self.codec)


def _memory_of(batch: pa.RecordBatch) -> int:
    values: int = batch.nbytes
    return values + _BYTES_OF_ARRAY * int(batch.num_columns)


def _join_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join small batches, because each batch becomes at least one stripe."""
    if len(batches) < 2:  # noqa: PLR2004 - nothing to join
        return batches
    table = pa.Table.from_batches(batches)
    return [single_batch(table.slice(offset, _ROWS)) for offset in range(0, table.num_rows, _ROWS)]


@dataclass(frozen=True)
class StreamContext:
    """Dependencies of a stream: storage, catalog, transactions, settings."""

    fs: FileSystem
    catalog: Catalog
    transactions: Transactions
    settings: Settings
    statement: str | None = None


@dataclass
class TransactionBatch:
    """``count`` transactions on one table, used one after the other.

    ``overwrite`` (only with one transaction): its rows replace the rows of their partitions, or of the whole table.
    """

    context: StreamContext
    target: StreamTarget
    transactions: list[Transaction]
    write_ids: tuple[WriteId, ...]
    index: int = -1  # of the current transaction
    closed: bool = False
    bytes: int = 0  # of committed files
    overwrite: bool = False
    _written_before: set[PartitionValues] = field(default_factory=set)  # by earlier transactions of the batch
    # of the current transaction:
    _files: dict[tuple[PartitionValues, int], StreamFile] = field(default_factory=dict)
    _outputs: OutputDirectories | None = None
    _staging: str = ""
    _constraints: tuple[Constraint, ...] = ()

    @classmethod
    def open(
        cls, context: StreamContext, target: StreamTarget, count: int, *, overwrite: bool = False
    ) -> TransactionBatch:
        """Open the transactions and allocate their write ids; all of them get heartbeats from now on."""
        work, asked_at = context.transactions, context.transactions.clock.now()
        ids = work.store.open_txns(work.client, count)
        try:
            write_ids = work.store.allocate_write_ids(ids, target.table.name)
        except BaseException:
            work.store.abort_txns(ids, "no write ids", Remains.NOTHING)
            raise
        transactions = []
        for txn_id, write_id in zip(ids, write_ids, strict=True):
            work.heartbeats.track(txn_id)
            txn = Transaction(work.store, work.heartbeats, context.settings, work.clock, txn_id)
            txn.alive_at = asked_at
            txn.record_begun(Begun(txn_id, allocated={target.table.name: write_id}))
            transactions.append(txn)
        return cls(context, target, transactions, write_ids, overwrite=overwrite)

    @property
    def txn(self) -> Transaction:
        """Return the current transaction."""
        return self.transactions[self.index]

    @property
    def write_id(self) -> WriteId:
        """Return the write id of the current transaction."""
        return self.write_ids[self.index]

    @property
    def outputs(self) -> OutputDirectories:
        """Return the directories of the current transaction, which has begun."""
        assert self._outputs is not None  # noqa: S101 - `begin`
        return self._outputs

    @property
    def is_used_up(self) -> bool:
        """Tell whether all transactions of the batch have begun, or the batch is closed."""
        return self.closed or self.index + 1 >= len(self.transactions)

    def begin(self) -> bool:
        """Begin the next transaction and take its lock.

        Returns False if the table was overwritten or changed since the batch was opened: no reader would see the rows, and
        a new batch is needed. Raises LockTimeoutError, TransactionAbortedError; then the batch is closed.
        """
        self.index += 1
        self._written_before.update(values for values, _ in self._files)
        self._files = {}
        table = self.target.table
        try:
            name, store = table.name, self.context.transactions.store
            kind = insert_lock_type(self.context.settings, store, overwrite=self.overwrite)
            operation = Operation.UPDATE if self.overwrite else Operation.INSERT
            partition = None if self.target.dynamic else partition_name(table, self.target.static)
            self.txn.lock([LockComponent(kind, name.database, name.name, partition, operation)])
            self._constraints = self.context.catalog.enabled_constraints(name)
            require_no_check(name, self._constraints)
            self._staging = new_staging_directory(table.location, self.txn.txn_id)
            self._outputs = OutputDirectories(
                self.context,
                table,
                self.txn,
                known_partitions(self.context, table, self.txn),
                self.write_id,
                {StagedKind.INSERTED: self.txn.next_statements(1)[0]},
                overwrite=self.overwrite,
                early=True,
            )
            self.txn.pending.on_abort.append(self._outputs.remove)
            return self._is_current()
        except BaseException:
            self.close("a transaction of the batch could not begin")
            raise

    def _is_current(self) -> bool:
        table = self.target.table
        now = self.context.catalog.get_table(table.name)
        if now != table or not table.is_same_table(now):
            return False
        if self.target.dynamic:
            expected = self._written_before
        else:
            expected = {self.outputs.known_partitions.values_of(self.target.static)}
        fs, store = self.context.fs, self.context.transactions.store
        locations = map(self.outputs.find_location, expected)
        return not any(is_overwritten(fs, store, table, location, self.write_id) for location in locations)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows with the target's columns. Raises ConstraintViolationError for NULL in a NOT NULL column."""
        self._require_not_null(rows)
        for values, bucket, part in split_by_partition_and_bucket(
            self.target.table, self.target.dynamic, rows
        ):
            self._file((*self.target.static, *values), bucket).add(part)
        if self._buffered > _MAX_BUFFERED_BYTES:
            for file in self._files.values():
                file.join()
            if self._buffered > _MAX_BUFFERED_BYTES // 2:
                for file in self._files.values():
                    file.spill()

    @property
    def _buffered(self) -> int:
        return sum(file.buffered for file in self._files.values())

    def _require_not_null(self, rows: pa.RecordBatch) -> None:
        names = self.target.table.partition_column_names
        static = dict(zip(names, self.target.static, strict=False))
        for column, constraint in not_null_columns(self._constraints).items():
            null = static[column] is None if column in static else rows.column(column).null_count
            if null:
                raise ConstraintViolationError(null_violation(self.target.table.name, constraint))

    def commit(self) -> int:
        """Publish the files, then commit; return the number of rows.

        Raises the errors of `Transaction.commit`, and WriteConflictError if a partition was overwritten meanwhile.
        """
        if self.overwrite and not self.target.dynamic and not self._files:
            # No rows were written: an empty base hides the rows that the table had.
            empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(self.target.table.columns))
            self._file(self.target.static, 0).add(empty)
        files = [file.staged() for file in self._files.values()]
        published, reported = PublishedFiles(), TaskReport((self._staging,), None, len(files))
        if files:
            published = self.outputs.publish(files, reported, self._staging, keep_empty=True)
        rows = published.total(StagedKind.INSERTED)
        record_written(self.outputs, published, rows, "STREAM")
        self.txn.commit()
        self.bytes += published.bytes
        self._clear_staging()
        return rows

    def abort(self, reason: str) -> None:
        """Abort the current transaction; the next one can begin."""
        self._files = {}
        self.txn.abort(reason)
        self._clear_staging()

    def close(self, reason: str = "the stream was closed") -> int:
        """Abort the remaining transactions; return their number."""
        self.closed = True
        work = self.context.transactions
        count = sum(not txn.ended for txn in self.transactions)
        if self.index >= 0 and not self.txn.ended:
            self.abort(reason)
        not_begun = [txn for txn in self.transactions if not txn.ended]
        try:
            if not_begun:
                work.store.abort_txns([txn.txn_id for txn in not_begun], reason, Remains.NOTHING)
        except StoreError as error:
            logger.warning("%d transactions are aborted later, or time out: %s", len(not_begun), error)
            work.heartbeats.enqueue_abort([txn.txn_id for txn in not_begun], reason)
        for txn in not_begun:
            txn.ended = True
            work.heartbeats.forget(txn.txn_id)
        self._files = {}
        self._clear_staging()
        return count

    def _file(self, values: PartitionValues, bucket: int) -> StreamFile:
        values = self.outputs.known_partitions.values_of(values)
        if (values, bucket) not in self._files:
            stripes = StripeFile(self.context.fs, f"{self._staging}/{len(self._files)}")
            self._files[values, bucket] = StreamFile(
                self.target.table, self.target.codec, self.write_id, values, bucket, stripes
            )
        return self._files[values, bucket]

    def _clear_staging(self) -> None:
        if self._staging:
            delete_staging(self.context.fs, self._staging)

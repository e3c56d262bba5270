"""Transaction of a stream: the staged files of its rows, which its commit publishes in directories of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hiveacid.config import Settings
from hiveacid.core.format.acid_columns import BucketProperty
from hiveacid.core.model import TableDefinition, TableKind, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.errors import StorageError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import RecordKeys, StripeBlock, encode_rows, single_batch
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.transactions import Operation, Start
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport
from hiveacid.storage.staging import delete_staging, new_staging_directory
from hiveacid.streaming.stream_target import RowConstraints, StreamTarget
from hiveacid.table.partitions import PartitionValues, partition_name
from hiveacid.table.write.output_directories import OutputDirectories, known_partitions, record_written
from hiveacid.table.write.partitions_and_buckets import split_by_partition_and_bucket
from hiveacid.table.write.publish import PublishedFiles, StripeFile
from hiveacid.table.write.write_conflicts import insert_lock_type
from hiveacid.transactions.transaction import Transaction, Transactions

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
class StreamTransaction:
    """One transaction on a table, from its lock to its commit or abort.

    ``overwrite``: its rows replace the rows of their partitions, or of the whole table.
    """

    context: StreamContext
    target: StreamTarget
    txn: Transaction
    outputs: OutputDirectories
    overwrite: bool
    bytes: int = 0  # of committed files
    _files: dict[tuple[PartitionValues, int], StreamFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the table's constraints, and name the staging directory."""
        table = self.target.table
        self._constraints = RowConstraints.of(
            table, self.context.catalog.constraints(table), self.target.static
        )
        self._staging = new_staging_directory(table.location, self.txn.txn_id)

    @classmethod
    def begin(
        cls, context: StreamContext, target: StreamTarget, *, overwrite: bool = False
    ) -> StreamTransaction | None:
        """Begin with the lock and the write id; None if the table was changed or replaced before the lock was granted.

        Raises LockTimeoutError, and UnsupportedFeatureError for a CHECK that only Spark evaluates.
        """
        table, work = target.table, context.transactions
        name = table.name
        kind = insert_lock_type(context.settings, work.store, overwrite=overwrite)
        operation = Operation.UPDATE if overwrite else Operation.INSERT
        partition = None if target.dynamic else partition_name(table, target.static)
        lock = LockComponent(kind, name.database, name.name, partition, operation)
        txn = work.begin(context.settings, start=Start((lock,), (name,), (name,)))
        try:
            now = context.catalog.get_table(name)
            if now != table or not table.is_same_table(now):
                txn.abort("the table was changed before the stream had its lock")
                return None
            outputs = OutputDirectories(
                context,
                table,
                txn,
                known_partitions(context, table, txn),
                txn.write_id(name, publishing=False),
                {StagedKind.INSERTED: txn.next_statements(1)[0]},
                overwrite=overwrite,
            )
            txn.pending.on_abort.append(outputs.remove)
            return cls(context, target, txn, outputs, overwrite)
        except BaseException:
            txn.abort("a transaction of the stream could not begin")
            raise

    @property
    def write_id(self) -> WriteId:
        """Return the write id of the rows."""
        return self.outputs.write_id

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows with the target's columns. Raises ConstraintViolationError for a row that violates a NOT NULL or CHECK."""
        self._constraints.require(rows)
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
        self.bytes = published.bytes
        delete_staging(self.context.fs, self._staging)
        return rows

    def abort(self, reason: str) -> None:
        """Abort the transaction, unless it has ended, and delete what it staged."""
        self._files = {}
        self.txn.abort(reason)
        delete_staging(self.context.fs, self._staging)

    def _file(self, values: PartitionValues, bucket: int) -> StreamFile:
        values = self.outputs.known_partitions.values_of(values)
        if (values, bucket) not in self._files:
            stripes = StripeFile(self.context.fs, f"{self._staging}/{len(self._files)}")
            self._files[values, bucket] = StreamFile(
                self.target.table, self.target.codec, self.write_id, values, bucket, stripes
            )
        return self._files[values, bucket]

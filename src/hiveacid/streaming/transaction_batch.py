"""Batch of transactions that are opened together (Hive's ``TransactionBatch``); each writes directories of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from hiveacid.config import Settings
from hiveacid.core.format.names import BaseName, DeltaName, format_bucket_file, format_original_file
from hiveacid.core.model import (
    Constraint,
    Partition,
    TableKind,
    WriteId,
    not_null_columns,
    null_violation,
    require_no_check,
)
from hiveacid.core.schema.partitions import KnownPartitions
from hiveacid.core.transactions.commit_records import NewFiles, OperationSummary
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.errors import ConstraintViolationError, StorageError, StoreError, WriteConflictError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.catalog import Catalog, NewPartition
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.transactions import Begun, Operation, Remains, Written
from hiveacid.storage.final_names import FinalNames, mark_directory, stage_version_file
from hiveacid.storage.staging import delete_staging, new_staging_directory
from hiveacid.streaming.split_by_partition_and_bucket import Values, split_by_bucket
from hiveacid.streaming.stream_file import StreamFile
from hiveacid.streaming.stream_target import StreamTarget
from hiveacid.table.cleaning.remove_dropped_files import remove_aborted
from hiveacid.table.write.conflict_checks import is_overwritten, require_no_leftovers
from hiveacid.table.write.insert_lock_type import insert_lock_type
from hiveacid.transactions.transaction import Transaction, Transactions

logger = logging.getLogger(__name__)

_MAX_BUFFERED_BYTES = 128 << 20  # rows in memory


@dataclass(frozen=True)
class StreamContext:
    """Dependencies of a stream: storage, catalog, transactions, settings."""

    fs: FileSystem
    catalog: Catalog
    transactions: Transactions
    settings: Settings


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
    _written_before: set[Values] = field(default_factory=set)  # by earlier transactions of the batch
    # of the current transaction:
    _files: dict[tuple[Values, int], StreamFile] = field(default_factory=dict)
    _partitions: KnownPartitions | None = None  # looked up once
    _written_locations: dict[Values, str] = field(default_factory=dict)
    _claimed: set[str] = field(default_factory=set)  # directories that it made
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
            txn.adopt_start(Begun(txn_id, allocated={target.table.name: write_id}))
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
    def is_used_up(self) -> bool:
        """Tell whether all transactions of the batch have begun, or the batch is closed."""
        return self.closed or self.index + 1 >= len(self.transactions)

    def begin(self) -> bool:
        """Begin the next transaction and take its lock.

        Returns False if the table was overwritten or changed since the batch was opened: no reader would see the rows, and
        a new batch is needed. Raises LockTimeoutError, TransactionAbortedError; then the batch is closed.
        """
        self.index += 1
        self._written_before.update(self._written_locations)
        self._partitions, self._files, self._written_locations, self._claimed = None, {}, {}, set()
        table = self.target.table
        try:
            name, store = table.name, self.context.transactions.store
            kind = insert_lock_type(self.context.settings, store, overwrite=self.overwrite)
            lock = LockComponent(
                kind, name.database, name.name, self.target.static_partition_name, self._operation
            )
            self.txn.lock([lock])
            self._constraints = self.context.catalog.enabled_constraints(name)
            require_no_check(name, self._constraints)
            self._staging = new_staging_directory(table.location, self.txn.txn_id)
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
            expected = {self._known.values_of(self.target.static)}
        return not any(self._is_overwritten(self._location(values)) for values in expected)

    def _is_overwritten(self, location: str) -> bool:
        store = self.context.transactions.store
        return is_overwritten(self.context.fs, store, self.target.table, location, self.write_id)

    def write(self, rows: Any) -> None:
        """Add rows with the target's columns. Raises ConstraintViolationError for NULL in a NOT NULL column."""
        self._require_not_null(rows)
        for part in split_by_bucket(self.target.table, self.target.dynamic, rows):
            self._file((*self.target.static, *part.values), part.bucket).add(part.rows)
        if sum(file.buffered for file in self._files.values()) > _MAX_BUFFERED_BYTES:
            for file in self._files.values():
                file.spill()

    def _require_not_null(self, rows: Any) -> None:
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
        if self.overwrite and not self.target.dynamic and not self._written_locations:
            # No rows were written: an empty base hides the rows that the table had.
            empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(self.target.table.columns))
            self._file(self.target.static, 0).add(empty)
        # What is written after `Transaction.open_check` could lie in a table that was dropped and made again.
        for file in self._files.values():
            file.spill()
        if self._files and self.target.table.kind is TableKind.FULL_ACID:
            stage_version_file(self.context.fs, self._staging)
        self.txn.on_abort(self._remove_published)
        check = self.txn.open_check()
        check()  # without the lock, the table may have been dropped and created again
        for values, location in self._written_locations.items():
            if self._is_overwritten(location):
                raise WriteConflictError(
                    f"{self.target.table.name}: another transaction overwrote {self.target.partition_name(values) or location} "
                    "since this batch was opened, and rows written now would be lost; write them again"
                )
            if values and values not in self._known.by_values and not self.overwrite:
                committed = self.txn.committed_write_ids(self.target.table.name)
                exists = partial(self._exists_by_now, values)
                require_no_leftovers(self.context.fs, location, committed, exists)
        self.txn.published = True
        for location in self._written_locations.values():
            check()
            self._claim(location)
        final = FinalNames(self.context.fs)
        rows = dict.fromkeys(self._written_locations, 0)
        for (values, _), file in self._files.items():
            check()
            rows[values] += file.publish(final)
        self._record_writes(rows)
        size, total = sum(file.size for file in self._files.values()), sum(rows.values())
        self.txn.add_summary(
            self.target.table.name, OperationSummary("STREAM", None, total, 0, 0, len(self._files), size)
        )
        self.txn.commit()
        self.bytes += size
        self._clear_staging()
        return total

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

    def _exists_by_now(self, values: Values) -> bool:
        """Tell whether the catalog has a partition, which another writer may have created meanwhile."""
        return values in self.target.partitions(self.context.catalog).by_values

    @property
    def _known(self) -> KnownPartitions:
        if self._partitions is None:
            if self.target.table.partition_columns:  # first, for `require_no_leftovers`
                self.txn.committed_write_ids(self.target.table.name)
            self._partitions = self.target.partitions(self.context.catalog)
        return self._partitions

    def _location(self, values: Values) -> str:
        """Return the location of a partition; a new one lies below the table."""
        location = self.target.table.location
        if not values:
            return location
        existing = self._known.by_values.get(values)
        return existing.location if existing else f"{location}/{self.target.partition_name(values)}"

    @property
    def _operation(self) -> Operation:
        return Operation.UPDATE if self.overwrite else Operation.INSERT

    @property
    def _directory(self) -> str:
        if self.overwrite:
            return BaseName(self.write_id).format()
        return DeltaName(False, self.write_id, self.write_id, 0).format()  # noqa: FBT003 - no delete delta

    def _file(self, values: Values, bucket: int) -> StreamFile:
        values = self._known.values_of(values)
        location = self._written_locations.setdefault(values, self._location(values))
        key = values, bucket
        if key not in self._files:
            table = self.target.table
            acid = table.kind is TableKind.FULL_ACID
            name = format_bucket_file(bucket) if acid else format_original_file(bucket)
            staged, path = f"{self._staging}/{len(self._files)}", f"{location}/{self._directory}/{name}"
            self._files[key] = StreamFile(
                self.context.fs, table, self.target.codec, self.write_id, bucket, staged, path
            )
        return self._files[key]

    def _claim(self, location: str) -> None:
        """Make the transaction's directory at a location; nobody else may have made it."""
        directory = f"{location}/{self._directory}"
        if not self.context.fs.claim_directory(directory, self._staging):
            raise StorageError(
                f"cannot write {self.target.table.name}: another writer has made {directory}; write the rows again"
            )
        self._claimed.add(directory)
        if self.target.table.kind is TableKind.FULL_ACID:
            mark_directory(self.context.fs, directory, self._staging)

    def _record_writes(self, rows: Mapping[Values, int]) -> None:
        """Record the written and the new partitions in the transaction; ``rows``: new rows of each."""
        name = self.target.table.name
        self.txn.add_written(
            [
                Written(
                    name, self.target.partition_name(values), self._operation, rows[values], self.overwrite
                )
                for values in self._written_locations
            ],
            [
                NewPartition(name, Partition(values, location))
                for values, location in self._written_locations.items()
                if values and values not in self._known.by_values
            ],
            files=[
                NewFiles(name, values, self._paths(values), self.overwrite)
                for values in self._written_locations
            ],
        )

        if self.overwrite:
            self.txn.add_overwritten(name, self._written_locations)

    def _paths(self, values: Values) -> tuple[str, ...]:
        return tuple(file.path for (of, _), file in self._files.items() if of == values)

    def _remove_published(self) -> None:
        """Delete the directories that an aborted transaction made (`remove_aborted`)."""
        remove_aborted(self.context, self.target.table, self._claimed)

    def _clear_staging(self) -> None:
        if self._staging:
            delete_staging(self.context.fs, self._staging)

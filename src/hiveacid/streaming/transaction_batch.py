"""Batch of transactions that are opened together and share files (Hive's ``TransactionBatch``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from hiveacid.config import Settings
from hiveacid.core.format.names import (
    ACID_VERSION_FILE,
    BaseName,
    DeltaName,
    format_bucket_file,
    format_original_file,
)
from hiveacid.core.model import Partition, TableKind, WriteId
from hiveacid.core.schema.constraints import Constraint, not_null_columns, null_violation, require_no_check
from hiveacid.core.schema.partitions import KnownPartitions
from hiveacid.core.transactions.commit_records import NewFiles, OperationSummary
from hiveacid.core.transactions.locks import LockComponent
from hiveacid.errors import (
    ConstraintViolationError,
    HiveAcidError,
    StorageError,
    StoreError,
    WriteConflictError,
)
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.catalog import Catalog, NewPartition
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.transactions import Begun, Operation, Remains, Written
from hiveacid.storage.staging import delete_staging, new_staging_directory
from hiveacid.streaming.growing_file import GrowingFile
from hiveacid.streaming.split_by_partition_and_bucket import Values, split_by_bucket
from hiveacid.streaming.stream_target import StreamTarget
from hiveacid.table.cleaning.remove_dropped_files import lock_against_drop, remove_aborted
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
    bytes: int = 0  # written to files
    overwrite: bool = False
    _files: dict[tuple[Values, int], GrowingFile] = field(default_factory=dict)
    _partitions: KnownPartitions | None = None  # looked up once a transaction
    _written_locations: dict[Values, str] = field(default_factory=dict)  # of the current transaction
    _claimed: set[str] = field(default_factory=set)  # directories that this batch made
    _check: Callable[[], None] = field(default=lambda: None)  # `Transaction.open_check` of the current commit
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

    @property
    def shared(self) -> bool:
        """Tell whether the transactions share files. In insert-only tables they do not, because rows have no row ids."""
        return len(self.transactions) > 1 and self.target.table.kind is TableKind.FULL_ACID

    def begin(self) -> bool:
        """Begin the next transaction and take its lock.

        Returns False if the table was overwritten or changed since the batch was opened: no reader would see the rows, and
        a new batch is needed. Raises LockTimeoutError, TransactionAbortedError; then the batch is closed.
        """
        self.index += 1
        self._partitions, self._written_locations = None, {}
        table = self.target.table
        if not self.shared:
            self._files = {}
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
        for (values, _), file in self._files.items():  # a partition may have been dropped
            if not file.path.startswith(f"{self._location(values)}/") or not self.context.fs.exists(
                file.path
            ):
                return False
        dynamic = self.target.dynamic
        written = (
            {values for values, _ in self._files} if dynamic else {self._known.values_of(self.target.static)}
        )
        return not any(self._is_overwritten(self._location(values)) for values in written)

    def _is_overwritten(self, location: str) -> bool:
        store = self.context.transactions.store
        return is_overwritten(self.context.fs, store, self.target.table, location, self.write_id)

    def write(self, rows: Any) -> None:
        """Add rows with the target's columns. Raises ConstraintViolationError for NULL in a NOT NULL column."""
        self._require_not_null(rows)
        self.txn.published = True
        for part in split_by_bucket(self.target.table, self.target.dynamic, rows):
            self._file((*self.target.static, *part.values), part.bucket).add(part.rows)
        if sum(file.buffered for file in self._files.values()) > _MAX_BUFFERED_BYTES:
            for file in self._files.values():
                file.spill(self.write_id)

    def _require_not_null(self, rows: Any) -> None:
        names = self.target.table.partition_column_names
        static = dict(zip(names, self.target.static, strict=False))
        for column, constraint in not_null_columns(self._constraints).items():
            null = static[column] is None if column in static else rows.column(column).null_count
            if null:
                raise ConstraintViolationError(null_violation(self.target.table.name, constraint))

    def commit(self) -> int:
        """Flush the files, then commit; return the number of rows.

        Raises the errors of `Transaction.commit`, and WriteConflictError if a partition was overwritten meanwhile.
        """
        self._check = self.txn.open_check()
        self._check()  # without the lock, the table may have been dropped and created again
        self.txn.published = True
        if not self.shared:
            self.txn.on_abort(self._remove_published)
        if self.overwrite and not self.target.dynamic and not self._written_locations:
            # No rows were written: an empty base hides the rows that the table had.
            empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(self.target.table.columns))
            self._file(self.target.static, 0).add(empty)
        for values, location in self._written_locations.items():
            if self._is_overwritten(location):
                raise WriteConflictError(
                    f"{self.target.table.name}: another transaction overwrote {self.target.partition_name(values) or location} "
                    "since this batch was opened, and rows written now would be lost; write them again"
                )
            if values and values not in self._known.by_values and not self.overwrite:
                committed = self.txn.committed_write_ids(self.target.table.name)
                exists = partial(self._exists_by_now, values)
                require_no_leftovers(self.context.fs, location, committed, self.write_id, exists)
            self._claim(location)
        before = self._bytes_written()
        flushed = dict.fromkeys(self._written_locations, 0)
        for (values, _), file in self._files.items():
            flushed[values] = flushed.get(values, 0) + file.flush(self.write_id)
        rows = sum(flushed.values())
        self._record_writes(flushed)
        added = self._bytes_written() - before
        self.txn.add_summary(
            self.target.table.name, OperationSummary("STREAM", None, rows, 0, 0, len(self._files), added)
        )
        self.txn.commit()
        self.bytes += added
        self._clear_staging()
        return rows

    def abort(self, reason: str) -> None:
        """Abort the current transaction; the next one can begin."""
        for file in self._files.values():
            file.forget()
        self._files = {key: file for key, file in self._files.items() if file.published}
        self.txn.abort(reason)
        self._clear_staging()

    def close(self, reason: str = "the stream was closed") -> int:
        """Abort the remaining transactions and seal the files; return the number of aborted transactions."""
        self.closed = True
        work = self.context.transactions
        open_txns = [txn for txn in self.transactions if not txn.ended]
        if open_txns and self.index >= 0 and not self.txn.ended:
            self.abort(reason)
        still_open = [txn for txn in open_txns if not txn.ended]
        # A shared directory without a committed row is deleted as a whole, if all its ids stay aborted.
        wrote_in_vain = not self.bytes and any(txn.published for txn in self.transactions)
        remains = Remains.FILES if wrote_in_vain else Remains.NOTHING
        try:
            if still_open:
                work.store.abort_txns([txn.txn_id for txn in still_open], reason, remains)
        except StoreError as error:
            logger.warning("%d transactions are aborted later, or time out: %s", len(still_open), error)
            work.heartbeats.enqueue_abort([txn.txn_id for txn in still_open], reason)
        for txn in still_open:
            txn.ended = True
            work.heartbeats.forget(txn.txn_id)
        try:
            self._seal()
        except HiveAcidError as error:  # readers keep using the side files
            logger.warning("files of %s keep their side files: %s", self.target.table.name, error)
        self._files = {}
        self._clear_staging()
        return len(open_txns)

    def _seal(self) -> None:
        """Seal the files under a lock, unless the table was dropped and created again: its files may have the same names."""
        shared = [file for file in self._files.values() if file.has_side_file]
        table = self.target.table
        if not shared:
            return
        with lock_against_drop(self.context, table.name) as held:
            if held is None or not table.is_same_table(self.context.catalog.get_table(table.name)):
                return
            for file in shared:
                held.require_open_in_store()
                file.seal()

    def _bytes_written(self) -> int:
        return sum(file.written for file in self._files.values())

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
        if self.shared:
            return DeltaName(False, self.write_ids[0], self.write_ids[-1], None).format()  # noqa: FBT003
        return DeltaName(False, self.write_id, self.write_id, 0).format()  # noqa: FBT003 - no delete delta

    def _file(self, values: Values, bucket: int) -> GrowingFile:
        values = self._known.values_of(values)
        location = self._written_locations.setdefault(values, self._location(values))
        key = values, bucket
        if key not in self._files:
            table = self.target.table
            acid = table.kind is TableKind.FULL_ACID
            name = format_bucket_file(bucket) if acid else format_original_file(bucket)
            self._files[key] = GrowingFile(
                self.context.fs,
                table,
                self.target.codec,
                path=f"{location}/{self._directory}/{name}",
                staged=f"{self._staging}/{len(self._files)}",
                bucket=bucket,
                acid=acid,
                shared=self.shared,
                require_open=self._require_open,
            )
        return self._files[key]

    def _require_open(self) -> None:
        self._check()

    def _claim(self, location: str) -> None:
        """Make the directory of the transaction, or of the batch, at a location; nobody else may have made it."""
        directory = f"{location}/{self._directory}"
        if directory in self._claimed:
            return
        version = f"{self._staging}/version"  # moved below: written later, it could lie in a table made again
        self.context.fs.write_bytes(version, b"2")
        self._check()
        if not self.context.fs.claim_directory(directory, self._staging):
            raise StorageError(
                f"cannot write {self.target.table.name}: another writer has made {directory}; write the rows again"
            )
        self._claimed.add(directory)
        if self.target.table.kind is TableKind.FULL_ACID:
            self.context.fs.move_file(version, f"{directory}/{ACID_VERSION_FILE}")

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
        directories = {f"{location}/{self._directory}" for location in self._written_locations.values()}
        remove_aborted(self.context, self.target.table, directories & self._claimed)

    def _clear_staging(self) -> None:
        if self._staging:
            delete_staging(self.context.fs, self._staging)

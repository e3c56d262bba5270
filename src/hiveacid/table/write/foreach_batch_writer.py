"""Writer for ``foreachBatch``, which writes each batch of a streaming query exactly once."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.commit_records import (
    StreamBatch,
    StreamKey,
    StreamProgress,
    batch_error,
    require_columns,
)
from hiveacid.ports.transactions import Operation
from hiveacid.spark.session.classic_session import in_session
from hiveacid.spark.write.column_casts import as_stored
from hiveacid.spark.write.last_changes import DELETE, OP, UPSERT, last_changes, query_id
from hiveacid.spark.write.update_delete_merge_rows import columns_to_add
from hiveacid.table.context import Context
from hiveacid.table.definition import add_missing_columns
from hiveacid.table.write.insert import InsertOptions, insert
from hiveacid.table.write.merge import TableMerger, is_exclusive
from hiveacid.table.write.stream_progress import add_batch, register_stream, stream_progress
from hiveacid.table.write.update_delete import reads_table
from hiveacid.table.write.write_conflicts import (
    change_start,
    repeat_after_conflicts,
    require_fresh_rows,
    retries_exhausted,
)
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamOptions:
    """Options of `AcidTable.stream_writer`."""

    merge_on: tuple[str, ...] = ()
    change_type: str | None = None
    sequence_by: str | None = None
    merge_schema: bool = False
    restart: bool = False
    checkpoint: str | None = None


@dataclass
class StreamWriter:
    """Writer of the batches of one streaming query: call it with a frame and a batch id. Not for several threads."""

    context: Context
    stream: StreamKey
    options: StreamOptions
    _writer: str = field(default_factory=lambda: uuid.uuid4().hex)
    _progress: StreamProgress | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Check options and table before the query starts."""
        options = self.options
        if not options.merge_on and (options.change_type or options.sequence_by):
            raise errors.ConfigError(
                "change_type= and sequence_by= need merge_on=: the columns that are a row's key"
            )
        table = self.context.require(self.table)
        if options.merge_on:
            self.context.require_full_acid(self.table, "stream_writer(merge_on=)")
        elif table.kind is TableKind.PLAIN:
            raise errors.UnsupportedFeatureError(
                f"{self.table} is not transactional: nothing would keep a batch from being written twice"
            )
        unknown = [key for key in options.merge_on if key not in table.column_names]
        if unknown:
            raise errors.no_such_column(self.table, unknown[0], table.column_names, purpose=" to merge on")

    @property
    def table(self) -> TableName:
        """Return the table that is written."""
        return self.stream.table

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch, unless the table has it already.

        Raises StreamFencedError (another copy of the query has taken over), StreamCheckpointError (another
        checkpoint), SchemaMismatchError, DataError, and WriteConflictError after
        ``hive.txn.retrysnapshot.max.count`` retries. After an error no row of the batch is visible.
        """
        if not self._busy.acquire(blocking=False):
            raise errors.ConfigError(
                f"stream {self.stream}: the writer is writing another batch; create a writer for each query"
            )
        try:
            self._write(frame, batch_id)
        except errors.StreamReplayedError as replayed:
            logger.info("%s", replayed)
        finally:
            self._busy.release()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        registration = self._register(frame)
        batch = StreamBatch(self.stream, registration.checkpoint, registration.epoch, batch_id)
        refused = batch_error(stream_progress(self.context, self.stream), batch)
        if refused is not None:
            raise refused
        if self.options.merge_schema:
            control = self._control_columns()
            add_missing_columns(
                self.context,
                self.table,
                partial(columns_to_add, frame, ignored=control),
                check=lambda edited: self._columns_of_feed(edited, frame),
            )
        max_retries = self.context.settings.get(setting_definitions.RETRY_SNAPSHOT)
        work = f"batch {batch_id} of stream {self.stream}"
        is_stale = partial(reads_table, self.context, self.table, frame)
        attempt = partial(self._write_once, frame, batch, is_stale)
        repeat_after_conflicts(work, max_retries, attempt, retries_exhausted, is_stale)

    def _write_once(self, frame: DataFrame, batch: StreamBatch, is_stale: Callable[[], bool], _: int) -> None:
        start = None
        if self.options.merge_on:  # before `_merge` reads the table
            self.context.require_full_acid(self.table, "stream_writer(merge_on=)")
            exclusive = is_exclusive(self.context, inserts=True)
            start = change_start(self.context, self.table, Operation.UPDATE, exclusive=exclusive)
        with self.context.transactions.scope(self.context.settings, start=start) as txn:
            add_batch(self.context, txn, batch)
            require_fresh_rows(txn, is_stale)
            self._write_rows(frame, txn)

    def _register(self, frame: DataFrame) -> StreamProgress:
        checkpoint = self.options.checkpoint or query_id(frame)
        if checkpoint is None:
            raise errors.ConfigError(
                "the batch does not name its checkpoint: use the writer in foreachBatch, or pass checkpoint="
            )
        if self._progress is None or self._progress.checkpoint != checkpoint:
            if self._progress is not None:
                self._writer = uuid.uuid4().hex
            restart = self.options.restart
            _, self._progress = register_stream(
                self.context, self.stream, self._writer, checkpoint, restart=restart
            )
        return self._progress

    def _control_columns(self) -> list[str]:
        """Return the columns of the feed that control a row's change (``change_type``, ``sequence_by``)."""
        columns = (self.options.change_type, self.options.sequence_by)
        return [name.lower() for name in columns if name is not None]

    def _write_rows(self, frame: DataFrame, txn: Transaction) -> None:
        frame = in_session(self.context.env, frame)  # a streaming query has a copy of the session
        if self.options.merge_on:
            self._merge(frame, txn)
            return
        table = self.context.require(self.table)
        self._columns_of_feed(table, frame)
        columns = frame.columns if self.options.merge_schema else None  # the table may have others
        insert(self.context, self.table, frame, InsertOptions(columns=columns, by_name=True), txn)

    def _merge(self, frame: DataFrame, txn: Transaction) -> None:
        table, options = self.context.require(self.table), self.options
        names = self._columns_of_feed(table, frame)
        rows = as_stored(table, frame, options.merge_on)
        sequence = (options.sequence_by or "").lower()
        stored = next((column for column in table.all_columns if column.name == sequence), None)
        changes = last_changes(rows, options.merge_on, options.change_type, options.sequence_by, stored)
        condition = " AND ".join(f"t.{quote_name(key)} <=> s.{quote_name(key)}" for key in options.merge_on)
        late = self._late(names)
        values = {name: f"s.{quote_name(name)}" for name in names}
        assignments = {name: value for name, value in values.items() if name not in options.merge_on}
        merge = TableMerger(self.context, self.table, changes, condition, txn)
        newer = "true" if late is None else f"NOT {late}"
        merge = merge.when_matched_delete(f"s.{OP} = '{DELETE}' AND {newer}")
        if assignments:
            merge = merge.when_matched_update(assignments, None if late is None else newer)
        merge.when_not_matched_insert(values, f"s.{OP} = '{UPSERT}'").execute()

    def _late(self, names: list[str]) -> str | None:
        """Return the condition that a change ``s`` is older than the row ``t``; None if the table does not keep its place."""
        column = (self.options.sequence_by or "").lower()
        if column not in names:
            return None
        change, row = f"s.{quote_name(column)}", f"t.{quote_name(column)}"
        return f"coalesce({change} < {row}, {change} IS NULL AND {row} IS NOT NULL)"

    def _columns_of_feed(self, table: TableDefinition, frame: DataFrame) -> list[str]:
        """Return the table's columns that the feed has. Raises SchemaMismatchError if the schemas do not match."""
        have, names = [name.lower() for name in frame.columns], table.column_names
        control = self._control_columns()
        needed = (*self.options.merge_on, *control, *(() if self.options.merge_schema else names))
        advice = "; merge_schema=True adds columns to the table"
        require_columns(self.table, have, (*names, *control), list(dict.fromkeys(needed)), advice)
        return [name for name in names if name in have]

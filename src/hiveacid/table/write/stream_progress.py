"""Progress of streaming queries, which commits with the rows of their batches.

hiveacid's own stores keep it. Beside a Hive Metastore it is in a transactional table, ``hiveacid_streams``, in the database of
the stream's table: the transaction of a batch also writes a row there, and a metastore commits all tables of a transaction in
one step. Each stream has a partition with one row, which each batch updates, so that of two transactions that have read the
same progress the metastore lets only one commit. Of rows that are not compacted yet the one of the highest sequence counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from hiveacid.config.property_definitions import TRANSACTIONAL
from hiveacid.core.format.acid_columns import KEY_COLUMNS, AcidColumn, BucketProperty, decode_bucket_property
from hiveacid.core.model import Column, TableDefinition, TableKind, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.transactions.commit_records import (
    StreamBatch,
    StreamKey,
    StreamProgress,
    batch_error,
    register_writer,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import AlreadyExistsError, CatalogError, WriteConflictError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import RecordKeys, encode_rows, single_batch, write_delete_events
from hiveacid.ports.store import own_store
from hiveacid.ports.transactions import Operation
from hiveacid.spark.write.staged_files import StagedKind, TaskReport
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.arrow_read.files_to_open import plan_files
from hiveacid.table.arrow_read.orc_file import OrcReader
from hiveacid.table.codec_and_writer_options import orc_codec
from hiveacid.table.context import WriterContext, layout_level, require_table
from hiveacid.table.partitions import partition_name
from hiveacid.table.write.output_directories import (
    OutputDirectories,
    change_statement_ids,
    known_partitions,
    record_written,
    staging,
)
from hiveacid.table.write.publish import stage_file
from hiveacid.table.write.write_conflicts import repeat_after_conflicts
from hiveacid.transactions.transaction import Transaction

PROGRESS_TABLE = "hiveacid_streams"
_COLUMNS = (Column("progress", "string"),)
_STREAM = Column("stream", "string")
_RETRIES = 4  # of a registration


def stream_progress(context: WriterContext, stream: StreamKey) -> StreamProgress | None:
    """Return the progress of a stream, None if it never registered a writer."""
    store = context.transactions.store
    if store.maintained_by_hiveacid():
        return own_store(store).stream_progress(stream)
    if context.catalog.get_table(TableName(stream.table.database, PROGRESS_TABLE)) is None:
        return None
    with context.transactions.scope(context.settings) as txn:
        return _StreamRow.of(context, stream, txn, None).progress


def register_stream(
    context: WriterContext, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
) -> tuple[StreamProgress | None, StreamProgress]:
    """Register a writer of a stream, as `ports.store.StreamProgressPort.register_stream`; return the progress before and after."""
    store, before = context.transactions.store, stream_progress(context, stream)
    if store.maintained_by_hiveacid():
        return before, own_store(store).register_stream(stream, writer, checkpoint, restart=restart)
    if before is not None and before == register_writer(before, stream, writer, checkpoint, restart=restart):
        return before, before

    def attempt(_: int) -> tuple[StreamProgress | None, StreamProgress]:
        with context.transactions.scope(context.settings) as txn:
            rows = _StreamRow.of(context, stream, txn, Operation.UPDATE)
            progress = register_writer(rows.progress, stream, writer, checkpoint, restart=restart)
            if progress != rows.progress:
                rows.add(progress)
            return rows.progress, progress

    return repeat_after_conflicts(
        f"the registration of stream {stream}", _RETRIES, attempt, _registrations_exhausted
    )


def _registrations_exhausted(work: str, times: int, error: WriteConflictError) -> WriteConflictError:
    return WriteConflictError(
        f"{work} was tried {times} times, and other copies of the query wrote meanwhile: {error}"
    )


def add_batch(context: WriterContext, txn: Transaction, batch: StreamBatch) -> None:
    """Let a transaction commit a batch of a stream, besides its rows.

    Beside a metastore it raises StreamReplayedError or StreamFencedError at once; hiveacid's own stores raise them at the commit.
    If another writer of the stream commits meanwhile, the commit raises WriteConflictError.
    """
    if txn.store.maintained_by_hiveacid():
        txn.pending.batch = batch
        return
    rows = _StreamRow.of(context, batch.stream, txn, Operation.UPDATE)
    refused = batch_error(rows.progress, batch)
    if refused is not None:
        raise refused
    assert rows.progress is not None  # noqa: S101 - `batch_error` refuses it
    rows.add(replace(rows.progress, last_batch_id=batch.batch_id))


@dataclass(frozen=True)
class _StreamRow:
    """Row of one stream, as a transaction sees it, and the ``sequence`` and ``key`` (none if there is no row) of its version."""

    context: WriterContext
    table: TableDefinition
    partition: str
    txn: Transaction
    sequence: int
    progress: StreamProgress | None
    key: pa.Table | None

    @classmethod
    def of(
        cls, context: WriterContext, stream: StreamKey, txn: Transaction, operation: Operation | None
    ) -> _StreamRow:
        """Lock the stream's partition, for which the cleaner of Hive 3 waits, and read it.

        ``operation``: UPDATE, to add a row; the commit then fails if another transaction with it commits before.
        """
        target = require_table(context.catalog, stream.table)
        # RENAME keeps the incarnation. A table that is dropped and made again has another one, and begins anew.
        identity = json.dumps([target.unique_id, stream.query])
        partition = hashlib.sha256(identity.encode()).hexdigest()[:32]
        table = _progress_table(context, stream.table.database)
        name = table.name
        txn.lock(
            [
                LockComponent(
                    LockType.SHARED_READ,
                    name.database,
                    name.name,
                    partition_name(table, (partition,)),
                    operation,
                )
            ]
        )
        sequence, progress, last = 0, None, None
        for text, key in _read(context, table, partition, txn):
            found = json.loads(text)
            if found["sequence"] > sequence:
                sequence, last = found["sequence"], key
                writers = tuple((str(writer), int(epoch)) for writer, epoch in found["writers"])
                progress = StreamProgress(
                    stream, found["checkpoint"], found["epoch"], found["last_batch_id"], writers
                )
        return cls(context, table, partition, txn, sequence, progress, last)

    def add(self, progress: StreamProgress) -> None:
        """Update the row, which commits with the transaction."""
        context, table, txn = self.context, self.table, self.txn
        text = json.dumps(
            {
                "sequence": self.sequence + 1,
                "query": progress.stream.query,
                "table": progress.stream.table.name,
                "checkpoint": progress.checkpoint,
                "epoch": progress.epoch,
                "last_batch_id": progress.last_batch_id,
                "writers": progress.writers,
            }
        )
        row = pa.Table.from_pylist([{"progress": text}], schema=arrow_schema(table.columns))
        level = layout_level(table, context.settings)
        outputs = OutputDirectories(
            context,
            table,
            txn,
            known_partitions(context, table, txn),
            txn.write_id(table.name, publishing=False),
            change_statement_ids(txn, level, updates_and_inserts=False),
        )
        txn.pending.on_abort.append(outputs.remove)
        write_id, statement = int(outputs.write_id), outputs.statement_ids[StagedKind.UPDATED]
        codec = orc_codec(table, context.settings, for_stream=True)
        keys = RecordKeys(write_id, BucketProperty(1, 0, statement).encode(), 0)
        blocks = [(StagedKind.UPDATED, 0, encode_rows(single_batch(row), table.columns, keys, codec))]
        if self.key is not None:
            (of_row,) = self.key.column(AcidColumn.BUCKET).to_pylist()
            ids = self.key.append_column(AcidColumn.CURRENT_WRITE_ID, pa.array([write_id], pa.int64()))
            block = write_delete_events(ids, table.columns, codec)
            blocks.append((StagedKind.DELETE, decode_bucket_property(of_row).bucket, block))
        with staging(context, table, txn) as directory:
            files = [
                stage_file(context.fs, block, f"{directory}/{kind}", kind, (self.partition,), bucket)
                for kind, bucket, block in blocks
            ]
            report = TaskReport((directory,), len(files), len(files))
            published = outputs.publish(files, report, directory)
        record_written(outputs, published, 2 - len(files), "STREAM")


def _progress_table(context: WriterContext, database: str) -> TableDefinition:
    """Return the table with the progress of a database's streams; the first stream makes it. Raises CatalogError for another table."""
    name = TableName(database, PROGRESS_TABLE)
    found = context.catalog.get_table(name)
    if found is not None:
        columns = [(column.name, column.type) for column in found.all_columns]
        expected = [(column.name, column.type) for column in (*_COLUMNS, _STREAM)]
        if found.kind is not TableKind.FULL_ACID or columns != expected or len(found.partition_columns) != 1:
            raise CatalogError(
                f"{name} is another table than the one in which the progress of streams is kept: give it another name"
            )
        return found
    home = context.catalog.get_database(database)
    if home is None:
        raise CatalogError(f"database {database} is gone, and with it the progress of its streams")
    location = f"{home.location.rstrip('/')}/{PROGRESS_TABLE}"
    properties = ((TRANSACTIONAL.name, "true"),)
    with suppress(AlreadyExistsError):  # by another stream
        context.catalog.create_table(
            TableDefinition(name, _COLUMNS, ORC, location, (_STREAM,), properties=properties)
        )
    return require_table(context.catalog, name)


def _read(
    context: WriterContext, table: TableDefinition, partition: str, txn: Transaction
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the versions of a stream's row that are still there, deleted ones too: their text and key."""
    partitions = [one for one in context.catalog.list_partitions(table.name) if one.values == (partition,)]
    write_ids, fs = txn.committed_write_ids(table.name), context.fs
    for location in list_locations(fs, table, partitions, write_ids, txn.snapshot()):
        for file in plan_files(fs, table.kind, location).rows:
            reader = OrcReader(fs, file, table, layout_level(table, context.settings))
            for stripe in range(reader.stripes):
                keys = pa.table(reader.acid_columns(stripe, KEY_COLUMNS), names=[*KEY_COLUMNS])
                texts = reader.values(stripe, ["progress"])["progress"].to_pylist()
                yield from ((text, keys.slice(number, 1)) for number, text in enumerate(texts))
    txn.require_open_in_store()

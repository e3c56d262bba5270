"""Output directories of a statement: staging directory, partition locations, names of directories and files."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from hiveacid.core.format.names import BaseName, DeltaName, LayoutLevel, format_original_file
from hiveacid.core.model import Partition, TableDefinition, TableKind, TxnId, WriteId
from hiveacid.core.schema.partitions import KnownPartitions
from hiveacid.core.snapshot.file_records import NewDirectory
from hiveacid.core.transactions.commit_records import NewFiles
from hiveacid.errors import StorageError
from hiveacid.ports.catalog import NewPartition
from hiveacid.ports.transactions import Operation, Written
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport
from hiveacid.storage.staging import delete_staging, new_staging_directory
from hiveacid.table.cleaning.remove_files import remove_aborted
from hiveacid.table.context import WriterContext
from hiveacid.table.partitions import PartitionValues, partition_name, partitions_of, require_no_leftovers
from hiveacid.table.read.visible_locations import require_table_of_snapshot
from hiveacid.table.write.publish import PublishedFiles, WriteReport, publish_transactional, reads_footers
from hiveacid.table.write.write_conflicts import require_not_overtaken
from hiveacid.transactions.transaction import Transaction


@contextmanager
def staging(context: WriterContext, table: TableDefinition, txn: Transaction) -> Iterator[str]:
    """Yield the path of a new hidden directory below the table, and delete it at the end."""
    directory = new_staging_directory(table.location, txn.txn_id)
    try:
        yield directory
    finally:
        delete_staging(context.fs, directory)


def known_partitions(context: WriterContext, table: TableDefinition, txn: Transaction) -> KnownPartitions:
    """Return the existing partitions, and those that the transaction creates. Each writer calls it under its lock.

    Raises WriteConflictError as `require_table_of_snapshot`.
    """
    require_table_of_snapshot(table, txn)
    if table.partition_columns and table.kind is not TableKind.PLAIN:  # first, for `require_no_leftovers`
        txn.committed_write_ids(table.name)
    return KnownPartitions.of(table, partitions_of(context, table, txn) or ())


@dataclass
class OutputDirectories:
    """Directories of one statement or of one transaction of a stream, by row kind and partition; it also collects new partitions.

    ``properties``: of the new partitions.
    """

    context: WriterContext
    table: TableDefinition
    txn: Transaction
    known_partitions: KnownPartitions
    write_id: WriteId
    statement_ids: dict[StagedKind, int]
    overwrite: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    used_locations: dict[PartitionValues, str] = field(default_factory=dict)
    directories: dict[str, PartitionValues] = field(default_factory=dict)
    _staging: str | None = None
    _claims: dict[str, threading.Lock] = field(default_factory=dict)  # several threads publish

    def place(self, files: Iterable[StagedFile]) -> list[StagedFile]:
        """Return staged files with the values of the partitions that they go to. Raises UnsupportedFeatureError."""
        known = self.known_partitions
        return [
            replace(file, values=known.values_of(file.values, changing=file.kind.is_delete)) for file in files
        ]

    def publish(
        self,
        files: Sequence[StagedFile],
        reported: TaskReport,
        staging: str,
        *,
        fixed: PartitionValues = (),
        keep_empty: bool = False,
    ) -> PublishedFiles:
        """Publish the files of a transactional table. ``fixed``: the partition of a statement that names one.

        ``reported``, ``staging``, ``keep_empty`` as in `publish_acid`.
        """
        check = self.begin_publishing(staging)

        def directory(kind: StagedKind, values: PartitionValues) -> str:
            return self.directory(kind, values or fixed)

        return publish_transactional(
            self.context.fs, self.table, files, directory, reported, staging, check, keep_empty=keep_empty
        )

    def begin_publishing(self, staging: str) -> Callable[[], None]:
        """Return the check of `Transaction.open_check`; directories are then moved from ``staging``, which must be there."""
        if self.context.fs.replaces_tail_in_place(staging):
            self.context.fs.make_directory(staging)
            self._staging = staging
        return self.txn.open_check()

    def location(self, values: PartitionValues) -> str:
        """Return the location of a partition (the table itself for ``()``), and remember that it is written to."""
        if not values:
            return self.table.location
        return self.used_locations.setdefault(values, self.find_location(values))

    def find_location(self, values: PartitionValues) -> str:
        """Return the location of a partition (the table itself for ``()``); a new one lies below the table."""
        if not values:
            return self.table.location
        partition = self.known_partitions.by_values.get(values)
        return (
            partition.location if partition else f"{self.table.location}/{partition_name(self.table, values)}"
        )

    def directory(self, kind: StagedKind, values: PartitionValues) -> str:
        """Return the directory for rows of a kind in a partition.

        Raises UnsupportedFeatureError if the same transaction has overwritten the partition, StorageError if another
        statement has made the directory, or for delete events of a partition that does not exist.
        """
        if kind.is_delete and values and values not in self.known_partitions.by_values:
            raise StorageError(
                f"rows of {self.table.name} were deleted from the partition {partition_name(self.table, values)}, which it "
                "does not have: this session formats the partition's value differently; nothing was changed"
            )
        self.txn.require_not_overwritten(self.table.name, [values])
        if self.overwrite:
            name = BaseName(self.write_id, TxnId(0)).format()
        else:
            statement = self.statement_ids[kind]
            name = DeltaName(kind.is_delete, self.write_id, self.write_id, statement, TxnId(0)).format()
        directory = f"{self.location(values)}/{name}"
        with self._claims.setdefault(directory, threading.Lock()):
            if directory not in self.directories:
                self._claim(directory, values)
        return directory

    def _claim(self, directory: str, values: PartitionValues) -> None:
        """Make sure that another statement's files are neither beside those of this one, nor deleted by its abort.

        Two CREATE TABLE AS SELECT with one location have the same names of directories.
        """
        self.txn.published = True
        self.txn.pending.claim(self.table.name, directory)
        if not self.context.fs.claim_directory(directory, self._staging):
            raise StorageError(
                f"cannot write {self.table.name}: another writer has made {directory}; give each new table a LOCATION "
                "of its own, and write the rows again"
            )
        self.directories[directory] = values

    def record_files(self, published: PublishedFiles) -> None:
        """Let the commit tell the store what was published (`core.snapshot.file_records`)."""
        now = self.txn.clock.now()
        made = {
            path: NewDirectory(self.directories[path], published.record(path, now))
            for path in published.directories
        }
        self.txn.pending.add_records(self.table.name, made)

    def require_not_overtaken(self) -> None:
        """Check all locations that were used (`require_not_overtaken`; `require_no_leftovers` for new partitions)."""
        for values, location in self.used_locations.items():
            if values and values not in self.known_partitions.by_values and not self.overwrite:
                committed = self.txn.committed_write_ids(self.table.name)
                exists = partial(self._exists_by_now, values)
                require_no_leftovers(self.context, self.table, location, committed, exists)
        used = list(self.used_locations.values()) if self.table.partition_columns else [self.table.location]
        require_not_overtaken(self.context.fs, self.table, self.txn, self.write_id, used)

    def _exists_by_now(self, values: PartitionValues) -> bool:
        """Tell whether the catalog has a partition, which another writer may have created meanwhile."""
        return any(partition.values == values for partition in partitions_of(self.context, self.table) or ())

    def remove(self) -> None:
        """Delete the directories that an aborted statement made (`remove_aborted`)."""
        remove_aborted(self.context, self.table, self.directories)

    def new_partitions(self) -> list[NewPartition]:
        """Return the partitions written to that the catalog does not know."""
        return [
            NewPartition(self.table.name, Partition(values, location, self.properties))
            for values, location in self.used_locations.items()
            if values not in self.known_partitions.by_values
        ]


def change_statement_ids(
    txn: Transaction, level: LayoutLevel, *, updates_and_inserts: bool
) -> dict[StagedKind, int]:
    """Take statement ids for an UPDATE, DELETE or MERGE. ``updates_and_inserts``: a MERGE that may update and insert.

    ==========================  ========  =================  =========  =========
    level                       DELETE    DELETED_BY_UPDATE  UPDATED    INSERTED
    ==========================  ========  =================  =========  =========
    hive4                       first     -                  second     third
    hive3                       first     -                  first      first
    … with updates_and_inserts  second    first              -          first
    ==========================  ========  =================  =========  =========

    hive4 has the order of Hive 4. hive3 has one id for all new rows, as Hive 3.1.3 writes an UPDATE (``delta_5_5_0000``
    beside ``delete_delta_5_5_0000``): Trino assigns a row of a bucketed table to a writer by the bucket property, which
    contains the statement id, so rows of one bucket with different ids would get two writers of one file.

    Delete events may share the id of new rows, because they name rows of earlier writes, never rows beside them. Those of
    a MERGE's updates (`StagedKind.DELETED_BY_UPDATE`) need another directory than its `StagedKind.DELETE`, and so another id.
    """
    if level is LayoutLevel.HIVE4:
        return dict(
            zip(
                (StagedKind.DELETE, StagedKind.UPDATED, StagedKind.INSERTED),
                txn.next_statements(3),
                strict=True,
            )
        )
    if updates_and_inserts:
        first, second = txn.next_statements(2)
        return {StagedKind.INSERTED: first, StagedKind.DELETED_BY_UPDATE: first, StagedKind.DELETE: second}
    return dict.fromkeys(
        (StagedKind.DELETE, StagedKind.UPDATED, StagedKind.INSERTED), txn.next_statements(1)[0]
    )


def written_partitions(
    table: TableDefinition, published: PublishedFiles, operations: dict[StagedKind, Operation]
) -> list[Written]:
    """Return the written partitions with the operation and the change of the number of rows, for the store."""
    row_counts: dict[tuple[PartitionValues, Operation], int] = defaultdict(int)
    changed = {values for kind, values in published.rows if kind.is_delete}
    for (kind, values), rows in published.rows.items():
        # A partition that only gets rows that an UPDATE moves has no conflict with other writers, as after an INSERT.
        operation = operations[kind] if values in changed else Operation.INSERT
        row_counts[values, operation] += -rows if kind.is_delete else rows
    return sorted(
        (
            Written(table.name, partition_name(table, values), operation, rows)
            for (values, operation), rows in row_counts.items()
        ),
        key=str,
    )


def new_files(
    table: TableDefinition, published: PublishedFiles, named: PartitionValues = (), *, replaced: bool = False
) -> list[NewFiles]:
    """Return the new files by partition; ``named``: values of the partition that the statement names, if any."""
    return [
        NewFiles(table.name, values or named, paths, replaced) for values, paths in published.paths.items()
    ]


def new_output_directories(
    context: WriterContext,
    table: TableDefinition,
    txn: Transaction,
    partitions: KnownPartitions,
    *,
    overwrite: bool,
) -> OutputDirectories:
    """Return the output directories of one statement; an abort of the transaction removes them."""
    write_id = WriteId(0)
    if table.kind is not TableKind.PLAIN:
        write_id = txn.write_id(table.name, publishing=False)
    statements = {StagedKind.INSERTED: txn.next_statements(1)[0]}
    outputs = OutputDirectories(context, table, txn, partitions, write_id, statements, overwrite=overwrite)
    txn.pending.on_abort.append(outputs.remove)
    return outputs


def record_written(
    outputs: OutputDirectories, published: PublishedFiles, inserted: int, verb: str
) -> WriteReport:
    """Record in the transaction the written partitions and files, the new partitions, and ``verb`` for the history."""
    table, txn, overwrite = outputs.table, outputs.txn, outputs.overwrite
    partitions = outputs.new_partitions()
    files = new_files(table, published, next(iter(outputs.used_locations), ()), replaced=overwrite)
    report = WriteReport(
        inserted=inserted, write_id=outputs.write_id or None, files=published.files, bytes=published.bytes
    )
    if table.kind is TableKind.PLAIN:
        txn.pending.add_written([], partitions, files=files)
        return report
    outputs.record_files(published)
    outputs.require_not_overtaken()
    operation = Operation.UPDATE if overwrite else Operation.INSERT
    used = outputs.used_locations or dict.fromkeys(values for _, values in published.rows)
    rows = {values: count for (_, values), count in published.rows.items()}
    if len(used) == 1:
        rows = dict.fromkeys(used, inserted)  # a partition that the statement names is not named in the files
    elif not reads_footers(table):
        rows = {}
    written = [
        Written(table.name, partition_name(table, values), operation, rows.get(values), overwrite)
        for values in used
    ]
    txn.pending.add_written(written, partitions, files=files)
    if overwrite:
        txn.pending.add_overwritten(
            table.name, {values for _, values in published.rows} | set(outputs.used_locations)
        )
    txn.pending.add_summary(table.name, report.summary(verb, outputs.context.statement))
    return report


class PlainFileNames:
    """Gives files of a plain table Hive's names, ``000000_0`` or the next ``000000_0_copy_N`` that is free."""

    def __init__(self, context: WriterContext, directory_of: Callable[[StagedFile], str]) -> None:
        """``directory_of``: the directory that a file goes to."""
        self._context = context
        self._directory_of = directory_of
        self._taken: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, number: int, file: StagedFile) -> str:
        """Return the name of a file."""
        directory = self._directory_of(file)
        with self._lock:
            if directory not in self._taken:
                self._taken[directory] = existing_names(self._context, directory)
            return take_free_name(format_original_file(number), self._taken[directory])


def existing_names(context: WriterContext, directory: str) -> set[str]:
    """Return the names in a directory; none if it does not exist."""
    if not context.fs.exists(directory):
        return set()
    return {entry.path.partition("/")[0] for entry in context.fs.list_tree(directory)}


def take_free_name(name: str, names: set[str]) -> str:
    """Return a name, or the first ``_copy_N`` of it that is not taken (before the extension), and take it."""
    stem, dot, extension = name.rpartition(".") if "." in name else (name, "", "")
    copy, free = 0, name
    while free in names:
        copy += 1
        free = f"{stem}_copy_{copy}{dot}{extension}"
    names.add(free)
    return free

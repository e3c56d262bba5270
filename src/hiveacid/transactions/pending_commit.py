"""The pending commit of a transaction: its writes, and the changes of the catalog that become visible with them.

The statements of a transaction add to it. The commit passes it to the store in one call, and an abort drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.file_records import NewDirectory, TableRecords
from hiveacid.core.transactions.commit_records import (
    NewFiles,
    OperationSummary,
    StreamBatch,
    TableOperation,
    merge_summaries,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition, SeededWriteIds
from hiveacid.ports.transactions import Client, Written


@dataclass(frozen=True)
class ReportedCommit:
    """A committed transaction. ``at``: ms since the epoch, by the writer's clock.

    ``reads``: tables of which it has read something, if only definitions of those that it wrote. ``sources``: tables of the
    rows that it wrote. ``writes``: its operations, with the write id of each table.
    """

    txn_id: TxnId
    client: Client
    at: int
    reads: frozenset[TableName]
    sources: frozenset[TableName]
    writes: tuple[tuple[TableOperation, WriteId | None], ...]


@dataclass
class PendingCommit:
    """Collects what a commit records, and what runs before it and after its end.

    ``overwritten``: partitions with a base of this transaction's write id. ``batch``: the progress of a stream.
    ``loaded``: paths of LOAD DATA's sources, which the commit removes. ``before_commit``: each may abort the transaction and
    raise. ``on_commit``: removes files that the commit replaced.
    ``on_abort``: removes files that no reader sees.
    """

    batch: StreamBatch | None = None
    overwritten: dict[TableName, set[tuple[str | None, ...]]] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    before_commit: list[Callable[[], None]] = field(default_factory=list)
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_abort: list[Callable[[], None]] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    _partitions: list[NewPartition] = field(default_factory=list)
    _files: list[NewFiles] = field(default_factory=list)
    _tables: list[TableDefinition] = field(default_factory=list)
    _altered: CatalogChanges = field(default_factory=CatalogChanges)
    _summaries: dict[TableName, OperationSummary] = field(default_factory=dict)
    _claimed: dict[TableName, set[str]] = field(default_factory=dict)
    _records: dict[TableName, dict[str, NewDirectory]] = field(default_factory=dict)

    def add_written(
        self,
        written: Sequence[Written],
        partitions: Sequence[NewPartition] = (),
        tables: Sequence[TableDefinition] = (),
        files: Sequence[NewFiles] = (),
    ) -> None:
        """Add writes and new catalog rows."""
        self.written.extend(written)
        self._partitions.extend(partitions)
        self._tables.extend(tables)
        self._files.extend(files)

    def claim(self, table: TableName, directory: str) -> None:
        """Remember that a directory (an absolute path) is being made, of which `add_records` has to tell the files."""
        self._claimed.setdefault(table, set()).add(directory)

    def add_records(self, table: TableName, directories: Mapping[str, NewDirectory]) -> None:
        """Add directories, by absolute path, with the files that were put into them; none is an answer, too."""
        self._records.setdefault(table, {}).update(directories)

    def records(self, tables: Iterable[TableName]) -> tuple[TableRecords, ...]:
        """Return the records of the tables, and of those with records, if all files of the claimed directories are told.

        ``tables``: those with a write id of the transaction.
        """
        told = {table: self._records.get(table, {}) for table in (*tables, *self._records)}
        return tuple(
            TableRecords(table, tuple(made.values()))
            for table, made in told.items()
            if self._claimed.get(table, set()) <= made.keys()
        )

    def add_overwritten(self, table: TableName, partitions: Iterable[tuple[str | None, ...]]) -> None:
        """Remember partitions with a base of this write id: readers would ignore later deltas of the same write id."""
        self.overwritten.setdefault(table, set()).update(partitions)

    def add_summary(self, table: TableName, summary: OperationSummary) -> None:
        """Add a statement's summary to the record that the table's history gets."""
        before = self._summaries.get(table)
        self._summaries[table] = summary if before is None else merge_summaries(before, summary)

    def creates_table(self, table: TableName) -> bool:
        """Tell whether the commit creates a table."""
        return any(definition.name == table for definition in self._tables)

    def new_partitions(self, table: TableName) -> list[NewPartition]:
        """Return the partitions of a table that the commit creates."""
        return [new for new in self._partitions if new.table == table]

    def withdraw(self, table: TableName) -> list[NewPartition]:
        """Let the commit tell nothing of a table whose files are its only purpose; return its partitions."""
        made = self.new_partitions(table)
        self._tables = [one for one in self._tables if one.name != table]
        self._partitions = [one for one in self._partitions if one.table != table]
        self._files = [one for one in self._files if one.table != table]
        return made

    def alter_table(
        self, table: TableDefinition, *, seen: TableDefinition | None = None, skipped: int = 0
    ) -> None:
        """Change a table's definition, and leave the next ``skipped`` write ids unused.

        ``seen``: the definition that was changed, where the lock on the table is another transaction's.
        """
        ids = ((table.name, skipped),) if skipped else ()
        self._alter(CatalogChanges(altered=(table,), seen=(seen,) if seen else (), skipped=ids))

    def adopt_table(
        self, table: TableDefinition, partitions: Iterable[Partition], write_ids: SeededWriteIds | None
    ) -> None:
        """Create a table of files that are there already, with its partitions and its write ids."""
        self._tables.append(table)
        self._partitions.extend(NewPartition(table.name, partition) for partition in partitions)
        self._alter(CatalogChanges(seeded=() if write_ids is None else (write_ids,)))

    def drop_partitions(
        self, table: TableDefinition, partitions: Iterable[Partition], *, seen: TableDefinition
    ) -> None:
        """Drop partitions and change the table's definition; ``seen`` as in `alter_table`."""
        dropped = tuple((table.name, partition) for partition in partitions)
        self._alter(CatalogChanges(altered=(table,), seen=(seen,), dropped=dropped))

    def _alter(self, changes: CatalogChanges) -> None:
        assert self._altered == CatalogChanges(), "a transaction changes one definition"  # noqa: S101
        self._altered = changes

    def catalog_changes(self) -> CatalogChanges:
        """Return the changes of the catalog."""
        return replace(
            self._altered,
            tables=tuple(self._tables),
            partitions=tuple(self._partitions),
            files=tuple(self._files),
        )

    def operations(self) -> tuple[TableOperation, ...]:
        """Return the entries of the tables' histories."""
        return tuple(TableOperation(table, summary) for table, summary in self._summaries.items())

"""Port for the catalog: databases, tables, partitions, views, and the catalog changes of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hiveacid.core.model import (
    Constraint,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableName,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.schema.location_overlap import Place
from hiveacid.core.snapshot.file_records import TableRecords
from hiveacid.core.transactions.commit_records import NewFiles


@dataclass(frozen=True)
class NewPartition:
    """A partition that becomes visible with its transaction's commit."""

    table: TableName
    partition: Partition


@dataclass(frozen=True)
class SeededWriteIds:
    """Write ids with which an adopted table begins, as of `WriteIdPort.seed_write_ids`."""

    table: TableName
    high_watermark: WriteId
    aborted: tuple[WriteId, ...] = ()


@dataclass(frozen=True)
class CatalogChanges:
    """Catalog rows that appear atomically with a commit (dynamic partitions, a CTAS or an adopted table).

    ``altered``: changed definitions. ``seen``: the definitions before those changes, where the lock on the table belongs to
    another transaction; a commit that finds other ones is a write conflict (a metastore does not look). ``skipped``: how many
    write ids of a table a conversion leaves unused. ``dropped``: partitions of DROP PARTITION. ``seeded``: not in a metastore.
    ``files``: new files to announce to other systems (notification events of a metastore). ``records``: of the tables of which
    the transaction tells all directories that it made; not in a metastore.
    """

    tables: tuple[TableDefinition, ...] = ()
    partitions: tuple[NewPartition, ...] = ()
    altered: tuple[TableDefinition, ...] = ()
    seen: tuple[TableDefinition, ...] = ()
    skipped: tuple[tuple[TableName, int], ...] = ()
    dropped: tuple[tuple[TableName, Partition], ...] = ()
    seeded: tuple[SeededWriteIds, ...] = ()
    files: tuple[NewFiles, ...] = field(default=(), compare=False)
    records: tuple[TableRecords, ...] = field(default=(), compare=False)


NO_CHANGES = CatalogChanges()
"""A commit that leaves the catalog as it is."""


class Catalog(Protocol):
    """Databases, tables, partitions. Names are lower case. Definitions are whole values."""

    def create_database(self, database: DatabaseDefinition) -> None:
        """Create a database. Raises AlreadyExistsError."""

    def places(self) -> tuple[Place, ...]:
        """Return the directories of all databases and tables, and of the partitions outside their tables'.

        A new location is compared with them before its directory is used, and again by the methods that record it, which
        raise CatalogError if it conflicts (`first_overlapping_place`). A metastore does not compare, and gives no partitions.
        """

    def alter_database(self, database: DatabaseDefinition, seen: DatabaseDefinition | None = None) -> None:
        """Replace the definition of a database of this name. ``seen``: as `alter_view`.

        Raises NoSuchDatabaseError; CatalogError for a location that is not free.
        """

    def drop_database(self, name: str) -> None:
        """Drop a database that holds neither tables nor views."""

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """Return a database's definition, None if it does not exist."""

    def list_databases(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted."""

    def create_table(self, table: TableDefinition, *, unoccupied: bool = False) -> None:
        """Create a table. Raises AlreadyExistsError, NoSuchDatabaseError; CatalogError if its location overlaps another's.

        ``unoccupied``: the caller has seen, under its lock, that the location holds no files (`core.snapshot.file_records`).
        """

    def drop_table(self, name: TableName, seen: TableDefinition | None = None) -> None:
        """Drop the definition, its partitions and all its transaction state (write ids start at 1 again).

        ``seen``: the definition that the caller read under its lock. If the name is another table's by now, as after a pause in
        which the lock was lost, WriteConflictError. A store compares it in the step that drops, a metastore just before.
        """

    def get_table(self, name: TableName) -> TableDefinition | None:
        """Return a table's definition; None if there is no table of that name, or if it is a view."""

    def constraints(self, table: TableDefinition, *, keys: bool = False) -> tuple[Constraint, ...]:
        """Return the constraints of a table, those that only inform (``keys``) if they are wanted."""

    def put_constraints(self, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
        """Replace the constraints of a table, those that inform included, under the caller's exclusive lock."""

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Return the names of a database's tables, sorted."""

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """Return a view's definition; None if there is no view of that name, or if it is a table."""

    def list_views(self, database: str) -> tuple[str, ...]:
        """Return the names of a database's views, sorted."""

    def create_view(self, view: ViewDefinition) -> None:
        """Create a view. Raises AlreadyExistsError (tables and views share one name space), NoSuchDatabaseError."""

    def alter_view(self, name: TableName, view: ViewDefinition, seen: ViewDefinition | None = None) -> None:
        """Replace a view; a new name renames it. ``seen``: as `alter_table`; a metastore compares it just before.

        Raises NoSuchTableError, AlreadyExistsError, NoSuchDatabaseError.
        """

    def drop_view(self, name: TableName) -> None:
        """Drop a view. Raises NoSuchTableError if there is no view of that name."""

    def alter_table(
        self,
        name: TableName,
        table: TableDefinition,
        *,
        replacing: TableDefinition | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """Replace a definition; a new name renames it everywhere, transaction state included.

        ``replacing``: this table, which has the new name, is dropped in the same step, as `drop_table` does. A metastore has
        no such step, and raises UnsupportedFeatureError.

        ``seen``: the definition that was changed. Raises WriteConflictError if it is not the present one: the caller's lock has
        expired. A metastore, which changes properties by itself, only compares whether it is the same table.
        """

    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        empty: bool = False,
        seen: TableDefinition | None = None,
    ) -> None:
        """Add partitions; those that exist already stay as they are. ``empty``: they hold no rows yet. ``seen``: as `drop_table`.

        Raises WriteConflictError if one exists at another location: a writer made it meanwhile.
        """

    def drop_partitions(
        self, name: TableName, partitions: Sequence[Partition], seen: TableDefinition | None = None
    ) -> None:
        """Drop partitions; their values identify them. ``seen``: as `drop_table`."""

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """Return all partitions, sorted by values."""

    def list_partition_names(self, name: TableName) -> frozenset[str]:
        """Return the names (``p=1/q=2``) of all partitions, which cost a metastore less than their definitions."""

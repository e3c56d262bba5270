"""Catalog of the reference store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.model import (
    Constraint,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.schema.location_overlap import (
    Place,
    first_overlapping_place,
    is_same_location,
    lies_in,
    place_of_database,
    place_of_partition,
    place_of_table,
)
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.transactions.commit_records import CommitRecord, OperationSummary
from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.core.transactions.states import CompactionState, TransactionState
from hiveacid.errors import WriteConflictError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.stores import refusals
from support.memory_store.state import NOBODY, MemoryBase, synchronized


class MemoryCatalog(MemoryBase):
    """Implements :class:`hiveacid.ports.catalog.Catalog`."""

    @synchronized
    def create_database(self, database: DatabaseDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        refusals.database(database)
        if database.name in self._state.databases:
            raise refusals.database_exists(database.name)
        self._require_free([place_of_database(database.name, database.location)])
        self._state.databases[database.name] = database

    @synchronized
    def alter_database(self, database: DatabaseDefinition, seen: DatabaseDefinition | None = None) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        refusals.database(database)
        old = self._state.databases.get(database.name)
        if old is None:
            raise refusals.no_database(database.name)
        refusals.require_unchanged(old, seen)
        if database.location != old.location:
            own, new = (place_of_database(one.name, one.location) for one in (old, database))
            others = [place for place in self.places() if place != own]
            taken = first_overlapping_place(new, others, str)
            if taken is not None:
                raise refusals.location_taken(new.location, taken)
        self._state.databases[database.name] = database

    @synchronized
    def drop_database(self, name: str) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchDatabaseError, or CatalogError if it has tables."""
        refusals.database_name(name)
        if name not in self._state.databases:
            raise refusals.no_database(name)
        tables = [table for table in (*self._state.tables, *self._state.views) if table.database == name]
        if tables:
            raise refusals.database_not_empty(name, len(tables))
        del self._state.databases[name]

    @synchronized
    def get_database(self, name: str) -> DatabaseDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return self._state.databases.get(refusals.database_name(name))

    @synchronized
    def list_databases(self) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tuple(sorted(self._state.databases))

    @synchronized
    def create_table(self, table: TableDefinition, *, unoccupied: bool = False) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        refusals.table(table)
        self._require_new(table)
        self._put_table(table, unoccupied=unoccupied)

    @synchronized
    def drop_table(self, name: TableName, seen: TableDefinition | None = None) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchTableError."""
        self._require_table(name, seen)
        del self._state.tables[name]
        del self._state.partitions[name]
        self._purge(name)

    @synchronized
    def get_table(self, name: TableName) -> TableDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return self._state.tables.get(refusals.table_name(name))

    @synchronized
    def list_tables(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchDatabaseError."""
        refusals.database_name(database)
        if database not in self._state.databases:
            raise refusals.no_database(database)
        return tuple(sorted(name.name for name in self._state.tables if name.database == database))

    @synchronized
    def places(self) -> tuple[Place, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        state = self._state
        return (
            *(place_of_database(name, database.location) for name, database in state.databases.items()),
            *(place_of_table(name, table.location) for name, table in state.tables.items()),
            *(
                place_of_partition(name, partition.location)
                for name, partitions in state.partitions.items()
                for partition in partitions.values()
                if partition.location in state.outside
            ),
        )

    @synchronized
    def get_view(self, name: TableName) -> ViewDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return self._state.views.get(refusals.table_name(name))

    @synchronized
    def list_views(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchDatabaseError."""
        refusals.database_name(database)
        if database not in self._state.databases:
            raise refusals.no_database(database)
        return tuple(sorted(name.name for name in self._state.views if name.database == database))

    @synchronized
    def create_view(self, view: ViewDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        refusals.table_name(view.name)
        self._require_room(view.name)
        self._state.views[view.name] = view

    @synchronized
    def alter_view(self, name: TableName, view: ViewDefinition, seen: ViewDefinition | None = None) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        refusals.table_name(name)
        refusals.table_name(view.name)
        if name not in self._state.views:
            raise refusals.no_view(name)
        refusals.require_unchanged(self._state.views[name], seen)
        if view.name != name:
            self._require_room(view.name)
            del self._state.views[name]
        self._state.views[view.name] = view

    @synchronized
    def drop_view(self, name: TableName) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        if self._state.views.pop(refusals.table_name(name), None) is None:
            raise refusals.no_view(name)

    def constraints(self, table: TableDefinition, *, keys: bool = False) -> tuple[Constraint, ...]:  # noqa: ARG002 - all
        """Return those of the definition."""
        return table.constraints

    def put_constraints(self, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
        """Change the definition."""
        self.alter_table(table.name, replace(table, constraints=tuple(constraints)), seen=table)

    @synchronized
    def alter_table(
        self,
        name: TableName,
        table: TableDefinition,
        *,
        replacing: TableDefinition | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchTableError, AlreadyExistsError."""
        refusals.table(table)
        old = self._require_table(name)
        refusals.require_same_table(old, table, seen)
        if table.name != name:
            if replacing is not None and table.name in self._state.tables:
                self.drop_table(table.name, replacing)
            self._require_room(table.name)
        if not is_same_location(old.location, table.location):
            self._require_free([place_of_table(name, table.location)])
        if table.name != name:
            self._purge(table.name)
            self._rename(name, table.name)
        self._replace(table.name, table)

    @synchronized
    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        empty: bool = False,  # noqa: ARG002 - it counts no rows
        seen: TableDefinition | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchTableError."""
        refusals.partitions(partitions)
        table = self._require_table(name, seen)
        elsewhere = self._misplaced_partition(
            CatalogChanges(partitions=tuple(NewPartition(name, one) for one in partitions))
        )
        if elsewhere is not None:
            raise WriteConflictError(elsewhere)
        self._require_free(self._outside(table, partitions))
        for partition in partitions:
            self._put_partition(name, partition)

    @synchronized
    def drop_partitions(
        self, name: TableName, partitions: Sequence[Partition], seen: TableDefinition | None = None
    ) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`. Those that are not there are passed over."""
        refusals.partitions(partitions)
        self._require_table(name, seen)
        for partition in partitions:
            self._drop_partition(name, partition)

    @synchronized
    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchTableError."""
        self._require_table(name)
        return tuple(sorted(self._state.partitions[name].values(), key=lambda partition: partition.key))

    @synchronized
    def list_partition_names(self, name: TableName) -> frozenset[str]:
        """See :class:`hiveacid.ports.catalog.Catalog`. Raises NoSuchTableError."""
        columns = self._require_table(name).partition_column_names
        return frozenset(format_partition(columns, one.values) for one in self.list_partitions(name))

    def _require_table(self, name: TableName, seen: TableDefinition | None = None) -> TableDefinition:
        refusals.table_name(name)
        if name not in self._state.tables:
            raise refusals.no_table(name)
        if seen is not None:
            refusals.require_same_table(self._state.tables[name], seen)
        return self._state.tables[name]

    def _require_room(self, name: TableName) -> None:
        if name.database not in self._state.databases:
            raise refusals.no_database(name.database)
        if name in self._state.tables:
            raise refusals.table_exists(name)
        if name in self._state.views:
            raise refusals.view_exists(name)

    def _require_new(self, table: TableDefinition) -> None:
        self._require_room(table.name)
        self._require_free([place_of_table(table.name, table.location)])

    def _require_free(self, new: Iterable[Place]) -> None:
        others = list(self.places())
        for place in new:
            other = first_overlapping_place(place, others, str)
            if other is not None:
                raise refusals.location_taken(place.location, other)
            others.append(place)

    def _outside(self, table: TableDefinition, partitions: Iterable[Partition]) -> list[Place]:
        """Return the places outside the table's directory of those partitions that are new."""
        known = self._state.partitions.get(table.name, {})
        new = {
            one.key: one for one in reversed(tuple(partitions)) if one.key not in known
        }  # the first counts
        return [
            place_of_partition(table.name, one.location)
            for one in reversed(new.values())
            if not lies_in(one.location, table.location)
        ]

    def _drop_partition(self, name: TableName, partition: Partition) -> None:
        self._state.partitions[name].pop(partition.key, None)
        self._state.files.get(name, {}).pop(partition.key, None)

    def _put_partition(self, name: TableName, partition: Partition) -> None:
        if partition.key in self._state.partitions[name]:
            return
        is_inside = lies_in(partition.location, self._state.tables[name].location)
        (self._state.outside.discard if is_inside else self._state.outside.add)(partition.location)
        lowest = max(partition.min_write_id, self._state.lowest_open_write_id(name))
        self._state.partitions[name][partition.key] = replace(partition, min_write_id=lowest)

    def _put_table(self, table: TableDefinition, *, unoccupied: bool) -> None:
        self._replace(table.name, replace(table, incarnation=secrets.token_hex(8)))
        if unoccupied and table.kind is not TableKind.PLAIN and not table.external:
            self._state.files[table.name] = {}
        self._state.partitions[table.name] = {}

    def _replace(self, name: TableName, table: TableDefinition) -> None:
        old = self._state.tables.get(name)
        if old is not None and (old.kind, old.location, False) != (
            table.kind,
            table.location,
            table.external,
        ):
            self._state.files.pop(name, None)
        self._state.tables[name] = table if old is None else replace(table, incarnation=old.incarnation)
        if table.kind is not TableKind.PLAIN and (old is None or old.kind is TableKind.PLAIN):
            self._state.commits[name] = [
                CommitRecord(
                    WriteId(0),
                    self._clock.now(),
                    summary=OperationSummary("CREATE TABLE" if old is None else "CONVERT"),
                )
            ]

    def _require_changes_fit(self, changes: CatalogChanges) -> None:
        for table in changes.tables:
            self._require_new(table)
        for table in changes.altered:
            self._require_table(table.name)
        for seeded in changes.seeded:
            if self._state.next_write_id.get(seeded.table, 1) > 1:
                raise refusals.ids_given(seeded.table)
        tables = self._state.tables | {table.name: table for table in changes.tables}
        self._require_free(
            place
            for name, table in tables.items()
            for place in self._outside(
                table, [new.partition for new in changes.partitions if new.table == name]
            )
        )

    def _misplaced_partition(self, changes: CatalogChanges) -> str | None:
        """Return the reason why a new partition conflicts with an existing one at another location, None if there is none."""
        fresh: dict[tuple[TableName, tuple[str, ...]], Partition] = {}
        for new in changes.partitions:
            key = new.partition.key
            there = self._state.partitions.get(new.table, {}).get(key)
            there = there or fresh.setdefault((new.table, key), new.partition)
            if not is_same_location(there.location, new.partition.location):
                return refusals.misplaced_partition(new.table, new.partition, there)
        return None

    @synchronized
    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:  # noqa: ARG002 - no stand-in
        """See :class:`hiveacid.ports.transactions.WriteIdPort`."""
        state, name = self._state, table.name
        if name in state.tables:
            return
        given = state.write_ids.pop(name, {})
        kept = {
            write_id: txn_id
            for write_id, txn_id in given.items()
            if txn_id == NOBODY
            or state.txns[txn_id].state != TransactionState.ABORTED
            or not self._will_not_come(txn_id)
        }
        if kept:
            state.write_ids[name] = kept
        else:
            state.next_write_id.pop(name, None)

    def _altered_definition(self, changes: CatalogChanges) -> str | None:
        """Return the reason why a changed definition conflicts with another change since, None if none does."""
        tables = self._state.tables
        outdated = (one.name for one in changes.seen if tables.get(one.name, one) != one)
        return next(map(refusals.altered_meanwhile, outdated), None)

    def _apply_changes(self, changes: CatalogChanges) -> None:
        """Insert new tables and partitions; partitions of tables that were dropped meanwhile are ignored."""
        told = {one.table for one in changes.records}
        for table in changes.tables:
            self._put_table(table, unoccupied=table.name in told)
        for table in changes.altered:
            refusals.require_same_table(self._require_table(table.name), table)
            self._replace(table.name, table)
        for name, count in changes.skipped:
            self._state.next_write_id[name] = WriteId(self._state.next_write_id.get(name, WriteId(1)) + count)
        for name, partition in changes.dropped:
            self._drop_partition(name, partition)
        for new in changes.partitions:
            if new.table in self._state.partitions:
                self._put_partition(new.table, new.partition)
        for seeded in changes.seeded:
            self._state.next_write_id[seeded.table] = WriteId(seeded.high_watermark + 1)
            self._state.write_ids[seeded.table] = dict.fromkeys(seeded.aborted, NOBODY)

    def _purge(self, name: TableName) -> None:
        state = self._state
        state.write_ids.pop(name, None)
        state.next_write_id.pop(name, None)
        state.commits.pop(name, None)
        state.files.pop(name, None)
        state.figures = [record for record in state.figures if record.table != name]
        state.written = [row for row in state.written if row.change.table != name]
        state.compactions = {
            number: value for number, value in state.compactions.items() if value.request.table != name
        }
        state.changed = {
            (table, partition): time for (table, partition), time in state.changed.items() if table != name
        }
        state.streams = {key: value for key, value in state.streams.items() if key.table != name}

    def _rename(self, old: TableName, new: TableName) -> None:
        state = self._state
        state.tables[new] = state.tables.pop(old)
        state.partitions[new] = state.partitions.pop(old)
        if old in state.next_write_id:
            state.next_write_id[new] = state.next_write_id.pop(old)
        if old in state.write_ids:
            state.write_ids[new] = state.write_ids.pop(old)
        if old in state.commits:
            state.commits[new] = state.commits.pop(old)
        if old in state.files:
            state.files[new] = state.files.pop(old)
        state.figures = [
            replace(record, table=new) if record.table == old else record for record in state.figures
        ]
        for row in state.written:
            if row.change.table == old:
                row.change = replace(row.change, table=new)
        for request in state.requests.values():
            if request.state is not LockState.ACQUIRED:
                continue  # it looks its table up by the old name once it is granted
            request.components = tuple(
                replace(one, database=new.database, table=new.name)
                if (one.database, one.table) == (old.database, old.name)
                else one
                for one in request.components
            )
        for number, one in state.compactions.items():
            if one.request.table == old:
                state.compactions[number] = replace(_unclaimed(one), request=replace(one.request, table=new))
        state.changed = {
            (new if name == old else name, of): changed_at for (name, of), changed_at in state.changed.items()
        }
        for key in [key for key in state.streams if key.table == old]:
            moved = replace(key, table=new)
            state.streams[moved] = replace(state.streams.pop(key), stream=moved)


def _unclaimed(job: Compaction) -> Compaction:
    """Return a job as it was before a worker claimed it, which knows the old name of its table."""
    if job.state != CompactionState.WORKING:
        return job
    waiting = replace(job, state=CompactionState.INITIATED, worker=None, started=None, claims=job.claims - 1)
    return replace(waiting, txn_id=None, high_watermark=None)

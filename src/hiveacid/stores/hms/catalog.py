"""The catalog port on a metastore: databases, tables, views and partitions."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from hiveacid import errors
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
from hiveacid.core.schema.location_overlap import Place, is_same_location, place_of_database, place_of_table
from hiveacid.core.schema.partitions import format_partition
from hiveacid.ports.clock import Clock
from hiveacid.stores import refusals
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.client import MetastoreClient, retry_lost_answer
from hiveacid.stores.hms.commit_steps import NO_ROWS, own_write_id_list, reset_counts, with_zero_row_count
from hiveacid.stores.hms.constraints import add_constraint, drop_constraint, fetch_constraints
from hiveacid.stores.hms.definitions import (
    CASCADE,
    EXTERNAL,
    MANAGED,
    QUIET,
    VIRTUAL,
    add_missing_partitions,
    fetch_partition_names,
    fetch_partitions,
    fetch_partitions_by_name,
    local,
    plain_database,
    plain_table,
    require_format_of_table,
    require_in_place,
)
from hiveacid.stores.hms.metastores import Capabilities
from hiveacid.stores.hms.thrift_structs import ThriftStruct
from hiveacid.stores.refusals import (
    database_exists,
    database_not_empty,
    no_database,
    no_table,
    no_view,
    require_same_table,
    table_exists,
)

logger = logging.getLogger(__name__)

_INSERT_ONLY = 2  # ClientCapability.INSERT_ONLY_TABLES: without it such tables are hidden from us
_MAX_ALTERED = 500  # partitions of one request, each with its definition
_COUNT = "setStatsStateForCreateTable", b'{"enabled":true}'
"""Request to Hive 4, as Hive sends it: a new table whose directory is empty has a row count, 0, which writers add to."""
_VIEWS = (VIRTUAL, "MATERIALIZED_VIEW")


class MetastoreCatalog:
    """Implements :class:`hiveacid.ports.catalog.Catalog`. ``owner``: the owner of new databases and tables."""

    def __init__(self, client: MetastoreClient, capabilities: Capabilities, clock: Clock, owner: str) -> None:
        self.client = client
        self.capabilities = capabilities
        self.clock = clock
        self.owner = owner

    def create_database(self, database: DatabaseDefinition) -> None:
        """Create a database. Raises AlreadyExistsError."""
        refusals.database(database)
        plain_database(database.name)
        try:
            self.client.call("create_database", definitions.raw_database(database, self.owner))
        except errors.AlreadyExistsError:
            raise database_exists(database.name) from None

    def alter_database(self, database: DatabaseDefinition, seen: DatabaseDefinition | None = None) -> None:
        """Replace comment, properties and owner. Raises UnsupportedFeatureError for what a metastore leaves as it is."""
        refusals.database(database)
        before = self.get_database(database.name)
        if before is None:
            raise no_database(database.name)
        refusals.require_unchanged(before, seen)
        if database.location != before.location:
            raise errors.UnsupportedFeatureError(
                f"a metastore has several locations of the database {database.name}: ALTER DATABASE ... SET LOCATION in Hive"
            )
        if before.comment and not database.comment:
            raise errors.UnsupportedFeatureError(
                f"a metastore removes no comment of a database: give {database.name} another one"
            )
        raw = self.client.call("get_database", database.name)
        raw.description, raw.parameters = database.comment or "", dict(database.properties)
        if database.owner != before.owner:
            raw.ownerName, raw.ownerType = database.owner, definitions.USER
        self.client.call("alter_database", database.name, raw)

    def drop_database(self, name: str) -> None:
        """Drop an empty database; its directory stays."""
        plain_database(name)
        self._require_database(name)
        tables = [table for kind in (MANAGED, EXTERNAL, *_VIEWS) for table in self._names(name, kind)]
        if tables:
            raise database_not_empty(name, len(tables))
        self.client.call("drop_database", name, False, False)  # noqa: FBT003 - neither data nor tables

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """Return it or None."""
        plain_database(name)
        try:
            raw = self.client.call("get_database", name)
        except errors.CatalogError:
            return None
        return definitions.database_of(raw, self._managed(raw))

    def _managed(self, raw: ThriftStruct) -> str | None:
        """Return the directory of transactional tables if a Hive 4 metastore separates them from external ones."""
        if not self.capabilities.requests or raw.managedLocationUri:
            return None
        external = local(self._setting("metastore.warehouse.external.dir"))
        root = local(self._setting("metastore.warehouse.dir"))
        location = local(raw.locationUri)
        return root + location.removeprefix(external) if f"{location}/".startswith(f"{external}/") else None

    def _setting(self, name: str) -> str:
        return str(self.client.call("get_config_value", name, "") or "")

    def list_databases(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted(self.client.call("get_all_databases")))

    def places(self) -> tuple[Place, ...]:
        """Return the directories of databases and tables, by some calls for each database.

        Those of partitions would take the partitions of all tables. Databases and tables that this user may not read are left
        out, so that they do not hinder CREATE TABLE of another one.
        """
        found: list[Place] = []
        for database in self.list_databases():
            with suppress(errors.CatalogError):
                definition = self.get_database(database)
                if definition is not None:
                    found.append(place_of_database(database, definition.location))
                names = [*self._names(database, MANAGED), *self._names(database, EXTERNAL)]
                for start in range(0, len(names), _MAX_ALTERED):
                    raws = self._raws(database, names[start : start + _MAX_ALTERED])
                    found += [
                        place_of_table(TableName(database, raw.tableName), local(raw.sd.location))
                        for raw in raws
                        if raw.sd is not None and raw.sd.location
                    ]
        return tuple(found)

    def _raws(self, database: str, names: list[str]) -> list[ThriftStruct]:
        capabilities = protocol.ClientCapabilities(values=[_INSERT_ONLY])
        request = protocol.GetTablesRequest(
            dbName=database, tblNames=names, capabilities=capabilities, **self.capabilities.requests
        )
        return list(self.client.call("get_table_objects_by_name_req", request).tables)

    def create_table(
        self,
        table: TableDefinition,
        *,
        unoccupied: bool = False,  # noqa: ARG002 - it keeps no records of files
        empty: bool = False,
    ) -> None:
        """Raise AlreadyExistsError or NoSuchDatabaseError. ``empty``: no rows are visible, although files may be there."""
        refusals.table(table)
        plain_table(table.name)
        self._require_database(table.name.database)
        raw = definitions.raw_table(table)
        if table.kind is not TableKind.PLAIN and not table.partition_columns:
            raw.dictionary = protocol.ObjectDictionary(values={_COUNT[0]: [_COUNT[1]]})
            raw.parameters |= NO_ROWS if empty else {}
        if not self.capabilities.requests:
            raw.parameters[definitions.INCARNATION] = secrets.token_hex(8)
        self._create(raw, table.name, table.created_at)
        try:
            for constraint in table.constraints:
                add_constraint(self.client, table.name, constraint)
        except BaseException:
            with suppress(errors.HiveAcidError):  # the error of the constraint is the reason
                self.drop_raw(table.name)
            raise

    def _create(self, raw: ThriftStruct, name: TableName, created_at: int | None) -> None:
        raw.owner = raw.owner or self.owner
        raw.createTime = created_at or self.clock.now() // 1000
        try:
            if self.capabilities.requests:
                request = protocol.CreateTableRequest(
                    table=raw, envContext=_environment(QUIET), **self.capabilities.requests
                )
                self.client.call("create_table_req", request)
            else:
                self.client.call("create_table_with_environment_context", raw, _environment(QUIET))
        except errors.AlreadyExistsError:
            raise table_exists(name) from None

    def drop_table(self, name: TableName, seen: TableDefinition | None = None) -> None:
        """Drop the definition, its partitions and its transaction state; the caller deletes the files."""
        plain_table(name)
        _require_seen(_require_table_kind(self._require_raw(name)), seen)
        self.drop_raw(name)

    def create_locked_table(self, table: TableDefinition, new_tables: list[TableDefinition]) -> None:
        """Create a table whose name is locked. A table that exists after a lost answer is therefore the same one.

        The table is added to ``new_tables`` as soon as it may exist, for `drop_created_tables`.
        """

        def create() -> None:
            if table in new_tables and self._is_made(table):
                return
            try:
                self.create_table(table, empty=True)
            except errors.CommitStateUnknownError:
                new_tables.append(table)
                raise

        retry_lost_answer(create)
        new_tables[:] = [*(one for one in new_tables if one != table), table]
        made = self.get_table(table.name)
        if made is not None:
            new_tables[-1] = replace(table, incarnation=made.incarnation)

    def drop_created_tables(self, tables: Sequence[TableDefinition]) -> None:
        """Drop tables that `create_locked_table` made, or may have made, as far as the metastore can be reached."""
        for table in tables:
            try:
                retry_lost_answer(partial(self._drop_made, table))
            except errors.HiveAcidError as error:  # the caller reports the error before this one
                logger.warning("%s may be left without rows: drop it (%s)", table.name, error)

    def _drop_made(self, table: TableDefinition) -> None:
        if self._is_made(table):
            self.drop_table(table.name, table if table.incarnation else None)

    def _is_made(self, table: TableDefinition) -> bool:
        """Tell whether a table is there that `create_locked_table` made, not one that another client has made since."""
        existing = self.get_table(table.name)
        is_other = bool(table.incarnation) and not table.is_same_table(existing)
        return existing is not None and not is_other and is_same_location(existing.location, table.location)

    def drop_raw(self, name: TableName, *, delete_data: bool = False) -> None:
        """Drop a table or view, whatever it is."""
        call = "drop_table_with_environment_context"
        self.client.call(call, name.database, name.name, delete_data, _environment({}))

    def get_table(self, name: TableName) -> TableDefinition | None:
        """Return a table's definition; None if there is no table of that name, or if it is a view."""
        plain_table(name)
        raw = self._raw(name)
        return (
            None if raw is None or raw.tableType in _VIEWS else definitions.table_of(_require_table_kind(raw))
        )

    def constraints(self, table: TableDefinition, *, keys: bool = False) -> tuple[Constraint, ...]:
        """Return NOT NULL, DEFAULT and CHECK constraints, and keys if they are wanted."""
        plain_table(table.name)
        return tuple(
            fetch_constraints(self.client, table.name, at_once=bool(self.capabilities.requests), keys=keys)
        )

    def put_constraints(self, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
        """Drop and add constraints, one call each."""
        _require_seen(_require_table_kind(self._require_raw(table.name)), table)
        existing = self.constraints(table, keys=True)
        for constraint in set(existing) - set(constraints):
            drop_constraint(self.client, table.name, constraint)
        for constraint in constraints:
            if constraint not in existing:
                add_constraint(self.client, table.name, constraint)

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Names of tables, sorted; views are not among them."""
        plain_database(database)
        self._require_database(database)
        return tuple(sorted(self._names(database, MANAGED) + self._names(database, EXTERNAL)))

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """Return a view. A materialized view is read by its query, too, which is correct but slower."""
        plain_table(name)
        raw = self._raw(name)
        if raw is None or raw.tableType not in _VIEWS:
            return None
        return definitions.view_of(raw)

    def list_views(self, database: str) -> tuple[str, ...]:
        """Names, sorted."""
        plain_database(database)
        self._require_database(database)
        return tuple(sorted(name for kind in _VIEWS for name in self._names(database, kind)))

    def create_view(self, view: ViewDefinition) -> None:
        """Create a view. Raises AlreadyExistsError, NoSuchDatabaseError; UnsupportedFeatureError for unnamed columns."""
        refusals.table_name(view.name)
        plain_table(view.name)
        self._require_database(view.name.database)
        self._create(definitions.raw_view(view), view.name, view.created_at)

    def alter_view(self, name: TableName, view: ViewDefinition, seen: ViewDefinition | None = None) -> None:
        """Replace a view; a new name renames it."""
        refusals.table_name(view.name)
        plain_table(name)
        plain_table(view.name)
        self._require_database(view.name.database)
        raw = self._require_view(name)
        refusals.require_unchanged(definitions.view_of(raw), seen)
        if view.name != name and self._raw(view.name) is not None:
            raise table_exists(view.name)
        self._alter(name, definitions.raw_view(view, raw), QUIET)

    def drop_view(self, name: TableName) -> None:
        """Drop a view. Raises NoSuchTableError if there is no view of that name."""
        plain_table(name)
        self._require_view(name)
        self.drop_raw(name)

    def _require_view(self, name: TableName) -> ThriftStruct:
        raw = self._raw(name)
        if raw is None or raw.tableType not in _VIEWS:
            raise no_view(name)
        if raw.tableType != VIRTUAL:
            raise errors.UnsupportedFeatureError(
                f"{name} is a materialized view of Hive, which only Hive changes or drops"
            )
        return raw

    def alter_table(
        self,
        name: TableName,
        table: TableDefinition,
        *,
        replacing: TableDefinition | None = None,
        seen: TableDefinition | None = None,  # noqa: ARG002 - it changes parameters of its own
    ) -> None:
        """Replace a definition; new columns are added to the partitions, too.

        If it is renamed, the metastore moves the directory of a managed table that lies at its default place.
        """
        if replacing is not None:
            raise errors.UnsupportedFeatureError(
                f"a metastore cannot replace the table {table.name} in one step"
            )
        plain_table(name)
        refusals.table(table)
        plain_table(table.name)
        self._require_database(table.name.database)
        raw = _require_table_kind(self._require_raw(name))
        require_same_table(definitions.table_of(raw), table)
        if table.name != name and self._raw(table.name) is not None:
            raise table_exists(table.name)
        columns = _columns(raw)
        new = definitions.raw_table(table, raw)
        self._alter(name, new, CASCADE if new.partitionKeys and columns != _columns(new) else QUIET)

    def _alter(
        self,
        name: TableName,
        raw: ThriftStruct,
        environment: Mapping[str, str],
        write_id: WriteId | None = None,
    ) -> None:
        if self.capabilities.requests:
            request = protocol.AlterTableRequest(
                dbName=name.database,
                tableName=name.name,
                table=raw,
                environmentContext=_environment(environment),
                writeId=write_id,
                validWriteIdList=own_write_id_list(name, write_id),
                **self.capabilities.requests,
            )
            self.client.call("alter_table_req", request)
            return
        self.client.call(
            "alter_table_with_environment_context", name.database, name.name, raw, _environment(environment)
        )

    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        empty: bool = False,
        seen: TableDefinition | None = None,
    ) -> None:
        """Add missing partitions; one that another client adds at the same time stays unchanged.

        Raises WriteConflictError if it lies elsewhere; the others are there then.
        """
        plain_table(name)
        refusals.partitions(partitions)
        new_partitions = with_zero_row_count(partitions) if empty else partitions
        raw = _require_seen(self._require_raw(name), seen)
        existing = add_missing_partitions(self.client, raw, new_partitions, self.clock.now())
        require_in_place(name, partitions, existing)

    def drop_partitions(
        self, name: TableName, partitions: Sequence[Partition], seen: TableDefinition | None = None
    ) -> None:
        """Drop partitions by values; the caller deletes the files."""
        plain_table(name)
        _require_seen(self._require_raw(name), seen)
        dropped = {partition.values for partition in partitions}
        for partition in self.list_partitions(name) if dropped else ():
            if partition.values not in dropped:
                continue
            self.client.call(
                "drop_partition_with_environment_context",
                name.database,
                name.name,
                list(partition.key),
                False,  # noqa: FBT003 - deleteData
                _environment({}),
            )

    def rename_partition(
        self, name: TableName, partition: Partition, values: tuple[str | None, ...], seen: TableDefinition
    ) -> None:
        """Rename a partition; the metastore moves the directory of a managed table's, and renames it in its queues."""
        plain_table(name)
        table = _require_seen(self._require_raw(name), seen)
        columns = [column.name for column in table.partitionKeys]
        old = format_partition(columns, partition.values)
        (raw,) = fetch_partitions_by_name(self.client, name, [old])
        raw.values = list(replace(partition, values=values).key)
        self.client.call("rename_partition", name.database, name.name, list(partition.key), raw)

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """Return all partitions, sorted by values.

        Raises UnsupportedFeatureError for a partition with another file format than its table.
        """
        plain_table(name)
        table = self._require_raw(name)
        raws = fetch_partitions(self.client, name)
        require_format_of_table(table, raws)
        partitions = map(definitions.partition_of, raws)
        return tuple(
            sorted(partitions, key=lambda one: [(value is None, value or "") for value in one.values])
        )

    def list_partition_names(self, name: TableName) -> frozenset[str]:
        """Return the names of all partitions."""
        plain_table(name)
        return frozenset(fetch_partition_names(self.client, name))

    def forget_statistics(self, name: TableName) -> None:
        """Remove the row counts of a plain table, from which Hive answers ``count(*)``, before its rows change."""
        self.change_statistics(name, None, lambda raw, *_: reset_counts(raw, None))

    def change_statistics(
        self,
        name: TableName,
        partitions: Sequence[str] | None,
        change: Callable[[ThriftStruct, str | None, WriteId | None], bool],
        write_id: Callable[[], WriteId] | None = None,
    ) -> None:
        """Change row counts of a table, or of its partitions, and take the mark off that they are exact.

        ``partitions``: Hive's names; None: all. ``change`` gets a definition, its partition's name (None: the table) and
        the writer's id; it tells whether it changed the definition. ``write_id``: returns the id for a transactional
        table; it is called only if the metastore keeps that id (Hive 4).
        """
        raw = self._raw(name)
        if raw is None:
            return
        own_id = write_id() if write_id is not None and self.capabilities.requests else None
        # For a partitioned table Hive keeps counts and the last writer's id per partition.
        if reset_counts(raw, None) if raw.partitionKeys else change(raw, None, own_id):
            self._alter(name, raw, QUIET, own_id)
        if raw.partitionKeys:
            columns = [column.name for column in raw.partitionKeys]
            raw_partitions = (
                fetch_partitions(self.client, name)
                if partitions is None
                else fetch_partitions_by_name(self.client, name, partitions)
            )
            named = (
                (raw, format_partition(columns, definitions.partition_of(raw).values))
                for raw in raw_partitions
            )
            changed = [raw for raw, partition_name in named if change(raw, partition_name, own_id)]
            self._alter_partitions(name, changed, own_id)

    def _alter_partitions(
        self, name: TableName, raws: Sequence[ThriftStruct], write_id: WriteId | None
    ) -> None:
        if not self.capabilities.requests:
            for raw in raws:
                call = "alter_partition_with_environment_context"
                self.client.call(call, name.database, name.name, raw, _environment(QUIET))
            return
        for start in range(0, len(raws), _MAX_ALTERED):
            request = protocol.AlterPartitionsRequest(
                dbName=name.database,
                tableName=name.name,
                partitions=list(raws[start : start + _MAX_ALTERED]),
                environmentContext=_environment(QUIET),
                writeId=write_id,
                validWriteIdList=own_write_id_list(name, write_id),
            )
            self.client.call("alter_partitions_req", request)

    def _names(self, database: str, kind: str) -> list[str]:
        return list(self.client.call("get_tables_by_type", database, "*", kind) or ())

    def _require_database(self, name: str) -> None:
        if self.get_database(name) is None:
            raise no_database(name)

    def _require_raw(self, name: TableName) -> ThriftStruct:
        raw = self._raw(name)
        if raw is None:
            raise no_table(name)
        return raw

    def _raw(self, name: TableName) -> ThriftStruct | None:
        capabilities = protocol.ClientCapabilities(values=[_INSERT_ONLY])
        request = protocol.GetTableRequest(
            dbName=name.database, tblName=name.name, capabilities=capabilities, **self.capabilities.requests
        )
        try:
            table: ThriftStruct = self.client.call("get_table_req", request).table
        except (errors.NoSuchDatabaseError, errors.CatalogError):
            return None
        return table


def _require_seen(raw: ThriftStruct, seen: TableDefinition | None) -> ThriftStruct:
    """Raise WriteConflictError for a table that is not the one that the caller has ``seen``."""
    if seen is not None:
        require_same_table(definitions.table_of(raw), seen)
    return raw


def _require_table_kind(raw: ThriftStruct) -> ThriftStruct:
    if raw.tableType not in (MANAGED, EXTERNAL):
        kind = (raw.tableType or "thing").lower().replace("_", " ")
        raise errors.UnsupportedFeatureError(f"{raw.dbName}.{raw.tableName} is a {kind} of Hive, not a table")
    return raw


def _columns(raw: ThriftStruct) -> list[tuple[str, str, str | None]]:
    return [(column.name, column.type, column.comment) for column in raw.sd.cols or ()]


def _environment(properties: Mapping[str, str]) -> ThriftStruct:
    return protocol.EnvironmentContext(properties=dict(properties))

"""Targets of Spark's writers: existing tables of the hiveacid catalog, and tables that a writer creates there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.config.property_definitions import KIND_PROPERTIES, TRANSACTIONAL
from hiveacid.core.model import Bucketing, Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import storage_format
from hiveacid.sql.binding.statement_owner import makes_own_table
from hiveacid.sql.binding.table_binder import find_hiveacid_table, is_view_of_session
from hiveacid.sql.binding.view_text import find_hiveacid_view, hive_columns_of
from hiveacid.sql.execute.catalog_statements import create_from, replace_with
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.native.both_catalogs import ensure_database
from hiveacid.sql.native.shared_gateway import NativeConnection
from hiveacid.sql.statements import TableRef, table_ref
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.table.write.insert import InsertOptions, insert, with_new_columns
from hiveacid.table.write.publish import WriteReport

# Formats of a writer that say nothing about the files: the table's own, or ORC for a new table.
_ANY_FORMAT = frozenset({"hive", "hiveacid"})
_REFUSED_OPTIONS = {
    "path": "create the table by CREATE TABLE ... LOCATION",
    "overwriteschema": "ALTER TABLE ... ADD COLUMNS, or DROP TABLE and create it",
    "replacewhere": "df.writeTo(name).overwrite(condition)",
}
_MERGE_SCHEMA = "mergeschema"
_OFF = frozenset({"false", ""})


@dataclass(frozen=True)
class TableSpec:
    """Format, options, partitioning and buckets that a writer sets. ``partition_columns``: None if it sets none."""

    provider: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: Sequence[str] | None = None
    bucketing: Bucketing | None = None

    def statement(self, ref: TableRef) -> CreateTable:
        """Return the CREATE TABLE of a new table, without its columns."""
        any_format = self.provider is None or self.provider.lower() in _ANY_FORMAT
        return CreateTable(
            table=ref,
            partition_columns=tuple(Column(name.lower(), "") for name in self.partition_columns or ()),
            bucketing=self.bucketing,
            storage=None if any_format else storage_format(self.provider or ""),
            properties=tuple(sorted(self._all_properties().items())),
            has_spark_provider=not (self.provider is None or self.provider.lower() == "hiveacid"),
        )

    def _all_properties(self) -> dict[str, str]:
        written = {
            key.lower() if key.lower() in KIND_PROPERTIES else key: value
            for key, value in {**self.options, **self.properties}.items()
            if key.lower() not in {*_REFUSED_OPTIONS, _MERGE_SCHEMA, "partitionoverwritemode"}
        }
        if self.provider is not None and self.provider.lower() == "hiveacid":
            written.setdefault(TRANSACTIONAL.name, "true")
        return written

    @property
    def merge_schema(self) -> bool:
        """Tell whether the writer adds columns that the table lacks (the option mergeSchema)."""
        values = [value for key, value in self.options.items() if key.lower() == _MERGE_SCHEMA]
        return any(value.lower() not in _OFF for value in values)

    def require_supported(self, method: str) -> None:
        """Refuse options and formats that hiveacid tables do not support. Raises UnsupportedFeatureError."""
        for key, value in self.options.items():
            alternative = _REFUSED_OPTIONS.get(key.lower())
            if alternative is not None and str(value).lower() not in _OFF:
                raise errors.UnsupportedFeatureError(
                    f"{method}: the option {key}={value} is not supported: {alternative}"
                )
            if key.lower() == "partitionoverwritemode" and str(value).lower() != "dynamic":
                raise errors.UnsupportedFeatureError(
                    f"{method} replaces only the partitions that get rows ({key}=dynamic): to replace all rows use "
                    "df.writeTo(name).overwrite(lit(True))"
                )
        provider = (self.provider or "hive").lower()
        if provider not in _ANY_FORMAT and storage_format(provider) is None:
            raise errors.UnsupportedFeatureError(
                f"{method}: a transactional table cannot have the format {provider}: use orc, or another table"
            )

    def require_matches(self, method: str, table: TableDefinition) -> None:
        """Refuse a writer whose settings contradict the existing table. Raises SchemaMismatchError."""
        self.require_supported(method)
        existing = table.partition_column_names
        statement = self.statement(TableRef(None, table.name.name))
        if self.partition_columns is not None and [c.name for c in statement.partition_columns] != existing:
            names = ", ".join(self.partition_columns)
            raise errors.SchemaMismatchError(
                f"{method}: {table.name} is partitioned by {', '.join(existing) or 'nothing'}, not by {names}: leave out partitionBy"
            )
        if self.bucketing is not None and self.bucketing != table.bucketing:
            raise errors.SchemaMismatchError(
                f"{method}: the buckets of {table.name} are different: leave out bucketBy and sortBy"
            )
        if statement.storage is not None and statement.storage.input_format != table.storage.input_format:
            raise errors.SchemaMismatchError(
                f"{method}: the files of {table.name} are not {self.provider}: leave out the format"
            )
        existing_properties = {key.lower(): value for key, value in table.properties}
        for key, value in statement.properties:
            if existing_properties.get(key.lower(), "").lower() != str(value).lower():
                raise errors.UnsupportedFeatureError(
                    f"{method}: {key}={value} has no effect on the existing table {table.name}: leave it out, or use "
                    "ALTER TABLE ... SET TBLPROPERTIES"
                )


@dataclass(frozen=True)
class Target:
    """Target of a writer. ``table``: None if hiveacid's catalog has no table of this name."""

    connection: NativeConnection
    ref: TableRef
    table: TableName | None

    def require_table(self) -> TableDefinition:
        """Return the existing table's definition. Raises NoSuchTableError."""
        if self.table is None:
            raise errors.NoSuchTableError(
                f"table {self.ref.resolve(self.connection.context.database)} does not exist"
            )
        return self.connection.context.require(self.table)

    def can_create(self, spec: TableSpec) -> bool:
        """Tell whether a writer that creates a table creates a hiveacid table."""
        return makes_own_table(self.connection.context, spec.statement(self.ref))

    def insert(
        self, method: str, frame: DataFrame, options: InsertOptions, *, merge_schema: bool = False
    ) -> WriteReport:
        """Insert rows into the existing table; ``merge_schema``: add the columns that it lacks."""
        name = self.require_table().name
        with self.statement(method) as execution:
            context, joined = execution.context, execution.joined
            if merge_schema:
                options = with_new_columns(context, name, frame, options, joined)
            return insert(context, name, frame, options, joined)

    def create(self, method: str, frame: DataFrame, spec: TableSpec) -> WriteReport:
        """Create the table with the rows of a frame. Raises AlreadyExistsError."""
        if self.table is not None:
            raise errors.already_exists("table", self.table)
        spec.require_supported(method)
        ensure_database(self.connection, self.ref)
        with self.statement(method) as execution:
            _require_no_transaction(execution, method)
            return create_from(execution, spec.statement(self.ref), frame)

    def replace(self, method: str, frame: DataFrame, spec: TableSpec) -> WriteReport:
        """Replace all rows of the existing table, and its columns if those of the frame are others."""
        table = self.require_table()
        spec.require_matches(method, table)
        names = table.partition_column_names  # kept if the writer sets none
        statement = dataclasses.replace(spec, partition_columns=names).statement(self.ref)
        if not set(names) <= set(map(str.lower, frame.columns)):
            raise errors.SchemaMismatchError(
                f"{method}: {table.name} is partitioned by {', '.join(names)}: the DataFrame needs these columns"
            )
        new = statement.with_columns(hive_columns_of(frame))
        if (_types(new.columns), _types(new.partition_columns)) == (
            _types(table.columns),
            _types(table.partition_columns),
        ):
            options = InsertOptions(by_name=True, overwrite=True, whole=True, history_verb=method)
            return self.insert(method, frame, options)
        if not self.connection.context.store.maintained_by_hiveacid():
            raise errors.UnsupportedFeatureError(
                f"{method} would change the columns or partitions of {table.name}, which a metastore cannot do in one step: use "
                f"df.writeTo('n')...create(), DROP TABLE {table.name}, ALTER TABLE n RENAME TO {table.name}; to keep its columns and "
                "replace its rows use df.write.mode('overwrite').saveAsTable"
            )
        with self.statement(method) as execution:
            _require_no_transaction(execution, method)
            return replace_with(execution, table, statement, frame)

    @contextmanager
    def statement(self, method: str) -> Iterator[ExecutionContext]:
        """Run a write as one statement of the session. ``method``: its text in the table's history."""
        with self.connection.statement(method):
            execution = self.connection.execution(method)
            execution.require_no_snapshot(method)
            yield execution


class WriterSession(Protocol):
    """The parts of a native session that its writers need."""

    def find_target(self, name: str) -> Target | None:
        """Return the target of a name, None if the name can only be Spark's."""

    def require_readable(self, name: str) -> None:
        """Raise UnsupportedFeatureError for a transactional table of Spark's own catalog."""

    def resolved_by_spark(self, name: str) -> AbstractContextManager[None]:
        """Make Spark read a name as that of a database or a view."""


def _require_no_transaction(execution: ExecutionContext, method: str) -> None:
    if execution.joined is not None:
        raise errors.TransactionStateError(
            f"{method} cannot be part of a transaction: COMMIT or ROLLBACK first"
        )


def _types(columns: Sequence[Column]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def find_target(connection: NativeConnection, parts: Sequence[str]) -> Target | None:
    """Return the target of a name; None for one in another catalog, or of a temporary view of Spark.

    Raises CatalogError for a view of hiveacid's catalog, and for a temporary view that hides a hiveacid table.
    """
    connection.follow()
    context = connection.context
    ref = table_ref(parts)
    if ref is None:
        return None
    if is_view_of_session(context, ref):
        return None
    view = find_hiveacid_view(context, ref)
    if view is not None:
        raise errors.CatalogError(f"{view.name} is a view: write to the tables that it reads")
    return Target(connection, ref, find_hiveacid_table(context, ref))

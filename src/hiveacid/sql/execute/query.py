"""Queries, temporary views, and views as tables of the Python API (``acid.table("v").to_df()``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from hiveacid.catalog.databases_and_views import require_view
from hiveacid.core.model import ViewDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import (
    AlreadyExistsError,
    NoSuchTableError,
    SchemaMismatchError,
    StatementError,
    UnsupportedFeatureError,
)
from hiveacid.spark.session.temporary_views import is_temporary_view
from hiveacid.sql.binding.source_positions import spark_errors_at_source
from hiveacid.sql.binding.table_binder import Binder
from hiveacid.sql.execute.context import ExecutionContext, string_rows
from hiveacid.sql.statements.definitions import CreateTemporaryView, DropView
from hiveacid.sql.statements.queries import Query
from hiveacid.sql.statements.values import Slice, TableRef
from hiveacid.table.acid_table import AcidTable


def query(execution: ExecutionContext, statement: Query) -> DataFrame:
    """Run a query in Spark, with all tables of the hiveacid catalog at one snapshot."""
    text, described = _split_describe(statement.text)
    with execution.binder() as binder:
        frame = bound_frame(binder, text)
    if not described:
        return frame
    rows = [(field.name, field.dataType.simpleString(), None) for field in frame.schema.fields]
    return string_rows(execution.context.facts, ("col_name", "data_type", "comment"), rows)


def bound_frame(binder: Binder, text: Slice) -> DataFrame:
    """Return a query's rows."""
    bound = binder.bind(text)
    with spark_errors_at_source(bound):
        return binder.run(bound.text)


def _split_describe(text: Slice) -> tuple[Slice, bool]:
    """Split DESCRIBE [QUERY] from the query behind it."""
    tokens = text.tokens
    if tokens[0].keyword not in {"DESC", "DESCRIBE"}:
        return text, False
    first = tokens[2] if tokens[1].keyword == "QUERY" else tokens[1]
    return text.part(first.start), True


def create_view(execution: ExecutionContext, statement: CreateTemporaryView) -> None:
    """CREATE TEMPORARY VIEW: the view keeps the current snapshot."""
    name = _view_name(statement.name)
    facts = execution.context.facts
    if not statement.is_global and not statement.replace and is_temporary_view(facts, name):
        raise AlreadyExistsError(f"temporary view {name} exists already: use CREATE OR REPLACE")
    with execution.binder() as binder:
        binder.subqueries = True  # of the queries that will read the view
        frame = bound_frame(binder, statement.query)
    if statement.columns:
        if len(statement.columns) != len(frame.columns):
            raise SchemaMismatchError(
                f"view {name} names {len(statement.columns)} columns, but its query has {len(frame.columns)}"
            )
        frame = frame.toDF(*statement.columns)
    with spark_errors_at_source():
        if statement.is_global:
            (frame.createOrReplaceGlobalTempView if statement.replace else frame.createGlobalTempView)(name)
        else:
            frame.createOrReplaceTempView(name)


def drop_view(execution: ExecutionContext, statement: DropView) -> None:
    """DROP VIEW: a temporary or (``global_temp.name``) a global temporary one."""
    catalog = execution.context.facts.spark.catalog
    if statement.name.database == "global_temp":
        dropped = catalog.dropGlobalTempView(statement.name.name)
    else:
        dropped = catalog.dropTempView(_view_name(statement.name))
    if not dropped and not statement.if_exists:
        raise NoSuchTableError(f"view {statement.name} does not exist")


def is_temporary(execution: ExecutionContext, name: TableRef) -> bool:
    """Tell whether DROP VIEW means a temporary view."""
    if name.database is not None:
        return name.database == "global_temp"
    return is_temporary_view(execution.context.facts, name.name)


def _view_name(name: TableRef) -> str:
    if name.database is not None:
        raise StatementError("a temporary view belongs to no database", line=name.line, column=name.column)
    return name.name


@dataclass(frozen=True, repr=False)
class AcidView(AcidTable):
    """A view as an `AcidTable`: its rows can be read; every method that needs a table raises CatalogError."""

    binder: Callable[[], AbstractContextManager[Binder]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def view(self) -> ViewDefinition:
        """Return the view's present definition. Raises NoSuchTableError."""
        return require_view(self.context, self.name)

    def to_df(self) -> DataFrame:
        """Return the rows of the view's query at the current snapshot; inside a transaction, at its snapshot."""
        if self.binder is None:
            raise UnsupportedFeatureError("a view is read by the connection that knows it: acid.table(name)")
        if self.snapshot_at is not None:
            raise UnsupportedFeatureError(
                f"{self.name} is a view, which has no past of its own: as_of belongs to the tables in its query"
            )
        name = f"{quote_name(self.name.database)}.{quote_name(self.name.name)}"
        with self.binder() as binder:
            return bound_frame(binder, Slice(f"SELECT * FROM {name}"))

"""Queries, temporary views, views in the catalog, and views as tables of the Python API (``acid.table("v").to_df()``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog import ddl
from hiveacid.catalog.ddl import require_view
from hiveacid.config import setting_definitions
from hiveacid.core.model import Column, TableName, ViewDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.session.bound_plans import settings_of_meaning
from hiveacid.spark.session.classic_session import exists_in_spark, is_temporary_view
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import active_session
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.binding.table_binder import Binder, reads_of
from hiveacid.sql.binding.view_text import hive_columns_of, output_names, qualify_names
from hiveacid.sql.execute import show_rows
from hiveacid.sql.execute.context import ExecutionContext, string_rows
from hiveacid.sql.statements import Slice, TableRef, administration, definitions
from hiveacid.sql.statements.definitions import CreateTemporaryView, DropView
from hiveacid.sql.statements.dml import Query
from hiveacid.table.acid_table import AcidTable
from hiveacid.table.context import Context


def query(execution: ExecutionContext, statement: Query) -> DataFrame:
    """Run a query in Spark, with all tables of the hiveacid catalog at one snapshot."""
    text, described = _split_describe(statement.text)
    with execution.binder() as binder:
        frame = bound_frame(binder, text)
    if not described:
        return frame
    rows = [(field.name, field.dataType.simpleString(), None) for field in frame.schema.fields]
    return string_rows(execution.context.env, ("col_name", "data_type", "comment"), rows)


def bound_frame(binder: Binder, text: Slice) -> DataFrame:
    """Return a query's rows."""
    bound = binder.bind(text)
    with spark_errors_at_source(text):
        return binder.run(bound)


def _split_describe(text: Slice) -> tuple[Slice, bool]:
    """Split DESCRIBE [QUERY] from the query behind it."""
    tokens = text.tokens
    if tokens[0].keyword not in {"DESC", "DESCRIBE"} or tokens[1].keyword == "FUNCTION":
        return text, False
    first = tokens[2] if tokens[1].keyword == "QUERY" else tokens[1]
    return text.part(first.start), True


def create_temporary_view(execution: ExecutionContext, statement: CreateTemporaryView) -> None:
    """CREATE TEMPORARY VIEW: the view keeps the current snapshot."""
    name = _view_name(statement.name)
    env = execution.context.env
    if not statement.is_global and not statement.replace and is_temporary_view(env, name):
        raise errors.already_exists("temporary view", name, "use CREATE OR REPLACE")
    with execution.binder() as binder:
        binder.subqueries = True  # of the queries that will read the view
        frame = bound_frame(binder, statement.query)
    if statement.columns:
        if len(statement.columns) != len(frame.columns):
            raise errors.SchemaMismatchError(
                f"view {name} names {len(statement.columns)} columns, but its query has {len(frame.columns)}"
            )
        frame = frame.toDF(*statement.columns)
    with spark_errors_at_source():
        if statement.is_global:
            (frame.createOrReplaceGlobalTempView if statement.replace else frame.createGlobalTempView)(name)
        else:
            frame.createOrReplaceTempView(name)


def drop_temporary_view(execution: ExecutionContext, statement: DropView) -> None:
    """DROP VIEW: a temporary or (``global_temp.name``) a global temporary one."""
    catalog = execution.context.env.spark.catalog
    if statement.name.database == "global_temp":
        dropped = catalog.dropGlobalTempView(statement.name.name)
    else:
        dropped = catalog.dropTempView(_view_name(statement.name))
    if not dropped and not statement.if_exists:
        raise errors.NoSuchTableError(f"view {statement.name} does not exist")


def is_temporary(execution: ExecutionContext, name: TableRef) -> bool:
    """Tell whether DROP VIEW means a temporary view."""
    if name.database is not None:
        return name.database == "global_temp"
    return is_temporary_view(execution.context.env, name.name)


def _view_name(name: TableRef) -> str:
    if name.database is not None:
        raise errors.StatementError(
            "a temporary view belongs to no database", line=name.line, column=name.column
        )
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
            raise errors.UnsupportedFeatureError(
                "a view is read by the connection that knows it: acid.table(name)"
            )
        if self.snapshot_at is not None:
            raise errors.UnsupportedFeatureError(
                f"{self.name} is a view, which has no past of its own: as_of belongs to the tables in its query"
            )
        name = f"{quote_name(self.name.database)}.{quote_name(self.name.name)}"
        with self.binder() as binder, active_session(self.context.env):
            return bound_frame(binder, Slice(f"SELECT * FROM {name}"))


def create_view(execution: ExecutionContext, statement: definitions.CreateView) -> None:
    """CREATE VIEW: analyses the query and qualifies its table names, without running it."""
    context, ref = execution.context, statement.view
    name = ref.resolve(context.database)
    exists = context.catalog.get_view(name) is not None
    if statement.if_not_exists and (exists or context.catalog.get_table(name) is not None):
        return
    with errors_at(ref.line, ref.column):
        ddl.require_free_view_name(context, name, replaces=statement.replace)
        if not exists:
            _require_free_in_spark(context, name)
    view = _view_definition(execution, name, ref, statement.query, statement.columns)
    definition = replace(view, comment=statement.comment, properties=statement.properties)
    # of two at once, the second finds it when it has the lock
    with suppress(*(errors.AlreadyExistsError,) if statement.if_not_exists else ()):
        ddl.create_view(context, definition, replaces=statement.replace)


def alter_view(execution: ExecutionContext, statement: definitions.AlterView) -> None:
    """ALTER VIEW AS: replaces the query; comment, properties and owner stay."""
    context = execution.context
    name = _find(execution, statement.view)
    definition = _view_definition(execution, name, statement.view, statement.query)
    ddl.alter_view(context, name, partial(_with_query_of, definition))


def _with_query_of(new: ViewDefinition, old: ViewDefinition) -> ViewDefinition:
    return replace(
        new, comment=old.comment, properties=old.properties, owner=old.owner, created_at=old.created_at
    )


def rename_view(execution: ExecutionContext, statement: definitions.RenameView) -> None:
    """ALTER VIEW RENAME; a new name without a database stays in the view's own."""
    name = _find(execution, statement.view)
    new_name = statement.new_name.resolve(name.database)
    with errors_at(statement.new_name.line, statement.new_name.column):
        _require_free_in_spark(execution.context, new_name)
        ddl.alter_view(execution.context, name, lambda view: replace(view, name=new_name))


def set_view_properties(execution: ExecutionContext, statement: definitions.SetViewProperties) -> None:
    """ALTER VIEW SET TBLPROPERTIES."""
    ddl.set_view_properties(execution.context, _find(execution, statement.view), dict(statement.properties))


def unset_view_properties(execution: ExecutionContext, statement: definitions.UnsetViewProperties) -> None:
    """ALTER VIEW UNSET TBLPROPERTIES."""
    name = _find(execution, statement.view)
    ddl.unset_view_properties(execution.context, name, statement.keys, if_exists=statement.if_exists)


def drop_view(execution: ExecutionContext, statement: definitions.DropView) -> None:
    """DROP VIEW of a view in the catalog."""
    context, name = execution.context, statement.name.resolve(execution.context.database)
    is_missing = context.catalog.get_view(name) is None and context.catalog.get_table(name) is None
    if_exists = statement.if_exists or context.settings.get(setting_definitions.DROP_IGNORES_NONEXISTENT)
    if not (is_missing and if_exists):
        # another client may drop it first
        with suppress(*(errors.NoSuchTableError, errors.NoSuchDatabaseError) if if_exists else ()):
            ddl.drop_view(context, _find(execution, statement.name))


def show_views(execution: ExecutionContext, statement: administration.ShowViews) -> DataFrame:
    """SHOW VIEWS."""
    database = statement.database or execution.context.database
    rows = show_rows.view_rows(execution.context.catalog, database, statement.pattern)
    return string_rows(execution.context.env, show_rows.TABLE_COLUMNS, rows)


def _require_free_in_spark(context: Context, name: TableName) -> None:
    """Raise AlreadyExistsError if a view would hide a table or view in Spark's own catalog."""
    if exists_in_spark(context.env, (name.database, name.name)):
        raise errors.AlreadyExistsError(
            f"Spark's own catalog has a table or view {name}: give this one another name"
        )


def _find(execution: ExecutionContext, ref: TableRef) -> TableName:
    name = ref.resolve(execution.context.database)
    with errors_at(ref.line, ref.column):
        ddl.require_view(execution.context, name)
    return name


def _view_definition(
    execution: ExecutionContext,
    name: TableName,
    ref: TableRef,
    query: Slice,
    named: tuple[definitions.ViewColumn, ...] = (),
) -> ViewDefinition:
    """Return the definition of a view on a query; ``named``: its columns, by default those of the query."""
    context = execution.context
    relations = reads_of(context.env, query).relations
    text = qualify_names(context, query, relations, str(context.env.spark.catalog.currentDatabase()).lower())
    with execution.binder() as binder:
        binder.within.append(name)  # a query that reads the view itself would never end
        frame = bound_frame(binder, query)
        query_columns = hive_columns_of(frame, stored=False)
    if named and len(named) != len(query_columns):
        raise errors.SchemaMismatchError(
            f"view {name} names {len(named)} columns, but its query has {len(query_columns)}",
            line=ref.line,
            column=ref.column,
        )
    columns = (
        tuple(
            Column(output.name, column.type, output.comment)
            for output, column in zip(named, query_columns, strict=True)
        )
        if named
        else query_columns
    )
    names = [column.name for column in columns]
    duplicate = next((column_name for column_name in names if names.count(column_name) > 1), None)
    if duplicate is not None:
        raise errors.StatementError(
            f"view {name} would have two columns called {duplicate}: name them",
            line=ref.line,
            column=ref.column,
        )
    view = ViewDefinition(
        name,
        columns,
        text,
        original=query.text,
        outputs=output_names(frame),
        database=context.database,
        settings=settings_of_meaning(context.env),
    )
    _require_same_elsewhere(execution, view, frame)
    return view


def _require_same_elsewhere(execution: ExecutionContext, view: ViewDefinition, frame: DataFrame) -> None:
    """Refuse a view whose query is read otherwise in a session without the present one's own names."""
    try:
        with execution.binder() as binder, translate_errors():
            types = [field.dataType for field in binder.run_view(view).schema]
        message = "its columns have other types there"
    except errors.HiveAcidError as error:
        message, types = str(error), []
    if types != [field.dataType for field in frame.schema]:
        raise errors.UnsupportedFeatureError(
            f"view {view.name} would not be the same in other sessions, which do not have this one's temporary functions and "
            f"variables: {message}"
        )

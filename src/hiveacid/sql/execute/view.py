"""Executors of statements on views in the catalog; they call `hiveacid.catalog.databases_and_views`."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from hiveacid.catalog import databases_and_views
from hiveacid.core.model import Column, TableName, ViewDefinition
from hiveacid.errors import (
    AlreadyExistsError,
    HiveAcidError,
    SchemaMismatchError,
    StatementError,
    UnsupportedFeatureError,
)
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.temporary_views import exists_in_spark
from hiveacid.spark.session.view_analysis import settings_of_meaning
from hiveacid.sql.binding.source_positions import errors_at
from hiveacid.sql.binding.table_binder import QUERY, relations_of
from hiveacid.sql.binding.view_text import hive_columns_of, output_names, qualify_names
from hiveacid.sql.execute import show_rows
from hiveacid.sql.execute.context import ExecutionContext, string_rows
from hiveacid.sql.execute.query import bound_frame
from hiveacid.sql.statements import definitions, queries
from hiveacid.sql.statements.values import Slice, TableRef
from hiveacid.table.context import Context


def create(execution: ExecutionContext, statement: definitions.CreateView) -> None:
    """CREATE VIEW: analyses the query and qualifies its table names, without running it."""
    context, ref = execution.context, statement.view
    name = ref.resolve(context.database)
    exists = context.catalog.get_view(name) is not None
    if statement.if_not_exists and (exists or context.catalog.get_table(name) is not None):
        return
    with errors_at(ref.line, ref.column):
        databases_and_views.require_free_view_name(context, name, replaces=statement.replace)
        if not exists:
            _require_free_in_spark(context, name)
    view = _view(execution, name, ref, statement.query, statement.columns)
    definition = replace(view, comment=statement.comment, properties=statement.properties)
    databases_and_views.create_view(context, definition, replaces=statement.replace)


def alter(execution: ExecutionContext, statement: definitions.AlterView) -> None:
    """ALTER VIEW AS: replaces the query; comment, properties and owner stay."""
    context = execution.context
    name = _find(execution, statement.view)
    definition = _view(execution, name, statement.view, statement.query)

    def edit(old: ViewDefinition) -> ViewDefinition:
        return replace(
            definition,
            comment=old.comment,
            properties=old.properties,
            owner=old.owner,
            created_at=old.created_at,
        )

    databases_and_views.alter_view(context, name, edit)


def rename(execution: ExecutionContext, statement: definitions.RenameView) -> None:
    """ALTER VIEW RENAME; a new name without a database stays in the view's own."""
    name = _find(execution, statement.view)
    new_name = statement.new_name.resolve(name.database)
    with errors_at(statement.new_name.line, statement.new_name.column):
        _require_free_in_spark(execution.context, new_name)
        databases_and_views.alter_view(execution.context, name, lambda view: replace(view, name=new_name))


def set_properties(execution: ExecutionContext, statement: definitions.SetViewProperties) -> None:
    """ALTER VIEW SET TBLPROPERTIES."""
    databases_and_views.set_properties(
        execution.context, _find(execution, statement.view), dict(statement.properties)
    )


def unset_properties(execution: ExecutionContext, statement: definitions.UnsetViewProperties) -> None:
    """ALTER VIEW UNSET TBLPROPERTIES."""
    name = _find(execution, statement.view)
    databases_and_views.unset_properties(
        execution.context, name, statement.keys, if_exists=statement.if_exists
    )


def drop(execution: ExecutionContext, statement: definitions.DropView) -> None:
    """DROP VIEW of a view in the catalog."""
    context, name = execution.context, statement.name.resolve(execution.context.database)
    is_missing = context.catalog.get_view(name) is None and context.catalog.get_table(name) is None
    if not (is_missing and statement.if_exists):
        databases_and_views.drop_view(context, _find(execution, statement.name))


def show(execution: ExecutionContext, statement: queries.ShowViews) -> DataFrame:
    """SHOW VIEWS."""
    database = statement.database or execution.context.database
    rows = show_rows.view_rows(execution.context.catalog, database, statement.pattern)
    return string_rows(execution.context.facts, show_rows.TABLE_COLUMNS, rows)


def _require_free_in_spark(context: Context, name: TableName) -> None:
    """Raise AlreadyExistsError if a view would hide a table or view in Spark's own catalog."""
    if exists_in_spark(context.facts, (name.database, name.name)):
        raise AlreadyExistsError(
            f"Spark's own catalog has a table or view {name}: give this one another name"
        )


def _find(execution: ExecutionContext, ref: TableRef) -> TableName:
    name = ref.resolve(execution.context.database)
    with errors_at(ref.line, ref.column):
        databases_and_views.require_view(execution.context, name)
    return name


def _view(
    execution: ExecutionContext,
    name: TableName,
    ref: TableRef,
    query: Slice,
    named: tuple[definitions.ViewColumn, ...] = (),
) -> ViewDefinition:
    """Return the definition of a view on a query; ``named``: its columns, by default those of the query."""
    context = execution.context
    relations = relations_of(context.facts, query, QUERY)
    text = qualify_names(
        context, query, relations, str(context.facts.spark.catalog.currentDatabase()).lower()
    )
    with execution.binder() as binder:
        binder.within.append(name)  # a query that reads the view itself would never end
        frame = bound_frame(binder, query)
        query_columns = hive_columns_of(frame)
    if named and len(named) != len(query_columns):
        raise SchemaMismatchError(
            f"view {name} names {len(named)} columns, but its query has {len(query_columns)} "
            f"(line {ref.line}, column {ref.column})"
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
        raise StatementError(
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
        settings=settings_of_meaning(context.facts),
    )
    _require_same_elsewhere(execution, view, frame)
    return view


def _require_same_elsewhere(execution: ExecutionContext, view: ViewDefinition, frame: DataFrame) -> None:
    """Refuse a view whose query is read otherwise in a session without the present one's own names."""
    try:
        with execution.binder() as binder, translate_errors():
            binder.within.append(view.name)
            types = [field.dataType for field in binder.run_view(view).schema]
        message = "its columns have other types there"
    except HiveAcidError as error:
        message, types = str(error), []
    if types != [field.dataType for field in frame.schema]:
        raise UnsupportedFeatureError(
            f"view {view.name} would not be the same in other sessions, which do not have this one's temporary functions and "
            f"variables: {message}"
        )

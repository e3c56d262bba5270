"""Views in the catalog: statements to what `hiveacid.catalog.views` does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.catalog import views
from hiveacid.core.model import Column, ViewDefinition
from hiveacid.errors import AlreadyExistsError, SchemaMismatchError, StatementError
from hiveacid.spark.views import spark_knows
from hiveacid.sql import store_rows
from hiveacid.sql.binding import QUERY, relations_of
from hiveacid.sql.execute_query import frame_of
from hiveacid.sql.placing import at
from hiveacid.sql.rows import nothing, texts
from hiveacid.sql.view_text import columns_of, outputs_of, qualified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.sql import statements as s
    from hiveacid.sql.session import AcidSession
    from hiveacid.sql.values import Slice, TableRef
    from hiveacid.table.context import Context


def create(session: AcidSession, statement: s.CreateView) -> DataFrame:
    """CREATE VIEW: the query is analysed, its names are written out, and it is not run."""
    context, ref = session.context, statement.view
    name = ref.resolve(context.database)
    there = context.catalog.get_view(name) is not None
    if statement.if_not_exists and (there or context.catalog.get_table(name) is not None):
        return nothing(context.facts)
    with at(ref.line, ref.column):
        views.require_room(context, name, replaces=statement.replace)
        if not there:
            _require_free_in_spark(context, name)
    view = _view(session, name, ref, statement.query, statement.columns)
    made = replace(view, comment=statement.comment, properties=statement.properties)
    views.create_view(context, made, replaces=statement.replace)
    return nothing(context.facts)


def alter(session: AcidSession, statement: s.AlterView) -> DataFrame:
    """ALTER VIEW AS: another query; comment, properties and owner stay."""
    context = session.context
    name = _find(session, statement.view)
    made = _view(session, name, statement.view, statement.query)

    def edit(old: ViewDefinition) -> ViewDefinition:
        return replace(
            made,
            comment=old.comment,
            properties=old.properties,
            owner=old.owner,
            created_at=old.created_at,
        )

    views.alter_view(context, name, edit)
    return nothing(context.facts)


def rename(session: AcidSession, statement: s.RenameView) -> DataFrame:
    """ALTER VIEW RENAME; a new name without a database stays in the view's own."""
    name = _find(session, statement.view)
    new = statement.new_name.resolve(name.database)
    with at(statement.new_name.line, statement.new_name.column):
        _require_free_in_spark(session.context, new)
        views.alter_view(session.context, name, lambda view: replace(view, name=new))
    return nothing(session.context.facts)


def set_properties(session: AcidSession, statement: s.SetViewProperties) -> DataFrame:
    """ALTER VIEW SET TBLPROPERTIES."""
    views.set_properties(session.context, _find(session, statement.view), dict(statement.properties))
    return nothing(session.context.facts)


def unset_properties(session: AcidSession, statement: s.UnsetViewProperties) -> DataFrame:
    """ALTER VIEW UNSET TBLPROPERTIES."""
    name = _find(session, statement.view)
    views.unset_properties(session.context, name, statement.keys, if_exists=statement.if_exists)
    return nothing(session.context.facts)


def drop(session: AcidSession, statement: s.DropView) -> DataFrame:
    """DROP VIEW, of one in the catalog."""
    context, name = session.context, statement.name.resolve(session.context.database)
    gone = context.catalog.get_view(name) is None and context.catalog.get_table(name) is None
    if not (gone and statement.if_exists):
        views.drop_view(context, _find(session, statement.name))
    return nothing(context.facts)


def show(session: AcidSession, statement: s.ShowViews) -> DataFrame:
    """SHOW VIEWS."""
    database = statement.database or session.context.database
    rows = store_rows.view_rows(session.context.catalog, database, statement.pattern)
    return texts(session.context.facts, store_rows.TABLE_COLUMNS, rows)


def _require_free_in_spark(context: Context, name: TableName) -> None:
    """Raise AlreadyExistsError where a view of ours would hide what Spark's own catalog has."""
    if spark_knows(context.facts, (name.database, name.name)):
        raise AlreadyExistsError(
            f"Spark's own catalog has a table or view {name}: give this one another name"
        )


def _find(session: AcidSession, ref: TableRef) -> TableName:
    name = ref.resolve(session.context.database)
    with at(ref.line, ref.column):
        views.require_view(session.context, name)
    return name


def _view(
    session: AcidSession,
    name: TableName,
    ref: TableRef,
    query: Slice,
    named: tuple[s.ViewColumn, ...] = (),
) -> ViewDefinition:
    """Return the view that a query makes, its columns called as ``named`` where that is not empty."""
    context = session.context
    relations = relations_of(context.facts, query, QUERY)
    text = qualified(context, query, relations, str(context.facts.spark.catalog.currentDatabase()).lower())
    with session.binder() as binder:
        binder.within.append(name)  # what reads it again would never end
        frame = frame_of(binder, query)
        found = columns_of(frame)
    if named and len(named) != len(found):
        raise SchemaMismatchError(
            f"view {name} names {len(named)} columns, but its query has {len(found)} "
            f"(line {ref.line}, column {ref.column})"
        )
    columns = (
        tuple(Column(one.name, column.type, one.comment) for one, column in zip(named, found, strict=True))
        if named
        else found
    )
    names = [column.name for column in columns]
    double = next((one for one in names if names.count(one) > 1), None)
    if double is not None:
        raise StatementError(
            f"view {name} would have two columns called {double}: name them", line=ref.line, column=ref.column
        )
    return ViewDefinition(
        name, columns, text, original=query.text, outputs=outputs_of(frame), database=context.database
    )

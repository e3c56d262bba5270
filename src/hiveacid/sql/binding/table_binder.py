"""Binder of one statement: puts the rows of one snapshot in the place of table names in its texts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.config.property_definitions import SPARK_PROVIDER
from hiveacid.core.display import did_you_mean
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition, TableKind, TableName, ViewDefinition
from hiveacid.errors import CatalogError, NoSuchTableError, ParseError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import active_session, parser_of
from hiveacid.spark.parser.relations import (
    Relation,
    find_relations,
    find_relations_in_expression,
    shift_relation,
)
from hiveacid.spark.session import temporary_views
from hiveacid.spark.session.bound_plans import SPARK_CATALOG, BoundTable, with_own_ids, with_tables
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import frame_of_plan
from hiveacid.spark.session.view_analysis import analyse_apart, read_as_creator, session_of_views
from hiveacid.sql.binding.change_feed_calls import ChangeCall, find_change_calls
from hiveacid.sql.binding.change_feed_rows import change_frame
from hiveacid.sql.binding.metadata_tables import TableSource, find_metadata_table, metadata_frame
from hiveacid.sql.binding.predicates import is_count_of_rows, where_predicate
from hiveacid.sql.binding.source_positions import Edit, EditedText
from hiveacid.sql.binding.time_travel import resolve_as_of
from hiveacid.sql.binding.view_text import errors_of_view, find_hiveacid_view, with_view_columns
from hiveacid.sql.binding.virtual_columns_in_queries import (
    VIRTUAL_COLUMNS,
    VirtualColumns,
    has_nested_query,
)
from hiveacid.sql.statements.values import Slice, TableRef, table_ref
from hiveacid.table.acid_table import Scan
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction

# Prefixes that make a query of a piece of text.
EXPRESSION, SOURCE, QUERY = "SELECT ", "SELECT * FROM ", ""
_READING = frozenset({"FROM", "JOIN", "TABLE"})
_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})


@dataclass
class Binder:
    """Binds the texts of one statement; all of them see one snapshot.

    ``joined``: the transaction that reads. ``reader``: the read transaction of a snapshot, for queries outside a
    transaction; it keeps the files as long as the result can run.
    """

    context: Context
    joined: Transaction | None
    reader: Transaction | None
    rows: dict[TableSource, DataFrame] = field(default_factory=dict)
    tables: dict[str, BoundTable] = field(default_factory=dict)  # by the names that stand in bound texts
    subqueries: bool = False  # some text has a query in parentheses
    apart: SparkFacts | None = None  # the session for the texts of views
    view: ViewDefinition | None = None  # whose text is being bound, for that session
    within: list[TableName] = field(default_factory=list)  # views of the catalog whose texts are being bound

    def bind(self, piece: Slice, before: str = QUERY) -> EditedText:
        """Return a piece of text in which names of this binder replace the tables of the hiveacid catalog.

        `run`, `plan` and `bound_column` put the tables' rows in their place.

        ``before``: the prefix that makes a query of the piece. Raises NoSuchTableError, ParseError,
        UnsupportedFeatureError.
        """
        calls = find_change_calls(piece)
        if before != SOURCE and not any(token.keyword in _READING for token in piece.tokens):
            return EditedText(piece)
        virtual_columns = VirtualColumns(piece)
        facts = self._reading_session()
        with nullcontext() if self.view is None else active_session(facts):
            relations = relations_of(facts, piece, before)
        predicate = where_predicate(piece, relations) if before == QUERY else None
        if predicate is not None and self.view is not None:
            predicate = replace(predicate, view=self.view.name)
        counted = before == QUERY and is_count_of_rows(piece, relations)
        self.subqueries = self.subqueries or has_nested_query(piece.tokens)
        edits = [Edit(call.start, call.end, self._changes(piece, call)) for call in calls]
        by_place = {relation.start: relation for relation in relations}  # several INSERTs may share a FROM
        for relation in by_place.values():
            relation_source = self._ours(piece, relation)
            if relation_source is None:
                continue
            if isinstance(relation_source, ViewDefinition):
                source = self._view(piece, relation, relation_source)
            elif relation_source.metadata is not None:
                source = self._metadata_table(piece, relation, relation_source)
            else:
                needs_them = virtual_columns.needed_at(relation.start)
                as_of = resolve_as_of(self.context, piece, relation)
                source = TableSource(
                    relation_source.table, None, needs_them, as_of, predicate, counted, self.subqueries
                )
            edits.append(Edit(relation.start, relation.whole_end, self._bound_table(source, relation.name)))
        return EditedText(piece, tuple(edits))

    def _metadata_table(self, piece: Slice, relation: Relation, source: TableSource) -> TableSource:
        """Return the source of the metadata; refuse AS OF."""
        if relation.travel is not None:
            line, column = piece.position(relation.travel.start)
            raise UnsupportedFeatureError(
                f"{source.table}.{source.metadata} shows the present: it cannot be read AS OF (line {line}, column {column})"
            )
        return source

    def _view(self, piece: Slice, relation: Relation, view: ViewDefinition) -> TableSource:
        """Read a catalog view at this statement's snapshot; return the source under which its rows are kept."""
        line, column = piece.position(relation.start)
        where = f" (line {line}, column {column})"
        if relation.travel is not None:
            raise UnsupportedFeatureError(
                f"{view.name} is a view, which has no past of its own: AS OF belongs to the tables in its query{where}"
            )
        source = TableSource(view.name)
        if view.name in self.within:
            raise UnsupportedFeatureError(f"view {view.name} would read itself{where}")
        if source not in self.rows:
            before = self.context.database, self.context.in_view
            self.context.database, self.context.in_view = view.database, True
            self.within.append(view.name)
            try:
                with errors_of_view(view.name, where):
                    rows = self.run_view(view)
                    self.rows[source] = with_view_columns(view, rows)
            finally:
                self.within.pop()
                self.context.database, self.context.in_view = before
        return source

    def _changes(self, piece: Slice, call: ChangeCall) -> str:
        """Return the name that stands for the rows of a change function; each call has its own."""
        frame = change_frame(self.context, piece, call, self.joined or self.reader)
        return self._bind(BoundTable(frame, call.function))

    def _ours(self, piece: Slice, relation: Relation) -> TableSource | ViewDefinition | None:
        """Return the table or view of the hiveacid catalog that a name refers to, None if it is Spark's."""
        parts, ref = relation.parts, table_ref(relation.parts)
        name = find_hiveacid_table(self.context, ref)
        if name is not None:
            return TableSource(name)
        source = find_hiveacid_view(self.context, ref) or find_metadata_table(self.context, parts)
        if source is not None:
            return source
        if _names_files(parts) or temporary_views.exists_in_spark(self.context.facts, parts):
            return None
        line, column = piece.position(relation.start)
        near = self._similar_name(parts)
        raise NoSuchTableError(
            f"table {'.'.join(parts)} does not exist: see SHOW TABLES{near}{temporary_views.batch_hint(self.context.facts)} (line {line}, "
            f"column {column})"
        )

    def _similar_name(self, parts: Sequence[str]) -> str:
        ref, catalog = table_ref(parts), self.context.catalog
        if ref is None:
            return ""
        database = ref.database or self.context.database
        if catalog.get_database(database) is None:
            return did_you_mean(database, catalog.list_databases())
        return did_you_mean(ref.name, catalog.list_tables(database))

    def _bound_table(self, source: TableSource, name: str) -> str:
        """Return the name that stands for a table in a bound text; each place has its own."""
        frame, hidden = self._rows(source), len(self._virtual_columns(source))
        if hidden:
            frame = with_own_ids(frame)
        owner = (source.table.name,) if source.metadata else ()
        return self._bind(BoundTable(frame, name, (SPARK_CATALOG, source.table.database, *owner), hidden))

    def _bind(self, table: BoundTable) -> str:
        name = f"hiveacid_{uuid.uuid4().hex}"
        self.tables[name] = table
        return name

    def run(self, text: str) -> DataFrame:
        """Return the rows of a bound query."""
        facts = self.context.facts
        if not self.tables:
            # not by the JVM's session: a native session would resolve the text as a user's
            return facts.spark.sql(text)
        with active_session(facts):
            plan = self.plan(parser_of(facts).parsePlan(text))
            return frame_of_plan(facts, plan)

    def run_view(self, view: ViewDefinition) -> DataFrame:
        """Return the rows of a view's query, apart from the session's own functions, variables and settings."""
        facts, outer = self.context.facts, self.view
        if self.apart is None:
            self.apart = session_of_views(facts)
        self.view = view
        try:
            read_as_creator(facts, self.apart, view)
            return analyse_apart(facts, self.apart, self.bind(Slice(view.text)).text, self.plan)
        finally:
            self.view = outer
            if outer is not None:  # the view whose text names this one is still being bound
                read_as_creator(facts, self.apart, outer)

    def _reading_session(self) -> SparkFacts:
        """Return the session in which the texts that are being bound have their meaning."""
        return self.context.facts if self.view is None or self.apart is None else self.apart

    def plan(self, plan: Any) -> Any:
        """Return the parsed plan of a bound text, in which the tables' rows stand for their names."""
        return with_tables(self.context.facts, plan, self.tables)

    def _rows(self, source: TableSource) -> DataFrame:
        if source not in self.rows:
            self.rows[source] = self.frame(source)
        return self.rows[source]

    def _virtual_columns(self, source: TableSource) -> list[str]:
        if not source.virtual_columns:
            return []
        kind = self.context.require(source.table).kind
        return [name for name in VIRTUAL_COLUMNS if name != ROW_ID or kind is TableKind.FULL_ACID]

    def frame(self, source: TableSource) -> DataFrame:
        """Return the rows of a table, with its virtual columns last if the source has them."""
        if source.metadata is not None:
            return metadata_frame(self.context, source, self.joined or self.reader)
        more = self._virtual_columns(source)
        columns = self.context.require(source.table).column_names
        scan = Scan(
            self.context,
            source.table,
            self.joined,
            columns=(*columns, *more),
            as_of=source.as_of,
            counted=source.counted,
            subqueries=source.subqueries,
        )
        if source.predicate is not None:
            predicate, facts = source.predicate, self._reading_session()
            scan = replace(scan, hint=predicate.condition, hint_alias=predicate.alias, hint_session=facts)
        return scan.to_df(self.reader)


@contextmanager
def binder(
    context: Context, joined: Transaction | None, reader: Transaction | None = None
) -> Iterator[Binder]:
    """Provide a Binder for one statement.

    With neither ``joined`` nor ``reader``, the statement reads the current snapshot, taken once at the beginning.
    """
    with ExitStack() as stack:
        if joined is None and reader is None:
            reader = stack.enter_context(context.read_leases.acquire(context.settings))
        yield Binder(context, joined, reader)


def find_hiveacid_table(context: Context, ref: TableRef | None) -> TableName | None:
    """Return the table of the hiveacid catalog that a name refers to, None if it is Spark's or a temporary view."""
    if ref is None or (ref.database is None and temporary_views.is_temporary_view(context.facts, ref.name)):
        return None
    name = ref.resolve(context.database)
    table = context.catalog.get_table(name)
    if table is None:
        return None
    return None if is_spark_table(context, table) else name


def is_view_of_session(context: Context, ref: TableRef) -> bool:
    """Tell whether a name that a statement writes to is a temporary view's.

    Raises CatalogError if the view hides a hiveacid table: a query of that name would not read what was written.
    """
    if ref.database is not None or not temporary_views.is_temporary_view(context.facts, ref.name):
        return False
    hidden = ref.resolve(context.database)
    if context.catalog.get_table(hidden) is not None:
        raise CatalogError(
            f"{ref.name} is a temporary view in this session: to write to the table, name it {hidden}"
        )
    return True


def _names_files(parts: Sequence[str]) -> bool:
    """Tell whether a name means files by their format, or by the class that reads them, and their path."""
    return len(parts) > 1 and (parts[0] in _FILE_FORMATS or "/" in parts[-1])


def is_spark_table(context: Context, table: TableDefinition) -> bool:
    """Tell whether Spark's own catalog created a table of the metastore, and this session can read it there."""
    is_provider_table = table.kind is TableKind.PLAIN and SPARK_PROVIDER.of(table) is not None
    return is_provider_table and context.facts.hive_support


def find_hiveacid_relation(context: Context, ref: TableRef | None) -> TableName | None:
    """Return the table or view of the hiveacid catalog that a name refers to, as `find_hiveacid_table` does for tables."""
    table = find_hiveacid_table(context, ref)
    if table is not None:
        return table
    view = find_hiveacid_view(context, ref)
    return None if view is None else view.name


def relations_of(facts: SparkFacts, piece: Slice, before: str) -> list[Relation]:
    """Return the tables that a piece of text names, with offsets from the beginning of the piece."""
    try:
        if before == EXPRESSION:
            return find_relations_in_expression(facts, piece.text)
        relations = find_relations(facts, before + piece.text)
    except ParseError as error:
        if error.line is None or error.column is None:
            raise
        column = error.column - (len(before) if error.line == 1 and before != EXPRESSION else 0)
        message = str(error).removesuffix(f" (line {error.line}, column {error.column})")
        line, column = piece.statement_position(error.line, column)
        raise ParseError(message, line=line, column=column) from error
    return [shift_relation(relation, -len(before)) for relation in relations]

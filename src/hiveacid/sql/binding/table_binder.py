"""Binder of one statement: puts the rows of one snapshot in the place of table names in its texts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.config.property_definitions import SPARK_PROVIDER
from hiveacid.core.model import TableDefinition, TableKind, TableName, ViewDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.core.suggestions import did_you_mean
from hiveacid.errors import CatalogError, NoSuchTableError, ParseError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import active_session, parser_of
from hiveacid.spark.parser.lexer import Token
from hiveacid.spark.parser.relations import (
    Relation,
    find_relations,
    find_relations_in_expression,
    shift_relation,
)
from hiveacid.spark.session import temporary_views
from hiveacid.spark.session.bound_plans import BoundTable, with_own_ids, with_tables
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
    Block,
    VirtualColumns,
    has_nested_query,
    query_block,
)
from hiveacid.sql.statements.values import Slice, TableRef, table_ref
from hiveacid.table.acid_table import Scan
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction

# Prefixes that make a query of a piece of text.
EXPRESSION, SOURCE, QUERY = "SELECT ", "SELECT * FROM ", ""
_CATALOG, _IN_DATABASE = "spark_catalog", 2  # Spark's own catalog; how many parts a name in a database has
_BEFORE_ALIAS = frozenset({"AS", ")", "WITH", "RECURSIVE"})
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
    views: dict[TableSource, str] = field(default_factory=dict)  # temporary views
    temporary: list[str] = field(default_factory=list)  # names of all temporary views
    subqueries: bool = False  # some text has a query in parentheses
    apart: SparkFacts | None = None  # the session for the texts of views
    view: ViewDefinition | None = None  # whose text is being bound, for that session
    within: list[TableName] = field(default_factory=list)  # views of the catalog whose texts are being bound

    def bind(self, piece: Slice, before: str = QUERY) -> EditedText:
        """Return a piece of text in which names of this binder replace the tables of the hiveacid catalog.

        `run` and `plan` put the tables' rows in their place; in an expression they are those of temporary views.

        ``before``: the prefix that makes a query of the piece. Raises NoSuchTableError, ParseError,
        UnsupportedFeatureError.
        """
        calls = find_change_calls(piece)
        if before != SOURCE and not any(token.keyword in _READING for token in piece.tokens):
            return EditedText(piece)
        by_plan = before != EXPRESSION
        virtual_columns = VirtualColumns(piece)
        facts = self._reading_session()
        with nullcontext() if self.view is None else active_session(facts):
            relations = relations_of(facts, piece, before)
        predicate = where_predicate(piece, relations) if before == QUERY else None
        if predicate is not None and self.view is not None:
            predicate = replace(predicate, view=self.view.name)
        counted = before == QUERY and is_count_of_rows(piece, relations)
        self.subqueries = self.subqueries or has_nested_query(piece.tokens)
        edits = [Edit(call.start, call.end, self._changes(piece, call, by_plan=by_plan)) for call in calls]
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
                if needs_them and not by_plan:
                    virtual_columns.require_named_columns()
                as_of = resolve_as_of(self.context, piece, relation)
                source = TableSource(
                    relation_source.table, None, needs_them, as_of, predicate, counted, self.subqueries
                )
            if by_plan:
                edits.append(Edit(relation.start, _end(relation), self._bound_table(source, relation.name)))
            else:
                edits += _edits(self.context.database, piece, relation, relations, self._view_name(source))
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

    def _changes(self, piece: Slice, call: ChangeCall, *, by_plan: bool) -> str:
        """Return the name that stands for the rows of a change function; each call has its own."""
        frame = change_frame(self.context, piece, call, self.joined or self.reader)
        return self._bind(BoundTable(frame, call.function)) if by_plan else self._create_view(frame)

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
        """Return the name that stands for a table in a text that is bound by its plan; each place has its own."""
        frame, hidden = self._rows(source), len(self._virtual_columns(source))
        if hidden:
            frame = with_own_ids(frame)
        owner = (source.table.name,) if source.metadata else ()
        return self._bind(BoundTable(frame, name, (_CATALOG, source.table.database, *owner), hidden))

    def _bind(self, table: BoundTable) -> str:
        name = f"hiveacid_{uuid.uuid4().hex}"
        self.tables[name] = table
        return name

    def _view_name(self, source: TableSource) -> str:
        """Return the name of a temporary view."""
        if source not in self.views:
            self.views[source] = self._create_view(self._rows(source))
        return self.views[source]

    def _create_view(self, frame: DataFrame) -> str:
        name = f"hiveacid_{uuid.uuid4().hex}"
        self.temporary.append(name)
        frame.createOrReplaceTempView(name)
        return name

    def run(self, text: str) -> DataFrame:
        """Return the rows of a bound query; its views may be dropped afterwards."""
        facts = self.context.facts
        if not self.tables:
            return facts.spark.sql(
                text
            )  # not by the JVM's session: a native session would resolve the text as a user's
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

    def drop_views(self) -> None:
        """Drop the views; DataFrames that were analysed with them stay valid."""
        for name in self.temporary:
            temporary_views.drop_view(self.context.facts, name)
        for kept in (self.rows, self.tables, self.views, self.temporary):
            kept.clear()


@contextmanager
def binder(
    context: Context, joined: Transaction | None, reader: Transaction | None = None
) -> Iterator[Binder]:
    """Provide a Binder for one statement; its views are dropped at the end of the block.

    With neither ``joined`` nor ``reader``, the statement reads the current snapshot, taken once at the beginning.
    """
    with ExitStack() as stack:
        if joined is None and reader is None:
            reader = stack.enter_context(context.read_leases.acquire(context.settings))
        new_binder = Binder(context, joined, reader)
        stack.callback(new_binder.drop_views)
        yield new_binder


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
        tokens = None if before else piece.tokens
        relations = find_relations(facts, before + piece.text, tokens)
    except ParseError as error:
        if error.line is None or error.column is None:
            raise
        column = error.column - (len(before) if error.line == 1 and before != EXPRESSION else 0)
        message = str(error).removesuffix(f" (line {error.line}, column {error.column})")
        line, column = piece.statement_position(error.line, column)
        raise ParseError(message, line=line, column=column) from error
    return [shift_relation(relation, -len(before)) for relation in relations]


def _edits(
    database: str, piece: Slice, relation: Relation, others: Sequence[Relation], view: str
) -> list[Edit]:
    """Return the edits by which a text reads a relation from a view; ``others``: all relations of the text."""
    edits = [Edit(relation.start, _end(relation), view)]
    if relation.alias_at is not None:
        edits.append(Edit(relation.alias_at, relation.alias_at, f" AS {quote_name(relation.name)}"))
        if len(relation.parts) > 1:
            block = query_block(piece.tokens, relation.start)  # outside it the name is the path of a struct
            edits += _removed_qualifiers(database, piece, relation.parts, others, block)
    return edits


def _end(relation: Relation) -> int:
    return relation.end if relation.travel is None else relation.travel.end


def unqualified(context: Context, bound: EditedText, table: TableName) -> EditedText:
    """Remove the database from ``database.table.column`` in an expression on a table."""
    piece, parts = bound.origin, (table.database, table.name)
    if not _qualifiers(piece.tokens, parts):
        return bound
    others = relations_of(context.facts, piece, EXPRESSION)
    return replace(bound, edits=(*bound.edits, *_removed_qualifiers(context.database, piece, parts, others)))


def _removed_qualifiers(
    database: str,
    piece: Slice,
    parts: Sequence[str],
    others: Sequence[Relation],
    block: Block | None = None,
) -> list[Edit]:
    """Return the edits of `_qualifiers` in a query block; refuse them where ``table.column`` might mean another table's."""
    edits = [edit for edit in _qualifiers(piece.tokens, parts) if block is None or block.holds(edit.start)]
    if edits and (_has_namesake(database, parts, others) or _is_alias(piece.tokens, parts[-1], others)):
        line, column = piece.position(edits[0].start)
        raise UnsupportedFeatureError(
            f"{'.'.join(parts)} is not the only table or alias {parts[-1]} in this statement: give one of them an alias "
            f"and use it for its columns (line {line}, column {column})"
        )
    return edits


def _has_namesake(database: str, parts: Sequence[str], others: Sequence[Relation]) -> bool:
    """Tell whether another table with the same last name is read."""
    own = table_ref(parts)
    refs = [
        table_ref(other.parts) for other in others if other.parts[-1] == parts[-1] and not other.has_alias
    ]
    return own is not None and any(
        ref is None or ref.resolve(database) != own.resolve(database) for ref in refs
    )


def _is_alias(tokens: Sequence[Token], name: str, relations: Sequence[Relation]) -> bool:
    """Tell whether a name is the alias of a table or query, or that of a CTE."""
    ends = {_end(relation) for relation in relations}

    def names_alias(index: int) -> bool:
        before, after = tokens[index - 1], tokens[index + 1 : index + 2]
        is_cte = before.keyword == "," and any(token.keyword == "AS" for token in after)
        return is_cte or before.end in ends or before.keyword in _BEFORE_ALIAS

    return any(
        index and token.is_name and token.name.lower() == name and names_alias(index)
        for index, token in enumerate(tokens)
    )


def _qualifiers(tokens: Sequence[Token], parts: Sequence[str]) -> list[Edit]:
    """Return edits that remove ``[catalog.]database.`` before ``table.column``, because a temporary view has no database."""
    full_name = tuple(parts) if len(parts) > _IN_DATABASE else (_CATALOG, *parts)
    edits = []
    for index, token in enumerate(tokens):
        if index and tokens[index - 1].keyword == ".":
            continue
        for names in (full_name[first:] for first in range(len(full_name) - 1)):
            window = tokens[index : index + 2 * len(names) + 1]
            if _is_column_of(window, names):
                edits.append(Edit(token.start, window[-3].start, ""))
                break
    return edits


def _is_column_of(window: Sequence[Token], names: Sequence[str]) -> bool:
    """Tell whether tokens are a column's name, or a star, behind these names."""
    parts = window[::2]
    return (
        len(parts) == len(names) + 1
        and all(dot.keyword == "." for dot in window[1::2])
        and all(part.is_name for part in parts[:-1])
        and (parts[-1].is_name or parts[-1].keyword == "*")
        and [part.name.lower() for part in parts[:-1]] == list(names)
    )

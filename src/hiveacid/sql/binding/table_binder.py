"""Binder of one statement: puts the rows of one snapshot in the place of table names in its parsed texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame

from hiveacid.config.property_definitions import SPARK_PROVIDER
from hiveacid.core.format.names import FILE_NAME, ROW_ID, ROW_IS_DELETED
from hiveacid.core.model import TableDefinition, TableKind, TableName, ViewDefinition
from hiveacid.errors import CatalogError, NoSuchTableError, ParseError, UnsupportedFeatureError, did_you_mean
from hiveacid.spark.parser.relations import (
    FunctionCall,
    QueryReads,
    Relation,
    parsed_expression,
    parsed_query,
    read_query,
)
from hiveacid.spark.session.bound_plans import (
    SPARK_CATALOG,
    BoundTable,
    analysed_apart,
    read_as_creator,
    session_of_views,
    with_own_ids,
    with_tables,
)
from hiveacid.spark.session.classic_session import (
    batch_hint,
    exists_in_spark,
    frame_of_plan,
    is_temporary_view,
)
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_spark_error, translate_errors
from hiveacid.spark.session.jvm import active_session, column_of_expression, parser_of
from hiveacid.sql.binding.table_sources import (
    FETCH_DELETED_ROWS,
    SYSTEM,
    Predicate,
    TableSource,
    change_call,
    change_frame,
    changes_between,
    find_metadata_table,
    is_change_call,
    metadata_frame,
    properties_of_call,
    resolve_as_of,
    table_of_call,
)
from hiveacid.sql.binding.view_text import errors_of_view, find_hiveacid_view, with_view_columns
from hiveacid.sql.grammar.advice import advice_on_query
from hiveacid.sql.statements import Slice, TableRef, table_ref
from hiveacid.table.acid_table import Scan
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction

QUERY, EXPRESSION, SOURCE = "", "expression", "SELECT * FROM "
"""Kinds of pieces of text; Spark gets a source with that prefix."""
VIRTUAL_COLUMNS = (ROW_ID, FILE_NAME, ROW_IS_DELETED)
"""Columns that a query may name, but that ``*`` does not show: hidden columns (`hiveacid.spark.session.bound_plans`)."""
Parse: TypeAlias = "Callable[[str], JavaObject]"
_READING = frozenset({"FROM", "JOIN", "TABLE"})
_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})


@dataclass(frozen=True)
class Bound:
    """A piece of text for Spark, and its parsed plan with the tables' rows in the place of their names.

    ``plan``: of an expression, one with that ``condition()``; None if the text names no table. ``has_tables``: some are
    hiveacid's.
    """

    text: str
    plan: JavaObject | None = None
    has_tables: bool = False


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
    subqueries: bool = False  # some text has a query in an expression
    apart: SparkEnvironment | None = None  # the session for the texts of views
    view: ViewDefinition | None = None  # whose text is bound
    within: list[TableName] = field(default_factory=list)  # views of the catalog whose texts are being bound

    def bind(self, piece: Slice, kind: str = QUERY, parse: Parse | None = None) -> Bound:
        """Return a piece of text with the rows of the hiveacid catalog's tables in the place of their names.

        ``kind``: QUERY, EXPRESSION or SOURCE. ``parse``: makes the plan of the text (default: Spark's parser).
        Raises NoSuchTableError, ParseError, UnsupportedFeatureError.
        """
        text = SOURCE + piece.text if kind == SOURCE else piece.text
        always = kind == SOURCE or parse is not None or self.view is not None
        if not always and not any(token.keyword in _READING for token in piece.tokens):
            return Bound(text)
        with self._reading() as env:
            reads = reads_of(env, piece, kind, parse)
        return self._bound(piece, text, reads)

    def column(self, text: str) -> Column:
        """Return an expression as a Column, as `bind` does. Raises Spark's errors."""
        with self._reading() as env:
            reads = read_query(env, text, parsed_expression(env, text))
        plan = self._bound(Slice(text), text, reads).plan
        assert plan is not None  # noqa: S101 - it was read
        return column_of_expression(env, plan.condition())

    def _bound(self, piece: Slice, text: str, reads: QueryReads) -> Bound:
        self.subqueries = self.subqueries or reads.has_subqueries
        txn = self.joined or self.reader
        tables: list[tuple[Relation | FunctionCall, BoundTable]] = [
            (call, BoundTable(change_frame(self.context, piece, change_call(piece, call), txn), call.name))
            for call in reads.calls
            if is_change_call(call)
        ]
        tables += [
            (call, self._bound_table(source, source.table.name))
            for call in reads.calls
            if (source := self._table_with_properties(piece, call)) is not None
        ]
        for relation in reads.relations:
            ours = self._hiveacid_source(piece, relation)
            if ours is None:
                continue
            if relation.changes is not None:
                frame = changes_between(self.context, piece, relation, ours, txn)
                owner = () if isinstance(ours, ViewDefinition) else (SPARK_CATALOG, ours.table.database)
                tables.append((relation, BoundTable(frame, relation.name, owner)))
                continue
            if isinstance(ours, ViewDefinition):
                source = self._bind_view(piece, relation, ours)
            elif ours.metadata is not None:
                if relation.travel is not None:
                    line, column = piece.position(relation.travel.start)
                    raise UnsupportedFeatureError(
                        f"{'.'.join(relation.parts)} shows the present: it cannot be read AS OF",
                        line=line,
                        column=column,
                    )
                source = ours
            else:
                named_once = sum(relation.parts[-1] == other.parts[-1] for other in reads.relations) == 1
                source = TableSource(
                    ours.table,
                    None,
                    _mentions_virtual_columns(text, relation),
                    resolve_as_of(self.context, piece, relation),
                    self._predicate(relation) if named_once and relation.travel is None else None,
                    relation.count_only and relation.travel is None,
                    self.subqueries,
                )
            tables.append((relation, self._bound_table(source, relation.name)))
        plan = with_tables(self.context.env, reads.plan, tables)
        return Bound(text, reads.whole(plan), bool(tables))

    def _table_with_properties(self, piece: Slice, call: FunctionCall) -> TableSource | None:
        """Return the table of ``t('acid.fetch.deleted.rows'='true')``; None for a call of a function."""
        name = find_hiveacid_table(self.context, table_of_call(call))
        if name is None:
            return None
        properties = properties_of_call(call)
        if set(properties) != {FETCH_DELETED_ROWS}:
            line, column = piece.position(call.start)
            raise UnsupportedFeatureError(
                f"of the properties that a query may give {name}, only '{FETCH_DELETED_ROWS}' is known: "
                f"{call.name}('{FETCH_DELETED_ROWS}'='true')",
                line=line,
                column=column,
            )
        wanted = properties[FETCH_DELETED_ROWS] == "true"
        return TableSource(name, None, virtual_columns=True, deleted_rows=wanted)

    def _predicate(self, relation: Relation) -> Predicate | None:
        """Return the condition of the WHERE directly above a table, for push-down; None if its text would not be the same."""
        condition = relation.condition
        if condition is None:
            return None
        try:
            text = str(condition.sql())
            with self._reading() as env:
                is_same = parser_of(env).parseExpression(text).equals(condition)
        except Exception as error:  # a subquery has no text
            if not is_spark_error(error):
                raise
            return None
        alias = relation.name if relation.alias is None else str(relation.alias.alias())
        view = None if self.view is None else self.view.name
        return Predicate(text, alias, view) if is_same else None

    def _bind_view(self, piece: Slice, relation: Relation, view: ViewDefinition) -> TableSource:
        """Read a catalog view at this statement's snapshot; return the source under which its rows are kept."""
        line, column = piece.position(relation.start)
        if relation.travel is not None:
            raise UnsupportedFeatureError(
                f"{view.name} is a view, which has no past of its own: AS OF belongs to the tables in its query",
                line=line,
                column=column,
            )
        source = TableSource(view.name)
        if view.name in self.within:
            raise UnsupportedFeatureError(f"view {view.name} would read itself", line=line, column=column)
        if source not in self.rows:
            with errors_of_view(view.name, line, column):
                self.rows[source] = with_view_columns(view, self.run_view(view))
        return source

    def _hiveacid_source(self, piece: Slice, relation: Relation) -> TableSource | ViewDefinition | None:
        """Return the table or view of the hiveacid catalog that a name refers to, None if it is Spark's."""
        parts, ref = relation.parts, table_ref(relation.parts)
        name = find_hiveacid_table(self.context, ref)
        if name is not None:
            return TableSource(name)
        source = find_hiveacid_view(self.context, ref) or find_metadata_table(self.context, parts)
        if source is not None:
            return source
        # files by their format, or by the class that reads them, and their path
        if len(parts) > 1 and (parts[0] in _FILE_FORMATS or "/" in parts[-1]):
            return None
        if exists_in_spark(self.context.env, parts):
            return None
        line, column = piece.position(relation.start)
        near = self._similar_name(parts)
        raise NoSuchTableError(
            f"table {'.'.join(parts)} does not exist: see SHOW TABLES{near}{batch_hint(self.context.env)}",
            line=line,
            column=column,
        )

    def _similar_name(self, parts: Sequence[str]) -> str:
        ref, catalog = table_ref(parts), self.context.catalog
        if ref is None:
            return ""
        database = ref.database or self.context.database
        if catalog.get_database(database) is None:
            return did_you_mean(database, catalog.list_databases())
        return did_you_mean(ref.name, catalog.list_tables(database))

    def _bound_table(self, source: TableSource, name: str) -> BoundTable:
        if source not in self.rows:
            self.rows[source] = self.frame(source)
        frame, hidden = self.rows[source], len(self._virtual_columns(source))
        if hidden:
            frame = with_own_ids(frame)
        owner = (source.table.name,) if source.metadata not in (None, SYSTEM) else ()
        return BoundTable(frame, name, (SPARK_CATALOG, source.table.database, *owner), hidden)

    def run(self, bound: Bound) -> DataFrame:
        """Return the rows of a bound query."""
        env = self.context.env
        if not bound.has_tables:
            # not by the JVM's session: a native session would resolve the text as a user's
            return env.spark.sql(bound.text)
        return frame_of_plan(env, bound.plan)

    def run_view(self, view: ViewDefinition) -> DataFrame:
        """Return the rows of a view's query, apart from the session's own functions, variables and settings."""
        env = self.context.env
        if self.apart is None:
            self.apart = session_of_views(env)
        session = replace(self.context.session, database=view.database)
        context, within = replace(self.context, session=session), [*self.within, view.name]
        inner = replace(self, context=context, view=view, within=within)
        try:
            read_as_creator(env, self.apart, view)
            return analysed_apart(env, self.apart, inner.bind(Slice(view.text)).plan)
        finally:
            self.subqueries = inner.subqueries
            if self.view is not None:  # the view whose text names this one is still being bound
                read_as_creator(env, self.apart, self.view)

    @contextmanager
    def _reading(self) -> Iterator[SparkEnvironment]:
        """Yield the session in which the texts that are being bound have their meaning, as the active one.

        A statement's own session is active already (`hiveacid.sql.session.AcidSession.statement`).
        """
        if self.view is None or self.apart is None:
            yield self.context.env
        else:
            with active_session(self.apart):
                yield self.apart

    def _virtual_columns(self, source: TableSource) -> list[str]:
        if not source.virtual_columns:
            return []
        table = self.context.require(source.table)
        # a column of the name hides the deletion state
        missing = {name.upper() for name in table.column_names}
        if table.kind is not TableKind.FULL_ACID:
            missing.add(ROW_ID)
        return [name for name in VIRTUAL_COLUMNS if name not in missing]

    def frame(self, source: TableSource) -> DataFrame:
        """Return the rows of a table, with its virtual columns last if the source has them."""
        if source.metadata is not None:
            return metadata_frame(self.context, source, self.joined or self.reader)
        no_state = f"false AS {ROW_IS_DELETED}"
        more = [
            no_state if name == ROW_IS_DELETED and not source.deleted_rows else name
            for name in self._virtual_columns(source)
        ]
        columns = self.context.require(source.table).column_names
        scan = Scan(
            self.context,
            source.table,
            self.joined,
            columns=(*columns, *more),
            as_of=source.as_of,
            count_only=source.count_only,
            subqueries=source.subqueries,
            deleted_rows=source.deleted_rows,
        )
        if source.predicate is not None:
            predicate = source.predicate
            session = None if predicate.view is None else self.apart
            scan = replace(scan, hint=predicate.condition, hint_alias=predicate.alias, hint_session=session)
        return scan.to_df(self.reader)


def _mentions_virtual_columns(text: str, relation: Relation) -> bool:
    """Tell whether the query of a table may name them; a query around a derived table would see them, too."""
    around = relation.text_around(text).lower()
    return any(name.lower() in around for name in VIRTUAL_COLUMNS)


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
    if ref is None or (ref.database is None and is_temporary_view(context.env, ref.name)):
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
    if ref.database is not None or not is_temporary_view(context.env, ref.name):
        return False
    hidden = ref.resolve(context.database)
    if context.catalog.get_table(hidden) is not None:
        raise CatalogError(
            f"{ref.name} is a temporary view in this session: to write to the table, name it {hidden}"
        )
    return True


def is_spark_table(context: Context, table: TableDefinition) -> bool:
    """Tell whether Spark's own catalog created a table of the metastore, and this session can read it there."""
    is_provider_table = table.kind is TableKind.PLAIN and SPARK_PROVIDER.of(table) is not None
    return is_provider_table and context.env.hive_support


def find_hiveacid_relation(context: Context, ref: TableRef | None) -> TableName | None:
    """Return the table or view of the hiveacid catalog that a name refers to, as `find_hiveacid_table` does for tables."""
    table = find_hiveacid_table(context, ref)
    if table is not None:
        return table
    view = find_hiveacid_view(context, ref)
    return None if view is None else view.name


def reads_of(
    env: SparkEnvironment, piece: Slice, kind: str = QUERY, parse: Parse | None = None
) -> QueryReads:
    """Return what a piece of text reads, with offsets from its beginning; arguments as those of `Binder.bind`.

    Raises ParseError with the position in the statement.
    """
    if parse is None and kind in piece.reads:
        known: QueryReads = piece.reads[kind]
        return known
    before = SOURCE if kind == SOURCE else ""
    text = before + piece.text
    try:
        with translate_errors():
            if parse is not None:
                return read_query(env, text, parse(text), len(before))
            plan = (parsed_expression if kind == EXPRESSION else parsed_query)(env, text)
            reads = piece.reads[kind] = read_query(env, text, plan, len(before))
            return reads
    except ParseError as error:
        if error.line is None or error.column is None:
            raise
        column = error.column - (len(before) if error.line == 1 else 0)
        line, column = piece.statement_position(error.line, column)
        raise ParseError(advice_on_query(piece.tokens) or error.message, line=line, column=column) from error

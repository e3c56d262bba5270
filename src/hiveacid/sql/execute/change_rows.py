"""INSERT, multi-insert, LOAD DATA, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog.validate_definition import check_place
from hiveacid.core.format.names import is_hidden, parse_original_file
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.location_overlap import Place
from hiveacid.core.schema.storage_formats import TEXTFILE
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.locks_and_conflicts import LockComponent
from hiveacid.ports.transactions import Start
from hiveacid.spark.formats.expressions import (
    BEFORE_EXPRESSION,
    DEFAULT,
    BoundExpression,
    Expression,
    parenthesised,
)
from hiveacid.spark.session.classic_session import at_one_moment, unsteady_expression
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.spark.write.update_delete_merge_rows import MatchKind
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.binding.table_binder import EXPRESSION, QUERY, SOURCE, Binder, reads_of
from hiveacid.sql.binding.table_sources import millis_of
from hiveacid.sql.binding.view_text import hive_columns_of
from hiveacid.sql.execute.context import ExecutionContext, write_result
from hiveacid.sql.execute.default_words import is_values, with_default_values
from hiveacid.sql.execute.queries_and_views import bound_frame, is_temporary
from hiveacid.sql.statements import PartitionSpec, Slice, table_ref
from hiveacid.sql.statements.dml import (
    Assignment,
    Delete,
    Insert,
    InsertDirectory,
    LoadData,
    Merge,
    MergeAction,
    MergeClause,
    MergeMatch,
    MultiInsert,
    Restore,
    Update,
)
from hiveacid.storage.paths import absolute
from hiveacid.table.context import Context
from hiveacid.table.definition import check_definition, lock_of_location
from hiveacid.table.partitions import partition_name, static_values
from hiveacid.table.read.history_and_time_travel import Instant, point_of_version
from hiveacid.table.write.insert import InsertOptions, insert, insert_lock, with_new_columns, write_rows
from hiveacid.table.write.insert import restore as restore_table
from hiveacid.table.write.load import LoadOptions, load
from hiveacid.table.write.merge import TableMerger, is_exclusive, qualified
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.surrogate_keys import NO_KEY, KeysOfStatement
from hiveacid.table.write.update_delete import Replacement, UpdateOrDelete, check_assignments, reads_table
from hiveacid.table.write.write_conflicts import run_with_retry
from hiveacid.transactions.transaction import Transaction


def insert_rows(execution: ExecutionContext, statement: Insert) -> DataFrame:
    """INSERT INTO or OVERWRITE with a query or VALUES."""
    joined = execution.joined
    name = execution.find(statement.table)
    text = statement.full_query
    is_stale = partial(_reads_target_by_view, execution, name, statement)
    if statement.replaced is not None:
        run = partial(_replace_in_txn, execution, statement, statement.replaced)
        with errors_at(statement.table.line, statement.table.column):
            report = run_with_retry(
                execution.context, name, "OVERWRITE", joined, run, exclusive=True, is_stale=is_stale
            )
        return write_result(execution.context.env, report)
    text, options = _options(execution, statement, text, spec_values(execution, statement.partition))
    rows = partial(_rows, execution, text)
    if statement.merge_schema:
        with errors_at(statement.table.line, statement.table.column), spark_errors_at_source(text):
            options = with_new_columns(execution.context, name, rows(joined), options, joined)
    source: DataFrame | Callable[[Transaction], DataFrame]
    if NO_KEY in (options.defaults or {}).values():
        source = partial(_rows_with_keys, execution, statement, options)
    else:  # the source of an overwrite is read under the lock, because it may be the target
        source = rows if statement.overwrite else rows(joined)
    with errors_at(statement.table.line, statement.table.column), spark_errors_at_source(text):
        report = insert(execution.context, name, source, options, joined, is_stale=is_stale)
    return write_result(execution.context.env, report)


def insert_directory(execution: ExecutionContext, statement: InsertDirectory) -> DataFrame:
    """INSERT OVERWRITE DIRECTORY: the files of a plain table that has no definition.

    Hive deletes the directory with all that is in it. Here only files that such a statement may have written are replaced.
    """
    context, directory = execution.context, absolute(statement.path)
    with context.transactions.scope(context.settings, execution.joined) as txn:
        txn.lock([lock_of_location(directory)])
        require_only_output(context, directory)
        with execution.binder(txn) as binder, spark_errors_at_source(statement.full_query):
            rows = bound_frame(binder, statement.full_query)
        columns = hive_columns_of(rows)
        if len({column.name for column in columns}) < len(columns):
            columns = tuple(replace(column, name=f"_c{number}") for number, column in enumerate(columns))
        table = TableDefinition(
            TableName("directory", directory), columns, statement.storage or TEXTFILE, directory
        )
        check_definition(table)
        rows = fit_columns(table, rows.toDF(*table.column_names), {}, None, by_name=False)
        options = InsertOptions(overwrite=True, check=partial(require_only_output, context, directory))
        report = write_rows(context, table, rows, {}, options, txn)
        txn.pending.withdraw(table.name)
    return write_result(context.env, report)


def require_only_output(context: Context, directory: str) -> None:
    """Raise CatalogError for a table's directory, and one with anything but hidden entries, and files called as Hive's or Spark's."""
    check_place(Place(directory, "a query"), context)
    for entry in context.fs.list_directory(directory) if context.fs.exists(directory) else ():
        is_output = parse_original_file(entry.path) is not None or entry.path.startswith("part-")
        if not is_hidden(entry.path) and (entry.is_dir or entry.is_special or not is_output):
            raise errors.CatalogError(
                f"{directory} holds {entry.path}, which no INSERT OVERWRITE DIRECTORY wrote, and would delete all that is there: choose "
                "another directory, or move it away"
            )


def _replace_in_txn(
    execution: ExecutionContext, statement: Insert, condition: Slice, table: TableDefinition, txn: Transaction
) -> WriteReport:
    """INSERT INTO t REPLACE WHERE: delete the rows that the condition selects, and insert those of the query."""
    with execution.binder(txn) as binder:
        expressions = BoundExpressions(binder)
        where = expressions.required(condition)
        wanted = table.column_names
        keys = KeysOfStatement(txn, table.name, not txn.explicit).listed()
        query, _ = with_default_values(execution, table.name, statement.full_query, wanted, keys)
        rows = bound_frame(binder, query)
        if len(rows.columns) != len(wanted):
            raise errors.SchemaMismatchError(
                f"{len(wanted)} columns are to be filled ({', '.join(wanted)}), but the rows have {len(rows.columns)}"
            )
        with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            return Replacement(execution.context, rows.toDF(*wanted), where).run(table, txn)


def _options(
    execution: ExecutionContext, statement: Insert, text: Slice, partition: Mapping[str, object] | None
) -> tuple[Slice, InsertOptions]:
    """Return the query with default values in place of the word DEFAULT, and the options of the INSERT."""
    name = execution.find(statement.table)
    columns = _given_columns(execution.context.require(name), statement, partition)
    text, defaults = with_default_values(execution, name, text, columns)
    return text, InsertOptions(
        partition=partition,
        overwrite=statement.overwrite,
        columns=statement.columns,
        by_name=statement.by_name,
        small=is_values(text),
        if_not_exists=statement.if_not_exists,
        defaults=defaults,
    )


def _given_columns(
    table: TableDefinition, statement: Insert, partition: Mapping[str, object] | None
) -> list[str]:
    """Return the columns that the rows of an INSERT have."""
    fixed = {column for column, value in (partition or {}).items() if value is not ...}
    names = statement.columns or [column for column in table.column_names if column not in fixed]
    return [column.lower() for column in names]


def _rows(execution: ExecutionContext, text: Slice, txn: Transaction | None) -> DataFrame:
    with execution.binder(txn) as binder:
        return bound_frame(binder, text)


def _rows_with_keys(
    execution: ExecutionContext, statement: Insert, options: InsertOptions, txn: Transaction
) -> DataFrame:
    """Return the rows of VALUES with a new surrogate key for each word DEFAULT that asks for one."""
    table = execution.context.require(execution.find(statement.table))
    given = options.columns or _given_columns(table, statement, options.partition)
    columns = [column.lower() for column in given]
    keys = KeysOfStatement(txn, table.name, execution.joined is None).listed()
    text, _ = with_default_values(execution, table.name, statement.full_query, columns, keys)
    return _rows(execution, text, txn)


def multi_insert(execution: ExecutionContext, statement: MultiInsert) -> DataFrame:
    """FROM ... INSERT ... INSERT ...: all INSERTs run in one transaction and read one snapshot.

    Raises OutputTwiceError if two of them name the same table or static partition, as Hive does.
    """
    context = execution.context
    _require_one_sample(statement)
    names = [execution.find(leg.table) for leg in statement.legs]
    # Computed once: uuid() would give a lock on another partition than the one written.
    partitions = [spec_values(execution, leg.partition) for leg in statement.legs]
    locks = _locks(execution, statement, names, partitions)
    # all at once and before the snapshot, because a target may be a source, too
    written_to = {name for name in names if context.require(name).kind is not TableKind.PLAIN}
    start = Start(tuple(locks), tuple(written_to))
    with context.transactions.scope(context.settings, execution.joined, start) as txn:
        prepared = [
            _options(execution, leg, statement.leg_query(leg), partition)
            for leg, partition in zip(statement.legs, partitions, strict=True)
        ]
        # All are planned before the first writes: a transaction sees its own writes, but an INSERT must not see the others'.
        with execution.binder(txn) as binder:  # one for all: the query of a view is analysed once
            frames = [bound_frame(binder, text) for text, _ in prepared]
            source = statement.leg_query(replace(statement.legs[0], query=Slice("SELECT 1")))
            # Each INSERT reads the source again: random functions, also in a view, would give it other rows.
            unsteady = unsteady_expression(bound_frame(binder, source))
            if unsteady is not None:
                raise errors.UnsupportedFeatureError(
                    f"{unsteady} in the source of a multi-insert gives other rows for each INSERT: write the source into a table first"
                )
            frames = at_one_moment(context.env, frames)
        reports = []
        for place, frame in _in_order(context, statement.legs, names, frames):
            leg, (text, options), name = statement.legs[place], prepared[place], names[place]
            is_stale = partial(_reads_target_by_view, execution, name, replace(leg, query=text))
            with errors_at(leg.table.line, leg.table.column), spark_errors_at_source(text):
                reports.append(insert(context, name, frame, options, txn, is_stale=is_stale))
    return write_result(context.env, *reports)


def _in_order(
    context: Context, legs: Sequence[Insert], names: Sequence[TableName], frames: Sequence[DataFrame]
) -> list[tuple[int, DataFrame]]:
    """Return the numbers of the INSERTs in an order in which none takes the rows of another, each with its rows.

    An overwrite goes first: after an INSERT INTO with the same dynamic partition it would hide the rows of that one. Plain tables go last,
    because an abort brings no file of theirs back, and of them those that others read. What still reads a plain table after its files are
    replaced is computed before: a new file may have the name of an old one.
    """
    plain = {name for name in names if context.require(name).kind is TableKind.PLAIN}
    replaced = {name for name, leg in zip(names, legs, strict=True) if leg.overwrite} & plain
    reads = [{name for name in replaced if reads_table(context, name, frame)} for frame in frames]
    read_by_others = {name for own, read in zip(names, reads, strict=True) for name in read - {own}}
    order = sorted(
        range(len(legs)),
        key=lambda place: (names[place] in plain, names[place] in read_by_others, not legs[place].overwrite),
    )
    gone: set[TableName] = set()
    ordered = []
    for place in order:
        frame = frames[place] if gone.isdisjoint(reads[place]) else frames[place].localCheckpoint()
        ordered.append((place, frame))
        gone |= {names[place]} & replaced if legs[place].overwrite else set()
    return ordered


def _require_one_sample(statement: MultiInsert) -> None:
    """Refuse a sample that is another one for each INSERT."""
    for text in (statement.ctes, statement.source):
        words = {token.keyword for token in text.tokens} if text is not None else set()
        if "TABLESAMPLE" in words and "REPEATABLE" not in words:
            raise errors.UnsupportedFeatureError(
                "TABLESAMPLE in the source of a multi-insert gives other rows for each INSERT: add REPEATABLE (seed)"
            )


def _locks(
    execution: ExecutionContext,
    statement: MultiInsert,
    names: list[TableName],
    partitions: list[Mapping[str, object] | None],
) -> list[LockComponent]:
    """Return the legs' locks; refuse the same output twice."""
    keys: set[tuple[TableName, str | None]] = set()
    locks = []
    for name, leg, partition in zip(names, statement.legs, partitions, strict=True):
        table = execution.context.require(name)
        static = static_values(execution.context, table, partition)
        locks.append(insert_lock(execution.context, table, static, overwrite=leg.overwrite))
        if len(static) < len(table.partition_columns):
            continue  # dynamic partitions are known only when it runs
        output = (name, partition_name(table, tuple(static[c.name] for c in table.partition_columns)))
        if output in keys:
            table_text = str(name) if output[1] is None else f"{name}@{output[1]}"
            raise errors.OutputTwiceError(
                f"the same output is given twice in one statement: {table_text}",
                line=leg.table.line,
                column=leg.table.column,
            )
        keys.add(output)
    return locks


def load_data(execution: ExecutionContext, statement: LoadData) -> DataFrame:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE t [PARTITION (...)]."""
    name = execution.find(statement.table)
    options = LoadOptions(statement.local, statement.overwrite, spec_values(execution, statement.partition))
    with errors_at(statement.table.line, statement.table.column):
        report = load(execution.context, name, statement.path, options, execution.joined)
    return write_result(execution.context.env, report)


def restore(execution: ExecutionContext, statement: Restore) -> DataFrame:
    """RESTORE TABLE t TO VERSION | TIMESTAMP AS OF ..."""
    name = execution.find(statement.table)
    moment = None if statement.moment is None else millis_of(execution.context, statement.moment)
    past = point_of_version(statement.version or 0) if moment is None else Instant(moment)
    with errors_at(statement.table.line, statement.table.column):
        report = restore_table(execution.context, name, past, execution.joined)
    return write_result(execution.context.env, report)


def spec_values(execution: ExecutionContext, spec: PartitionSpec) -> Mapping[str, object] | None:
    """Return the values of PARTITION (...) by column: texts, None for NULL, ``...`` for dynamic columns.

    Spark evaluates expressions that are not literals (``dt = current_date()``).
    """
    if not spec:
        return None
    values: dict[str, object] = {}
    for item in spec:
        if item.expression is None:
            values[item.column] = ...
        elif item.literal is not None:
            values[item.column] = item.literal.value
        else:
            values[item.column] = _computed(execution, item.expression)
    return values


def _computed(execution: ExecutionContext, expression: Slice) -> object:
    with spark_errors_at_source(expression, before=f"SELECT {BEFORE_EXPRESSION}"):
        frame = execution.context.env.spark.sql(f"SELECT {parenthesised(expression.text)} AS value")
        if frame.dtypes[0][1] in ("date", "timestamp"):
            frame = frame.select(frame.value.cast("string"))  # Python has no year beyond 9999
        row = frame.first()
    return None if row is None else row[0]


def update(execution: ExecutionContext, statement: Update) -> DataFrame:
    """UPDATE t SET ... WHERE ..."""
    name = execution.find(statement.table)
    _check_columns(execution.context.require(name), statement.assignments)
    run = partial(_change_in_txn, execution, statement)
    is_stale = partial(_reads_target_by_view, execution, name, statement)
    report = run_with_retry(execution.context, name, "UPDATE", execution.joined, run, is_stale=is_stale)
    return write_result(execution.context.env, report)


def delete(execution: ExecutionContext, statement: Delete) -> DataFrame:
    """DELETE FROM t WHERE ..."""
    name = execution.find(statement.table)
    run = partial(_change_in_txn, execution, statement)
    is_stale = partial(_reads_target_by_view, execution, name, statement)
    report = run_with_retry(execution.context, name, "DELETE", execution.joined, run, is_stale=is_stale)
    return write_result(execution.context.env, report)


def _check_columns(table: TableDefinition, assignments: Sequence[Assignment]) -> None:
    """Refuse columns that cannot be set, with their positions."""
    for assignment in assignments:
        with errors_at(assignment.line, assignment.at_column):
            check_assignments(table, {assignment.column: assignment.expression.text})


def _change_in_txn(
    execution: ExecutionContext, statement: Update | Delete, table: TableDefinition, txn: Transaction
) -> WriteReport:
    """Change the rows in the transaction that also reads the subqueries, so that both see one snapshot."""
    with execution.binder(txn) as binder:
        expressions = BoundExpressions(binder)
        values = expressions.assignments(statement.assignments) if isinstance(statement, Update) else None
        where = expressions.expression(statement.where)
        change = UpdateOrDelete(execution.context, where, statement.alias, values)
        with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            return change.run(table, txn)


class BoundExpressions:
    """Translator of a statement's expressions for Spark; it keeps them, so that errors get their positions."""

    def __init__(self, binder: Binder) -> None:
        self.pieces: list[Slice] = []
        self.binder = binder

    def expression(self, piece: Slice | None) -> Expression | None:
        """Return an expression with its subqueries bound; DEFAULT is NULL."""
        if piece is None:
            return None
        if piece.text.upper() == "DEFAULT":
            return DEFAULT
        self.pieces.append(piece)
        if not self.binder.bind(piece, EXPRESSION).has_tables:
            return piece.text
        return BoundExpression(piece.text, self.binder.column)

    def required(self, piece: Slice) -> Expression:
        """Return an expression that the grammar requires, as `expression` does."""
        expression = self.expression(piece)
        return "" if expression is None else expression

    def assignments(self, assignments: Sequence[Assignment]) -> dict[str, Expression]:
        """Return the bound expression of each assigned column."""
        return {a.column: self.required(a.expression) for a in assignments}


def merge(execution: ExecutionContext, statement: Merge) -> DataFrame:
    """MERGE INTO t USING s ON ... WHEN ..."""
    name = execution.find(statement.table)
    context = execution.context
    if statement.merge_schema:
        _add_columns_of_source(execution, statement, context.require(name))
    for clause in statement.clauses:
        _check_columns(context.require(name), clause.assignments)
    run = partial(_merge_in_txn, execution, statement)
    exclusive = is_exclusive(context, inserts=statement.inserts)
    is_stale = partial(_reads_target_by_view, execution, name, statement)
    report = run_with_retry(
        context, name, "MERGE", execution.joined, run, exclusive=exclusive, is_stale=is_stale
    )
    return write_result(context.env, report)


def _reads_target_by_view(
    execution: ExecutionContext, name: TableName, statement: Insert | Update | Delete | Merge
) -> bool:
    """Tell whether a statement names a temporary view, or a DataFrame, with rows of its target as they were before."""
    env = execution.context.env
    views = {
        relation.parts
        for piece, kind in _reading_pieces(statement)
        for relation in reads_of(env, piece, kind).relations
        if (ref := table_ref(relation.parts)) is not None and is_temporary(execution, ref)
    }
    frames = (env.spark.table(".".join(map(quote_name, parts))) for parts in views)
    return any(reads_table(execution.context, name, frame) for frame in frames)


def _reading_pieces(statement: Insert | Update | Delete | Merge) -> Iterator[tuple[Slice, str]]:
    """Yield the texts of a statement that may name tables, and their kinds for the binder."""
    pieces: list[Slice | None] = []
    if isinstance(statement, Merge):
        yield statement.source, SOURCE
        pieces.append(statement.condition)
        for clause in statement.clauses:
            pieces += [clause.condition, *clause.values, *(a.expression for a in clause.assignments)]
    elif isinstance(statement, Insert):
        yield statement.full_query, QUERY
        pieces.append(statement.replaced)
    else:
        pieces.append(statement.where)
        if isinstance(statement, Update):
            pieces += [assignment.expression for assignment in statement.assignments]
    for piece in pieces:
        if piece is not None and any(token.keyword in ("FROM", "TABLE") for token in piece.tokens):
            yield piece, EXPRESSION


def _merge_in_txn(
    execution: ExecutionContext, statement: Merge, table: TableDefinition, txn: Transaction
) -> WriteReport:
    with execution.binder(txn) as binder:
        expressions = BoundExpressions(binder)
        table_merge = _table_merge(execution, statement, table, txn, expressions)
        with spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            return table_merge.run(table, txn)


def _add_columns_of_source(execution: ExecutionContext, statement: Merge, table: TableDefinition) -> None:
    """Add the columns of MERGE WITH SCHEMA EVOLUTION, before its transaction begins."""
    joined = execution.joined
    with execution.binder(joined) as binder:
        expressions = BoundExpressions(binder)
        table_merge = _table_merge(execution, statement, table, joined, expressions)
        new = table_merge.new_columns(table)
        for clause in statement.clauses:
            _check_columns(replace(table, columns=(*table.columns, *new)), clause.assignments)
            if new and clause.values and clause.columns is None:
                raise errors.StatementError(
                    f"{table.name} gets the columns {', '.join(column.name for column in new)}: name the columns of INSERT",
                    line=clause.line,
                    column=clause.column,
                )
        at_table = errors_at(statement.table.line, statement.table.column)
        with at_table, spark_errors_at_source(*expressions.pieces, before=BEFORE_EXPRESSION):
            replace(table_merge, merge_schema=True).add_columns()


def _table_merge(
    execution: ExecutionContext,
    statement: Merge,
    table: TableDefinition,
    txn: Transaction | None,
    expressions: BoundExpressions,
) -> TableMerger:
    """Return the MERGE of the table's verbs."""
    binder = expressions.binder
    table_merge = TableMerger(
        execution.context,
        table.name,
        _source(binder, statement),
        expressions.required(statement.condition),
        txn,
        statement.alias or table.name,
        _source_name(binder, statement),
    )
    for clause in statement.clauses:
        with errors_at(clause.line, clause.column):
            own = _with_names_of_one_side(table_merge, clause, table)
            table_merge = _with_clause(table_merge, own, expressions, table)
    return table_merge


def _source_name(binder: Binder, statement: Merge) -> str | TableName:
    """Return the source's alias; without one, its name."""
    if statement.source_alias is not None:
        return statement.source_alias
    table = table_ref([part.name.lower() for part in statement.source.tokens if part.is_name])
    if table is None or statement.source.text.endswith(")"):
        return statement.source.text.rpartition(".")[2].strip(" `").lower()
    return table.resolve(binder.context.database)


def _source(binder: Binder, statement: Merge) -> DataFrame:
    bound = binder.bind(statement.source, SOURCE)
    with spark_errors_at_source(statement.source, before=SOURCE):
        frame = binder.run(bound)
    if not statement.source_columns:
        return frame
    if len(statement.source_columns) != len(frame.columns):
        raise errors.SchemaMismatchError(
            f"the source is given {len(statement.source_columns)} columns, but has {len(frame.columns)}: {', '.join(frame.columns)}"
        )
    return frame.toDF(*statement.source_columns)


def _with_names_of_one_side(
    table_merge: TableMerger, clause: MergeClause, table: TableDefinition
) -> MergeClause:
    """Return a clause with texts that `qualified` returns; positions in errors are those of such a text."""
    if clause.match is MergeMatch.MATCHED:
        return clause
    when = MatchKind.SOURCE_ONLY if clause.match is MergeMatch.NOT_MATCHED else MatchKind.TARGET_ONLY

    def of_side(piece: Slice) -> Slice:
        if piece.text.upper() == "DEFAULT":
            return piece
        return replace(piece, text=qualified(table_merge, piece.text, when, table))

    return replace(
        clause,
        condition=None if clause.condition is None else of_side(clause.condition),
        assignments=tuple(replace(a, expression=of_side(a.expression)) for a in clause.assignments),
        values=tuple(of_side(value) for value in clause.values),
    )


def _with_clause(
    table_merge: TableMerger, clause: MergeClause, expressions: BoundExpressions, table: TableDefinition
) -> TableMerger:
    condition = expressions.expression(clause.condition)
    if clause.match is MergeMatch.NOT_MATCHED:
        return table_merge.when_not_matched_insert(_insert_values(clause, expressions, table), condition)
    by_source = clause.match is MergeMatch.NOT_MATCHED_BY_SOURCE
    if clause.action is MergeAction.DELETE:
        when = table_merge.when_not_matched_by_source_delete if by_source else table_merge.when_matched_delete
        return when(condition)
    values = expressions.assignments(clause.assignments)
    if by_source:
        return table_merge.when_not_matched_by_source_update(values, condition)
    return table_merge.when_matched_update(None if clause.star else values, condition)


def _insert_values(
    clause: MergeClause, expressions: BoundExpressions, table: TableDefinition
) -> Mapping[str, Expression] | None:
    if clause.star:
        return None
    columns = clause.columns or tuple(table.column_names)
    if len(columns) != len(clause.values):
        raise errors.StatementError(
            f"{table.name} has {len(columns)} columns ({', '.join(columns)}), but there are {len(clause.values)} values",
            line=clause.line,
            column=clause.column,
        )
    return {column: expressions.required(value) for column, value in zip(columns, clause.values, strict=True)}

"""Sources of a query besides the present rows of a table: a point of its past, its metadata tables, its changes, relations of the store.

``AS OF`` gives a relation a point of the past. ``t.history`` and its like show the rows of ``t.inspect.history()``.
``hiveacid_changes(...)`` and ``table_changes(...)`` are calls with arguments by name; they return the changes as rows.

Relations of ``sys`` and ``information_schema`` have Hive's names of columns: the store's queue, transactions and locks, and its
catalog. They show the present. Times are timestamps, missing values NULL. Columns for which hiveacid has no values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from types import MappingProxyType

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableName, ViewDefinition
from hiveacid.core.snapshot.change_feed import WRITE_ID
from hiveacid.errors import ConfigError, NoSuchTableError, StatementError, UnsupportedFeatureError
from hiveacid.spark.formats import driver_frames
from hiveacid.spark.parser.relations import FunctionCall, Relation
from hiveacid.spark.session.classic_session import exists_in_spark
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.execute.show_rows import COMPACTION_COLUMNS, open_and_aborted
from hiveacid.sql.statements import SPARK_CATALOG, Slice, TableRef, table_ref
from hiveacid.table.acid_table import Inspect
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of
from hiveacid.table.read.change_feed import ChangeFeed, FeedPoint
from hiveacid.table.read.history_and_time_travel import Instant, PointInTime, point_of_version, utc_datetime
from hiveacid.transactions.transaction import Transaction

Row = tuple[str | int | datetime | None, ...]
_CATALOG = "default"  # Hive's name of its only catalog
_COMPACTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "compactionid": ("c_id", "bigint"),
        "dbname": ("c_database", "string"),
        "tabname": ("c_table", "string"),
        "partname": ("c_partition", "string"),
        "type": ("c_type", "string"),
        "state": ("c_state", "string"),
        "workerhost": ("c_worker_host", "string"),
        "workerid": ("c_worker_id", "string"),
        "enqueuetime": ("c_enqueue_time", "timestamp"),
        "starttime": ("c_start", "timestamp"),
        "duration": ("c_duration", "bigint"),
        "hadoopjobid": ("c_hadoop_job_id", "string"),
        "errormessage": ("c_error_message", "string"),
        "initiatorhost": ("c_initiator_host", "string"),
        "initiatorid": ("c_initiator_id", "string"),
        "poolname": ("c_pool_name", "string"),
        "txnid": ("c_txn_id", "bigint"),
        "nexttxnid": ("c_next_txn_id", "bigint"),
        "committime": ("c_commit_time", "timestamp"),
        "hightestwriteid": ("c_highest_write_id", "bigint"),
    }
)
"""Hive's columns for those of SHOW COMPACTIONS, and their types."""


def _time(millis: int | str | None) -> datetime | None:
    return utc_datetime(millis) if isinstance(millis, int) else None


def _compactions(context: Context) -> Iterator[Row]:
    context.store.abort_timed_out()
    for job in context.store.show_compactions():
        shown = {name: value(job) for name, value in COMPACTION_COLUMNS.items()} | {"type": job.request.kind}
        times = {name: _time(shown[name]) for name, (_, kind) in _COMPACTIONS.items() if kind == "timestamp"}
        yield tuple((shown | times).values())


def _transactions(context: Context) -> Iterator[Row]:
    for txn in open_and_aborted(context.store):
        times = _time(txn.started), _time(txn.last_heartbeat)
        yield int(txn.txn_id), txn.state.lower(), *times, txn.user, txn.host


def _locks(context: Context) -> Iterator[Row]:
    context.store.abort_timed_out()
    for lock in context.store.show_locks():
        yield (
            *_lock_ids(lock.lock_id),
            None if lock.txn_id is None else int(lock.txn_id),
            *(lock.database, lock.table, lock.partition, lock.state.lower(), lock.type.lower()),
            *(_time(lock.last_heartbeat), _time(lock.acquired_at), lock.user, lock.host, lock.agent),
            *_lock_ids(lock.blocked_by),
        )


def _lock_ids(lock_id: str | None) -> tuple[int | None, int | None]:
    """Split Hive's id of a lock: number of the request, a dot, number of the component."""
    request, _, component = (lock_id or "").strip().partition(".")
    return (int(request), int(component)) if request.isdecimal() and component.isdecimal() else (None, None)


def _tables(context: Context) -> Iterator[TableDefinition]:
    """Yield the tables of all databases; one that is dropped meanwhile is left out."""
    catalog = context.catalog
    for database in catalog.list_databases():
        names = [TableName(database, name) for name in sorted({*catalog.list_tables(database)})]
        yield from (table for name in names if (table := catalog.get_table(name)) is not None)


def _views(context: Context) -> Iterator[ViewDefinition]:
    """Yield the views of all databases; one that is dropped meanwhile is left out."""
    catalog = context.catalog
    for database in catalog.list_databases():
        names = [TableName(database, name) for name in catalog.list_views(database)]
        yield from (view for name in names if (view := catalog.get_view(name)) is not None)


def _name(relation: TableDefinition | ViewDefinition) -> tuple[str, str, str]:
    return _CATALOG, relation.name.database, relation.name.name


def _schemata(context: Context) -> Iterator[Row]:
    for name in context.catalog.list_databases():
        database = context.catalog.get_database(name)
        if database is not None:
            yield _CATALOG, name, database.location


def _table_rows(context: Context) -> Iterator[Row]:
    for table in _tables(context):
        yield *_name(table), "BASE_TABLE", "YES"
    for view in _views(context):
        yield *_name(view), "VIEW", "NO"


def _column_rows(context: Context) -> Iterator[Row]:
    relations: Iterator[TableDefinition | ViewDefinition] = chain(_tables(context), _views(context))
    for relation in relations:
        partitioned = relation.partition_columns if isinstance(relation, TableDefinition) else ()
        for position, column in enumerate((*relation.columns, *partitioned)):
            yield *_name(relation), column.name, position, column.type, column.comment


def _view_rows(context: Context) -> Iterator[Row]:
    for view in _views(context):
        yield *_name(view), view.original


def _partitions(context: Context) -> Iterator[Row]:
    for table in _tables(context):
        for partition in partitions_of(context, table) or ():
            yield *_name(table), partition_name(table, partition.values), partition.location


_LOCKS = (
    *(("lock_ext_id", "bigint"), ("lock_int_id", "bigint"), ("txnid", "bigint")),
    *(("db", "string"), ("table", "string"), ("partition", "string")),
    *(("lock_state", "string"), ("lock_type", "string")),
    *(("last_heartbeat", "timestamp"), ("acquired_at", "timestamp")),
    *(("user", "string"), ("host", "string"), ("agent_info", "string")),
    *(("blockedby_ext_id", "bigint"), ("blockedby_int_id", "bigint")),
)
_NAMED = "table_catalog string, table_schema string, table_name string"
_QUEUE: Mapping[str, tuple[str, Callable[[Context], Iterator[Row]]]] = {
    "compactions": (", ".join(f"{name} {kind}" for name, kind in _COMPACTIONS.values()), _compactions),
    "transactions": (
        "txn_id bigint, state string, started timestamp, last_heartbeat timestamp, user string, host string",
        _transactions,
    ),
    "locks": (", ".join(f"{name} {kind}" for name, kind in _LOCKS), _locks),
}
SYSTEM_TABLES: Mapping[tuple[str, str], tuple[str, Callable[[Context], Iterator[Row]]]] = MappingProxyType(
    {
        **{
            (schema, name): table
            for schema in ("sys", "information_schema")
            for name, table in _QUEUE.items()
        },
        ("sys", "partitions"): (f"{_NAMED}, part_name string, location string", _partitions),
        ("information_schema", "schemata"): (
            "catalog_name string, schema_name string, sql_path string",
            _schemata,
        ),
        ("information_schema", "tables"): (
            f"{_NAMED}, table_type string, is_insertable_into string",
            _table_rows,
        ),
        ("information_schema", "columns"): (
            f"{_NAMED}, column_name string, ordinal_position int, data_type string, comment string",
            _column_rows,
        ),
        ("information_schema", "views"): (f"{_NAMED}, view_definition string", _view_rows),
    }
)
"""The columns of each relation, and the function that returns its rows."""


def system_frame(context: Context, name: TableName) -> DataFrame:
    """Return the rows of a relation of `SYSTEM_TABLES`."""
    columns, rows = SYSTEM_TABLES[name.database, name.name]
    return context.env.spark.createDataFrame(list(rows(context)), columns)


SYSTEM = "system"
"""Mark of a relation of ``sys`` or ``information_schema`` (`SYSTEM_TABLES`)."""
_COMMIT_VERSION = "_commit_version"
METADATA_TABLES = frozenset({"history", "snapshots", "files", "deltas", "partitions"})
"""The metadata tables that each table has."""
_MAX_PARTS = 3  # database, table, metadata table


@dataclass(frozen=True)
class Predicate:
    """A condition for push-down, as text, and the name that may qualify its columns.

    ``view``: the view in whose text it stands, with the functions and settings of its creator.
    """

    condition: str
    alias: str
    view: TableName | None = None


@dataclass(frozen=True)
class TableSource:
    """Table, or metadata table of a table, whose rows stand for a name in a query.

    ``metadata``: one of `METADATA_TABLES`, or `SYSTEM`; None: the table itself. ``virtual_columns``: include these
    columns. ``as_of``: the point of time travel. ``predicate``: the query needs only rows that fulfil it.
    ``count_only``: the query needs only the number of rows. ``subqueries``, ``deleted_rows`` as in `Scan`.
    """

    table: TableName
    metadata: str | None = None
    virtual_columns: bool = False
    as_of: PointInTime | None = None
    predicate: Predicate | None = None
    count_only: bool = False
    subqueries: bool = False
    deleted_rows: bool = False


def find_metadata_table(context: Context, parts: Sequence[str]) -> TableSource | None:
    """Return the metadata table, or relation of ``sys`` or ``information_schema``, that a name refers to.

    None for other names, and if Spark has a table of that name.

    The caller first looks for a table of the hiveacid catalog with this name.
    """
    in_catalog = tuple(parts[1:] if parts[0] == SPARK_CATALOG else parts)
    if len(parts) > _MAX_PARTS:
        parts = in_catalog
    *owner, metadata = parts
    source = None
    if metadata in METADATA_TABLES and len(owner) in (1, 2):
        name = TableName(owner[0] if len(owner) > 1 else context.database, owner[-1])
        source = None if context.catalog.get_table(name) is None else TableSource(name, metadata)
    if source is None and in_catalog in SYSTEM_TABLES:
        source = TableSource(TableName(*in_catalog), SYSTEM)
    return None if source is None or exists_in_spark(context.env, parts) else source


def metadata_frame(context: Context, source: TableSource, txn: Transaction | None) -> DataFrame:
    """Return the rows of a metadata table, or of a relation of ``sys`` or ``information_schema``."""
    if source.metadata == SYSTEM:
        return system_frame(context, source.table)
    frame: DataFrame = getattr(Inspect(context, source.table, txn), str(source.metadata))()
    return frame


def resolve_as_of(context: Context, source: Slice, relation: Relation) -> PointInTime | None:
    """Return the point of a relation's AS OF clause; None without one, which means the statement's snapshot.

    Raises StatementError with the position of a value that is not a write id or timestamp.
    """
    travel = relation.travel
    if travel is None:
        return None
    line, column = source.position(travel.start)
    value = travel.value.strip()
    if travel.kind == "VERSION":
        version = value.strip("'\"")
        return point_of_version(int(version) if version.isdecimal() else version)
    start = source.text.find(value, travel.start)
    written = Slice(value, 0, line, column) if start < 0 else source.part(start, start + len(value))
    return Instant(millis_of(context, written))


def millis_of(context: Context, expression: Slice) -> int:
    """Return the moment of an expression in milliseconds since the epoch. Raises StatementError with its position."""
    with spark_errors_at_source(expression, before="SELECT unix_millis(CAST(("):
        millis = driver_frames.evaluate_millis(context.env, expression.text)
    if millis is None:
        raise StatementError(
            f"{expression.text} is not a timestamp", line=expression.line, column=expression.column
        )
    return millis


FETCH_DELETED_ROWS = "acid.fetch.deleted.rows"
"""Hive 4's property of a table in a query: ``t('acid.fetch.deleted.rows'='true')`` reads deleted rows, too."""


def table_of_call(call: FunctionCall) -> TableRef | None:
    """Return the table that a call names if it is one with properties; None for a call of a function."""
    return table_ref(call.name.lower().split(".")) if properties_of_call(call) else None


def properties_of_call(call: FunctionCall) -> dict[str, str]:
    """Return the properties of a table that a query names as ``t('key'='value', …)``; none for a call of a function."""
    properties: dict[str, str] = {}
    for _, node in call.arguments:
        if node.nodeName() != "EqualTo" or {node.left().nodeName(), node.right().nodeName()} != {"Literal"}:
            return {}
        properties[str(node.left().value()).lower()] = str(node.right().value()).lower()
    return properties


HIVEACID_CHANGES, TABLE_CHANGES = "hiveacid_changes", "table_changes"
"""Changes after one point and not after another; or of a first to a last point, as Delta Lake counts them."""
CHANGE_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    HIVEACID_CHANGES: ("table", "after", "until", "key", "net", "row_ids"),
    TABLE_CHANGES: ("table", "start", "end", "key", "net", "row_ids"),
}
"""Their parameters."""


@dataclass(frozen=True)
class ChangeCall:
    """One call: its function, where it begins (line and column), its arguments by name; ``key``: names of columns."""

    function: str
    line: int
    column: int
    arguments: Mapping[str, JavaObject]
    key: tuple[JavaObject, ...] = ()


def is_change_call(call: FunctionCall) -> bool:
    """Tell whether a call is one of a change function."""
    return call.name.lower() in CHANGE_FUNCTIONS


def change_call(piece: Slice, call: FunctionCall) -> ChangeCall:
    """Return a call of a change function in a text. Raises StatementError for arguments that it does not have."""
    function, (line, column) = call.name.lower(), piece.position(call.start)
    parameters = CHANGE_FUNCTIONS[function]
    arguments: dict[str, JavaObject] = {}
    key: list[JavaObject] = []
    for number, (name, argument) in enumerate(call.arguments):
        parameter = name.lower() or parameters[min(number, 3)]
        if parameter == "key":
            key.append(argument)
        elif parameter in parameters and parameter not in arguments:
            arguments[parameter] = argument
        else:
            raise StatementError(
                f"{call.name} has no parameter {parameter}, or it is given twice; there are {', '.join(parameters)}",
                line=line,
                column=column,
            )
    if "table" not in arguments or parameters[1] not in arguments:
        raise StatementError(
            f"{call.name} needs a table and {parameters[1]}: {call.name}('db.t', 1)", line=line, column=column
        )
    return ChangeCall(function, line, column, arguments, tuple(key))


def table_of_change_call(piece: Slice, call: FunctionCall) -> str | None:
    """Return the table that a call names; None if a parameter names it, or if only hiveacid has the function."""
    table = change_call(piece, call).arguments["table"]
    is_literal = table.nodeName() == "Literal" and call.name.lower() != HIVEACID_CHANGES
    return str(table.value().toString()) if is_literal else None


def change_frame(context: Context, source: Slice, call: ChangeCall, txn: Transaction | None) -> DataFrame:
    """Return the rows of a call of a change function.

    Raises NoSuchTableError, StatementError, ConfigError and NotEnoughHistoryError.
    """
    line, column = call.line, call.column
    arguments = {name: _value(context, source, argument) for name, argument in call.arguments.items()}
    if not isinstance(arguments["table"], str):
        raise StatementError("the table's name is not a string", line=line, column=column)
    name = context.resolve(arguments["table"])
    first, last = ("after", "until") if call.function == HIVEACID_CHANGES else ("start", "end")
    with errors_at(line, column):
        if context.catalog.get_table(name) is None:
            raise NoSuchTableError(f"table {name} does not exist: see SHOW TABLES")
        after: FeedPoint = _checked_point(arguments[first], first)
        until = _checked_point(arguments.get(last), last)
        if call.function != HIVEACID_CHANGES:
            after = _point_before(context, _checked_point(arguments[first], first))
        key = tuple(key_column for part in call.key for key_column in _columns(_value(context, source, part)))
        flags = _flag(arguments, "net"), _flag(arguments, "row_ids")
        return ChangeFeed(context, name, txn, after, until, key, *flags).to_df()


def changes_between(
    context: Context,
    source: Slice,
    relation: Relation,
    table: TableSource | ViewDefinition,
    txn: Transaction | None,
) -> DataFrame:
    """Return the rows of ``t CHANGES FROM VERSION | TIMESTAMP a [TO ... b]``, with Spark's name of the write id.

    Raises what `change_frame` raises; UnsupportedFeatureError for a view, a metadata table and updates in pairs.
    """
    clause = relation.changes.changelogContext()
    line, column = source.position(relation.start)
    with errors_at(line, column):
        if isinstance(table, ViewDefinition) or table.metadata is not None:
            raise UnsupportedFeatureError(f"{relation.name} is not a table: only tables have CHANGES")
        if clause.computeUpdates():
            raise UnsupportedFeatureError(
                "computeUpdates needs the columns that identify a row: "
                f"hiveacid_changes('{table.table}', 1, key => 'id') returns updates in pairs"
            )
        try:
            after, until = _span(clause.range())
        except StatementError as error:
            error.line, error.column = line, column
            raise
        net = str(clause.deduplicationMode()) == "NET_CHANGES"
        frame = ChangeFeed(context, table.table, txn, after, until, net=net).to_df()
    return frame.withColumnRenamed(WRITE_ID, _COMMIT_VERSION)


def _span(bounds: JavaObject) -> tuple[int, int | None] | tuple[Instant, Instant | None]:
    """Return the points behind which a range begins, and at which it ends. Raises StatementError."""
    points: tuple[int, int | None] | tuple[Instant, Instant | None]
    with_start, with_end = bool(bounds.startingBoundInclusive()), bool(bounds.endingBoundInclusive())
    if str(bounds.getClass().getSimpleName()) == "VersionRange":
        texts = bounds.startingVersion(), bounds.endingVersion().orElse(None)
        for text in texts:
            if text is not None and not str(text).isdecimal():
                raise StatementError(f"CHANGES FROM VERSION takes a write id, not {text}")
        start, end = (None if text is None else int(text) for text in texts)
        assert start is not None  # noqa: S101 - Spark's grammar
        after = max(0, start - with_start)
        until = None if end is None else end - (not with_end)
        points = after, None if until is None else max(after, until)
    else:  # in microseconds; commits have milliseconds
        start, end = int(bounds.startingTimestamp()), bounds.endingTimestamp().orElse(None)
        after = -(-start // 1000) - 1 if with_start else start // 1000
        until = None if end is None else end // 1000 if with_end else -(-end // 1000) - 1
        points = Instant(after), None if until is None else Instant(max(after, until))
    if end is not None and end < start:
        raise StatementError("CHANGES end before they begin: the earlier bound stands behind FROM")
    return points


def _flag(arguments: Mapping[str, driver_frames.ConstantValue], name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r}")
    return bool(value)


def _checked_point(value: driver_frames.ConstantValue, name: str) -> int | str | datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | str | datetime | None):
        raise ConfigError(f"{name} is not a write id, text or timestamp")
    return value


def _point_before(context: Context, start: int | str | datetime | None) -> int | Instant | None:
    """Return the point just before ``start``, so that the changes of ``start`` are included."""
    if isinstance(start, str | datetime):
        return Instant(driver_frames.epoch_millis(context.env, start) - 1)
    return max(start - 1, 0) if isinstance(start, int) else None


def _columns(value: driver_frames.ConstantValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigError("key takes the names of columns, as texts")


def _value(context: Context, source: Slice, expression: JavaObject) -> driver_frames.ConstantValue:
    """Return the value of an argument, a constant expression; literals need no Spark."""
    if expression.nodeName() == "Literal":
        kind = str(expression.dataType().simpleString())
        if kind == "string":
            return str(expression.value().toString())
        if kind in {"int", "bigint", "boolean", "void"}:
            value: int | None = expression.value()
            return value
    start = expression.origin().startIndex()
    text = source.part(int(start.get()) if start.isDefined() else 0)
    with spark_errors_at_source(Slice(str(expression.sql()), 0, text.line, text.column), before="SELECT ("):
        return driver_frames.evaluate_constant(context.env, str(expression.sql()))

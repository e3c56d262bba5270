"""Relations of ``sys`` and ``information_schema``, with Hive's names of columns: the store's queue, transactions and locks, and its catalog.

They show the present. Times are timestamps, missing values NULL. Columns for which hiveacid has no values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from types import MappingProxyType

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableName, ViewDefinition
from hiveacid.sql.execute.show_rows import COMPACTION_COLUMNS, open_and_aborted
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of
from hiveacid.table.read.history_and_time_travel import utc_datetime

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


def _columns(context: Context) -> Iterator[Row]:
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
    "locks": (
        ", ".join(f"{name} {kind}" for name, kind in _LOCKS),
        _locks,
    ),
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
            _columns,
        ),
        ("information_schema", "views"): (f"{_NAMED}, view_definition string", _view_rows),
    }
)
"""The columns of each relation, and the function that returns its rows."""


def system_frame(context: Context, name: TableName) -> DataFrame:
    """Return the rows of a relation of `SYSTEM_TABLES`."""
    columns, rows = SYSTEM_TABLES[name.database, name.name]
    return context.env.spark.createDataFrame(list(rows(context)), columns)

"""Transactions and settings; COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS, with Hive's columns and messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from hiveacid.catalog.opening import implied_settings
from hiveacid.config.setting_definitions import AUTO_COMPACT
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import CompactionError, ConfigError, StatementError, TransactionStateError
from hiveacid.ports.transactions import TxnKind
from hiveacid.sql.execute.change_rows import partition_values
from hiveacid.sql.execute.context import ExecutionContext, small_frame, string_rows
from hiveacid.sql.execute.show_and_describe import named_partition
from hiveacid.sql.execute.show_rows import abort_transactions
from hiveacid.sql.statements import administration
from hiveacid.table.acid_table import AcidTable


def start_transaction(execution: ExecutionContext, statement: administration.StartTransaction) -> None:
    """START TRANSACTION: the session's next statements join the transaction until COMMIT or ROLLBACK."""
    if execution.joined is not None:
        raise TransactionStateError("a transaction is open already: COMMIT or ROLLBACK it first")
    execution.require_no_snapshot("START TRANSACTION")
    context = execution.context
    kind = TxnKind.READ_ONLY if statement.read_only else TxnKind.DEFAULT
    txn = context.read_leases.begin_explicit(context.settings, kind)
    execution.begin(txn, statement.read_only)


def commit(execution: ExecutionContext, _: administration.Commit) -> None:
    """COMMIT. Raises WriteConflictError if a conflicting transaction committed first; then no write is visible."""
    txn = execution.end("COMMIT")
    try:
        txn.commit()
    except BaseException as error:
        if not txn.ended:  # the session no longer knows the transaction, so its locks would stay
            txn.abort(str(error)[:200])
        raise


def rollback(execution: ExecutionContext, _: administration.Rollback) -> None:
    """ROLLBACK."""
    txn = execution.end("ROLLBACK")
    txn.abort("ROLLBACK")


def abort(execution: ExecutionContext, statement: administration.AbortTransactions) -> None:
    """ABORT TRANSACTIONS: all of them, or none if one of the ids is unknown or committed."""
    abort_transactions(execution.context.store, statement.ids)


def set_option(execution: ExecutionContext, statement: administration.SetOption) -> DataFrame | None:
    """SET: ``spark.`` keys change the Spark session, all others this connection's settings."""
    env, settings = execution.context.env, execution.context.settings
    key, value = statement.key, statement.value
    if key is None:
        return string_rows(env, ("set",), [(f"{name}={text}",) for name, text in settings.items()])
    if value is None:
        return string_rows(env, ("set",), [(_shown(execution, key),)])
    if _is_sparks(key):
        env.spark.conf.set(key, value)
    else:
        execution.set(key, value)
    return None


def _is_sparks(key: str) -> bool:
    return key.lower().startswith("spark.")


def _shown(execution: ExecutionContext, key: str) -> str:
    try:
        value = (
            execution.context.env.spark.conf.get(key, None)
            if _is_sparks(key)
            else execution.context.settings.text(key)
        )
    except ConfigError:
        value = None
    return f"{key} is undefined" if value is None else f"{key}={value}"


def refresh(execution: ExecutionContext, statement: administration.RefreshTable) -> None:
    """REFRESH TABLE: only checks that the table exists, because every statement reads the current state."""
    execution.find(statement.table)


def reset_option(execution: ExecutionContext, statement: administration.ResetOption) -> None:
    """RESET key, or all settings of this session (Spark's own stay as they are)."""
    context = execution.context
    implied = implied_settings(context.store)
    if statement.key in (None, AUTO_COMPACT.name):
        execution.set(AUTO_COMPACT.name, AUTO_COMPACT.default)  # ends background compaction
    if statement.key is None:
        context.change_settings(implied)
    elif _is_sparks(statement.key):
        context.env.spark.conf.unset(statement.key)
    elif statement.key in dict(implied.changed):
        execution.set(statement.key, implied.text(statement.key))
    else:
        context.change_settings(context.settings.without(statement.key))


_COMPACTED = (
    ("compactionid", "bigint"),
    ("partname", "string"),
    ("type", "string"),
    ("state", "string"),
    ("message", "string"),
)
_ABORTED = (("compactionid", "bigint"), ("status", "string"), ("message", "string"))
_NO_VALUE = " --- "  # MetaStoreUtils.NO_VAL

Key = int | str

_ORDER = re.compile(r"[`'\"]?([a-z_]+)[`'\"]?(?:\s+(asc|desc))?", re.IGNORECASE)
_ABORT_REASON = "Compaction Aborted by Abort Compaction request."


def compact(execution: ExecutionContext, statement: administration.Compact) -> DataFrame:
    """ALTER TABLE COMPACT: returns one row per job. Without AND WAIT, a job for a service's worker is only queued."""
    table = AcidTable(execution.context, execution.find(statement.table), execution.joined)
    reports = table.compact(
        statement.kind,
        partition_values(execution, statement.partition),
        wait=statement.wait,
        pool=statement.pool,
        buckets=statement.buckets,
        order_by=statement.order_by,
        properties=dict(statement.properties),
    )
    rows = [(r.id or None, r.partition, r.kind.upper(), r.state, r.reason) for r in reports]
    return small_frame(execution.context.env, _COMPACTED, rows)


def abort_compactions(execution: ExecutionContext, statement: administration.AbortCompactions) -> DataFrame:
    """ABORT COMPACTIONS: removes waiting jobs from the queue; returns one row per id (``AbortCompactionFunction``)."""
    rows = [(number, *_abort_compaction(execution, number)) for number in dict.fromkeys(statement.ids)]
    return small_frame(execution.context.env, _ABORTED, rows)


def _abort_compaction(execution: ExecutionContext, number: int) -> tuple[str, str]:
    store = execution.context.store
    try:
        store.end_compaction(number, CompactionState.ABORTED, _ABORT_REASON)
    except TransactionStateError:
        state = next((job.state for job in store.show_compactions() if job.id == number), "gone")
        return "Error", f"Error while aborting compaction as compaction is in state-{state}"
    except CompactionError:
        return "Error", "No Such Compaction Id Available"
    return "Success", "Successfully aborted compaction"


def show_compactions(execution: ExecutionContext, statement: administration.ShowCompactions) -> DataFrame:
    """SHOW COMPACTIONS, as Hive 4 shows them, with its filters."""
    name = statement.table.resolve(execution.context.database) if statement.table else None
    partition = named_partition(execution, name, statement.partition) if name else None
    execution.context.store.abort_timed_out()
    jobs = [
        job
        for job in execution.context.store.show_compactions()
        if statement.compaction_id in (None, job.id)
        and statement.database in (None, job.request.table.database)
        and name in (None, job.request.table)
        and partition in (None, job.request.partition)
        and statement.pool in (None, job.request.pool)
        and statement.kind in (None, job.request.kind)
        and statement.status in (None, job.state)
    ]
    if statement.order_by is not None:
        jobs = _sorted(jobs, statement.order_by.text)
    rows = [tuple(_cell(value(job)) for value in _COLUMNS.values()) for job in jobs[: statement.limit]]
    return string_rows(execution.context.env, tuple(_COLUMNS), rows)


def _sorted(jobs: list[Compaction], order: str) -> list[Compaction]:
    """Sort jobs by the columns of ORDER BY; nulls come first, as in Hive."""
    for part in reversed(order.split(",")):
        match = _ORDER.fullmatch(part.strip())
        column = re.sub(r"^c[cq]_", "", match[1].lower()) if match else ""
        key = _SORTED_BY.get(_ALIASES.get(column, column))
        if match is None or key is None:
            raise StatementError(
                f"SHOW COMPACTIONS cannot be ordered by {part.strip()}: its columns are {', '.join(_SORTED_BY)}"
            )
        jobs = sorted(jobs, key=_null_first(key), reverse=(match[2] or "").lower() == "desc")
    return jobs


def _duration(job: Compaction) -> int | None:
    return None if job.ended is None or job.started is None else job.ended - job.started


_COLUMNS: Mapping[str, Callable[[Compaction], Key | None]] = {
    "compactionid": lambda job: job.id,
    "dbname": lambda job: job.request.table.database,
    "tabname": lambda job: job.request.table.name,
    "partname": lambda job: job.request.partition,
    "type": lambda job: job.request.kind.upper(),
    "state": lambda job: job.state,
    "workerhost": lambda job: _host_and_id(job.worker)[0],
    "workerid": lambda job: _host_and_id(job.worker)[1],
    "enqueuetime": lambda job: job.enqueued,
    "starttime": lambda job: job.started,
    "duration": _duration,
    "hadoopjobid": lambda _: None,
    "errormessage": lambda job: job.error,
    "initiatorhost": lambda job: _host_and_id(job.initiator)[0],
    "initiatorid": lambda job: _host_and_id(job.initiator)[1],
    "poolname": lambda job: job.request.pool,
    "txnid": lambda job: job.txn_id,
    "nexttxnid": lambda job: job.next_txn_id,
    "committime": lambda job: job.commit_time,
    "hightestwriteid": lambda job: job.high_watermark,
}
# Workers and initiators are sorted by host and id together.
_SORTED_BY: Mapping[str, Callable[[Compaction], Key | None]] = {
    name: value
    for name, value in _COLUMNS.items()
    if name not in {"workerhost", "hadoopjobid", "initiatorhost"}
} | {"workerid": lambda job: job.worker, "initiatorid": lambda job: job.initiator}
# Columns of the metastore's tables, as Hive's own clause names them.
_ALIASES: Mapping[str, str] = {
    "id": "compactionid",
    "database": "dbname",
    "table": "tabname",
    "partition": "partname",
    "worker_id": "workerid",
    "enqueue_time": "enqueuetime",
    "start": "starttime",
    "error_message": "errormessage",
    "initiator_id": "initiatorid",
    "pool_name": "poolname",
    "txn_id": "txnid",
    "next_txn_id": "nexttxnid",
    "commit_time": "committime",
    "highest_write_id": "hightestwriteid",
}


def _null_first(key: Callable[[Compaction], Key | None]) -> Callable[[Compaction], tuple[bool, Key]]:
    def sort_key(job: Compaction) -> tuple[bool, Key]:
        value = key(job)
        return value is not None, 0 if value is None else value

    return sort_key


def _cell(value: str | int | None) -> str:
    return _NO_VALUE if value is None else str(value)


def _host_and_id(worker: str | None) -> tuple[str | None, str | None]:
    """Split ``host-id`` at its last dash (``MetaStoreUtils.getHostFromId``)."""
    if worker is None:
        return None, None
    host, _, own_id = worker.rpartition("-")
    return (host, own_id) if host else (own_id, None)

"""Transactions and settings; COMPACT and ABORT COMPACTIONS, with Hive's columns and messages."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog.opening import implied_settings
from hiveacid.config.setting_definitions import AUTO_COMPACT
from hiveacid.core.compaction.plan import NOT_ENOUGH
from hiveacid.core.transactions.states import CompactionState
from hiveacid.ports.transactions import TxnKind
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext, small_frame, string_rows
from hiveacid.sql.execute.show_and_describe import find_partition
from hiveacid.sql.execute.show_rows import abort_transactions
from hiveacid.sql.statements import administration
from hiveacid.table.acid_table import AcidTable
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean_on_request
from hiveacid.table.compaction.run_compaction import CompactionReport
from hiveacid.table.partitions import static_values


def start_transaction(execution: ExecutionContext, statement: administration.StartTransaction) -> None:
    """START TRANSACTION: the session's next statements join the transaction until COMMIT or ROLLBACK."""
    if execution.joined is not None:
        raise errors.TransactionStateError("a transaction is open already: COMMIT or ROLLBACK it first")
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
    """SET: ``spark.`` keys change the Spark session, all others this connection's settings.

    Each name but those of ``hiveacid.`` is also a variable, ``${name}``: Spark's substitution looks for it among Spark's settings.
    """
    env, settings = execution.context.env, execution.context.settings
    key, value = statement.key, statement.value
    if key is None:
        return string_rows(env, ("set",), [(f"{name}={text}",) for name, text in settings.items()])
    if value is None:
        return string_rows(env, ("set",), [(_shown(execution, key),)])
    kind, name = _variable(key)
    is_setting = not kind or (kind == "hiveconf" and name.startswith("hive"))
    if is_setting and not _is_sparks(name):
        execution.set(name, value)
    if not name.lower().startswith("hiveacid."):
        env.spark.conf.set(name, value)
    return None


def _is_sparks(key: str) -> bool:
    return key.lower().startswith("spark.")


def _variable(key: str) -> tuple[str, str]:
    """Split ``hivevar:day`` and ``hiveconf:day`` into kind and name; other keys have no kind."""
    kind, colon, name = key.partition(":")
    return (kind.lower(), name) if colon and kind.lower() in {"hivevar", "hiveconf"} else ("", key)


def _shown(execution: ExecutionContext, key: str) -> str:
    try:
        value = (
            execution.context.env.spark.conf.get(key, None)
            if _is_sparks(key)
            else execution.context.settings.text(key)
        )
    except errors.ConfigError:
        value = None
    return f"{key} is undefined" if value is None else f"{key}={value}"


def refresh(execution: ExecutionContext, statement: administration.RefreshTable) -> None:
    """REFRESH TABLE: only checks that the table exists, because every statement reads the current state."""
    execution.find(statement.table)


def reset_option(execution: ExecutionContext, statement: administration.ResetOption) -> None:
    """RESET key, or all settings of this session (Spark's own and those of a server stay as they are)."""
    context = execution.context
    implied = implied_settings(context.store)
    for name, text in context.settings.changed:
        implied = implied.with_value(name, text) if name in context.session.fixed else implied
    if statement.key in (None, AUTO_COMPACT.name):
        execution.set(AUTO_COMPACT.name, AUTO_COMPACT.default)  # ends background compaction
    if statement.key is None:
        context.change_settings(implied)
        return
    context.env.spark.conf.unset(_variable(statement.key)[1])
    if statement.key in dict(implied.changed):
        execution.set(statement.key, implied.text(statement.key))
    elif not _is_sparks(statement.key):
        context.change_settings(context.settings.without(statement.key))


_COMPACTED = (
    ("compactionid", "bigint"),
    ("partname", "string"),
    ("type", "string"),
    ("state", "string"),
    ("message", "string"),
)
_ABORTED = (("compactionid", "bigint"), ("status", "string"), ("message", "string"))


_ABORT_REASON = "Compaction Aborted by Abort Compaction request."


def compact(execution: ExecutionContext, statement: administration.Compact) -> DataFrame:
    """ALTER TABLE COMPACT: returns one row per job. Without AND WAIT, a job for a service's worker is only queued."""
    table = AcidTable(execution.context, execution.find(statement.table), execution.joined)
    reports = table.compact(
        statement.kind,
        spec_values(execution, statement.partition),
        wait=statement.wait,
        pool=statement.pool,
        buckets=statement.buckets,
        order_by=statement.order_by,
        properties=dict(statement.properties),
    )
    return _compacted(execution, reports)


def _compacted(execution: ExecutionContext, reports: Iterable[CompactionReport]) -> DataFrame:
    rows = [(r.id or None, r.partition, r.kind.upper(), r.state, r.reason) for r in reports]
    return small_frame(execution.context.env, _COMPACTED, rows)


def analyze(execution: ExecutionContext, statement: administration.Analyze) -> None:
    """ANALYZE TABLE: checks the names only, because files carry their statistics and readers use these.

    Raises UnsupportedFeatureError with a Hive Metastore, whose statistics Hive's optimizer uses.
    """
    table = execution.context.require(execution.find(statement.table))
    given = static_values(execution.context, table, spec_values(execution, statement.partition))
    if given and len(given) == len(table.partition_columns):
        find_partition(execution, table, statement.partition)
    for column in statement.columns:
        if column not in table.column_names:
            raise errors.no_such_column(table.name, column, table.column_names)
    if not execution.context.store.maintained_by_hiveacid():
        raise errors.UnsupportedFeatureError(
            "the statistics of a Hive Metastore are for Hive's optimizer: run ANALYZE TABLE in Hive. Spark does not need "
            "them, because hiveacid reads the statistics of the files"
        )


def optimize(execution: ExecutionContext, statement: administration.Optimize) -> DataFrame:
    """OPTIMIZE and CONCATENATE: a major compaction to its end; no error where nothing is to compact."""
    table = AcidTable(execution.context, execution.find(statement.table))
    try:
        reports = table.compact("major", spec_values(execution, statement.partition))
    except errors.CompactionRefusedError as error:
        if NOT_ENOUGH not in str(error):
            raise
        reports = []
    return _compacted(execution, reports)


def vacuum(execution: ExecutionContext, statement: administration.Vacuum) -> DataFrame:
    """VACUUM: remove the files that no reader needs; returns their paths."""
    paths = clean_on_request(execution.context, execution.find(statement.table))
    return string_rows(execution.context.env, ("path",), [(path,) for path in paths])


def abort_compactions(execution: ExecutionContext, statement: administration.AbortCompactions) -> DataFrame:
    """ABORT COMPACTIONS: removes waiting jobs from the queue; returns one row per id (``AbortCompactionFunction``)."""
    rows = [(number, *_abort_compaction(execution, number)) for number in dict.fromkeys(statement.ids)]
    return small_frame(execution.context.env, _ABORTED, rows)


def _abort_compaction(execution: ExecutionContext, number: int) -> tuple[str, str]:
    store = execution.context.store
    try:
        store.end_compaction(number, CompactionState.ABORTED, _ABORT_REASON)
    except errors.TransactionStateError:
        state = next((job.state for job in store.show_compactions() if job.id == number), "gone")
        return "Error", f"Error while aborting compaction as compaction is in state-{state}"
    except errors.CompactionError:
        return "Error", "No Such Compaction Id Available"
    return "Success", "Successfully aborted compaction"

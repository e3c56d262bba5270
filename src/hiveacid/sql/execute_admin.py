"""Transactions and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.errors import ConfigError, TransactionStateError
from hiveacid.ports import Start, TxnKind
from hiveacid.sql.rows import nothing, texts
from hiveacid.sql.store_rows import abort_transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql import statements as s
    from hiveacid.sql.session import AcidSession


def start_transaction(session: AcidSession, statement: s.StartTransaction) -> DataFrame:
    """START TRANSACTION: the session's statements belong to it until COMMIT or ROLLBACK."""
    if session.joined is not None:
        raise TransactionStateError("a transaction is open already: COMMIT or ROLLBACK it first")
    session.require_no_snapshot("START TRANSACTION")
    context = session.context
    kind = TxnKind.READ_ONLY if statement.read_only else TxnKind.DEFAULT
    txn = context.transactions.begin(context.settings, kind, explicit=True, start=Start())
    session.joined, session.by_statement, session.read_only = txn, True, statement.read_only
    return nothing(context.facts)


def commit(session: AcidSession, _: s.Commit) -> DataFrame:
    """COMMIT. Raises WriteConflictError where another transaction was first; then nothing is visible."""
    txn = session.end_by_statement("COMMIT")
    try:
        txn.commit()
    except BaseException as error:
        if not txn.ended:  # nobody could end it any more, and its locks would stay
            txn.abort(str(error)[:200])
        raise
    return nothing(session.context.facts)


def rollback(session: AcidSession, _: s.Rollback) -> DataFrame:
    """ROLLBACK."""
    txn = session.end_by_statement("ROLLBACK")
    txn.abort("ROLLBACK")
    return nothing(session.context.facts)


def abort(session: AcidSession, statement: s.AbortTransactions) -> DataFrame:
    """ABORT TRANSACTIONS: all of them, or, where one of the ids is unknown or has committed, none."""
    abort_transactions(session.context.store, statement.ids)
    return nothing(session.context.facts)


def set_option(session: AcidSession, statement: s.SetOption) -> DataFrame:
    """SET: ``spark.`` keys go to the Spark session, all others to the settings of this one."""
    facts, settings = session.context.facts, session.context.settings
    key, value = statement.key, statement.value
    if key is None:
        return texts(facts, ("set",), [(f"{name}={text}",) for name, text in settings.items()])
    if value is None:
        return texts(facts, ("set",), [(_shown(session, key),)])
    if _is_sparks(key):
        facts.spark.conf.set(key, value)
    else:
        session.set(key, value)
    return nothing(facts)


def _is_sparks(key: str) -> bool:
    return key.lower().startswith("spark.")


def _shown(session: AcidSession, key: str) -> str:
    try:
        value = (
            session.context.facts.spark.conf.get(key, None)
            if _is_sparks(key)
            else session.context.settings.text(key)
        )
    except ConfigError:
        value = None
    return f"{key} is undefined" if value is None else f"{key}={value}"


def refresh(session: AcidSession, statement: s.RefreshTable) -> DataFrame:
    """REFRESH TABLE: every statement sees the present state anyway; the table has to exist."""
    session.find(statement.table)
    return nothing(session.context.facts)


def reset_option(session: AcidSession, statement: s.ResetOption) -> DataFrame:
    """RESET key, or all settings of this session (Spark's own stay as they are)."""
    context = session.context
    if statement.key is None:
        context.change_settings(type(context.settings)())
    elif _is_sparks(statement.key):
        context.facts.spark.conf.unset(statement.key)
    else:
        context.change_settings(context.settings.without(statement.key))
    return nothing(context.facts)

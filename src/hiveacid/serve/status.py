"""Errors as the interface's status: Hive's error codes, SQLSTATE, and message."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hiveacid import errors
from hiveacid.errors import HiveAcidError
from hiveacid.serve import hs2_structs
from hiveacid.spark.session.error_translation import stack_overflow

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE = 1 << 16
_STATES: tuple[tuple[type[HiveAcidError], str], ...] = (
    # Derived classes come before their bases. A state is that of Hive's ErrorMsg, or else that of the SQL standard.
    (errors.NoSuchTableError, "42S02"),
    (errors.NoSuchColumnError, "42S22"),
    (errors.NoSuchDatabaseError, "42000"),
    (errors.AlreadyExistsError, "42S01"),
    (errors.ParseError, "42000"),
    (errors.StatementError, "42000"),
    (errors.CatalogError, "42000"),
    (errors.ConfigError, "42000"),
    (errors.UnsupportedFeatureError, "0A000"),
    (errors.StatementCancelledError, "HY008"),
    (errors.FailedTransactionError, "25000"),
    (errors.WriteConflictError, "40001"),
    (errors.LockTimeoutError, "40001"),
    (errors.TransactionAbortedError, "40000"),
    (errors.TransactionError, "25000"),
    (errors.MergeCardinalityError, "21000"),
    (errors.ConstraintViolationError, "23000"),
    (errors.DataError, "22000"),
    (errors.StorePermissionError, "42501"),
    (errors.StoreUnavailableError, "08S01"),
    (errors.CommitStateUnknownError, "08007"),
)
# Error conditions that Spark itself reports, and for which Hive has an error code.
_HIVE_CODES: Mapping[str, tuple[int, str | None]] = MappingProxyType(
    {
        "TABLE_OR_VIEW_NOT_FOUND": (10001, "42S02"),
        "UNRESOLVED_COLUMN": (10002, "42S22"),
        "SCHEMA_NOT_FOUND": (10072, None),
        "TABLE_OR_VIEW_ALREADY_EXISTS": (10073, "42S01"),
    }
)
_GENERAL_STATE = "08S01"  # Hive's for a failed execution
_GENERAL_CODE = 40000  # Hive's GENERIC_ERROR

SUCCESS = hs2_structs.TStatus(statusCode=hs2_structs.SUCCESS)
INVALID_HANDLE = hs2_structs.TStatus(
    statusCode=hs2_structs.INVALID_HANDLE,
    sqlState="08003",
    errorMessage="no such session or operation: it was closed, timed out, or belongs to another client",
)


def error_status(error: BaseException) -> Any:
    """Return the status of a failed call; the text of an unexpected error goes to the log only."""
    error = stack_overflow(error) or error
    if isinstance(error, HiveAcidError):
        code = int(error.code) if error.code.isdigit() else _GENERAL_CODE
        return _status(f"{error.getCondition()}: {error}", _state(error), code)
    if _of_spark(error):
        code, state = _HIVE_CODES.get(_condition(error).partition(".")[0], (_GENERAL_CODE, None))
        return _status(_text_of_spark(error), state or _state_of_spark(error), code)
    logger.error("a call failed unexpectedly", exc_info=error)
    return _status(f"internal error: {type(error).__name__}; see the server's log", "HY000", _GENERAL_CODE)


def _status(text: str, state: str, code: int) -> Any:
    message = text[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode()
    return hs2_structs.TStatus(
        statusCode=hs2_structs.ERROR,
        sqlState=state,
        errorCode=code,
        errorMessage=message,
    )


def _state(error: HiveAcidError) -> str:
    return next((state for kind, state in _STATES if isinstance(error, kind)), _GENERAL_STATE)


def _of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def _text_of_spark(error: BaseException) -> str:
    """Return the message without the JVM's stack trace."""
    text = str(getattr(error, "desc", None) or error)
    return text.partition("\n\nJVM stacktrace:")[0].partition("\n\tat ")[0].strip()


def _condition(error: Any) -> str:
    read = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)  # before Spark 4
    return str((read and read()) or "")


def _state_of_spark(error: Any) -> str:
    state = error.getSqlState() if hasattr(error, "getSqlState") else None
    return str(state) if state else _GENERAL_STATE

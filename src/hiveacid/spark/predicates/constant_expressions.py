"""Constant SQL expressions and points in time, evaluated by Spark in the session's time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias, cast

from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.error_translation import is_spark_error

ConstantValue: TypeAlias = int | str | datetime | list[str] | None
"""Value of a constant expression; a timestamp has its zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_millis(env: SparkEnvironment, when: date | str) -> int:
    """Return a point in time in ms since the epoch, rounded down.

    Spark casts a text to TIMESTAMP. Texts and datetimes without a zone are in ``spark.sql.session.timeZone``.
    Raises ConfigError.
    """
    if isinstance(when, datetime) and when.tzinfo is not None:
        return (when - _EPOCH) // timedelta(milliseconds=1)
    text = str(when) if isinstance(when, date) else when
    millis = None
    if not isinstance(text, str):
        raise ConfigError(f"{when!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    if not {"'", "\\", "$"} & set(text):  # nothing that ends the literal, or that Spark would replace
        millis = evaluate_millis(env, f"'{text}'")
    if millis is None:
        raise ConfigError(f"{text!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    return millis


def evaluate_millis(env: SparkEnvironment, expression: str) -> int | None:
    """Return the value of a constant expression in ms since the epoch; None for NULL or a value that is not a timestamp.

    Raises Spark's error for an expression that it cannot analyse.
    """
    try:
        row = env.spark.sql(f"SELECT unix_millis(CAST(({expression}\n) AS TIMESTAMP_LTZ))").first()
    except Exception as error:
        if not (is_spark_error(error) or isinstance(error, HiveAcidError)) or "CAST_INVALID" not in str(
            error
        ):
            raise
        return None
    return None if row is None or row[0] is None else int(row[0])


def evaluate_constant(env: SparkEnvironment, expression: str) -> ConstantValue:
    """Return the value of a constant expression. Raises Spark's error."""
    frame = env.spark.sql(f"SELECT ({expression}\n) AS value")
    if frame.schema[0].dataType.typeName() in {"timestamp", "timestamp_ntz", "date"}:
        millis = evaluate_millis(env, expression)
        return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
    row = frame.first()
    return None if row is None else cast("ConstantValue", row[0])

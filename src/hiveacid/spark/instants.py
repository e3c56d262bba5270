"""Points in time as Spark reads them: texts and constant expressions, in the session's time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.spark.failures import is_spark_error

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts

Constant: TypeAlias = int | str | datetime | list[str] | None
"""Value of a constant expression; a timestamp has its zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_millis(facts: SparkFacts, when: date | str) -> int:
    """Return a moment in ms since the epoch; parts of a millisecond are cut off.

    A text is what Spark casts to TIMESTAMP; it and a datetime without a zone are in ``spark.sql.session.timeZone``.
    Raises ConfigError.
    """
    if isinstance(when, datetime) and when.tzinfo is not None:
        return (when - _EPOCH) // timedelta(milliseconds=1)
    text = str(when) if isinstance(when, date) else when
    found = None
    if not isinstance(text, str):
        raise ConfigError(f"{when!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    if not {"'", "\\"} & set(text):
        found = millis_of(facts, f"'{text}'")
    if found is None:
        raise ConfigError(f"{text!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    return found


def millis_of(facts: SparkFacts, expression: str) -> int | None:
    """Return the value of a constant expression in ms since the epoch; None for NULL and what is no timestamp.

    Raises what Spark says of an expression that it does not understand.
    """
    try:
        row = facts.spark.sql(f"SELECT unix_millis(CAST(({expression}\n) AS TIMESTAMP))").first()
    except Exception as error:
        if not (is_spark_error(error) or isinstance(error, HiveAcidError)) or "CAST_INVALID" not in str(
            error
        ):
            raise
        return None
    return None if row is None or row[0] is None else int(row[0])


def constant_of(facts: SparkFacts, expression: str) -> Constant:
    """Return the value of a constant expression. Raises what Spark says of it."""
    frame = facts.spark.sql(f"SELECT ({expression}\n) AS value")
    if frame.schema[0].dataType.typeName() in {"timestamp", "timestamp_ntz", "date"}:
        millis = millis_of(facts, expression)
        return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
    row = frame.first()
    return None if row is None else cast("Constant", row[0])

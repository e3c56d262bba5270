"""Comparison of two DataFrames as multisets of rows: the order does not matter, the number of duplicates does."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SHOWN = 5  # differing rows that a failure prints


class DifferenceError(Exception):
    """A table does not hold what plain Spark computes from the source."""


def fingerprint(frame: DataFrame, columns: Sequence[str]) -> tuple[int, int, int]:
    """Return the number of rows and two order-free checksums over every value of every row.

    Each row is hashed with xxhash64, once alone and once with a salt before it; the sums of the hashes are exact. A
    flag marks each null, because Spark's hash ignores nulls.
    """
    cells = [cell for name in columns for cell in (F.col(name), F.col(name).isNull())]
    row = frame.select(
        F.xxhash64(*cells).cast("decimal(38,0)").alias("plain"),
        F.xxhash64(F.lit("salt"), *cells).cast("decimal(38,0)").alias("salted"),
    ).agg(F.count("*"), F.sum("plain"), F.sum("salted"))
    rows, plain, salted = row.first() or (0, 0, 0)
    return int(rows), int(plain or 0), int(salted or 0)


def require_equal(name: str, actual: DataFrame, expected: DataFrame) -> int:
    """Return the number of rows. Raises DifferenceError, with some differing rows, if the two frames differ."""
    columns = expected.columns
    if sorted(actual.columns) != sorted(columns):
        message = f"{name} has columns {actual.columns}, plain Spark has {columns}"
        raise DifferenceError(message)
    found, wanted = fingerprint(actual, columns), fingerprint(expected, columns)
    if found == wanted:
        return found[0]
    left, right = actual.select(*columns), expected.select(*columns)
    surplus = [str(row.asDict()) for row in left.exceptAll(right).take(SHOWN)]
    missing = [str(row.asDict()) for row in right.exceptAll(left).take(SHOWN)]
    message = (
        f"{name} has {found[0]} rows, plain Spark computes {wanted[0]}\n"
        f"  only in the table: {surplus}\n  missing in the table: {missing}"
    )
    raise DifferenceError(message)

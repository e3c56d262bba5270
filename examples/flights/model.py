"""Expected content of the tables: the same changes, computed by plain Spark from the source; and the comparison with it.

Two DataFrames are compared as multisets of rows: the order does not matter, the number of duplicates does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from flights.source import Source

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
    actual_fingerprint, expected_fingerprint = fingerprint(actual, columns), fingerprint(expected, columns)
    if actual_fingerprint == expected_fingerprint:
        return actual_fingerprint[0]
    actual_rows, expected_rows = actual.select(*columns), expected.select(*columns)
    surplus = [str(row.asDict()) for row in actual_rows.exceptAll(expected_rows).take(SHOWN)]
    missing = [str(row.asDict()) for row in expected_rows.exceptAll(actual_rows).take(SHOWN)]
    message = (
        f"{name} has {actual_fingerprint[0]} rows, plain Spark computes {expected_fingerprint[0]}\n"
        f"  only in the table: {surplus}\n  missing in the table: {missing}"
    )
    raise DifferenceError(message)


STORM_DAY = 8  # 8 February 2013: the blizzard "Nemo" reaches New York


@dataclass(frozen=True)
class Model:
    """The tables' expected content; every change makes a new value."""

    source: Source
    tables: Mapping[str, DataFrame]

    @classmethod
    def of(cls, source: Source) -> Model:
        """Return the state after the dimensions are loaded, and before the first flights."""
        dimensions = {name: getattr(source, name) for name in ("airlines", "airports", "planes")}
        return cls(source, dimensions | {"flights": source.flights.where("false")})

    def with_table(self, name: str, frame: DataFrame) -> Model:
        """Return a copy in which one table holds the rows of ``frame``."""
        return replace(self, tables=dict(self.tables) | {name: frame})

    def with_flights_until(self, month: int, day: int, before: Model) -> Model:
        """Return a copy with the days of a month up to ``day`` loaded on top of ``before``."""
        loaded = self.source.flights.where((F.col("month") == month) & (F.col("day") <= day))
        return self.with_table("flights", before.tables["flights"].unionByName(loaded))

    def merged(self, name: str, key: str, corrections: DataFrame) -> Model:
        """Return a copy in which corrections (``op`` u or d) were merged into a dimension.

        A full outer join computes it, so that it shares no code with the MERGE that it checks.
        """
        target = self.tables[name]
        source = corrections.withColumnRenamed(key, "s_key")
        joined = target.alias("t").join(source.alias("s"), F.col(f"t.{key}") == F.col("s_key"), "full_outer")
        remaining = joined.where(F.coalesce(F.col("op"), F.lit("u")) != "d")
        columns = [
            F.coalesce(F.col("t." + key), F.col("s_key")).alias(key)
            if column == key
            else F.when(F.col("op") == "u", F.col("s." + column))
            .otherwise(F.col("t." + column))
            .alias(column)
            for column in target.columns
        ]
        return self.with_table(name, remaining.select(*columns))

    def updated(self, where: Column, changes: Mapping[str, Column]) -> Model:
        """Return a copy in which columns of some flights have new values."""
        flights = self.tables["flights"]
        columns = [
            F.when(where, changes[name]).otherwise(F.col(name)).alias(name)
            if name in changes
            else F.col(name)
            for name in flights.columns
        ]
        return self.with_table("flights", flights.select(*columns))

    def without_planes(self, tail_numbers: Sequence[str]) -> Model:
        """Return a copy without some planes and without all their flights."""

        def others(name: str) -> DataFrame:
            return self.tables[name].where(~F.coalesce(F.col("tailnum").isin(*tail_numbers), F.expr("false")))

        return self.with_table("flights", others("flights")).with_table("planes", others("planes"))

    def cached(self, name: str) -> Model:
        """Return a copy that computes one table once instead of at every comparison."""
        return self.with_table(name, self.tables[name].cache())

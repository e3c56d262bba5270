"""The changes that arrive while the demo runs: corrections of dimensions, late delays, deletions.

All changes are computed from the data, so every run makes the same ones. The column ``op`` is the operation of a
correction: u updates or adds a row, d deletes it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flights.source import Source

CORRECTION_HOURS = (6, 7, 8, 9, 10, 11)
OLDEST_YEAR = 1988

# Destinations of flights that are missing in the list of airports: code, name, latitude, longitude, altitude in feet.
MISSING_AIRPORTS = (
    ("SJU", "Luis Munoz Marin Intl", 18.4394, -66.0018, 9),
    ("BQN", "Rafael Hernandez", 18.4949, -67.1294, 237),
    ("STT", "Cyril E. King", 18.3373, -64.9734, 23),
    ("PSE", "Mercedita", 18.0083, -66.563, 29),
)
AIRLINE_CORRECTIONS = (
    ("9E", "Endeavor Air Inc. (Pinnacle until 2013)", "u"),
    ("FL", "AirTran Airways, part of Southwest", "u"),
    ("NK", "Spirit Air Lines", "u"),
    ("OO", "", "d"),
)


def airlines(spark: SparkSession) -> DataFrame:
    """Return corrections that rename two airlines, add one and delete one."""
    return spark.createDataFrame([*AIRLINE_CORRECTIONS], "carrier string, name string, op string")


def airports(spark: SparkSession, source: Source) -> DataFrame:
    """Return corrections that spell out 'Intl' in the names of airports, and add four missing airports."""
    renamed = source.airports.where("name LIKE '% Intl'").withColumn(
        "name", F.regexp_replace("name", " Intl$", " International")
    )
    missing = spark.createDataFrame(
        [*MISSING_AIRPORTS], "faa string, name string, lat double, lon double, alt int"
    )
    placed = missing.withColumns({"tz": F.lit(-4), "dst": F.lit("N"), "tzone": F.lit("America/Puerto_Rico")})
    return renamed.unionByName(placed).withColumn("op", F.lit("u"))


def planes(source: Source, hour: int) -> DataFrame:
    """Return corrections of the planes that depart in one hour of 1 February.

    They add unknown planes, correct the engines of known ones, and set missing years. They delete planes built before
    1988.
    """
    flights = (
        source.flights.where((F.col("month") == 2) & (F.col("day") == 1) & (F.col("hour") == hour))  # noqa: PLR2004
        .where("tailnum IS NOT NULL")
        .select("tailnum")
        .distinct()
    )
    matched = flights.join(source.planes, "tailnum", "left")
    corrected = matched.withColumns(
        {
            "engine": F.coalesce(F.upper("engine"), F.lit("UNKNOWN")),
            "year": F.coalesce("year", F.lit(1999)),
            "op": F.when(F.col("year") < OLDEST_YEAR, "d").otherwise("u"),
        }
    )
    return corrected.select(*source.planes.columns, "op")


def forgotten_planes(source: Source, months: int) -> tuple[str, ...]:
    """Return the tail numbers of the planes to delete, as if their owners asked for it: the three that flew most."""
    rows = (
        source.flights.where((F.col("month") <= months) & F.col("tailnum").isNotNull())
        .groupBy("tailnum")
        .count()
        .orderBy(F.desc("count"), "tailnum")
        .limit(3)
        .collect()
    )
    return tuple(str(row["tailnum"]) for row in rows)

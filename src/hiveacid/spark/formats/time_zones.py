"""Conversion between values in files and values in the session: time zones and char padding.

Hive's TIMESTAMP is a wall-clock reading without a zone; Spark's TIMESTAMP is an instant shown in
``spark.sql.session.timeZone``. ORC files keep the wall clock of the writing JVM, an executor's. If the time zones of
session and JVM differ, values are moved so that the wall clock stays the same: Hive shows what the session shows.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from hiveacid.core.schema.types import HiveType, Primitive, has_primitive, parse_type
from hiveacid.spark.formats.expressions import Expression, as_column
from hiveacid.spark.formats.types import convert_primitives
from hiveacid.spark.session.capabilities import SparkEnvironment

_ORC_EPOCH_MILLIS = 1_420_070_400_000  # 2015-01-01: ORC timestamps count from there, in the writer's zone
_WALL_CLOCK = "timestamp"
_INSTANT = "timestamp with local time zone"


def from_file(env: SparkEnvironment, value: Expression, hive: str) -> Expression:
    """Return a stored value as the session shows it; char is padded as in Hive.

    Returns ``value`` itself if no conversion is needed.
    """
    kind = parse_type(hive)
    zones = _zones(env, kind)
    stored, session = zones or ("", "")

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == "char":
            return F.rpad(item, kind.args[0], " ")
        return F.to_utc_timestamp(F.from_utc_timestamp(item, stored), session)

    kinds = {"char", _WALL_CLOCK} if zones else {"char"}
    return convert_primitives(as_column(value), kind, kinds, leaf) if has_primitive(kind, kinds) else value


def to_file(env: SparkEnvironment, value: Expression, hive: str) -> Expression:
    """Return a session's value converted so that Hive reads the same value from the file that Spark writes.

    Returns ``value`` itself if no conversion is needed.
    """
    kind = parse_type(hive)
    zones, shift = _zones(env, kind), _instant_shift(env, hive)
    stored, session = zones or ("", "")

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == _INSTANT:
            return F.timestamp_micros(F.unix_micros(item) - F.lit(shift * 1000))
        return F.to_utc_timestamp(F.from_utc_timestamp(item, session), stored)

    kinds = ({_WALL_CLOCK} if zones else set()) | ({_INSTANT} if shift else set())
    return convert_primitives(as_column(value), kind, kinds, leaf) if has_primitive(kind, kinds) else value


def _zones(env: SparkEnvironment, kind: HiveType) -> tuple[str, str] | None:
    """Return the zones of files and session; None if the type has no wall clock, or both zones show the same."""
    if env.copies_timestamps or not has_primitive(kind, {_WALL_CLOCK}):
        return None
    stored, session = env.stored_time_zone, env.session_time_zone
    return None if env.zones.are_alike(env.spark, stored, session) else (stored, session)


def _instant_shift(env: SparkEnvironment, hive: str) -> int:
    # A TIMESTAMP_INSTANT counts from 2015 in UTC. Spark writes a TIMESTAMP, which counts from 2015 in the JVM's zone.
    if _INSTANT not in hive:
        return 0
    zone = env.spark._jvm.java.util.TimeZone.getTimeZone(env.stored_time_zone)  # type: ignore[union-attr] # noqa: SLF001
    return int(zone.getOffset(_ORC_EPOCH_MILLIS))

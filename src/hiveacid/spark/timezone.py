"""Values as files hold them against values as the session shows them: time zones and char padding.

Hive's TIMESTAMP is a wall-clock reading without a zone; Spark's TIMESTAMP is an instant shown in
``spark.sql.session.timeZone``. ORC files keep the wall clock of the writing JVM. Where session and JVM agree
nothing has to be done; where they differ values are moved so that the wall clock stays the same: what the
session shows is what Hive shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hiveacid.core.types import Array, HiveType, Map, Primitive, Struct, parse_type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from hiveacid.spark.session import SparkFacts

_ORC_EPOCH_MILLIS = 1_420_070_400_000  # 2015-01-01: ORC timestamps count from there, in the writer's zone
_INSTANT = "timestamp with local time zone"


def moves(facts: SparkFacts, hive: str) -> bool:
    """Tell whether the session shows a value of this type otherwise than files hold it (`from_file`)."""
    kind = parse_type(hive)
    return _contains(kind, {"char"}) or (
        _contains(kind, {"timestamp"}) and "timestamp" in _needs(facts, set())
    )


def from_file(facts: SparkFacts, value: SparkColumn, hive: str) -> SparkColumn:
    """Return a stored value as the session shows it; char comes padded as Hive pads it."""

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == "char":
            return F.rpad(item, kind.args[0], " ")
        return F.to_utc_timestamp(F.from_utc_timestamp(item, facts.jvm_time_zone), facts.session_time_zone)

    return _convert(value, parse_type(hive), _needs(facts, {"char"}), leaf)


def to_file(facts: SparkFacts, value: SparkColumn, hive: str) -> SparkColumn:
    """Return a session's value so that Spark's ORC writer stores what Hive reads as the same value."""
    kinds = _needs(facts, set())
    shift = _instant_shift(facts, hive)
    if shift:
        kinds.add(_INSTANT)

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == _INSTANT:
            return F.timestamp_micros(F.unix_micros(item) - F.lit(shift * 1000))
        return F.to_utc_timestamp(F.from_utc_timestamp(item, facts.session_time_zone), facts.jvm_time_zone)

    return _convert(value, parse_type(hive), kinds, leaf)


def is_moved(facts: SparkFacts, hive: str) -> bool:
    """Tell whether files hold a value of this type otherwise than the session shows it (`to_file`)."""
    kind = parse_type(hive)
    return _contains(kind, {_INSTANT}) or (
        _contains(kind, {"timestamp"}) and "timestamp" in _needs(facts, set())
    )


def _needs(facts: SparkFacts, kinds: set[str]) -> set[str]:
    return kinds | ({"timestamp"} if facts.jvm_time_zone != facts.session_time_zone else set())


def _instant_shift(facts: SparkFacts, hive: str) -> int:
    # TIMESTAMP_INSTANT counts from 2015 in UTC, the TIMESTAMP that Spark writes from 2015 in the JVM's zone
    if _INSTANT not in hive:
        return 0
    if not facts.classic:
        utc = F.timestamp_millis(F.lit(_ORC_EPOCH_MILLIS))
        shown = F.unix_millis(F.from_utc_timestamp(utc, facts.jvm_time_zone))
        row: Any = facts.spark.range(1).select(shown).first()
        return int(row[0]) - _ORC_EPOCH_MILLIS
    zone = facts.spark._jvm.java.util.TimeZone.getDefault()  # type: ignore[union-attr] # noqa: SLF001
    return int(zone.getOffset(_ORC_EPOCH_MILLIS))


def _contains(hive: HiveType, kinds: set[str]) -> bool:
    match hive:
        case Primitive(name=name):
            return name in kinds
        case Array(element=element):
            return _contains(element, kinds)
        case Map(key=key, value=value):
            return _contains(key, kinds) or _contains(value, kinds)
        case Struct(fields=fields):
            return any(_contains(field.type, kinds) for field in fields)
    return False


def _convert(
    value: SparkColumn,
    hive: HiveType,
    kinds: set[str],
    leaf: Callable[[SparkColumn, Primitive], SparkColumn],
) -> SparkColumn:
    if not _contains(hive, kinds):
        return value
    match hive:
        case Primitive():
            return leaf(value, hive)
        case Array(element=element):
            return F.transform(value, lambda item: _convert(item, element, kinds, leaf))
        case Map(key=key, value=item):
            if _contains(item, kinds):
                value = F.transform_values(value, lambda _, v: _convert(v, item, kinds, leaf))
            if _contains(key, kinds):
                value = F.transform_keys(value, lambda k, _: _convert(k, key, kinds, leaf))
            return value
        case Struct(fields=fields):
            inner = F.struct(
                *[_convert(value.getField(f.name), f.type, kinds, leaf).alias(f.name) for f in fields]
            )
            return F.when(value.isNotNull(), inner)
    return value

"""Search argument of a condition: reader options that let ORC skip row groups inside ``row``, wide enough that no row is lost.

Spark's own push-down into nested columns skips nothing on ACID files; ORC looks names up inside ``row``
(``SchemaEvolution.getReaderBaseSchema``), so a search argument on bare column names does.

An ORC reader compares a row group's statistics (and bloom filters) with a search argument. Its comparisons are
not Spark's, statistics come from many writers, and a row group skipped wrongly is lost silently. So:

- strings: ORC compares UTF-16 units where Spark compares bytes, and replaces what is not UTF-8. Only the ASCII
  prefix of a value is used. Presto, and Trino before 383, write no minimum for long values, and ORC takes such a row
  group as all NULL. Every string condition therefore also lets row groups with NULLs pass, and IS NOT NULL is not used.
- char: padded in files of some writers, not in others. Not used.
- dates: a literal travels as an instant, a day off where time zones differ, and old files count in the Julian
  calendar before 1582. A day is added on both sides; values before 1600 are not used.
- timestamps: wall clocks in statistics, shifted by the zones of writer, reader and session. Two days are added.
- float, double: NaN is the greatest value for Spark and may be missing in statistics. Conditions that NaN fulfils
  (>, >=) are not used. 0.0 and -0.0 are equal for Spark, not for ORC: bounds at zero include both.
- decimal: as intervals, since bloom filters hold texts whose form depends on the writer.
- columns whose type changed: ORC ignores a condition where file and table disagree, except where the file's
  integers are narrower or varchar and string meet (``SchemaEvolution.validatePPDConversion``): safe as it is.
- columns named like those of the ACID root: ORC would compare the root's. Not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.predicates import UNDECIDED, AllOf, Comparison, Operator, Predicate
from hiveacid.core.schema.evolution import ColumnMapping, identity_mapping
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import INTEGER_TYPES, Primitive, parse_type
from hiveacid.spark.predicates.column_conditions import Conjunct
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_class

_SARG, _NAMES = "orc.kryo.sarg", "orc.sarg.column.names"
# ORC must not filter single rows by the search argument: its bounds are wider than the condition.
_NO_ROW_FILTER = {"orc.sarg.to.filter": "false"}
# Bloom filters hold decimals and floating point numbers in other forms than equal ones here: these have intervals only.
_EXACT_TYPES = frozenset({"LONG", "STRING", "BOOLEAN"})
_SARG_PACKAGE = "org.apache.hadoop.hive.ql.io.sarg"
_ACID_ROOT_COLUMNS = {column.lower() for column in AcidColumn}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # ORC reads dots as nesting and digits as column ids
_MAX_VALUES = 200
_MAX_TEXT = 1000  # characters; ORC refuses a search argument of more than 10 MB, in older versions 100 KB
_LONG = 1 << 63
_FIRST_DAY, _LAST_DAY = date(1600, 1, 1), date(9990, 1, 1)
_FIRST_TIME, _LAST_TIME = (datetime(d.year, 1, 1, tzinfo=UTC) for d in (_FIRST_DAY, _LAST_DAY))


class _Long(int):
    """Integer that Py4J sends as a Java Long, however small: Py4J compares it with the range of an Integer."""

    def __le__(self, other: object) -> bool:
        return False


@dataclass(frozen=True)
class SearchArgument:
    """Predicate leaves for the data files of a table, all of which must hold.

    ``predicate``: the condition from which they are made; undecided for a table without row ids.
    """

    env: SparkEnvironment
    table: TableDefinition
    leaves: tuple[PredicateLeaf, ...] = ()
    predicate: Predicate = UNDECIDED

    def reader_options(self, mapping: ColumnMapping | None = None) -> dict[str, str]:
        """Return reader options for files of a mapping (default: the file's columns are the table's); {} if none apply.

        Columns get their names in the file. Columns whose strings are truncated on reading (varchar) are left
        out: the statistics describe the untruncated strings.
        """
        mapping = mapping or identity_mapping(self.table.columns)
        sources = dict(zip((c.name for c in self.table.columns), mapping.columns, strict=True))
        renamed = [
            replace(leaf, column=name.lower())
            for leaf in self.leaves
            if (name := sources[leaf.column].name) is not None and not sources[leaf.column].cut
        ]
        usable = [leaf for leaf in renamed if is_safe_column_name(leaf.column)]
        return reader_options(self.env, usable) if usable else {}


def search_argument(
    env: SparkEnvironment, table: TableDefinition, conditions: Sequence[Conjunct]
) -> SearchArgument:
    """Return the search argument of the conjuncts of a condition on a table of ORC files.

    ORC never skips rows that the condition selects. Other rows may pass, so that the scan still has to apply it. In flat files
    Spark puts its own in its place if it pushes down comparisons of other columns (``spark.formats.file_columns``).
    """
    is_acid = table.kind is TableKind.FULL_ACID
    if not is_acid and file_kind(table.storage) is not FileKind.ORC:
        return SearchArgument(env, table)
    types = {column.name: column.type for column in table.columns}
    comparisons = [
        c.comparison for c in conditions if c.comparison is not None and c.comparison.column in types
    ]
    leaves = [leaf for c in comparisons if (leaf := predicate_leaf(c, types[c.column])) is not None]
    predicate = AllOf(tuple(c.predicate for c in conditions)) if is_acid else UNDECIDED
    return SearchArgument(env, table, tuple(leaves), predicate)


def reader_options(env: SparkEnvironment, leaves: Sequence[PredicateLeaf]) -> dict[str, str]:
    """Return the reader options of a search argument: all leaves must hold."""
    builder = SearchArgumentBuilder(env)
    for leaf in leaves:
        builder.add(leaf)
    columns = sorted({leaf.column for leaf in leaves})
    gateway: JavaGateway = env.spark.sparkContext._gateway  # noqa: SLF001
    names = gateway.new_array(java_class(env, "java.lang.String"), len(columns))
    for index, column in enumerate(columns):
        names[index] = column
    configuration = java_class(env, "org.apache.hadoop.conf.Configuration")(False)  # noqa: FBT003 - no defaults to load
    orc = java_class(env, "org.apache.orc.mapred.OrcInputFormat")
    orc.setSearchArgument(configuration, builder.build(), names)
    return {key: str(configuration.get(key)) for key in (_SARG, _NAMES)} | _NO_ROW_FILTER


class SearchArgumentBuilder:
    """Builder of an ORC ``SearchArgument``."""

    def __init__(self, env: SparkEnvironment) -> None:
        self._env = env
        self._builder = java_class(env, f"{_SARG_PACKAGE}.SearchArgumentFactory").newBuilder().startAnd()
        self._types = java_class(env, f"{_SARG_PACKAGE}.PredicateLeaf$Type")

    def build(self) -> JavaObject:
        """Return the ``SearchArgument``."""
        return self._builder.end().build()

    def add(self, leaf: PredicateLeaf) -> None:
        """Add a condition that must hold."""
        self._builder.startOr()
        if leaf.null is False:
            self._builder.startNot()
        if leaf.null is not None or leaf.or_null:
            self._builder.isNull(leaf.column, getattr(self._types, leaf.type))
        if leaf.null is False:
            self._builder.end()
        for interval in leaf.intervals:
            self._add_interval(leaf, interval)
        self._builder.end()

    def _add_interval(self, leaf: PredicateLeaf, interval: Interval) -> None:
        low, high = interval.low, interval.high
        if low is not None and low == high and leaf.type in _EXACT_TYPES:
            self._compare("equals", leaf, low)
            return
        if low is not None and high is not None and not interval.high_excluded:
            self._compare("between", leaf, low, high)
            return
        self._builder.startAnd()
        if low is not None:  # x >= low as NOT x < low
            self._builder.startNot()
            self._compare("lessThanEquals" if interval.low_excluded else "lessThan", leaf, low)
            self._builder.end()
        if high is not None:
            self._compare("lessThan" if interval.high_excluded else "lessThanEquals", leaf, high)
        self._builder.end()

    def _compare(self, verb: str, leaf: PredicateLeaf, *values: Any) -> None:
        java_values = [self._java_value(leaf.type, value) for value in values]
        getattr(self._builder, verb)(leaf.column, getattr(self._types, leaf.type), *java_values)

    def _java_value(self, type_name: str, value: Any) -> Any:
        match type_name, value:
            case "LONG", int():
                return _Long(value)
            case "DATE", date():
                return java_class(self._env, "java.sql.Date").valueOf(value.isoformat())
            case "TIMESTAMP", datetime():
                return java_class(self._env, "java.sql.Timestamp")(_Long(value.timestamp() * 1000))
            case "DECIMAL", int() | Decimal():
                text = format(value, "f") if isinstance(value, Decimal) else str(value)
                return java_class(self._env, "org.apache.hadoop.hive.serde2.io.HiveDecimalWritable")(text)
        return value


@dataclass(frozen=True)
class Interval:
    """Values from ``low`` to ``high`` (None: no bound); a bound is included unless it is marked as excluded."""

    low: Any
    high: Any
    low_excluded: bool = False
    high_excluded: bool = False


@dataclass(frozen=True)
class PredicateLeaf:
    """Condition on one column, as ORC's ``PredicateLeaf``.

    ``type``: a name of ``PredicateLeaf.Type``. One of two is set. ``intervals``: one of them must contain the value.
    ``null``: the condition is IS NULL (True) or IS NOT NULL (False). ``or_null``: NULLs pass as well.
    """

    column: str
    type: str
    intervals: tuple[Interval, ...] = ()
    null: bool | None = None
    or_null: bool = False


def is_safe_column_name(column: str) -> bool:
    """Tell whether ORC finds this column, and no other one, by its name."""
    return column not in _ACID_ROOT_COLUMNS and _PLAIN_NAME.fullmatch(column) is not None


def predicate_leaf(comparison: Comparison, hive: str) -> PredicateLeaf | None:
    """Return the predicate leaf of a comparison with a column of a Hive type; None if ORC must not skip by it."""
    kind, operator = parse_type(hive), comparison.operator
    rule = _RULES.get(kind.name) if isinstance(kind, Primitive) else None
    if rule is None:
        return None
    if operator is Operator.IS_NULL or (operator is Operator.IS_NOT_NULL and rule.type != "STRING"):
        return PredicateLeaf(comparison.column, rule.type, null=operator is Operator.IS_NULL)
    if operator in rule.refused or not all(map(rule.accepts, comparison.values)):
        return None
    intervals = tuple(map(rule.widen, _intervals_of(comparison)))
    if not intervals or any(interval.low is None and interval.high is None for interval in intervals):
        return None
    return PredicateLeaf(comparison.column, rule.type, intervals, or_null=rule.type == "STRING")


def _intervals_of(comparison: Comparison) -> list[Interval]:
    """Return the intervals of a comparison: one for each value of an IN, or a single one if these are many."""
    values: Sequence[Any] = comparison.values
    match comparison.operator:
        case Operator.LESS | Operator.LESS_OR_EQUAL:
            return [Interval(None, values[0], high_excluded=comparison.operator is Operator.LESS)]
        case Operator.GREATER | Operator.GREATER_OR_EQUAL:
            return [Interval(values[0], None, low_excluded=comparison.operator is Operator.GREATER)]
        case Operator.BETWEEN:
            return [Interval(values[0], values[1])]
        case _ if len(values) > _MAX_VALUES:
            return [Interval(min(values), max(values))]
        case _:
            return [Interval(value, value) for value in values]


@dataclass(frozen=True)
class _Rule:
    """Use of comparisons with columns of a type: ``widen`` makes an interval wide enough for all writers."""

    type: str
    accepts: Callable[[Any], bool]
    widen: Callable[[Interval], Interval] = lambda interval: interval
    refused: Collection[Operator] = ()


def _wider_text(interval: Interval) -> Interval:
    return Interval(_ascii_lower_bound(interval.low), _ascii_upper_bound(interval.high))


def _ascii_lower_bound(value: str | None) -> str | None:
    """Return a short ASCII prefix of a value: no greater value sorts before it."""
    return value if value is None or _is_short_ascii(value) else _ascii_prefix(value) or None


def _ascii_upper_bound(value: str | None) -> str | None:
    """Return the value if it is short and ASCII, else a string greater than all with its ASCII prefix."""
    if value is None or _is_short_ascii(value):
        return value
    start = _ascii_prefix(value).rstrip("\x7f")
    return start[:-1] + chr(ord(start[-1]) + 1) if start else None


def _is_short_ascii(value: str) -> bool:
    return len(value) <= _MAX_TEXT and value.isascii()


def _ascii_prefix(value: str) -> str:
    return re.match(r"[\x00-\x7f]*", value[:_MAX_TEXT])[0]  # type: ignore[index]


def _wider_by(days: int) -> Callable[[Interval], Interval]:
    def widen(interval: Interval) -> Interval:
        low, high, by = interval.low, interval.high, timedelta(days)
        return Interval(None if low is None else low - by, None if high is None else high + by)

    return widen


def _wider_zero(interval: Interval) -> Interval:
    low, high = (
        zero if bound == 0 else bound for zero, bound in ((-0.0, interval.low), (0.0, interval.high))
    )
    return replace(interval, low=low, high=high)


_RULES = {
    **dict.fromkeys(
        INTEGER_TYPES, _Rule("LONG", lambda value: type(value) is int and -_LONG <= value < _LONG)
    ),
    **dict.fromkeys(
        ("string", "varchar"), _Rule("STRING", lambda value: isinstance(value, str), _wider_text)
    ),
    **dict.fromkeys(
        ("float", "double"),
        _Rule(
            "FLOAT",
            lambda value: isinstance(value, float) and math.isfinite(value),
            _wider_zero,
            {Operator.GREATER, Operator.GREATER_OR_EQUAL},
        ),
    ),
    "boolean": _Rule(
        "BOOLEAN", lambda value: isinstance(value, bool), refused={*Operator} - {Operator.EQUAL}
    ),
    "date": _Rule(
        "DATE", lambda value: type(value) is date and _FIRST_DAY <= value <= _LAST_DAY, _wider_by(1)
    ),
    "timestamp": _Rule(
        "TIMESTAMP",
        lambda value: isinstance(value, datetime) and _FIRST_TIME <= value <= _LAST_TIME,
        _wider_by(2),
    ),
    "decimal": _Rule("DECIMAL", lambda value: type(value) in {int, Decimal}),
}

"""Search argument of a condition: reader options that let ORC skip row groups inside ``row``.

Spark's own push-down into nested columns skips nothing on ACID files; ORC looks names up inside ``row``
(``SchemaEvolution.getReaderBaseSchema``), so a search argument on bare column names does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.predicates import UNDECIDED, AllOf, Predicate
from hiveacid.core.schema.evolution import ColumnMapping, identity_mapping
from hiveacid.spark.predicates.column_conditions import Conjunct
from hiveacid.spark.predicates.predicate_leaves import (
    Interval,
    PredicateLeaf,
    is_safe_column_name,
    predicate_leaf,
)
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.jvm import java_class

_SARG, _NAMES = "orc.kryo.sarg", "orc.sarg.column.names"
# ORC must not filter single rows by the search argument: its bounds are wider than the condition.
_NO_ROW_FILTER = {"orc.sarg.to.filter": "false"}
# Bloom filters hold decimals and floating point numbers in other forms than equal ones here: these have intervals only.
_EXACT_TYPES = frozenset({"LONG", "STRING", "BOOLEAN"})
_SARG_PACKAGE = "org.apache.hadoop.hive.ql.io.sarg"


class _Long(int):
    """Integer that Py4J sends as a Java Long, however small: Py4J compares it with the range of an Integer."""

    def __le__(self, other: object) -> bool:
        return False


@dataclass(frozen=True)
class SearchArgument:
    """Predicate leaves for the data files of a table, all of which must hold.

    ``predicate``: the condition from which they are made.
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
    """Return the search argument of the conjuncts of a condition on a full ACID table.

    ORC never skips rows that the condition selects. Other rows may pass, so that the scan still has to apply it.
    """
    if table.kind is not TableKind.FULL_ACID:
        return SearchArgument(env, table)
    types = {column.name: column.type for column in table.columns}
    comparisons = [
        c.comparison for c in conditions if c.comparison is not None and c.comparison.column in types
    ]
    leaves = [leaf for c in comparisons if (leaf := predicate_leaf(c, types[c.column])) is not None]
    return SearchArgument(env, table, tuple(leaves), AllOf(tuple(c.predicate for c in conditions)))


def reader_options(env: SparkEnvironment, leaves: Sequence[PredicateLeaf]) -> dict[str, str]:
    """Return the reader options of a search argument: all leaves must hold."""
    builder = SearchArgumentBuilder(env)
    for leaf in leaves:
        builder.add(leaf)
    columns = sorted({leaf.column for leaf in leaves})
    gateway: Any = env.spark.sparkContext._gateway  # noqa: SLF001
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

    def build(self) -> Any:
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

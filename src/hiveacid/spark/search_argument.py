"""A condition as ORC search argument: options that make a scan skip row groups inside ``row``.

Spark's own push-down into nested columns skips nothing on ACID files; ORC looks names up inside ``row``
(``SchemaEvolution.getReaderBaseSchema``), so a search argument on bare column names does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hiveacid.core.evolution import plain_recipe
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.spark.catalyst import java_class
from hiveacid.spark.conditions import conjuncts
from hiveacid.spark.sarg import Interval, Leaf, is_usable, leaf_of
from hiveacid.spark.visible import visible_columns

if TYPE_CHECKING:
    from hiveacid.core.evolution import Recipe
    from hiveacid.spark.session import SparkFacts

_SARG, _NAMES = "orc.kryo.sarg", "orc.sarg.column.names"
# Filtering rows (not row groups) by the search argument would take our widened bounds for the condition.
_NO_ROW_FILTER = {"orc.sarg.to.filter": "false"}
_SARG_PACKAGE = "org.apache.hadoop.hive.ql.io.sarg"


class _Long(int):
    """A whole number that Py4J sends as Long, which ORC wants, however small: it asks what it is compared with."""

    def __le__(self, other: object) -> bool:
        return False


@dataclass(frozen=True)
class SearchArgument:
    """What may be skipped in the data files of a table."""

    facts: SparkFacts
    table: TableDefinition
    leaves: tuple[Leaf, ...] = ()

    def options(self, recipe: Recipe | None = None) -> dict[str, str]:
        """Return reader options for files that are read by a recipe (default: exactly like the table); {}: none.

        A column is called what the file calls it. Texts that are cut on reading are longer in the statistics.
        """
        recipe = recipe or plain_recipe(self.table.columns)
        sources = dict(zip((c.name for c in self.table.columns), recipe.columns, strict=True))
        renamed = [
            replace(leaf, column=name.lower())
            for leaf in self.leaves
            if (name := sources[leaf.column].name) is not None and not sources[leaf.column].cut
        ]
        usable = [leaf for leaf in renamed if is_usable(leaf.column)]
        return options(self.facts, usable) if usable else {}


def search_argument(
    facts: SparkFacts, table: TableDefinition, where: str, *, alias: str | None = None
) -> SearchArgument:
    """Return what ``where`` lets readers skip in the data files of a full ACID table.

    Rows that ``where`` selects are never skipped; others may come through, so the condition still has to be
    applied. ``alias`` as in `prune_partitions`. Raises what `conjuncts` raises.
    """
    if not facts.classic or table.kind is not TableKind.FULL_ACID:
        return SearchArgument(facts, table)
    types = {column.name: column.type for column in table.columns}
    known = conjuncts(facts, visible_columns(table), where, alias=alias or table.name.name)
    simple = [c.simple for c in known if c.simple is not None and c.simple.column in types]
    leaves = [leaf for s in simple if (leaf := leaf_of(s, types[s.column])) is not None]
    return SearchArgument(facts, table, tuple(leaves))


def options(facts: SparkFacts, leaves: Sequence[Leaf]) -> dict[str, str]:
    """Return the reader options of a search argument: all leaves must hold."""
    builder = ArgumentBuilder(facts)
    for leaf in leaves:
        builder.add(leaf)
    columns = sorted({leaf.column for leaf in leaves})
    gateway: Any = facts.spark.sparkContext._gateway  # noqa: SLF001
    names = gateway.new_array(java_class(facts, "java.lang.String"), len(columns))
    for place, column in enumerate(columns):
        names[place] = column
    configuration = java_class(facts, "org.apache.hadoop.conf.Configuration")(False)  # noqa: FBT003 - no defaults to load
    orc = java_class(facts, "org.apache.orc.mapred.OrcInputFormat")
    orc.setSearchArgument(configuration, builder.build(), names)
    return {key: str(configuration.get(key)) for key in (_SARG, _NAMES)} | _NO_ROW_FILTER


class ArgumentBuilder:
    """ORC's builder of search arguments."""

    def __init__(self, facts: SparkFacts) -> None:
        self._facts = facts
        self._builder = java_class(facts, f"{_SARG_PACKAGE}.SearchArgumentFactory").newBuilder().startAnd()
        self._types = java_class(facts, f"{_SARG_PACKAGE}.PredicateLeaf$Type")

    def build(self) -> Any:
        """Return the ``SearchArgument``."""
        return self._builder.end().build()

    def add(self, leaf: Leaf) -> None:
        """Ask for one more condition that must hold."""
        self._builder.startOr()
        if leaf.null is False:
            self._builder.startNot()
        if leaf.null is not None or leaf.or_null:
            self._builder.isNull(leaf.column, getattr(self._types, leaf.type))
        if leaf.null is False:
            self._builder.end()
        for point in leaf.points:
            self._compare("equals", leaf, point)
        for interval in leaf.intervals:
            self._add_interval(leaf, interval)
        self._builder.end()

    def _add_interval(self, leaf: Leaf, interval: Interval) -> None:
        low, high = interval.low, interval.high
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

    def _compare(self, verb: str, leaf: Leaf, *values: Any) -> None:
        found = [self._java_value(leaf.type, value) for value in values]
        getattr(self._builder, verb)(leaf.column, getattr(self._types, leaf.type), *found)

    def _java_value(self, type_name: str, value: Any) -> Any:
        match type_name, value:
            case "LONG", int():
                return _Long(value)
            case "DATE", date():
                return java_class(self._facts, "java.sql.Date").valueOf(value.isoformat())
            case "TIMESTAMP", datetime():
                return java_class(self._facts, "java.sql.Timestamp")(_Long(value.timestamp() * 1000))
            case "DECIMAL", int() | Decimal():
                text = format(value, "f") if isinstance(value, Decimal) else str(value)
                return java_class(self._facts, "org.apache.hadoop.hive.serde2.io.HiveDecimalWritable")(text)
        return value

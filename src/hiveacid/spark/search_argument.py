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
from hiveacid.spark.conditions import conjuncts
from hiveacid.spark.sarg import Interval, Leaf, is_usable, leaf_of
from hiveacid.spark.visible import visible_columns

if TYPE_CHECKING:
    from hiveacid.core.evolution import Recipe
    from hiveacid.spark.session import SparkFacts

_SARG, _NAMES = "orc.kryo.sarg", "orc.sarg.column.names"
# Filtering rows (not row groups) by the search argument would take our widened bounds for the condition.
_NO_ROW_FILTER = {"orc.sarg.to.filter": "false"}
_BUILDER = "org.apache.hadoop.hive.ql.io.sarg.SearchArgument$Builder"
_TYPE = "org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf$Type"


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
    jvm: Any = facts.spark._jvm  # noqa: SLF001
    builder = ArgumentBuilder(facts)
    for leaf in leaves:
        builder.add(leaf)
    columns = sorted({leaf.column for leaf in leaves})
    names = _array(facts, "java.lang.String", columns)
    configuration = jvm.org.apache.hadoop.conf.Configuration(False)  # noqa: FBT003 - no defaults to load
    jvm.org.apache.orc.mapred.OrcInputFormat.setSearchArgument(configuration, builder.build(), names)
    return {key: str(configuration.get(key)) for key in (_SARG, _NAMES)} | _NO_ROW_FILTER


class ArgumentBuilder:
    """ORC's builder, reached by reflection: Py4J sends small numbers as Integer where only Long will do."""

    def __init__(self, facts: SparkFacts) -> None:
        jvm: Any = facts.spark._jvm  # noqa: SLF001
        self._facts = facts
        self._jvm = jvm
        self._class = jvm.java.lang.Class
        self._builder = jvm.org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory.newBuilder().startAnd()
        self._types = {str(t.toString()): t for t in self._class.forName(_TYPE).getEnumConstants()}

    def build(self) -> Any:
        """Return the ``SearchArgument``."""
        return self._builder.end().build()

    def add(self, leaf: Leaf) -> None:
        """Ask for one more condition that must hold."""
        self._builder.startOr()
        if leaf.null is False:
            self._builder.startNot()
        if leaf.null is not None or leaf.or_null:
            self._builder.isNull(leaf.column, self._types[leaf.type])
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
        names = ["java.lang.String", _TYPE, *["java.lang.Object"] * len(values)]
        signature = _array(self._facts, "java.lang.Class", [self._class.forName(name) for name in names])
        arguments = _array(
            self._facts, "java.lang.Object", [leaf.column, self._types[leaf.type], *[None] * len(values)]
        )
        for place, value in enumerate(values, start=2):
            if leaf.type == "LONG":
                long = _array(self._facts, "java.lang.Long", [value])
                self._jvm.java.lang.System.arraycopy(long, 0, arguments, place, 1)
            else:
                arguments[place] = self._java_value(leaf.type, value)
        self._class.forName(_BUILDER).getMethod(verb, signature).invoke(self._builder, arguments)

    def _java_value(self, type_name: str, value: Any) -> Any:
        match type_name, value:
            case "DATE", date():
                return self._jvm.java.sql.Date.valueOf(value.isoformat())
            case "TIMESTAMP", datetime():
                return self._jvm.java.sql.Timestamp(int(value.timestamp() * 1000))
            case "DECIMAL", int() | Decimal():
                text = format(value, "f") if isinstance(value, Decimal) else str(value)
                return self._jvm.org.apache.hadoop.hive.serde2.io.HiveDecimalWritable(text)
        return value


def _array(facts: SparkFacts, kind: str, values: Sequence[Any]) -> Any:
    gateway: Any = facts.spark.sparkContext._gateway  # noqa: SLF001
    owner: Any = facts.spark._jvm  # noqa: SLF001
    for part in kind.split("."):
        owner = getattr(owner, part)
    array = gateway.new_array(owner, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array

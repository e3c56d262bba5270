"""Files that a scan need not read, because no row of them fulfils a condition.

The footers' statistics tell it. They are compared with the predicate leaves of the search argument, which are wide enough
for the statistics of all writers (``spark.predicates.predicate_leaves``). ORC's reader makes the same comparison, but only
after a task has opened the file. A table with many small deltas has many files, and a key is in few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    Array,
    HiveType,
    Map,
    Primitive,
    Struct,
    Union,
    parse_type,
)
from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import ColumnStatistics, StatisticsList
from hiveacid.orc.footer_summary import FileSummary
from hiveacid.orc.tail import ROW
from hiveacid.spark.predicates.predicate_leaves import Interval, PredicateLeaf
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context
from hiveacid.table.read.footers import Footers

_MIN_SKIPPED_SHARE = 4  # with fewer than one file in four skipped, the memo of the whole scan is worth more
_TEXT = frozenset({"string", "varchar"})
_EPOCH = date(1970, 1, 1).toordinal()


def files_to_skip(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    footers: Footers,
    leaves: Sequence[PredicateLeaf],
) -> frozenset[str]:
    """Return the paths of data files, and of original files, without a row for which all ``leaves`` hold.

    None are returned beside update events of ACID v1, because the newest version of a row decides there, and none if they
    are few.
    """
    if not leaves or footers.has_acid_v1_events:
        return frozenset()
    types = {column.name: parse_type(column.type) for column in table.columns}
    numbers = {column.name: number for number, column in enumerate(table.columns)}
    column_ids: dict[tuple[bool, int], list[int | None]] = {}  # there is one mapping for each schema
    skipped, files = [], 0
    for location in locations:
        acid_files = (file for directory in location.state.row_directories for file in directory.acid_files)
        originals = (rows.file for rows in footers.numbered.get(location.root, ()))
        for file in (*acid_files, *originals):
            path = f"{location.root}/{file.path}"
            footer, key = footers.files[path], (path, file.size, file.modified)
            files += footer.rows > 0
            summary, statistics = context.summaries.get(key), context.summaries.statistics(key)
            if not footer.rows or footer.copy is not None or summary is None or not statistics:
                continue
            kind = (summary.is_acid, id(footer.mapping))
            if kind not in column_ids:
                column_ids[kind] = [
                    _column_id(summary, footer.mapping, numbers[leaf.column], types[leaf.column])
                    for leaf in leaves
                ]
            if not _may_hold_all(leaves, column_ids[kind], StatisticsList(path, statistics)):
                skipped.append(path)
    return frozenset(skipped) if _MIN_SKIPPED_SHARE * len(skipped) >= files else frozenset()


def _column_id(summary: FileSummary, mapping: ColumnMapping, number: int, table_type: HiveType) -> int | None:
    """Return the ORC column id of a table's column in a file; None if its statistics are not those of the values.

    Columns are numbered in the order of the schema, those of a nested type after it.
    """
    source, schema = mapping.columns[number], summary.schema
    if source.name is None or source.cut or source.problem is not None:
        return None
    names = [field.name for field in schema.fields]
    if mapping.positional is not None:
        index = int(source.name.removeprefix("c"))
    elif source.name in names:
        index = names.index(source.name)
    else:  # a column that was added to the table later
        return None
    stored = schema.fields[index].type
    if stored != table_type and not _are_ordered_alike(stored, table_type):
        return None
    root = ROW if summary.is_acid else 0
    return root + 1 + sum(_count_columns(field.type) for field in schema.fields[:index])


def _are_ordered_alike(stored: HiveType, table_type: HiveType) -> bool:
    if not isinstance(stored, Primitive) or not isinstance(table_type, Primitive):
        return False
    kinds = {stored.name, table_type.name}
    return kinds.issubset(INTEGER_TYPES) or kinds <= _TEXT


def _count_columns(kind: HiveType) -> int:
    match kind:
        case Struct():
            return 1 + sum(_count_columns(field.type) for field in kind.fields)
        case Array():
            return 1 + _count_columns(kind.element)
        case Map():
            return 1 + _count_columns(kind.key) + _count_columns(kind.value)
        case Union():
            return 1 + sum(map(_count_columns, kind.alternatives))
    return 1


def _may_hold_all(
    leaves: Sequence[PredicateLeaf], column_ids: Sequence[int | None], statistics: StatisticsList
) -> bool:
    try:
        return all(
            column_id is None or column_id >= len(statistics) or may_hold(leaf, statistics[column_id])
            for leaf, column_id in zip(leaves, column_ids, strict=True)
        )
    except BadFileError:  # the reader tells what is wrong, if it needs them
        return True


def may_hold(leaf: PredicateLeaf, statistics: ColumnStatistics) -> bool:
    """Tell whether a condition may hold for a value of a column with these statistics; True where they do not tell."""
    convert = _CONVERSIONS.get(leaf.type)
    low: Any = statistics.minimum
    high: Any = statistics.maximum
    if leaf.null is not None:
        return True
    if statistics.count == 0:  # the other conditions hold for no NULL
        return False
    if convert is None or low is None or high is None:
        return True
    intervals = [*(Interval(point, point) for point in leaf.points), *leaf.intervals]
    try:
        return any(
            not (
                (interval.high is not None and convert(interval.high) < low)
                or (interval.low is not None and convert(interval.low) > high)
            )
            for interval in intervals
        )
    except TypeError:  # statistics of another type
        return True


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _days(day: date) -> int:
    return day.toordinal() - _EPOCH


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "LONG": int,
    "STRING": str,
    "DECIMAL": Decimal,
    "DATE": _days,
    "TIMESTAMP": _milliseconds,
}
"""Conversions of a leaf's values to those of statistics.

Statistics of booleans have no bounds. Those of floating point numbers are not used: where a row group begins with NaN, the
bounds of the file leave out all values of this row group.
"""

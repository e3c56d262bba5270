"""Files that a scan need not read, because no row of them fulfils a condition.

The footers' statistics tell it (``orc.column_bounds``). ORC's reader makes a similar comparison, but only after a task has
opened the file. A table with many small deltas has many files, and a key is in few of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.core.model import TableDefinition
from hiveacid.core.predicates import ANY_VALUE, Bounds, Predicate, bounds_test, columns_of
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
from hiveacid.orc.column_bounds import column_bounds
from hiveacid.orc.column_statistics import StatisticsList
from hiveacid.orc.footer_summary import FileSummary
from hiveacid.orc.tail import ROW
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context
from hiveacid.table.read.footers import Footers

_MIN_SKIPPED_SHARE = 4  # with fewer than one file in four skipped, the memo of the whole scan is worth more
_TEXT = frozenset({"string", "varchar"})


def files_to_skip(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    footers: Footers,
    predicate: Predicate,
) -> frozenset[str]:
    """Return the paths of data files, and of original files, without a row for which ``predicate`` is true.

    None are returned beside update events of ACID v1, because the newest version of a row decides there, and none if they
    are few.
    """
    numbers = {column.name: number for number, column in enumerate(table.columns)}
    names = [name for name in columns_of(predicate) if name in numbers]
    if not names or footers.has_acid_v1_events:
        return frozenset()
    types = [parse_type(table.columns[numbers[name]].type) for name in names]
    may_match = bounds_test(predicate, names)
    column_ids: dict[tuple[bool, int], list[int | None]] = {}  # there is one mapping for each schema
    skipped, files = [], 0
    for location in locations:
        for file in footers.plans[location.partition].rows:
            key, mapping = (file.path, file.listed.size, file.listed.modified), file.mapping
            files += file.rows > 0
            summary, statistics = context.summaries.get(key), context.summaries.statistics(key)
            if not file.rows or file.copy is not None or summary is None or mapping is None or not statistics:
                continue
            kind = (summary.is_acid, id(mapping))
            if kind not in column_ids:
                column_ids[kind] = [
                    _column_id(summary, mapping, numbers[name], hive)
                    for name, hive in zip(names, types, strict=True)
                ]
            if not may_match(_bounds(column_ids[kind], types, StatisticsList(file.path, statistics))):
                skipped.append(file.path)
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
    kinds = [stored.name, table_type.name]
    if not set(kinds).issubset(INTEGER_TYPES):
        return set(kinds) <= _TEXT
    # A number that is too large for a narrower type is read as NULL, which the statistics do not count.
    return sorted(kinds, key=INTEGER_TYPES.index) == kinds


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


def _bounds(
    column_ids: Sequence[int | None], types: Sequence[HiveType], statistics: StatisticsList
) -> list[Bounds]:
    try:
        return [
            ANY_VALUE
            if column_id is None or column_id >= len(statistics)
            else column_bounds(statistics[column_id], hive)
            for column_id, hive in zip(column_ids, types, strict=True)
        ]
    except BadFileError:  # the reader tells what is wrong, if it needs them
        return [ANY_VALUE] * len(types)

"""ORDER BY of a rebalance compaction: columns with direction and null order, but no expressions.

The compaction queue holds the clause as text, and other clients write to the queue, too. The text is therefore parsed
when the compaction is requested and again by the worker. It never reaches Spark as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hiveacid.core.schema.types import quote_name
from hiveacid.core.suggestions import did_you_mean
from hiveacid.errors import NoSuchColumnError, StatementError

_LONGEST = 100_000  # characters
_PREFIX = re.compile(r"\s*ORDER\s+BY\b", re.IGNORECASE)  # Hive's compactor takes the clause with its keywords
_ITEM = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?\s*(,|\Z)", re.IGNORECASE
)


@dataclass(frozen=True)
class SortColumn:
    """A column to sort by. Without NULLS FIRST or LAST, nulls are the smallest values, as in Spark."""

    name: str
    descending: bool = False
    nulls_first: bool = True


def parse_sort_order(text: str) -> tuple[SortColumn, ...]:
    """Parse ``column [ASC | DESC] [NULLS FIRST | LAST], ...``; names become lower case.

    Raises StatementError for anything else: expressions, positions, LIMIT.
    """
    prefix = _PREFIX.match(text)
    place = prefix.end() if prefix else 0
    columns: list[SortColumn] = []
    separator = ","
    while separator:
        item = _ITEM.match(text, place) if len(text) <= _LONGEST else None
        if item is None or (item[2] or "").isdecimal():
            raise StatementError(
                f"ORDER BY of a compaction takes columns, each with ASC or DESC and NULLS FIRST or LAST: "
                f"not understood from {text[place : place + 60].strip()!r}"
            )
        name = item[2] or item[1].replace("``", "`")
        descending = (item[3] or "").upper() == "DESC"
        nulls_first = item[4].upper() == "FIRST" if item[4] else not descending
        columns.append(SortColumn(name.lower(), descending, nulls_first))
        place, separator = item.end(), item[5]
    return tuple(columns)


def format_sort_order(columns: Sequence[SortColumn]) -> str:
    """Write columns as `parse_sort_order` reads them, each with its direction and null order."""
    return ", ".join(
        f"{quote_name(column.name)} {'DESC' if column.descending else 'ASC'} "
        f"NULLS {'FIRST' if column.nulls_first else 'LAST'}"
        for column in columns
    )


def sort_columns(text: str | None, names: Collection[str]) -> tuple[SortColumn, ...]:
    """Return the columns of a clause of the queue, each of which must be one of ``names``; () for None.

    Raises StatementError, and NoSuchColumnError.
    """
    columns = () if text is None else parse_sort_order(text)
    for column in columns:
        if column.name not in names:
            near = did_you_mean(column.name, names)
            raise NoSuchColumnError(f"ORDER BY of a compaction: the table has no column {column.name}{near}")
    return columns

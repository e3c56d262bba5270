"""Pruning of partitions and stripes that hold no row that a filter selects.

Arrow decides, by simplifying the filter. Each partition or stripe is a fragment of an Arrow data set, and its partition
expression is a guarantee: true for all of its rows. No file is read for this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from hiveacid.core.schema.types import parse_type
from hiveacid.orc.column_bounds import column_bounds
from hiveacid.orc.column_statistics import HIVE_8732, ColumnStatistics
from hiveacid.orc.tail import OrcTail
from hiveacid.table.arrow_read.filters import ALWAYS


def possible_fragments(guarantees: Sequence[Any], schema: Any, predicate: Any) -> list[int]:
    """Return the indexes of the partitions or stripes that may hold a row that the filter ``predicate`` selects.

    ``guarantees``: for each partition or stripe, an expression that is true for all of its rows.
    """
    if not guarantees:
        return []
    dataset = ds.FileSystemDataset.from_paths(
        [str(index) for index in range(len(guarantees))],
        schema=schema,
        format=ds.IpcFileFormat(),
        filesystem=fs.LocalFileSystem(),
        partitions=list(guarantees),
    )
    try:
        return sorted(int(fragment.path) for fragment in dataset.get_fragments(filter=predicate))
    except pa.ArrowInvalid:  # Arrow refuses to compare whole numbers beyond 2**53 with floating point numbers
        return list(range(len(guarantees)))


def partition_guarantee(names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the guarantee of a partition; ``values``: an Arrow scalar for each partition column."""
    parts = [
        ds.field(name) == value if value.is_valid else ds.field(name).is_null()
        for name, value in zip(names, values, strict=True)
    ]
    return reduce(and_, parts)


def possible_stripes(
    tail: OrcTail, columns: Mapping[str, tuple[int, str]], schema: Any, predicate: Any
) -> list[int]:
    """Return the indexes of a file's stripes that may hold a row that the filter selects.

    ``columns``: ORC column id and type of those columns of the filter whose statistics hold for the table's values.
    """
    if not columns or not any(len(stripe.statistics) for stripe in tail.stripes):
        return list(range(len(tail.stripes)))
    guarantees = []
    for stripe in tail.stripes:
        parts = [
            _guarantee(tail, name, hive, stripe.statistics[column_id], schema.field(name).type, stripe.rows)
            for name, (column_id, hive) in columns.items()
            if column_id < len(stripe.statistics)
        ]
        guarantees.append(reduce(and_, [part for part in parts if part is not None], ALWAYS))
    return possible_fragments(guarantees, schema, predicate)


def _guarantee(
    tail: OrcTail, name: str, hive: str, statistics: ColumnStatistics, data_type: Any, rows: int
) -> Any:
    """Return the guarantee that a stripe's statistics give for a column; None if they give none that is safe to use.

    Those of timestamps are not used, because they are instants.
    """
    column = ds.field(name)
    low, high, has_null, has_value = column_bounds(statistics, parse_type(hive))
    if not has_value and statistics.has_null and rows:
        return column.is_null()
    if low is None or high is None or isinstance(low, datetime):
        return None
    if isinstance(low, str) and tail.writer_version < HIVE_8732:
        return None
    try:
        within = (column >= pa.scalar(low, data_type)) & (column <= pa.scalar(high, data_type))
    except (pa.ArrowException, OverflowError):  # values of another type
        return None
    return within | column.is_null() if has_null else within

"""Key order of ACID rows: check it in a staged file, and sort and split Arrow tables by it.

The check of a file compares all rows as Arrow vectors, one stripe at a time. It is cheap: of dozens of columns it reads
only the three small ones of the key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc

from hiveacid.core.format.record_keys import Key, decode_bucket_property
from hiveacid.errors import BadFileError
from hiveacid.orc.file_range import FileRange
from hiveacid.ports.file_system import FileSystem

_KEY = ["originalTransaction", "bucket", "rowId"]


@dataclass(frozen=True)
class KeyRun:
    """Rows in strictly ascending key order. ``rows``: their number; ``buckets``: their bucket properties."""

    rows: int
    first: Key
    last: Key
    buckets: frozenset[int]


def read_keys_if_ascending(fs: FileSystem, path: str, size: int) -> KeyRun | None:
    """Read every key of a flat file of ACID events (`nest_row_columns`); return None if they are not strictly ascending.

    The result is also None for a file without rows or with a null in a key. Raises BadFileError.
    """
    try:
        file = pyarrow.orc.ORCFile(pa.PythonFile(FileRange(fs, path, size), mode="r"))
        stripes = [_stripe_run(file, number) for number in range(file.nstripes)]
    except (pa.ArrowException, OSError) as error:  # Arrow says "not ORC" by an OSError
        raise BadFileError(f"the keys cannot be read: {error}", path=path) from error
    runs = [run for run in stripes if run is not None]
    if not runs or len(runs) < len(stripes):
        return None
    if any(before.last >= after.first for before, after in pairwise(runs)):
        return None
    buckets = frozenset[int]().union(*(run.buckets for run in runs))
    return KeyRun(sum(run.rows for run in runs), runs[0].first, runs[-1].last, buckets)


def _stripe_run(file: Any, number: int) -> KeyRun | None:
    batch = file.read_stripe(number, columns=_KEY)
    columns = [batch.column(name) for name in _KEY]
    rows = batch.num_rows
    if not rows or any(column.null_count for column in columns) or not _is_ascending(columns):
        return None
    first, last = (tuple(column[row].as_py() for column in columns) for row in (0, rows - 1))
    return KeyRun(rows, first, last, frozenset(pc.unique(columns[1]).to_pylist()))


def _is_ascending(columns: Sequence[Any]) -> bool:
    """Tell whether keys, given as columns of their parts, are strictly ascending; False if one has a null."""
    pairs = [(column.slice(0, len(column) - 1), column.slice(1)) for column in columns]
    # (a1, b1, c1) < (a2, b2, c2), built from the last key part to the first
    ascending = reduce(
        lambda rest, pair: pc.or_(pc.less(*pair), pc.and_(pc.equal(*pair), rest)),
        reversed(pairs[:-1]),
        pc.less(*pairs[-1]),
    )
    return bool(pc.all(ascending, skip_nulls=False, min_count=0).as_py())


def sort_by_key(rows: Any, key: Sequence[str]) -> Any:
    """Return an Arrow table sorted by its key columns."""
    columns = [rows.column(name).combine_chunks() for name in key]
    if not rows.num_rows or _is_ascending(columns):
        return rows
    return rows.sort_by([(name, "ascending") for name in key])


def split_by_bucket(rows: Any, column: str) -> Iterator[tuple[int, Any]]:
    """Yield each bucket number and its rows, whose order stays. ``column``: name of the column of bucket properties.

    Raises BadFileError for an invalid bucket property.
    """
    properties = rows.column(column)
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for value in properties.unique().to_pylist():
        by_bucket[decode_bucket_property(value).bucket].append(value)
    for bucket, values in by_bucket.items():
        yield bucket, rows.filter(pc.is_in(properties, pa.array(values, properties.type)))

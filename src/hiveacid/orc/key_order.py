"""Key order of ACID rows: checked, restored by sorting, and recorded in the key index.

A record key is (original write id, bucket property, row id). Readers merge files by key. They lose rows that are out of
order, or return deleted ones (observed in Hive 3.1.3 and 4.0.1; ``OrcRawRecordMerger``). The check of a staged file compares
all rows as Arrow vectors, one stripe at a time. It is cheap: of dozens of columns it reads only the three small ones of the
key.
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

from hiveacid.core.format.acid_columns import (
    DELETE_EVENT,
    INSERT_EVENT,
    KEY_COLUMNS,
    AcidColumn,
    Key,
    KeyBox,
    Range,
    decode_bucket_property,
)
from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import StatisticsList
from hiveacid.orc.tail import OrcTail
from hiveacid.ports.file_system import FileRange, FileSystem

_MAX_CODES = 1 << 31  # of groups: the product with the values of another column fits 64 bits


@dataclass(frozen=True, kw_only=True)
class _StripeKeys(KeyBox):
    rows: int

    @property
    def exact(self) -> bool:
        """Tell whether first and last key are known: only the row id varies."""
        return self.write_id.is_single and self.bucket.is_single


def require_valid_events(tail: OrcTail, *, deletes: bool) -> None:
    """Check the statistics of a file before it is published. Raises BadFileError.

    All rows must have the same ``operation``, and no key may be null. ``row`` must be null in no row (inserts) or in
    every row (deletes). Stripes must be in ascending key order, and insert keys must not repeat.
    """
    if not tail.number_of_rows:
        return
    if not len(tail.column_statistics):
        raise BadFileError("the writer made no column statistics", path=tail.path)
    operation = DELETE_EVENT if deletes else INSERT_EVENT
    if _range(tail.column_statistics, AcidColumn.OPERATION, tail.path) != Range(operation, operation):
        raise BadFileError(f"operation is not {operation} in every row", path=tail.path)
    filled = {column: tail.column_statistics[column.orc_id].count for column in AcidColumn}
    rows_with_value = filled.pop(AcidColumn.ROW)
    if any(count != tail.number_of_rows for count in filled.values()):
        raise BadFileError("an ACID column is null in some row", path=tail.path)
    if rows_with_value != (0 if deletes else tail.number_of_rows):
        raise BadFileError("row must be null in every delete event and in no other row", path=tail.path)
    _require_key_order(_stripe_keys(tail), tail.path, deletes=deletes)


def key_index(tail: OrcTail) -> str | None:
    """Return ``hive.acid.key.index``: each stripe's last key as ``writeId,bucket,rowId;``.

    None if the statistics do not determine it (a stripe holds several write ids or bucket properties). A file without
    index is safe, but an index that is too low makes Hive 4.0.1 lose later deletes. Raises BadFileError.
    """
    stripes = _stripe_keys(tail)
    if len(stripes) != len(tail.stripes) or not all(stripe.exact for stripe in stripes):
        return None
    return "".join(f"{','.join(map(str, stripe.high))};" for stripe in stripes)


def _stripe_keys(tail: OrcTail) -> list[_StripeKeys]:
    return [
        _StripeKeys(
            *(_range(stripe.statistics, column, tail.path) for column in KEY_COLUMNS), rows=stripe.rows
        )
        for stripe in tail.stripes
        if len(stripe.statistics) and stripe.rows
    ]


def _range(statistics: StatisticsList, column: AcidColumn, path: str) -> Range:
    ends = statistics[column.orc_id].integers
    if ends is None:
        raise BadFileError("an ACID column has no lowest and highest value", path=path)
    return ends


def _require_key_order(stripes: list[_StripeKeys], path: str, *, deletes: bool) -> None:
    for before, after in pairwise(stripes):
        last, first = before.high, after.low
        if last[0] == first[0] and not (before.write_id.is_single and after.write_id.is_single):
            continue  # statistics do not tell which buckets and row ids belong to the shared write id
        parts = 3 if before.exact and after.exact else 2
        ascending = last[:parts] <= first[:parts] if deletes or parts < len(last) else last < first
        if not ascending:
            raise BadFileError("stripes are not in ascending key order", path=path)
    for stripe in stripes:
        if not deletes and stripe.exact and stripe.row_id.high - stripe.row_id.low + 1 < stripe.rows:
            raise BadFileError("a row id appears twice", path=path)


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


def _stripe_run(file: pyarrow.orc.ORCFile, number: int) -> KeyRun | None:
    batch = file.read_stripe(number, columns=list(KEY_COLUMNS))
    columns = [batch.column(name) for name in KEY_COLUMNS]
    rows = batch.num_rows
    if not rows or any(column.null_count for column in columns) or not _is_ascending(columns):
        return None
    first, last = (tuple(column[row].as_py() for column in columns) for row in (0, rows - 1))
    return KeyRun(rows, first, last, frozenset(pc.unique(columns[1]).to_pylist()))


def _is_ascending(columns: Sequence[pa.Array]) -> bool:
    """Tell whether keys, given as columns of their parts, are strictly ascending; False if one has a null."""
    pairs = [(column.slice(0, len(column) - 1), column.slice(1)) for column in columns]
    # (a1, b1, c1) < (a2, b2, c2), built from the last key part to the first
    ascending = reduce(
        lambda rest, pair: pc.or_(pc.less(*pair), pc.and_(pc.equal(*pair), rest)),
        reversed(pairs[:-1]),
        pc.less(*pairs[-1]),
    )
    return bool(pc.all(ascending, skip_nulls=False, min_count=0).as_py())


def sort_by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return an Arrow table sorted by its key columns."""
    columns = [rows.column(name).combine_chunks() for name in key]
    if not rows.num_rows or _is_ascending(columns):
        return rows
    return rows.sort_by([(name, "ascending") for name in key])


def group_rows(rows: pa.Table, keys: Sequence[pa.Array]) -> Iterator[tuple[list[Any], pa.Table]]:
    """Group rows by arrays of keys, one value a row: yield each key and its rows, whose order stays."""
    if not rows.num_rows:
        return
    codes, count = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows), 1
    for key in keys:
        encoded = pc.dictionary_encode(key, null_encoding="encode")
        codes = pc.add(pc.multiply(codes, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
        count *= len(encoded.dictionary)
        if count > _MAX_CODES:
            dense = pc.rank(codes, tiebreaker="dense")
            codes, count = pc.subtract(dense.cast(pa.int64()), 1), pc.max(dense).as_py()
    sizes = {entry["values"]: entry["counts"] for entry in pc.value_counts(codes).to_pylist()}
    order, ordered = pa.array([0]), rows
    if len(sizes) > 1:
        order = pc.sort_indices(codes)  # stable
        ordered = rows.take(order)
    begin = 0
    for code in sorted(sizes):
        first = order[begin].as_py()
        yield [key[first].as_py() for key in keys], ordered.slice(begin, sizes[code])
        begin += sizes[code]


def split_by_bucket(rows: pa.Table, column: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield each bucket number and its rows, whose order stays. ``column``: name of the column of bucket properties.

    Raises BadFileError for an invalid bucket property.
    """
    properties = rows.column(column)
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for value in properties.unique().to_pylist():
        by_bucket[decode_bucket_property(value).bucket].append(value)
    for bucket, values in by_bucket.items():
        yield bucket, rows.filter(pc.is_in(properties, pa.array(values, properties.type)))

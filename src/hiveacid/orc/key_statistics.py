"""Checks of an ACID file's key order by its stripe statistics, and the file's key index.

A record key is (original write id, bucket property, row id). Readers merge files by key. They lose rows that are out of
order, or return deleted ones (observed in Hive 3.1.3 and 4.0.1; ``OrcRawRecordMerger``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hiveacid.core.format.record_keys import Range
from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import StatisticsList
from hiveacid.orc.tail import BUCKET, OPERATION, ORIGINAL_WRITE_ID, ROW, ROW_ID, OrcTail

INSERT, DELETE = 0, 2
"""Values of the column ``operation``."""


@dataclass(frozen=True)
class _StripeKeys:
    rows: int
    write_id: Range
    bucket: Range
    row_id: Range

    @property
    def exact(self) -> bool:
        """Tell whether first and last key are known: only the row id varies."""
        return self.write_id.is_single and self.bucket.is_single

    @property
    def first(self) -> tuple[int, int, int]:
        return self.write_id.low, self.bucket.low, self.row_id.low

    @property
    def last(self) -> tuple[int, int, int]:
        return self.write_id.high, self.bucket.high, self.row_id.high


def require_valid_events(tail: OrcTail, *, deletes: bool) -> None:
    """Check the statistics of a file before it is published. Raises BadFileError.

    All rows must have the same ``operation``, and no key may be null. ``row`` must be null in no row (inserts) or in
    every row (deletes). Stripes must be in ascending key order, and insert keys must not repeat.
    """
    if not tail.number_of_rows:
        return
    if not len(tail.column_statistics):
        raise BadFileError("the writer made no column statistics", path=tail.path)
    operation = DELETE if deletes else INSERT
    if _range(tail.column_statistics, OPERATION, tail.path) != Range(operation, operation):
        raise BadFileError(f"operation is not {operation} in every row", path=tail.path)
    for column in (OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_ID, ROW_ID + 1):
        if tail.column_statistics[column].count != tail.number_of_rows:
            raise BadFileError("an ACID column is null in some row", path=tail.path)
    if tail.column_statistics[ROW].count != (0 if deletes else tail.number_of_rows):
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
    return "".join(f"{','.join(map(str, stripe.last))};" for stripe in stripes)


def _stripe_keys(tail: OrcTail) -> list[_StripeKeys]:
    return [
        _StripeKeys(
            stripe.rows,
            *(_range(stripe.statistics, column, tail.path) for column in (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)),
        )
        for stripe in tail.stripes
        if len(stripe.statistics) and stripe.rows
    ]


def _range(statistics: StatisticsList, column: int, path: str) -> Range:
    ends = statistics[column].integers
    if ends is None:
        raise BadFileError("an ACID column has no lowest and highest value", path=path)
    return Range(*ends)


def _require_key_order(stripes: list[_StripeKeys], path: str, *, deletes: bool) -> None:
    for before, after in pairwise(stripes):
        last, first = before.last, after.first
        if last[0] == first[0] and not (before.write_id.is_single and after.write_id.is_single):
            continue  # statistics do not tell which buckets and row ids belong to the shared write id
        parts = 3 if before.exact and after.exact else 2
        ascending = last[:parts] <= first[:parts] if deletes or parts < len(last) else last < first
        if not ascending:
            raise BadFileError("stripes are not in ascending key order", path=path)
    for stripe in stripes:
        if not deletes and stripe.exact and stripe.row_id.high - stripe.row_id.low + 1 < stripe.rows:
            raise BadFileError("a row id appears twice", path=path)

"""Record keys of full ACID rows (``ROW__ID``), their order, and the ranges that they lie in.

Rules: Hive's ``RecordIdentifier`` and ``OrcRawRecordMerger.ReaderKey``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.core.model import WriteId

Key = tuple[int, int, int]
"""Write id, bucket property, row id: the sort key of records."""


@dataclass(frozen=True, order=True)
class RecordKey:
    """Key of a row, in the order that files are sorted by.

    ``write_id``: that of the insert (``originalTransaction``). ``bucket_property``: the whole integer, statement
    id included. ``row_id``: counts from 0 in each file and write id.
    """

    write_id: WriteId
    bucket_property: int
    row_id: int


@dataclass(frozen=True, slots=True)
class Range:
    """Lowest and highest value of a column."""

    low: int
    high: int

    @property
    def is_single(self) -> bool:
        """Tell whether the column has one value only."""
        return self.low == self.high

    @property
    def bits(self) -> int:
        """Return the number of bits that hold the distance of any value from ``low``."""
        return (self.high - self.low).bit_length()


@dataclass(frozen=True)
class KeyBox:
    """Record keys whose write id, bucket property and row id each lie in a range."""

    write_id: Range
    bucket: Range
    row_id: Range

    @property
    def parts(self) -> tuple[Range, Range, Range]:
        """Return the three ranges in the order of a key."""
        return self.write_id, self.bucket, self.row_id

    @property
    def low(self) -> Key:
        """Return a lower bound of all keys."""
        return self.write_id.low, self.bucket.low, self.row_id.low

    @property
    def high(self) -> Key:
        """Return an upper bound of all keys."""
        return self.write_id.high, self.bucket.high, self.row_id.high

    def intersects(self, other: KeyBox) -> bool:
        """Tell whether a key may lie in both boxes."""
        return all(
            own.low <= theirs.high and theirs.low <= own.high
            for own, theirs in zip(self.parts, other.parts, strict=True)
        )

"""ACID columns of a file, record keys of its rows (``ROW__ID``), and buckets of a write.

A record key is write id, bucket property and row id. The bucket property is one 32-bit integer that holds codec version,
bucket and statement id of a row (Hive's ``BucketCodec``). Version 1, all that Hive 3 and later write: 3 bits version,
1 reserved, 12 bits bucket, 4 reserved, 12 bits statement id. Version 0, older data: the bucket alone. Columns and footer
entries follow Hive's ``OrcRecordUpdater``, the order ``RecordIdentifier`` and ``OrcRawRecordMerger.ReaderKey``.

Each task that writes new rows of a table without buckets writes one of the 4,096 buckets, and each file is one bucket of
its directory. Two files of one bucket would hold the same row ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from hiveacid.core.model import WriteId
from hiveacid.errors import BadFileError, ConfigError


class AcidColumn(StrEnum):
    """Name of a root column of an ACID file, in the file's order.

    ``orc_id``: the id of the column in the file, which counts types in pre-order; the root is 0.
    """

    OPERATION = "operation", 1
    ORIGINAL_WRITE_ID = "originalTransaction", 2
    BUCKET = "bucket", 3
    ROW_ID = "rowId", 4
    CURRENT_WRITE_ID = "currentTransaction", 5
    ROW = "row", 6

    orc_id: int

    def __new__(cls, name: str, orc_id: int) -> Self:
        """Create a member from its name and id."""
        member = str.__new__(cls, name)
        member._value_, member.orc_id = name, orc_id
        return member


KEY_COLUMNS = (AcidColumn.ORIGINAL_WRITE_ID, AcidColumn.BUCKET, AcidColumn.ROW_ID)
"""Columns of a row's key, in its order."""
ROW_ID_PARTS = ("writeid", "bucketid", "rowid")
"""Fields of ``ROW__ID``, which hold the `KEY_COLUMNS`."""
INSERT_EVENT, UPDATE_EVENT, DELETE_EVENT = 0, 1, 2
"""Values of the column ``operation``; only ACID version 1 has update events."""

STATEMENT_BITS = BUCKET_BITS = 12
"""Bits of the statement id and of the bucket in a bucket property of version 1."""
BUCKET_SHIFT = 16
"""Number of bits below the bucket; the lowest `STATEMENT_BITS` hold the statement id, the others are reserved."""
VERSION_SHIFT = 29
"""Number of bits below the codec version."""
V1_PROPERTY = 1 << VERSION_SHIFT
"""Lowest bucket property of version 1; those below are of version 0, the bucket alone."""
MAX_BUCKET = (1 << BUCKET_BITS) - 1
"""Highest bucket of version 1, which is also the mask of its bits."""
MAX_STATEMENT_ID = (1 << STATEMENT_BITS) - 1
"""Highest statement id, which is also the mask of its bits."""


@dataclass(frozen=True, order=True)
class BucketProperty:
    """Decoded bucket property.

    ``bucket`` is the number in the name of the file that holds the row, and in the name of the delete
    delta's file that holds its delete event. ``statement_id`` is the statement of its transaction.
    """

    version: int
    bucket: int
    statement_id: int = 0

    def encode(self) -> int:
        """Return the 32-bit integer. Raises ConfigError for numbers that do not fit."""
        if self.version == 0:
            if self.statement_id != 0 or not 0 <= self.bucket < V1_PROPERTY:
                msg = f"codec version 0 holds a bucket below 2^29 and no statement id, not {self}"
                raise ConfigError(msg)
            return self.bucket
        if self.version != 1:
            raise ConfigError(f"no such version of the bucket codec: {self.version}")
        if not 0 <= self.statement_id <= MAX_STATEMENT_ID:
            raise ConfigError(f"statement id {self.statement_id} is not between 0 and {MAX_STATEMENT_ID}")
        if not 0 <= self.bucket <= MAX_BUCKET:
            raise ConfigError(f"bucket {self.bucket} is not between 0 and {MAX_BUCKET}")
        return V1_PROPERTY | self.bucket << BUCKET_SHIFT | self.statement_id


def decode_bucket_property(bucket_property: int) -> BucketProperty:
    """Decode a bucket property. Raises BadFileError if its version is neither 0 nor 1."""
    version = (bucket_property & 0xFFFFFFFF) >> VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, bucket_property)
    if version == 1:
        bucket = bucket_property >> BUCKET_SHIFT & MAX_BUCKET
        return BucketProperty(1, bucket, bucket_property & MAX_STATEMENT_ID)
    raise BadFileError(f"bucket property {bucket_property} has codec version {version}; only 0 and 1 exist")


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

    def __str__(self) -> str:
        """Return one number, or both."""
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"

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

    @classmethod
    def of_ends(cls, ends: Sequence[int]) -> KeyBox | None:
        """Return the box with these `ends`; None without any."""
        return cls(*(Range(*ends[at : at + 2]) for at in (0, 2, 4))) if ends else None

    @property
    def ends(self) -> tuple[int, ...]:
        """Return lowest and highest write id, bucket property and row id."""
        return tuple(end for part in self.parts for end in (part.low, part.high))

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


KEY_INDEX = "hive.acid.key.index"
"""Footer entry: the last key of each stripe."""
STATISTICS = "hive.acid.stats"
"""Footer entry: how many inserts, updates and deletes a file holds."""
FORMAT_VERSION = "hive.acid.version"
"""Footer entry: always ``2``."""

# as many digits as a signed 64-bit number has
_KEY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,19}),(-?[0-9]{1,19})")
_STATISTICS = re.compile(r"([0-9]{1,19}),([0-9]{1,19}),([0-9]{1,19})")


@dataclass(frozen=True)
class AcidStatistics:
    """Number of events of each kind in a file; ``updates`` is 0 since updates are split."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def to_string(self) -> str:
        """Return the text of the footer entry. Hive 3.1 ignores a delete delta whose entry is missing or wrong."""
        return f"{self.inserts},{self.updates},{self.deletes}"


def parse_key_index(text: str) -> tuple[RecordKey, ...]:
    """Read a key index. Raises BadFileError.

    A reader must not rely on it: Trino writes one entry for any number of stripes, and other writers write wrong
    entries. An index is of no use unless it has one entry for each stripe.
    """
    keys: list[RecordKey] = []
    for part in text.removesuffix(";").split(";") if text else ():
        match = _KEY.fullmatch(part)
        if match is None:
            raise BadFileError(f"not a {KEY_INDEX} (write id,bucket,row id;...): {text[:200]!r}")
        keys.append(RecordKey(WriteId(int(match[1])), int(match[2]), int(match[3])))
    return tuple(keys)


def parse_statistics(text: str) -> AcidStatistics:
    """Read ``inserts,updates,deletes``. Raises BadFileError."""
    match = _STATISTICS.fullmatch(text)
    if match is None:
        raise BadFileError(f"not {STATISTICS} (inserts,updates,deletes): {text[:200]!r}")
    return AcidStatistics(int(match[1]), int(match[2]), int(match[3]))


MAX_BUCKETS = MAX_BUCKET + 1
"""Number of buckets that a bucket property can hold, and so of tasks that may write one directory."""
MIN_GROUPS = 64
"""Lowest number of groups for the new rows of a partition; Spark joins small groups again."""
DEFAULT_FILE_SIZE = 256 << 20
"""Bytes that a file of new rows should have, if no setting says otherwise."""
_SHUFFLED_PER_STORED = 2
"""Lowest number of bytes of shuffled rows (LZ4) that become one byte of an ORC file."""


def decide_row_groups(size: int | None, target: int, shuffle_tasks: int, *, partitioned: bool) -> int:
    """Return the number of groups that the new rows of a changed partition are divided into.

    One task writes a group. A table without partitions counts as one partition. ``size``: bytes of the files that hold
    the rows, None if unknown. ``target``: bytes that a file should have. ``shuffle_tasks``: most tasks of a shuffle.
    The result is a power of two, because Java compiles the plan again for another number. If the size is unknown, a
    table without partitions gets a group for each task. A partitioned one gets ``MIN_GROUPS``: more groups would make
    many files in each partition.
    """
    unknown = MIN_GROUPS if partitioned else shuffle_tasks
    groups = unknown if size is None else -(-size // max(1, target))
    return min(MAX_BUCKETS, max(MIN_GROUPS, 1 << max(0, groups - 1).bit_length()))


def shuffled_size(target: int) -> int:
    """Return the bytes of shuffled rows that make a file of about ``target`` bytes."""
    return max(1, min(target, 1 << 40)) * _SHUFFLED_PER_STORED


def buckets_by_group(shuffle_tasks: int) -> bool:
    """Tell whether a new row's bucket must be its group, because more tasks may write than there are buckets."""
    return shuffle_tasks > MAX_BUCKETS

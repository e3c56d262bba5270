"""Live rows of ACID files: those of valid write ids that no delete event and no newer version removes.

The keys of delete events are looked up by binary search in numpy arrays (`DeleteKeys`). In ACID v1 (Hive 0.13 to 2.x) files
hold update events beside inserts. As in ``spark.read.delete_joins``, only the newest event of a key counts: that of the
highest current transaction. Within one transaction a delete is newer than any other event; otherwise the event with the
higher statement id is newer (`NewestVersions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.acid_columns import (
    BUCKET_SHIFT,
    DELETE_EVENT,
    INSERT_EVENT,
    V1_PROPERTY,
    AcidColumn,
)
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.build_delete_bitmap import are_valid
from hiveacid.table.arrow_read.orc_file import OrcReader, int64_values

_LONG_BITS = 62
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
"""For each row whether it is chosen."""


@dataclass(frozen=True)
class LiveRows:
    """Masks of the live rows of a partition's stripes. ``newest``: if there are update events (ACID v1)."""

    write_ids: ValidWriteIdList
    deletes: DeleteKeys | None = None
    newest: NewestVersions | None = None

    def mask(self, reader: OrcReader, stripe: int) -> Mask | None:
        """Return a mask of the live rows of a stripe; None for all."""
        valid = self._valid_write_id_mask(reader, stripe) if reader.file.partly_valid else None
        if self.newest is not None:
            return self.newest.live_rows(reader, stripe, valid)
        deleted = None if self.deletes is None else _deleted_row_mask(self.deletes, reader, stripe)
        if deleted is None:
            return valid
        return ~deleted if valid is None else valid & ~deleted

    def _valid_write_id_mask(self, reader: OrcReader, stripe: int) -> Mask:
        own, current = (
            are_valid(self.write_ids, column.cast(pa.int64()).fill_null(-1))
            for column in reader.acid_columns(
                stripe, [AcidColumn.ORIGINAL_WRITE_ID, AcidColumn.CURRENT_WRITE_ID]
            )
        )
        mask: Mask = pc.and_(own, current).to_numpy(zero_copy_only=False)
        return mask


def _deleted_row_mask(deletes: DeleteKeys, reader: OrcReader, stripe: int) -> Mask | None:
    """Return a mask of deleted rows; None if no row is deleted.

    If all rows have one write id and bucket property, only the row ids are compared.
    """
    write_id, bucket, row_id = reader.key_ranges(stripe)
    if write_id is None or bucket is None or not (write_id.is_single and bucket.is_single):
        return deletes.match(Keys.of(reader.keys(stripe)))
    deleted = deletes.row_ids(write_id.low, bucket.low)
    if row_id is not None:
        end = np.searchsorted(deleted, row_id.high, side="right")
        deleted = deleted[np.searchsorted(deleted, row_id.low) : end]
    if not len(deleted):
        return None
    if reader.file.original is not None and row_id is not None:  # its row ids are consecutive
        mask = np.zeros(reader.tail.stripes[stripe].rows, bool)
        mask[deleted - row_id.low] = True
        return mask
    return deleted_among(reader.row_ids(stripe), deleted)


@dataclass(frozen=True)
class Keys:
    """Keys of rows: write ids, bucket properties and row ids, each a numpy array of int64."""

    write_ids: Integers
    buckets: Integers
    row_ids: Integers

    @classmethod
    def of(cls, table: pa.Table | pa.RecordBatch) -> Keys:
        """Return the keys of an Arrow table or batch, whose first three columns are the parts of a key."""
        return cls(*(int64_values(table.column(index)) for index in range(3)))

    @classmethod
    def join(cls, parts: Iterable[Keys]) -> Keys:
        """Return the keys of all parts."""
        columns = zip(*((part.write_ids, part.buckets, part.row_ids) for part in parts), strict=True)
        joined = [np.concatenate(column) for column in columns]
        return cls(*(joined or [np.zeros(0, np.int64)] * 3))

    def take(self, chosen: Integers | Mask) -> Keys:
        """Return the keys that a mask or positions choose."""
        return Keys(self.write_ids[chosen], self.buckets[chosen], self.row_ids[chosen])

    @property
    def in_codec_1(self) -> Keys:
        """Return the keys with bucket properties of codec version 1. Keys of write id 0 may have version 0."""
        has_codec_0 = (self.write_ids == 0) & (self.buckets >= 0) & (self.buckets < V1_PROPERTY)
        if not has_codec_0.any():
            return self
        return Keys(
            self.write_ids,
            np.where(has_codec_0, self.buckets << BUCKET_SHIFT | V1_PROPERTY, self.buckets),
            self.row_ids,
        )


@dataclass(frozen=True)
class DeleteKeys:
    """Keys of delete events in ascending order, without repetitions."""

    keys: Keys
    _pairs: Integers = field(repr=False)  # distinct pairs of write id and bucket property, ascending
    _starts: Integers = field(repr=False)  # position of the first key of each pair; last, the number of keys

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> DeleteKeys | None:
        """Return the keys of Arrow tables (`Keys.of`); None if they hold none."""
        return cls.of_keys(Keys.join([Keys.of(table) for table in tables if table.num_rows]).in_codec_1)

    @classmethod
    def of_keys(cls, keys: Keys) -> DeleteKeys | None:
        """Sort keys of codec version 1 and drop repetitions; None if there are no keys."""
        if not len(keys.row_ids):
            return None
        order = np.lexsort((keys.row_ids, keys.buckets, keys.write_ids))
        write_ids, buckets, row_ids = keys.write_ids[order], keys.buckets[order], keys.row_ids[order]
        new_pair = np.ones(len(order), bool)
        new_pair[1:] = (np.diff(write_ids) != 0) | (np.diff(buckets) != 0)
        new_key = new_pair.copy()
        new_key[1:] |= np.diff(row_ids) != 0
        keys = Keys(write_ids[new_key], buckets[new_key], row_ids[new_key])
        starts = np.flatnonzero(new_pair[new_key])
        pairs = np.stack([keys.write_ids[starts], keys.buckets[starts]], axis=1)
        return cls(keys, pairs, np.append(starts, len(keys.row_ids)))

    def row_ids(self, write_id: int, bucket: int) -> Integers:
        """Return the deleted row ids of one write id and bucket property, ascending."""
        if write_id == 0 and 0 <= bucket < V1_PROPERTY:
            bucket = bucket << BUCKET_SHIFT | V1_PROPERTY
        indexes = np.flatnonzero((self._pairs[:, 0] == write_id) & (self._pairs[:, 1] == bucket))
        if not len(indexes):
            return self.keys.row_ids[:0]
        return self.keys.row_ids[self._starts[indexes[0]] : self._starts[indexes[0] + 1]]

    def match(self, rows: Keys) -> Mask:
        """Return a mask of the rows that a delete event matches."""
        return self.find(rows) >= 0

    def find(self, rows: Keys) -> Integers:
        """Return the position of each row's key among the keys, -1 if it is not there.

        The search compares one integer for each key, its pair's number × the range of row ids + its row id.
        """
        rows = rows.in_codec_1
        deletes = self.keys
        write_ids, buckets = np.unique(self._pairs[:, 0]), np.unique(self._pairs[:, 1])
        low, high = int(deletes.row_ids.min()), int(deletes.row_ids.max())
        row_pair, possible = _pair_numbers(rows.write_ids, rows.buckets, write_ids, buckets)
        possible &= (rows.row_ids >= low) & (rows.row_ids <= high)
        span = high - low + 1
        if (len(write_ids) * len(buckets)).bit_length() + span.bit_length() > _LONG_BITS:
            return self._find_by_pair(rows, possible)
        delete_pair, _ = _pair_numbers(deletes.write_ids, deletes.buckets, write_ids, buckets)
        deleted = delete_pair * span + (deletes.row_ids - low)  # ascending, as the keys are
        numbers = np.where(possible, row_pair * span + (rows.row_ids - low), -1)
        return _positions(numbers, deleted)

    def _find_by_pair(self, rows: Keys, possible: Mask) -> Integers:
        """Search pair by pair, if number of a pair and row id do not fit one integer together."""
        positions = np.full(len(rows.row_ids), -1)
        for number, (write_id, bucket) in enumerate(self._pairs):
            indexes = np.flatnonzero(possible & (rows.write_ids == write_id) & (rows.buckets == bucket))
            if len(indexes):
                start, end = self._starts[number], self._starts[number + 1]
                hits = _positions(rows.row_ids[indexes], self.keys.row_ids[start:end])
                positions[indexes] = np.where(hits >= 0, hits + start, -1)
        return positions


def _pair_numbers(
    write_ids: Integers, buckets: Integers, delete_write_ids: Integers, delete_buckets: Integers
) -> tuple[Integers, Mask]:
    """Return a number for each row's pair of write id and bucket property, and whether both occur in delete events."""
    first = np.minimum(np.searchsorted(delete_write_ids, write_ids), len(delete_write_ids) - 1)
    second = np.minimum(np.searchsorted(delete_buckets, buckets), len(delete_buckets) - 1)
    is_known = (delete_write_ids[first] == write_ids) & (delete_buckets[second] == buckets)
    return first.astype(np.int64) * len(delete_buckets) + second, is_known


def _positions(numbers: Integers, ascending: Integers) -> Integers:
    """Return the position of each number in an ascending array, -1 if it is not there."""
    positions = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.where(ascending[positions] == numbers, positions, -1)


def deleted_among(row_ids: Integers, deleted: Integers) -> Mask:
    """Return a mask of the rows whose ids are deleted; ``deleted`` is ascending and not empty.

    By the format, row ids ascend in a file. The few deleted ids are then looked up among them; in a file that breaks the
    rule, the row ids are looked up among the deleted ones.
    """
    if not np.all(row_ids[1:] > row_ids[:-1]):
        return _positions(row_ids, deleted) >= 0
    mask = np.zeros(len(row_ids), bool)
    positions = np.searchsorted(row_ids, deleted)
    positions = positions[positions < len(row_ids)]
    hits = positions[row_ids[positions] == deleted[: len(positions)]]
    mask[hits] = True
    return mask


@dataclass(frozen=True)
class NewestVersions:
    """The newest update or delete event of each key that has one.

    ``versions``: for each key a row of three numbers, compared in this order: current transaction, 1 for a delete event (else
    0), and statement id.
    """

    keys: DeleteKeys | None
    versions: Integers

    def live_rows(self, reader: OrcReader, stripe: int, valid: Mask | None) -> Mask:
        """Return a mask of the valid rows that are not delete events and whose keys have no newer event.

        ``valid``: a mask of the rows of valid write ids; None for all.
        """
        keys = Keys.of(reader.keys(stripe))
        rows = len(keys.row_ids)
        if reader.file.original is not None:
            operation, current = np.zeros(rows, np.int64), keys.write_ids
        else:
            operation, current = _operations(reader, stripe)
        mask = operation < DELETE_EVENT if valid is None else (operation < DELETE_EVENT) & valid
        if self.keys is None:
            return mask
        positions = self.keys.find(keys)
        newest = self.versions[np.maximum(positions, 0)]
        own = np.stack([current, np.zeros(rows, np.int64), np.full(rows, reader.file.statement)], axis=1)
        return mask & ~((positions >= 0) & _is_older(own, newest))


def _operations(reader: OrcReader, stripe: int) -> tuple[Integers, Integers]:
    """Return operations and current transactions of a stripe."""
    operation, current = reader.acid_columns(stripe, [AcidColumn.OPERATION, AcidColumn.CURRENT_WRITE_ID])
    return int64_values(operation), int64_values(current)


def _is_older(own: Integers, other: Integers) -> Mask:
    """Tell for each row whether its own version is older than the other one."""
    less, equal = np.zeros(len(own), bool), np.ones(len(own), bool)
    for part in range(own.shape[1]):
        less |= equal & (own[:, part] < other[:, part])
        equal &= own[:, part] == other[:, part]
    return less


def newest_versions(
    readers: Sequence[OrcReader], events: Iterable[tuple[ScanFile, pa.Table]], valid: ValidWriteIdList
) -> NewestVersions:
    """Read the update events of a location. ``events``: its files of delete events, each with the valid events."""
    parts: list[tuple[Keys, Integers]] = []  # keys and versions
    for event, found in events:
        table = found.combine_chunks()
        current = int64_values(table.column(AcidColumn.CURRENT_WRITE_ID))
        ones = np.ones(len(current), np.int64)
        parts.append((Keys.of(table), np.stack([current, ones, ones * event.statement], axis=1)))
    for reader in readers:
        if not reader.has_events:
            continue
        for stripe in range(reader.stripes):
            operation, current = _operations(reader, stripe)
            keys = Keys.of(reader.keys(stripe))
            chosen = operation > INSERT_EVENT
            if reader.file.partly_valid:
                for ids in (keys.write_ids, current):
                    chosen &= are_valid(valid, pa.array(ids)).to_numpy(zero_copy_only=False)
            deletes = (operation[chosen] == DELETE_EVENT).astype(np.int64)
            version = [current[chosen], deletes, np.full(len(deletes), reader.file.statement)]
            parts.append((keys.take(chosen), np.stack(version, axis=1)))
    keys = Keys.join([part for part, _ in parts]).in_codec_1
    delete_keys = DeleteKeys.of_keys(keys)
    if delete_keys is None:
        return NewestVersions(None, np.zeros((0, 3), np.int64))
    versions = np.concatenate([part for _, part in parts])
    order = np.lexsort(  # the last array is the first to be compared
        (*(versions[:, part] for part in (2, 1, 0)), keys.row_ids, keys.buckets, keys.write_ids)
    )
    ordered = keys.take(order)
    last = np.ones(len(order), bool)
    same = [np.diff(part) == 0 for part in (ordered.write_ids, ordered.buckets, ordered.row_ids)]
    last[:-1] = ~(same[0] & same[1] & same[2])
    return NewestVersions(delete_keys, versions[order][last])

"""Newest row versions of ACID v1 (Hive 0.13 to 2.x), which keeps update events beside inserts.

As in ``spark.read.acid_v1``, only the newest event of a key counts: that of the highest current transaction. Within one
transaction a delete is newer than any other event, and a higher statement id is newer than a lower one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.orc.arrow_arrays import are_valid
from hiveacid.orc.key_statistics import DELETE
from hiveacid.table.arrow_read.delete_matching import DeleteKeys, Keys, int64_values
from hiveacid.table.arrow_read.orc_file import CURRENT, OPERATION, OrcRows
from hiveacid.table.arrow_read.snapshot import EventFile


@dataclass(frozen=True)
class NewestVersions:
    """The newest update or delete event of each key that has one; ``versions``: a row of three numbers for each key."""

    keys: DeleteKeys | None
    versions: Any

    def live(self, file: OrcRows, stripe: int, valid: Any) -> Any:
        """Return a mask of the rows that are not delete events and whose keys have no newer event."""
        keys = Keys.of(file.keys(stripe))
        rows = len(keys.row_ids)
        if file.file.original is not None:
            operation, current = np.zeros(rows, np.int64), keys.write_ids
        else:
            operation, current = (
                int64_values(column) for column in file.columns_of_events(stripe, [OPERATION, CURRENT])
            )
        mask = operation < DELETE if valid is None else (operation < DELETE) & valid
        if self.keys is None:
            return mask
        positions = self.keys.find(keys)
        newest = self.versions[np.maximum(positions, 0)]
        own = np.stack([current, np.zeros(rows, np.int64), np.full(rows, file.file.statement)], axis=1)
        return mask & ~((positions >= 0) & _less(own, newest))


def _less(own: Any, other: Any) -> Any:
    """Compare versions row by row: current write id first, then whether it is a delete, then the statement id."""
    less, equal = np.zeros(len(own), bool), np.ones(len(own), bool)
    for part in range(own.shape[1]):
        less |= equal & (own[:, part] < other[:, part])
        equal &= own[:, part] == other[:, part]
    return less


def newest_versions(
    files: Sequence[OrcRows],
    events: Sequence[EventFile],
    read: Callable[[EventFile], Any],
    valid: ValidWriteIdList,
) -> NewestVersions:
    """Gather the update and delete events of a location. ``read``: returns a file's valid delete events."""
    parts: list[tuple[Any, Any]] = []  # keys and versions
    for event in events:
        table = read(event).combine_chunks()
        current = int64_values(table.column(CURRENT))
        ones = np.ones(len(current), np.int64)
        parts.append((Keys.of(table), np.stack([current, ones, ones * event.statement], axis=1)))
    for file in files:
        if not file.has_events:
            continue
        for stripe in range(file.stripes):
            operation, current = (
                int64_values(column) for column in file.columns_of_events(stripe, [OPERATION, CURRENT])
            )
            keys = Keys.of(file.keys(stripe))
            chosen = operation >= 1
            if file.file.partly_valid:
                for ids in (keys.write_ids, current):
                    chosen &= are_valid(valid, pa.array(ids)).to_numpy(zero_copy_only=False)
            deletes = (operation[chosen] == DELETE).astype(np.int64)
            version = [current[chosen], deletes, np.full(len(deletes), file.file.statement)]
            parts.append((keys.take(chosen), np.stack(version, axis=1)))
    keys = Keys.join([part for part, _ in parts]).normal
    delete_keys = DeleteKeys.of_keys(keys)
    if delete_keys is None:
        return NewestVersions(None, None)
    versions = np.concatenate([part for _, part in parts])
    order = np.lexsort(
        (*(versions[:, part] for part in (2, 1, 0)), keys.row_ids, keys.buckets, keys.write_ids)
    )
    ordered = keys.take(order)
    last = np.ones(len(order), bool)
    same = [np.diff(part) == 0 for part in (ordered.write_ids, ordered.buckets, ordered.row_ids)]
    last[:-1] = ~(same[0] & same[1] & same[2])
    return NewestVersions(delete_keys, versions[order][last])

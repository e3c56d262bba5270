"""Newest version of each row in ACID v1 (Hive 0.13 to 2.x), whose files hold update events beside inserts.

As in ``spark.read.acid_v1``, only the newest event of a key counts: that of the highest current transaction. Within one
transaction a delete is newer than any other event; otherwise the event with the higher statement id is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.arrow_arrays import are_valid
from hiveacid.orc.key_order import DELETE, INSERT
from hiveacid.table.arrow_read.delete_keys import DeleteKeys, Keys, int64_values
from hiveacid.table.arrow_read.orc_file import CURRENT_WRITE_ID, OPERATION, OrcReader


@dataclass(frozen=True)
class NewestVersions:
    """The newest update or delete event of each key that has one.

    ``versions``: for each key a row of three numbers, compared in this order: current transaction, 1 for a delete event (else
    0), and statement id.
    """

    keys: DeleteKeys | None
    versions: Any

    def live_rows(self, reader: OrcReader, stripe: int, valid: Any) -> Any:
        """Return a mask of the valid rows that are not delete events and whose keys have no newer event.

        ``valid``: a mask of the rows of valid write ids; None for all.
        """
        keys = Keys.of(reader.keys(stripe))
        rows = len(keys.row_ids)
        if reader.file.original is not None:
            operation, current = np.zeros(rows, np.int64), keys.write_ids
        else:
            operation, current = _operations(reader, stripe)
        mask = operation < DELETE if valid is None else (operation < DELETE) & valid
        if self.keys is None:
            return mask
        positions = self.keys.find(keys)
        newest = self.versions[np.maximum(positions, 0)]
        own = np.stack([current, np.zeros(rows, np.int64), np.full(rows, reader.file.statement)], axis=1)
        return mask & ~((positions >= 0) & _is_older(own, newest))


def _operations(reader: OrcReader, stripe: int) -> tuple[Any, Any]:
    """Return operations and current transactions of a stripe."""
    operation, current = reader.acid_columns(stripe, [OPERATION, CURRENT_WRITE_ID])
    return int64_values(operation), int64_values(current)


def _is_older(own: Any, other: Any) -> Any:
    """Tell for each row whether its own version is older than the other one."""
    less, equal = np.zeros(len(own), bool), np.ones(len(own), bool)
    for part in range(own.shape[1]):
        less |= equal & (own[:, part] < other[:, part])
        equal &= own[:, part] == other[:, part]
    return less


def newest_versions(
    readers: Sequence[OrcReader],
    events: Sequence[ScanFile],
    read: Callable[[ScanFile], Any],
    valid: ValidWriteIdList,
) -> NewestVersions:
    """Read the update and delete events of a location. ``read``: returns a file's valid delete events."""
    parts: list[tuple[Any, Any]] = []  # keys and versions
    for event in events:
        table = read(event).combine_chunks()
        current = int64_values(table.column(CURRENT_WRITE_ID))
        ones = np.ones(len(current), np.int64)
        parts.append((Keys.of(table), np.stack([current, ones, ones * event.statement], axis=1)))
    for reader in readers:
        if not reader.has_events:
            continue
        for stripe in range(reader.stripes):
            operation, current = _operations(reader, stripe)
            keys = Keys.of(reader.keys(stripe))
            chosen = operation > INSERT
            if reader.file.partly_valid:
                for ids in (keys.write_ids, current):
                    chosen &= are_valid(valid, pa.array(ids)).to_numpy(zero_copy_only=False)
            deletes = (operation[chosen] == DELETE).astype(np.int64)
            version = [current[chosen], deletes, np.full(len(deletes), reader.file.statement)]
            parts.append((keys.take(chosen), np.stack(version, axis=1)))
    keys = Keys.join([part for part, _ in parts]).in_codec_1
    delete_keys = DeleteKeys.of_keys(keys)
    if delete_keys is None:
        return NewestVersions(None, None)
    versions = np.concatenate([part for _, part in parts])
    order = np.lexsort(  # the last array is the first to be compared
        (*(versions[:, part] for part in (2, 1, 0)), keys.row_ids, keys.buckets, keys.write_ids)
    )
    ordered = keys.take(order)
    last = np.ones(len(order), bool)
    same = [np.diff(part) == 0 for part in (ordered.write_ids, ordered.buckets, ordered.row_ids)]
    last[:-1] = ~(same[0] & same[1] & same[2])
    return NewestVersions(delete_keys, versions[order][last])

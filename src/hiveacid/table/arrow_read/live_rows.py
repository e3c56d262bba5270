"""Live rows of ACID files: those of valid write ids that no delete event and no newer version removes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.arrow_arrays import are_valid
from hiveacid.ports.file_system import FileSystem
from hiveacid.table.arrow_read.acid_v1 import NewestVersions, newest_versions
from hiveacid.table.arrow_read.delete_keys import DeleteKeys, Keys, deleted_among
from hiveacid.table.arrow_read.orc_file import CURRENT_WRITE_ID, KEY, OrcReader, read_events
from hiveacid.table.arrow_read.ordered_threads import map_in_order


@dataclass
class LiveRows:
    """Masks of the live rows of a partition's stripes; `read_deletes` or `read_versions` comes first.

    ``threads``: how many files with events are read at the same time.
    """

    fs: FileSystem
    events: Sequence[ScanFile]
    write_ids: ValidWriteIdList
    threads: int
    _deletes: DeleteKeys | None = None
    _newest: NewestVersions | None = None  # if there are update events (ACID v1)

    def read_deletes(self) -> None:
        """Read the delete events."""
        if self.events:
            tasks = [(file,) for file in self.events]
            tables = [*map_in_order(self._read_events, tasks, min(self.threads, len(tasks)))]
            self._deletes = DeleteKeys.of([events.select([*KEY]) for events in tables])

    def read_versions(self, readers: Sequence[OrcReader]) -> None:
        """Find the newest version of each row, for files with update events (ACID v1)."""
        self._newest = newest_versions(readers, self.events, self._read_events, self.write_ids)

    def mask(self, reader: OrcReader, stripe: int) -> Any:
        """Return a mask of the live rows of a stripe; None for all."""
        valid = self._valid_write_id_mask(reader, stripe) if reader.file.partly_valid else None
        if self._newest is not None:
            return self._newest.live_rows(reader, stripe, valid)
        deleted = None if self._deletes is None else _deleted_row_mask(self._deletes, reader, stripe)
        if deleted is None:
            return valid
        return ~deleted if valid is None else valid & ~deleted

    def _valid_write_id_mask(self, reader: OrcReader, stripe: int) -> Any:
        own, current = (
            are_valid(self.write_ids, column.cast(pa.int64()).fill_null(-1))
            for column in reader.acid_columns(stripe, [KEY[0], CURRENT_WRITE_ID])
        )
        return pc.and_(own, current).to_numpy(zero_copy_only=False)

    def _read_events(self, file: ScanFile) -> Any:
        return read_events(self.fs, file, self.write_ids)


def _deleted_row_mask(deletes: DeleteKeys, reader: OrcReader, stripe: int) -> Any:
    """Return a mask of deleted rows; None if no row is deleted.

    If all rows have one write id and bucket property, only the row ids are compared.
    """
    ranges = reader.key_ranges(stripe)
    write_id, bucket, row_id = ranges.write_id, ranges.bucket, ranges.row_id
    if write_id is None or bucket is None or write_id[0] != write_id[1] or bucket[0] != bucket[1]:
        return deletes.match(Keys.of(reader.keys(stripe)))
    deleted = deletes.row_ids(write_id[0], bucket[0])
    if row_id is not None:
        end = np.searchsorted(deleted, row_id[1], side="right")
        deleted = deleted[np.searchsorted(deleted, row_id[0]) : end]
    if not len(deleted):
        return None
    if reader.file.original is not None and row_id is not None:  # its row ids are consecutive
        mask = np.zeros(reader.tail.stripes[stripe].rows, bool)
        mask[deleted - row_id[0]] = True
        return mask
    return deleted_among(reader.row_ids(stripe), deleted)

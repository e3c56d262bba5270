"""Figures of the locations of a table: files as a snapshot reads them, rows by their footers. Needs no Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from hiveacid.core.compaction.advice import LocationFigures, file_figures
from hiveacid.core.compaction.initiation_and_retry_policy import LocationSizes, measure_location
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.errors import HiveAcidError
from hiveacid.orc.footer_summary import read_summary
from hiveacid.table.compaction.need import CompactedTable, state_of_files
from hiveacid.table.read.inventory import TableAccess

MOST_PARTITIONS = 2000
"""Partitions of a table, that are listed."""
_MOST_FOOTERS = 2000  # of a location, that are read


@dataclass
class Measurer:
    """Measures locations. ``most_remembered``: numbers of rows of files that are kept for the next look."""

    access: TableAccess
    most_remembered: int
    _rows: dict[tuple[str, int], int | None] = field(default_factory=dict, init=False)

    def figures_of(self, table: CompactedTable, partition: str | None) -> LocationFigures:
        """Return the figures of a partition, or (None) of an unpartitioned table; zeros if the directory is missing."""
        definition, part = table.definition, table.partitions[partition]
        state = state_of_files(self.access, definition, part)
        if state is None:
            return LocationFigures(LocationSizes(0, 0, 0))
        rows, deletes = self._count_rows(definition.location if part is None else part.location, state)
        return replace(file_figures(state, measure_location(state)), rows=rows, deletes=deletes)

    def _count_rows(self, root: str, state: AcidState) -> tuple[int | None, int | None]:
        """Return the rows and the delete events in the files, None if footers do not tell or are too many."""
        if len(self._rows) > self.most_remembered:
            self._rows.clear()
        with_rows = [file for item in state.row_directories for file in item.files]
        with_events = [file for item in state.delete_deltas for file in item.files]
        if len(with_rows) + len(with_events) + len(state.originals) > _MOST_FOOTERS:
            return None, None
        counts: list[int | None] = []
        for files in ((*with_rows, *state.originals), with_events):
            found = [self._rows_of(f"{root}/{file.path}", file.size) for file in files]
            counts.append(None if None in found else sum(rows or 0 for rows in found))
        return counts[0], counts[1]

    def _rows_of(self, path: str, size: int) -> int | None:
        key = path, size
        with suppress(KeyError):  # another thread may clear what is remembered at any time
            return self._rows[key]
        try:
            rows = read_summary(self.access.fs, path, size).rows
        except HiveAcidError:  # no ORC file, or a damaged one: hiveacid check tells
            rows = None
        self._rows[key] = rows
        return rows

"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid.core.model import WriteId


@dataclass(frozen=True)
class WriteReport:
    """Rows by what happened to them, the write id (None: nothing was written), and how often it was retried."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    write_id: WriteId | None = None
    retries: int = 0

    @property
    def affected(self) -> int:
        """All rows that were inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class CompactionReport:
    """One compaction job: its end state, the directories read and written, rows, files and bytes."""

    id: int
    kind: str
    partition: str | None
    state: str
    reason: str | None = None
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    removed: tuple[str, ...] = ()

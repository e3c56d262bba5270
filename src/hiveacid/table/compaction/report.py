"""Result of a compaction job, which COMPACT returns and the queue records."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class DataVolume:
    """Contents of some directories; ``rows`` and ``deletes`` (delete events) are None if footers have no counts."""

    directories: int = 0
    files: int = 0
    bytes: int = 0
    rows: int | None = None
    deletes: int | None = None


@dataclass(frozen=True)
class CompactionReport:
    """One compaction job: its final state, and the directories read, written and removed, with their contents.

    ``before``: contents of the directories read; ``after``: contents of those written. Both exclude the base, which a
    minor compaction leaves alone. ``seconds``: from the claim of the job to its commit.
    """

    id: int
    kind: str
    partition: str | None
    state: str
    reason: str | None = None
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    before: DataVolume = DataVolume()
    after: DataVolume = DataVolume()
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Rows written (without delete events)."""
        return self.after.rows or 0

    @property
    def files(self) -> int:
        """Files written."""
        return self.after.files

    @property
    def bytes(self) -> int:
        """Bytes written."""
        return self.after.bytes

    @property
    def deletes_applied(self) -> int:
        """Delete events that the result no longer needs."""
        return (self.before.deletes or 0) - (self.after.deletes or 0)

    def details(self) -> str:
        """Return the JSON text that the queue records (``core.compaction.queue_records.Compaction.details``)."""
        return json.dumps(
            {
                "phase": "done",
                "seconds": round(self.seconds, 3),
                "before": asdict(self.before),
                "after": asdict(self.after),
                "deletes_applied": self.deletes_applied,
            }
        )

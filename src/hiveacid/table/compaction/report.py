"""Result of a compaction job, as COMPACT returns it and the queue keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class DataVolume:
    """Contents of some directories; ``rows`` and ``deletes`` (events) are None where footers don't tell them."""

    directories: int = 0
    files: int = 0
    bytes: int = 0
    rows: int | None = None
    deletes: int | None = None


@dataclass(frozen=True)
class CompactionReport:
    """One compaction job: its end state, the directories read, written and removed, and what lay in them.

    ``before``: what was read, ``after``: what was written instead (of the base that a minor compaction leaves
    alone, nothing). ``seconds``: from taking the job to its commit.
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
        """Delete events that there are no more."""
        return (self.before.deletes or 0) - (self.after.deletes or 0)

    def details(self) -> str:
        """Return what the queue keeps of it (``ports.Compaction.details``), as JSON."""
        return json.dumps(
            {
                "phase": "done",
                "seconds": round(self.seconds, 3),
                "before": asdict(self.before),
                "after": asdict(self.after),
                "deletes_applied": self.deletes_applied,
            }
        )

"""What a write did."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.commits import LONGEST_STATEMENT, Deed

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
    files: int = field(default=0, compare=False)  # written, and their bytes
    bytes: int = field(default=0, compare=False)

    def deed(self, operation: str, statement: str | None) -> Deed:
        """Return what a table's history keeps of it."""
        text = None if statement is None else statement[:LONGEST_STATEMENT]
        return Deed(operation, text, self.inserted, self.updated, self.deleted, self.files, self.bytes)

    @property
    def affected(self) -> int:
        """All rows that were inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class Amount:
    """What lies in some directories; ``rows`` and delete events, None where the files don't tell them."""

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
    before: Amount = Amount()
    after: Amount = Amount()
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

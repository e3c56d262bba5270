"""Result of a writing statement."""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.core.model import WriteId
from hiveacid.core.transactions.commit_records import LONGEST_STATEMENT, OperationSummary


@dataclass(frozen=True)
class WriteReport:
    """Numbers of inserted, updated and deleted rows, the write id (None: nothing was written), number of retries."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    write_id: WriteId | None = None
    retries: int = 0
    files: int = field(default=0, compare=False)  # number of written files
    bytes: int = field(default=0, compare=False)  # size of the written files

    def summary(self, operation: str, statement: str | None) -> OperationSummary:
        """Return the summary for the table's history."""
        text = None if statement is None else statement[:LONGEST_STATEMENT]
        return OperationSummary(
            operation, text, self.inserted, self.updated, self.deleted, self.files, self.bytes
        )

    @property
    def affected(self) -> int:
        """Number of rows that were inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted

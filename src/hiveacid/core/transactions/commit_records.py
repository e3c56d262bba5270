"""Commits of a table: records of user, operation and time, and the snapshot before some of them.

A store keeps one row a commit and table (``ports.TransactionStore.commits``), and drops old ones. The earliest row
represents everything before it: a write id that has no row was committed before the earliest row was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId

LONGEST_STATEMENT = 2000
"""Characters of statements that one commit keeps."""


@dataclass(frozen=True)
class OperationSummary:
    """Summary of a transaction's operations on one table; a number is None if it was not counted.

    ``operation``: the verb (INSERT, MERGE …), or several separated by commas. ``statement``: the SQL text.
    ``files``, ``bytes``: number and total size of the files written.
    """

    operation: str | None = None
    statement: str | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    files: int | None = None
    bytes: int | None = None

    def to_text(self) -> str:
        """Return the text that a store keeps: JSON without the unknown values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return json.dumps({name: value for name, value in values.items() if value is not None})

    @classmethod
    def of_text(cls, text: str | None) -> OperationSummary:
        """Read the text that a store keeps; names that a newer version wrote are ignored."""
        values = json.loads(text) if text else {}
        return cls(**{item.name: values[item.name] for item in fields(cls) if item.name in values})


@dataclass(frozen=True)
class NewFiles:
    """Files (absolute paths) that a transaction put into a table, or into its partition of these values.

    ``replaced``: they replace the existing files (INSERT OVERWRITE).
    """

    table: TableName
    values: tuple[str | None, ...]
    paths: tuple[str, ...]
    replaced: bool = False


def merge_summaries(first: OperationSummary, then: OperationSummary) -> OperationSummary:
    """Return two statements of one transaction on one table as one summary."""
    verbs = dict.fromkeys([*_verbs(first), *_verbs(then)])
    texts = [text for text in (first.statement, then.statement) if text]
    statement = ";\n".join(texts)[:LONGEST_STATEMENT] if texts else None
    numbers = {
        name: _sum(getattr(first, name), getattr(then, name))
        for name in ("inserted", "updated", "deleted", "files", "bytes")
    }
    return OperationSummary(", ".join(verbs) or None, statement, **numbers)


def _verbs(summary: OperationSummary) -> Iterable[str]:
    return summary.operation.split(", ") if summary.operation else ()


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class TableOperation:
    """A table and the summary of its changes, which the store receives with the commit."""

    table: TableName
    summary: OperationSummary


@dataclass(frozen=True)
class CommitRecord:
    """One commit of a table. ``committed``: ms since the epoch, by the store's clock.

    ``txn_id``, ``user`` and ``host`` are None in the first record of a table. That record marks the creation or
    conversion of the table, or the moment since which the store keeps commits.
    """

    write_id: WriteId
    committed: int
    txn_id: TxnId | None = None
    user: str | None = None
    host: str | None = None
    agent: str | None = None
    summary: OperationSummary = OperationSummary()


def sort_commits(commits: Iterable[CommitRecord]) -> tuple[CommitRecord, ...]:
    """Return commits by their time; those of one millisecond by write id."""
    return tuple(sorted(commits, key=lambda commit: (commit.committed, commit.write_id)))


def write_ids_before(present: ValidWriteIdList, later: Sequence[CommitRecord]) -> ValidWriteIdList:
    """Return the snapshot before some commits: their write ids count as open.

    ``later``: every commit after the wanted moment that ``present`` includes.
    """
    later_ids = {commit.write_id for commit in later}
    top = int(present.high_watermark)
    unseen = later_ids | set(present.open)
    while top in unseen:
        top -= 1
    opened = {write_id for write_id in unseen if write_id <= top} - set(present.aborted)
    aborted = tuple(write_id for write_id in present.aborted if write_id <= top)
    return ValidWriteIdList(present.table, WriteId(top), tuple(opened), aborted)


def last_committed(write_ids: ValidWriteIdList) -> WriteId:
    """Return the highest write id of a snapshot, 0 where it has none."""
    top = int(write_ids.high_watermark)
    while top > 0 and not write_ids.is_valid(top):
        top -= 1
    return WriteId(top)

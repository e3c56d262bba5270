"""What a table's past consists of: commits, who made them and when, and the snapshot of a moment.

A store keeps one row a commit and table (``ports.TransactionStore.commits``), and drops old ones. The earliest row
stands for everything before it: a write id that has no row was committed before the earliest row was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.write_ids import ValidWriteIdList

LONGEST_STATEMENT = 2000
"""Characters of statements that one commit keeps."""


@dataclass(frozen=True)
class Deed:
    """What a transaction did to a table, in words and numbers; None where nobody counted.

    ``operation``: the verb (INSERT, MERGE …), several with commas between them. ``statement``: the SQL text.
    ``files`` and ``bytes``: what was written.
    """

    operation: str | None = None
    statement: str | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    files: int | None = None
    bytes: int | None = None

    def to_text(self) -> str:
        """Return what a store keeps: JSON without what is not known."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({name: value for name, value in known.items() if value is not None})

    @classmethod
    def of_text(cls, text: str | None) -> Deed:
        """Read what a store kept; names that a newer version wrote are passed over."""
        found = json.loads(text) if text else {}
        return cls(**{one.name: found[one.name] for one in fields(cls) if one.name in found})


@dataclass(frozen=True)
class NewFiles:
    """Files (absolute paths) that a transaction put into a table, or into its partition of these values.

    ``replaced``: they take the place of what was there (INSERT OVERWRITE).
    """

    table: TableName
    values: tuple[str | None, ...]
    paths: tuple[str, ...]
    replaced: bool = False


def together(first: Deed, then: Deed) -> Deed:
    """Return two statements of one transaction on one table as one deed."""
    verbs = dict.fromkeys([*_verbs(first), *_verbs(then)])
    texts = [text for text in (first.statement, then.statement) if text]
    statement = ";\n".join(texts)[:LONGEST_STATEMENT] if texts else None
    numbers = {
        name: _sum(getattr(first, name), getattr(then, name))
        for name in ("inserted", "updated", "deleted", "files", "bytes")
    }
    return Deed(", ".join(verbs) or None, statement, **numbers)


def _verbs(deed: Deed) -> Iterable[str]:
    return deed.operation.split(", ") if deed.operation else ()


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class Told:
    """A table and what a commit did to it: handed to the store with the commit."""

    table: TableName
    deed: Deed


@dataclass(frozen=True)
class Commit:
    """One commit of a table. ``committed``: ms since the epoch, by the store's clock.

    ``txn_id`` is None, and ``user`` and ``host`` too, for the beginning of a table's time: its creation or
    conversion, or the moment since which the store keeps commits.
    """

    write_id: WriteId
    committed: int
    txn_id: TxnId | None = None
    user: str | None = None
    host: str | None = None
    agent: str | None = None
    deed: Deed = Deed()


def in_order(commits: Iterable[Commit]) -> tuple[Commit, ...]:
    """Return commits by their time; those of one millisecond by write id."""
    return tuple(sorted(commits, key=lambda one: (one.committed, one.write_id)))


def at_moment(present: ValidWriteIdList, later: Sequence[Commit]) -> ValidWriteIdList:
    """Return the snapshot before some commits: their write ids count as open.

    ``later``: every commit after the moment that ``present`` has in it.
    """
    gone = {one.write_id for one in later}
    top = int(present.high_watermark)
    unseen = gone | set(present.open)
    while top in unseen:
        top -= 1
    opened = {one for one in unseen if one <= top} - set(present.aborted)
    aborted = tuple(one for one in present.aborted if one <= top)
    return ValidWriteIdList(present.table, WriteId(top), tuple(opened), aborted)


def last_committed(write_ids: ValidWriteIdList) -> WriteId:
    """Return the highest write id of a snapshot, 0 where it has none."""
    top = int(write_ids.high_watermark)
    while top > 0 and not write_ids.is_valid(top):
        top -= 1
    return WriteId(top)

"""Findings about the events of one file with ACID columns, from the facts in its footer or of a scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.format.record_keys import MAX_BUCKET
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.check_findings import Finding, FindingKind

INSERT, UPDATE, DELETE = 0, 1, 2
"""Values of the column ``operation``."""


@dataclass(frozen=True)
class Span:
    """Lowest and highest value of a column."""

    low: int
    high: int

    def __str__(self) -> str:
        """Return one number, or both."""
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(frozen=True)
class EventFacts:
    """Facts about a file's events. None: unknown (no statistics), or the file has no rows.

    ``bucket``: bucket numbers decoded from the ``properties``; ``nulls``: rows in which an ACID column is NULL;
    ``bad_codec``: rows whose bucket property has an unknown version; ``borrowed``: inserts whose original write
    id differs from the write id that wrote them; ``unsorted``: rows that are not in order. The id of an insert must
    be higher than the one before it; the id of a delete must not be lower.
    """

    rows: int
    operation: Span | None = None
    original: Span | None = None
    current: Span | None = None
    bucket: Span | None = None
    nulls: int = 0
    bad_codec: int = 0
    borrowed: int = 0
    unsorted: int = 0
    properties: Span | None = None
    row_ids: Span | None = None


@dataclass(frozen=True)
class CheckedFile:
    """A file of events: its path, the name of its directory, and the bucket number in its file name."""

    path: str
    directory: BaseName | DeltaName
    bucket: int
    partition: str | None = None

    @property
    def is_delete(self) -> bool:
        """Tell whether the file belongs to a delete delta."""
        return isinstance(self.directory, DeltaName) and self.directory.is_delete

    def finding(self, kind: FindingKind, message: str) -> Finding:
        """Return a finding about this file."""
        return Finding(kind, self.path, message, self.partition)


def check_events(file: CheckedFile, facts: EventFacts, write_ids: ValidWriteIdList) -> Iterator[Finding]:
    """Yield the findings about a file's events; unknown facts give none."""
    if facts.rows == 0:
        return
    if facts.nulls:
        yield file.finding(FindingKind.NULL_KEY, f"in {facts.nulls} of {facts.rows} rows")
    yield from _operations(file, facts.operation)
    yield from _write_ids(file, facts, write_ids)
    yield from _buckets(file, facts)
    if facts.unsorted:
        yield file.finding(
            FindingKind.UNSORTED, f"{facts.unsorted} of {facts.rows} rows follow a row of a higher id"
        )


def _operations(file: CheckedFile, found: Span | None) -> Iterator[Finding]:
    if found is None:
        return
    expected = DELETE if file.is_delete else INSERT
    if (found.low, found.high) == (expected, expected):
        return
    if (
        not file.is_delete
        and UPDATE in (found.low, found.high)
        and found.low >= INSERT
        and found.high <= DELETE
    ):
        yield file.finding(FindingKind.UPDATE_EVENT, f"operations {found}")
    else:
        yield file.finding(FindingKind.WRONG_OPERATION, f"operation is {found}, expected {expected}")


def _write_ids(file: CheckedFile, facts: EventFacts, write_ids: ValidWriteIdList) -> Iterator[Finding]:
    name = file.directory
    low, high = (
        (None, name.write_id) if isinstance(name, BaseName) else (name.min_write_id, name.max_write_id)
    )
    current, original = facts.current, facts.original
    if current is not None:
        if current.high > high or (low is not None and current.low < low):
            limits = f"up to {high}" if low is None else str(Span(low, high))
            message = f"rows were written by write id {current}; the directory stands for {limits}"
            yield file.finding(FindingKind.WRITE_ID_OUTSIDE, message)
        elif not all(map(write_ids.is_valid, (current.low, current.high))):
            yield file.finding(FindingKind.HIDDEN_ROWS, f"rows of write id {current}")
    if original is not None and current is not None and original.high > current.high:
        message = f"rows of write id {original} in a file written by {current}"
        yield file.finding(FindingKind.WRITE_ID_OUTSIDE, message)
    elif facts.borrowed and not file.is_delete:
        yield file.finding(FindingKind.WRITE_ID_OF_ROW, f"{facts.borrowed} of {facts.rows} rows")


def _buckets(file: CheckedFile, facts: EventFacts) -> Iterator[Finding]:
    if facts.bad_codec:
        yield file.finding(FindingKind.BUCKET_CODEC, f"in {facts.bad_codec} of {facts.rows} rows")
        return
    buckets = facts.bucket
    if buckets is None or buckets in (Span(file.bucket, file.bucket), Span(*(file.bucket & MAX_BUCKET,) * 2)):
        return
    kind = FindingKind.DELETE_BUCKET if file.is_delete else FindingKind.FILE_BUCKET
    yield file.finding(kind, f"the file is that of bucket {file.bucket}, rows are of bucket {buckets}")

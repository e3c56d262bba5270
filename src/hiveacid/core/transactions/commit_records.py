"""Records of commits: user, operation and time, the snapshot before some of them, and the progress of streams.

A store keeps one row a commit and table (``TransactionPort.commits``), and drops old ones. The earliest row
represents everything before it: a write id that has no row was committed before the earliest row was.

A stream is a query that writes into a table batch by batch under one name. Its progress is committed in the same
transaction as its rows. Every run of the query registers as a writer and gets an epoch; the newest epoch wins
(fencing, as in Kafka's transactional producers). What Spark calls an epoch is the ``batch_id`` here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from hiveacid import errors
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId

LONGEST_STATEMENT = 2000
"""Characters of statements that one commit keeps."""
VISIBLE_WITHIN = 60_000
"""Milliseconds from the time of a commit within which other processes see it: who has looked at a time looks so far back again."""


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
        name: None if None in counts else sum(counts)
        for name in ("inserted", "updated", "deleted", "files", "bytes")
        for counts in [(getattr(first, name), getattr(then, name))]
    }
    return OperationSummary(", ".join(verbs) or None, statement, **numbers)


def _verbs(summary: OperationSummary) -> Iterable[str]:
    return summary.operation.split(", ") if summary.operation else ()


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


MAX_WRITERS = 1000
"""Number of writers that the progress keeps, so that an old writer is not registered as a new one."""


@dataclass(frozen=True)
class StreamKey:
    """A stream: the table, and the name that its query has there."""

    table: TableName
    query: str

    def __str__(self) -> str:
        """Return both for a message."""
        return f"{self.query!r} into {self.table}"


@dataclass(frozen=True)
class StreamBatch:
    """A batch that is committed with its rows.

    ``checkpoint``: identity of the query's checkpoint; batch ids begin at 0 in each. ``epoch``: of the writer.
    """

    stream: StreamKey
    checkpoint: str
    epoch: int
    batch_id: int


@dataclass(frozen=True)
class StreamProgress:
    """Progress of a stream in a table.

    ``epoch``: of the newest writer. ``last_batch_id``: of the last committed batch, -1 before the first. ``writers``: those
    that registered, with their epochs, oldest first.
    """

    stream: StreamKey
    checkpoint: str
    epoch: int
    last_batch_id: int
    writers: tuple[tuple[str, int], ...]


def register_writer(
    known: StreamProgress | None, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool
) -> StreamProgress:
    """Return the progress after a writer registers; a writer that is already registered keeps its epoch.

    ``restart``: accept another checkpoint, whose batch ids begin again. Raises StreamCheckpointError for another
    checkpoint without ``restart``, unless no batch was committed yet. Raises StreamFencedError for a writer that a
    newer one has replaced.
    """
    if known is None:
        return StreamProgress(stream, checkpoint, 1, -1, ((writer, 1),))
    epoch = dict(known.writers).get(writer)
    if epoch is not None and epoch < known.epoch:
        raise errors.StreamFencedError(fenced_message(stream))
    if checkpoint != known.checkpoint and known.last_batch_id >= 0 and not restart:
        raise errors.StreamCheckpointError(
            f"stream {stream} comes with another checkpoint ({checkpoint}, so far {known.checkpoint}): its batch ids "
            f"begin again at 0, and the table already has batches up to {known.last_batch_id}. Continue with the old "
            "checkpoint; or give this query a name of its own; or pass restart=True to keep the rows of the old "
            "checkpoint and append those of the new one"
        )
    if epoch is not None and checkpoint == known.checkpoint:
        return known
    epoch = known.epoch + 1
    writers = (*(entry for entry in known.writers if entry[0] != writer), (writer, epoch))[-MAX_WRITERS:]
    last_batch_id = known.last_batch_id if checkpoint == known.checkpoint else -1
    return replace(known, checkpoint=checkpoint, epoch=epoch, last_batch_id=last_batch_id, writers=writers)


def batch_error(
    known: StreamProgress | None, batch: StreamBatch
) -> errors.StreamFencedError | errors.StreamReplayedError | None:
    """Return why a batch may not be committed, None if it may.

    StreamReplayedError: the table has it already. StreamFencedError: a newer writer has registered.
    """
    if known is None:
        return errors.StreamFencedError(
            f"stream {batch.stream} is not known any more: the table was dropped or renamed while batch "
            f"{batch.batch_id} was written; nothing of it is visible. Start the query again"
        )
    if batch.epoch != known.epoch or batch.checkpoint != known.checkpoint:
        return errors.StreamFencedError(fenced_message(batch.stream))
    if batch.batch_id <= known.last_batch_id:
        return errors.StreamReplayedError(
            f"batch {batch.batch_id} of stream {batch.stream} is in the table already (the last is {known.last_batch_id}); "
            "nothing was written again"
        )
    return None


def fenced_message(stream: StreamKey) -> str:
    """Return the error text for a writer that a newer one has replaced."""
    return (
        f"another copy of stream {stream} was started after this one and has taken over; nothing of this batch is "
        "visible. Run only one copy: stop this query, or, if both are intended, give each a name of its own"
    )


def require_columns(
    table: TableName, brought: Sequence[str], known: Sequence[str], needed: Sequence[str], advice: str = ""
) -> None:
    """Refuse a feed that lacks a needed column or brings an unknown one; names are in lower case.

    ``advice``: end of the error text, with what to do. Raises SchemaMismatchError.
    """
    missing = [name for name in needed if name not in brought]
    extra = [name for name in brought if name not in known or brought.count(name) > 1]
    if missing or extra:
        raise errors.SchemaMismatchError(
            f"the columns given are not those of {table}: missing {', '.join(missing) or 'none'}, unknown or "
            f"duplicate {', '.join(dict.fromkeys(extra)) or 'none'}{advice}"
        )

"""A table's past as rows: its history, newest first, and the points in time that can be read. Needs no Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.core.commits import Commit, at_moment, last_committed
from hiveacid.core.names import DeltaName
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.storage.listing import HISTORY_FROM
from hiveacid.table.inventory import Row, Shelf, TableInventory, inventory_of, present
from hiveacid.table.travel import moment, shown

if TYPE_CHECKING:
    from hiveacid.core.model import Partition, TableDefinition
    from hiveacid.core.queue import Compaction

HISTORY = (
    ("write_id", "bigint"),
    ("committed_at", "timestamp"),
    ("operation", "string"),
    ("statement", "string"),
    ("user", "string"),
    ("host", "string"),
    ("agent", "string"),
    ("txn_id", "bigint"),
    ("inserted", "bigint"),
    ("updated", "bigint"),
    ("deleted", "bigint"),
    ("files", "bigint"),
    ("bytes", "bigint"),
    ("partition", "string"),
)
"""Columns of `history_rows`."""
SNAPSHOTS = (
    ("write_id", "bigint"),
    ("committed_at", "timestamp"),
    ("operation", "string"),
    ("valid_write_ids", "string"),
    ("readable", "boolean"),
)
"""Columns of `snapshot_rows`."""
PastRow: TypeAlias = tuple[str | int | datetime | None, ...]

_DONE = ("ready for cleaning", "succeeded")


def history_rows(
    shelf: Shelf, table: TableDefinition, partitions: Sequence[Partition] | None
) -> list[PastRow]:
    """Return the commits of a table and its compactions, newest first (`HISTORY`).

    A compaction has no write id; ``partition`` says where it was, ``files`` and ``bytes`` what it wrote. Where the
    store keeps no commits (a Hive Metastore), write ids come from the directories that are there, with the files and
    bytes in them, and all else is NULL.
    """
    try:
        rows = [(one.committed, _commit_row(one)) for one in shelf.store.commits(table.name)]
    except UnsupportedFeatureError:
        rows = [(write_id, row) for write_id, row in _rows_on_disk(inventory_of(shelf, table, partitions))]
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    for job in shelf.store.show_compactions():
        if job.request.table == table.name and job.state in _DONE and job.commit_time is not None:
            rows.append((job.commit_time, _compaction_row(job)))
    return [row for _, row in sorted(rows, key=lambda pair: (-pair[0], -(_number(pair[1][0]))))]


def in_text(row: PastRow) -> Row:
    """Return a row with its moments as texts in UTC, as Spark reads them."""
    return tuple(shown(one) if isinstance(one, datetime) else one for one in row)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _commit_row(one: Commit) -> PastRow:
    deed = one.deed
    return (
        int(one.write_id),
        moment(one.committed),
        deed.operation,
        deed.statement,
        one.user,
        one.host,
        one.agent,
        None if one.txn_id is None else int(one.txn_id),
        deed.inserted,
        deed.updated,
        deed.deleted,
        deed.files,
        deed.bytes,
        None,
    )


def _compaction_row(job: Compaction) -> PastRow:
    written = json.loads(job.details or "{}").get("after") or {}
    request = job.request
    operation = f"COMPACT {request.kind.upper()}"
    txn_id = None if job.txn_id is None else int(job.txn_id)
    numbers = (None, None, None, written.get("files"), written.get("bytes"))
    who = (None, None, job.worker)
    return None, moment(job.commit_time or 0), operation, None, *who, txn_id, *numbers, request.partition


def _rows_on_disk(found: TableInventory) -> Iterator[tuple[int, PastRow]]:
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for place in found.places:
        for one in place.directories:
            name = one.name
            if not isinstance(name, DeltaName) or name.min_write_id != name.max_write_id:
                continue
            if found.snapshot.write_ids.is_valid(name.min_write_id):
                sizes[int(name.min_write_id)][0] += one.files
                sizes[int(name.min_write_id)][1] += one.bytes
    for write_id, (files, size) in sizes.items():
        yield write_id, (write_id, *[None] * 10, files, size, None)


def snapshot_rows(shelf: Shelf, table: TableDefinition) -> list[PastRow]:
    """Return the points in time that the store remembers, newest first (`SNAPSHOTS`).

    ``write_id``: the highest write id that was committed then, with all below that were. ``readable``: the cleaner
    has not passed. Commits of one millisecond are one point. Raises UnsupportedFeatureError on a Hive Metastore.
    """
    known = shelf.store.commits(table.name)
    found = now = present(shelf, table).write_ids
    earliest = int(table.property(HISTORY_FROM) or 0)
    whole = now.count_valid(1, earliest)
    rows: list[PastRow] = []
    later: list[Commit] = []
    for place in range(len(known) - 1, -1, -1):
        one = known[place]
        if later and later[-1].committed != one.committed:
            found = at_moment(found, later)
            later = []
        if not later:
            readable = found.count_valid(1, earliest) >= whole
            rows.append(
                (
                    int(last_committed(found)),
                    moment(one.committed),
                    one.deed.operation,
                    found.to_string(),
                    readable,
                )
            )
        later.append(one)
    return rows

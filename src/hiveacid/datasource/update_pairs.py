"""Pairing of a delete and an insert of one key as an update, with pyarrow, over all changes of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.snapshot.changes import CHANGE_TYPE, WRITE_ID
from hiveacid.datasource.change_rows import FileChanges, read_file_changes
from hiveacid.orc.arrow_arrays import row_numbers


def read_paired(files: Sequence[FileChanges], key: Sequence[str]) -> Iterator[Any]:
    """Yield the changes of all files of a batch as `read_file_changes` does, with updates named by `pair_updates`.

    The whole batch is held in memory. Raises the errors of `read_file_changes`.
    """
    batches = [batch for file in files for batch in read_file_changes(file)]
    if batches:
        yield from pair_updates(pa.Table.from_batches(batches), key).to_batches()


def pair_updates(changes: Any, key: Sequence[str]) -> Any:
    """Name a delete and an insert of one key ``update_before`` and ``update_after``.

    They are a pair if they have the same write id, there is exactly one of each, and no part of the key is NULL. The
    format itself does not link the versions of a row. ``spark.read.change_feed`` has the same rule.
    """
    kinds = changes.column(CHANGE_TYPE)
    inserted = pc.equal(kinds, "insert")
    same = [*key, WRITE_ID]
    keys = changes.select(same)
    counted = keys.append_column("inserts", inserted.cast(pa.int64()))
    counted = counted.append_column("deletes", pc.invert(inserted).cast(pa.int64()))
    counts = counted.group_by(same).aggregate([("inserts", "sum"), ("deletes", "sum")])
    # in this join a NULL in the key matches nothing, not even another NULL
    met = (
        keys.append_column("at", row_numbers(len(kinds)))
        .join(counts, same, join_type="left outer")
        .sort_by("at")
    )
    once = [pc.equal(met.column(name), 1).fill_null(False) for name in ("inserts_sum", "deletes_sum")]  # noqa: FBT003
    named = pc.if_else(inserted, "update_after", "update_before")
    return changes.set_column(
        changes.schema.get_field_index(CHANGE_TYPE), CHANGE_TYPE, pc.if_else(pc.and_(*once), named, kinds)
    )

"""Numbers of rows that Hive answers from: taken back where rows change, with the writer's id as Hive leaves it."""

from __future__ import annotations

from typing import Any

from hiveacid.core.model import TableName, WriteId
from hiveacid.core.write_ids import ValidWriteIdList
from hiveacid.stores.hms.definitions import ACCURATE

_COUNTS = frozenset({ACCURATE, "numRows", "rawDataSize"})


def take_back(raw: Any, write_id: WriteId | None) -> bool:
    """Take numbers of rows, and the mark that they are exact, off a table or partition; tell whether that changes it.

    The mark alone would not do: a compaction of Hive 4.0 sets it again, and the numbers would be the old ones.
    ``write_id``: the writer's; it stays there, so that whoever counts without seeing that id cannot set the mark
    again (``ObjectStore.isCurrentStatsValidForTheQuery`` of Hive 4): an ANALYZE that began before and ends after.
    """
    kept = {key: value for key, value in (raw.parameters or {}).items() if key not in _COUNTS}
    changed = len(kept) != len(raw.parameters or {})
    raw.parameters = kept
    if write_id is not None and raw.writeId != write_id:
        raw.writeId = write_id
        changed = True
    return changed


def seen_by(name: TableName, write_id: WriteId | None) -> str | None:
    """Return the list that goes with a writer's id, without which a metastore does not keep the id.

    It says whose numbers the writer might go on with; of numbers that go, any list will do.
    """
    return None if write_id is None else ValidWriteIdList(name, write_id).to_string()

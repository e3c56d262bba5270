"""Row counts that Hive answers queries from: removed where rows change, with the writer's id as Hive leaves it."""

from __future__ import annotations

from typing import Any

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableName, WriteId
from hiveacid.stores.hms.catalog.definitions import ACCURATE

_COUNTS = frozenset({ACCURATE, "numRows", "rawDataSize"})


def remove_counts(raw: Any, write_id: WriteId | None) -> bool:
    """Remove row counts, and the mark that they are exact, from a table or partition; tell whether that changes it.

    The mark alone is not enough: a compaction of Hive 4.0 sets it again, and the counts would be the old ones.
    ``write_id``: the writer's; it stays there, so that an ANALYZE that began before and does not see this id cannot set
    the mark again (``ObjectStore.isCurrentStatsValidForTheQuery`` of Hive 4).
    """
    kept = {key: value for key, value in (raw.parameters or {}).items() if key not in _COUNTS}
    changed = len(kept) != len(raw.parameters or {})
    raw.parameters = kept
    if write_id is not None and raw.writeId != write_id:
        raw.writeId = write_id
        changed = True
    return changed


def own_write_id_list(name: TableName, write_id: WriteId | None) -> str | None:
    """Return the write-id list that goes with a writer's id, without which a metastore does not keep the id.

    The list says which counts the writer may continue from; for counts that are removed, any list will do.
    """
    return None if write_id is None else ValidWriteIdList(name, write_id).to_string()

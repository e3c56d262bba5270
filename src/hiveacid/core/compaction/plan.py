"""Plan of a compaction: directories to read, name of the result, files to copy unsorted.

Rules: Hive's ``Worker`` ("not enough to compact"), ``AcidUtils.OutputPath`` names, ``QueryCompactor``.

Each file of a bucket is in key order. A base and large deltas often have disjoint key ranges, because write ids ascend.
Their rows stay in order if they are read and written file by file. The remaining files, mostly small deltas with higher
keys, are sorted. The choice relies on the key ranges of the files: ``orc.key_order`` checks the order of the rows that
were written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from hiveacid.core.format.acid_columns import Key, decode_bucket_property
from hiveacid.core.format.names import BaseName, DeltaName, LayoutLevel, parse_directory
from hiveacid.core.format.write_id_lists import ValidCompactorWriteIdList
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import DataFormat, format_metadata
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, DataFile
from hiveacid.errors import BadFileError

NOT_ENOUGH = "None of the compaction thresholds met, compaction request is refused!"
"""Hive's message for a compaction that would change nothing."""

DELETES_ABOVE = (
    "A delete was committed above a write id that is open: its row ids would no longer be those of the rows. "
    "Try again when the open transaction has ended."
)
"""Message for a rebalance that has to wait, although its lock excludes other writers. Hive 4.2 has no such check."""


class CompactionKind(StrEnum):
    """MINOR merges deltas and delete deltas; MAJOR writes everything into a base; REBALANCE also renumbers the rows."""

    MINOR = "minor"
    MAJOR = "major"
    REBALANCE = "rebalance"


@dataclass(frozen=True)
class CompactionRefusal:
    """Reason why nothing is compacted. ``cleaning_needed``: the cleaner has work in the location nevertheless."""

    reason: str
    cleaning_needed: bool


@dataclass(frozen=True)
class CompactionPlan:
    """Directories that a compaction reads and writes. Paths and names are relative to the location.

    A major compaction or rebalance merges ``base``, ``originals``, ``deltas`` and ``delete_deltas``. A minor one
    merges the deltas into ``output`` and the delete events into ``delete_output``, and leaves base and originals
    alone. It keeps rows and events whose own write id is valid in ``write_ids``, with their keys.

    ``output`` (None: a minor compaction without insert deltas) and ``delete_output`` (None: no delete deltas) are
    directories. They must exist afterwards even without rows, because they hide the directories that were read.
    ``metadata``: text of the ``_metadata_acid`` file in ``output``; None if ``output`` must not have one.
    """

    kind: CompactionKind
    write_ids: ValidCompactorWriteIdList
    base: AcidDirectory | None
    originals: tuple[DataFile, ...]
    deltas: tuple[AcidDirectory, ...]
    delete_deltas: tuple[AcidDirectory, ...]
    output: str | None
    delete_output: str | None
    metadata: str | None

    @property
    def high_watermark(self) -> WriteId:
        """Return the highest write id that the result covers."""
        return self.write_ids.high_watermark

    @property
    def applied_deletes(self) -> tuple[AcidDirectory, ...]:
        """Return the delete deltas whose rows the result does not hold.

        A minor compaction keeps deleted rows, which earlier snapshots see. Those that the transaction of a single write id has
        deleted itself are seen by none, and Hive 4 would show them: it does not apply ``delete_delta_5_5`` to ``delta_5_5``
        (``VectorizedOrcAcidRowBatchReader.isQualifiedDeleteDeltaForSplit``).
        """
        whole = self.kind is not CompactionKind.MINOR
        own = (self.high_watermark, self.high_watermark)
        single = all(directory.name.span == own for directory in (*self.deltas, *self.delete_deltas))
        return self.delete_deltas if whole or single else ()


def plan_compaction(
    state: AcidState,
    write_ids: ValidCompactorWriteIdList,
    kind: CompactionKind,
    level: LayoutLevel,
    visibility_txn_id: TxnId,
) -> CompactionPlan | CompactionRefusal:
    """Decide what a compaction does with a location.

    ``state``: the location as ``select`` sees it with the same ``write_ids``, and with the compaction's own
    transaction open (HIVE-29567). ``visibility_txn_id``: the compaction's transaction. At layout level HIVE3 names
    do not contain it, and readers accept the result as soon as it is in place.
    """
    if not _has_work(state, kind):
        return CompactionRefusal(NOT_ENOUGH, cleaning_needed=bool(state.obsolete or state.aborted))
    if kind is CompactionKind.REBALANCE and _has_deletes_above(state, write_ids):
        return CompactionRefusal(DELETES_ABOVE, cleaning_needed=False)
    read = [*state.deltas, *state.delete_deltas, *([] if state.base is None else [state.base])]
    taken_names = {*(directory.path for directory in read), *state.obsolete, *state.aborted, *state.pending}
    for last in range(_result_high_watermark(state, write_ids), _highest(state) - 1, -1):
        # Without visibility suffix the directory of an aborted writer may have the name of the result. No valid row
        # has a write id above the last directory that is read, so the result may end at a lower write id.
        outputs = _outputs(state, kind, WriteId(last), visibility_txn_id)
        names = [None if name is None else name.format(level) for name in outputs]
        if taken_names.isdisjoint(filter(None, names)):
            break
    else:
        reason = "A directory with the name of the result exists already: clean first."
        return CompactionRefusal(
            reason, cleaning_needed=bool(state.obsolete or state.aborted or state.unpaired_deltas)
        )
    whole = kind is not CompactionKind.MINOR
    marked = whole and level is LayoutLevel.HIVE3
    return CompactionPlan(
        kind,
        write_ids.lowered(WriteId(last)),
        state.base if whole else None,
        state.originals if whole else (),
        state.deltas,
        state.delete_deltas,
        output=names[0],
        delete_output=names[1],
        metadata=format_metadata(DataFormat.COMPACTED) if marked else None,
    )


def _has_work(state: AcidState, kind: CompactionKind) -> bool:
    """Apply Hive's rule; a major compaction also runs to drop rows of aborted write ids, which Hive's does not."""
    inserts, deletes = len(state.deltas), len(state.delete_deltas)
    if kind is CompactionKind.REBALANCE:
        return bool(state.base or state.originals or inserts)
    if kind is CompactionKind.MAJOR:
        bases = 0 if state.base is None else 1
        return bool(state.originals) or inserts + deletes + bases > 1 or state.uncompacted_aborts
    return inserts > 1 or deletes > 1


def _has_deletes_above(state: AcidState, write_ids: ValidCompactorWriteIdList) -> bool:
    names = (parse_directory(path) for path in state.pending)
    return any(
        isinstance(name, DeltaName) and name.is_delete and name.max_write_id > write_ids.high_watermark
        for name in names
    )


def _result_high_watermark(state: AcidState, write_ids: ValidCompactorWriteIdList) -> WriteId:
    """Return the high watermark of the result.

    It stays below a streamed delta of which a part is still open: Hive's readers skip the committed rows of such a
    delta if a base or delta ends inside its range.
    """
    highest = write_ids.high_watermark
    for path in set(state.pending).difference(state.unpaired_deltas):
        name = parse_directory(path)
        if isinstance(name, DeltaName) and not name.visibility_txn_id and name.min_write_id <= highest:
            highest = WriteId(name.min_write_id - 1)
    return WriteId(max(highest, _highest(state)))


def _highest(state: AcidState) -> int:
    base = 0 if state.base is None else state.base.name.span[1]
    return max((base, *(name.max_write_id for name in _delta_names(state))))


def _outputs(
    state: AcidState, kind: CompactionKind, last: WriteId, visibility_txn_id: TxnId
) -> tuple[BaseName | DeltaName | None, DeltaName | None]:
    if kind is not CompactionKind.MINOR:
        return BaseName(last, visibility_txn_id), None
    lowest = min(name.min_write_id for name in _delta_names(state))
    insert, delete = (
        DeltaName(is_delete, lowest, last, None, visibility_txn_id) for is_delete in (False, True)
    )
    return (insert if state.deltas else None), (delete if state.delete_deltas else None)


def _delta_names(state: AcidState) -> list[DeltaName]:
    directories = (*state.deltas, *state.delete_deltas)
    return [directory.name for directory in directories if isinstance(directory.name, DeltaName)]


_MAX_SMALL_FILES = 8
"""Limit of the small files that are copied below a large one. Each becomes a stripe, and small stripes are slow to read."""
_DOMINANT_FILE_DIVISOR = 8
"""A file with three quarters of its bucket's bytes counts as large from an eighth of the usual size on."""


@dataclass(frozen=True)
class KeyedFile:
    """A file with rows: no key is below ``low`` or above ``high``."""

    path: str
    size: int
    low: Key
    high: Key


def files_in_key_order(files: Sequence[KeyedFile], large: int) -> frozenset[str]:
    """Return the paths of the files whose rows need no sorting.

    ``large``: size in bytes from which a copy without sorting pays off (an eighth of it for a file that holds three
    quarters of its bucket).

    The result is empty if a file holds rows of several buckets, because those rows go to several files.
    """
    buckets: dict[int, list[KeyedFile]] = defaultdict(list)
    for file in files:
        bucket = bucket_of(file.low[1])
        if bucket is None or bucket != bucket_of(file.high[1]):
            return frozenset()
        buckets[bucket].append(file)
    return frozenset(file.path for many in buckets.values() for file in _disjoint_prefix(many, large))


def bucket_of(bucket_property: int) -> int | None:
    """Return the bucket; None for codec version 0, where between two properties there are other buckets."""
    try:
        fields = decode_bucket_property(bucket_property)
    except BadFileError:
        return None
    return fields.bucket if fields.version == 1 else None


def _disjoint_prefix(files: Sequence[KeyedFile], large: int) -> Sequence[KeyedFile]:
    """Return the first files in key order whose ranges do not overlap any other, up to the last large one.

    If too many of them are small, return only the large files at the beginning.
    """
    ordered = sorted(files, key=lambda file: (file.low, file.high))
    disjoint = 0
    while disjoint + 1 < len(ordered) and ordered[disjoint].high < ordered[disjoint + 1].low:
        disjoint += 1
    is_whole = disjoint + 1 == len(ordered)
    below = ordered if is_whole else ordered[:disjoint]
    total = sum(file.size for file in files)

    def is_large(file: KeyedFile) -> bool:
        is_dominant = file.size * 4 >= total * 3
        return file.size >= large or (is_dominant and file.size * _DOMINANT_FILE_DIVISOR >= large)

    last = max((place for place, file in enumerate(below, 1) if is_large(file)), default=0)
    if sum(not is_large(file) for file in below[:last]) <= _MAX_SMALL_FILES:
        return below[:last]
    return list(takewhile(is_large, below))

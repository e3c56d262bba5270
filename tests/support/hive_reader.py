"""Which directories Hive itself reads, and which events apply to which of them: a model of its source.

``AcidUtils.getAcidState`` says what is read, ``VectorizedOrcAcidRowBatchReader.isQualifiedDeleteDeltaForSplit``
which events of Hive 4 apply. Hive 3.1 has neither visibility ids nor the second rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hiveacid.core.format.names import BaseName, DeltaName, LayoutLevel, parse_directory
from hiveacid.core.format.write_id_lists import RangeShare, ValidTxnList, ValidWriteIdList


@dataclass(frozen=True)
class _Directory:
    path: str
    name: BaseName | DeltaName
    low: int
    high: int
    statement: int
    compacted: bool

    @property
    def visibility(self) -> int:
        return self.name.visibility_txn_id or 0

    @property
    def is_base(self) -> bool:
        return isinstance(self.name, BaseName)

    @property
    def is_delete(self) -> bool:
        return isinstance(self.name, DeltaName) and self.name.is_delete


@dataclass(frozen=True)
class HiveSelection:
    """The directories that Hive reads."""

    level: LayoutLevel
    rows: tuple[_Directory, ...]
    events: tuple[_Directory, ...]

    def splits(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each directory with rows and the ones whose events apply to it."""
        for split in self.rows:
            yield split.path, [one.path for one in self.events if self._applies(one, split)]

    def _applies(self, events: _Directory, split: _Directory) -> bool:
        if self.level is LayoutLevel.HIVE3 or split.is_base or split.low < events.high:
            return True
        return split.low == events.high and max(split.statement, 0) < max(events.statement, 0)


def select_as_hive(
    metadata: Mapping[str, str], write_ids: ValidWriteIdList, txns: ValidTxnList, level: LayoutLevel
) -> HiveSelection | None:
    """Select among directories, given with their ``_metadata_acid``; None: Hive lacks history for the snapshot."""
    found = [
        one
        for path, text in metadata.items()
        if (one := _parse(path, text)) and (not one.visibility or txns.is_valid(one.visibility))
    ]
    bases = [one for one in found if one.is_base]
    base = max(
        (one for one in bases if _may_read_base(one, write_ids)),
        key=lambda one: (one.high, one.compacted, one.visibility),
        default=None,
    )
    if base is None and any(one.compacted for one in bases):
        return None
    deltas = sorted(
        (one for one in found if not one.is_base),
        key=lambda one: (one.low, -one.high, one.statement, -one.visibility, one.path),
    )
    kept = list(_walk(deltas, base.high if base else 0, write_ids))
    rows = tuple(one for one in kept if not one.is_delete)
    return HiveSelection(
        level, (*([base] if base else []), *rows), tuple(one for one in kept if one.is_delete)
    )


def _parse(path: str, metadata: str) -> _Directory | None:
    name = parse_directory(path)
    if name is None:
        return None
    compacted = bool(name.visibility_txn_id) or "compacted" in metadata
    if isinstance(name, BaseName):
        return _Directory(path, name, 0, name.write_id, -1, compacted)
    statement = -1 if name.statement_id is None else name.statement_id
    return _Directory(path, name, name.min_write_id, name.max_write_id, statement, compacted)


def _may_read_base(base: _Directory, write_ids: ValidWriteIdList) -> bool:
    if not base.compacted:
        return write_ids.is_valid(base.high)
    lowest = write_ids.min_open
    return base.high <= write_ids.high_watermark and (lowest is None or base.high < lowest)


def _walk(deltas: list[_Directory], current: int, write_ids: ValidWriteIdList) -> Iterator[_Directory]:
    statement = -1
    last: _Directory | None = None
    for one in deltas:
        if write_ids.visible_share(one.low, one.high) is RangeShare.NONE:
            continue
        same = last is not None and (last.low, last.high, last.statement) == (
            one.low,
            one.high,
            one.statement,
        )
        if one.high > current:
            if write_ids.visible_share(current + 1, one.high) is RangeShare.NONE:
                continue
            current, statement = one.high, one.statement
        elif not (one.high == current and statement >= 0) and not same:
            continue
        last = one
        yield one

"""Valid transaction and write-id lists of readers, the compactor and the cleaner, parsed and formatted.

Rules: Hive's ``ValidReadTxnList``, ``ValidReaderWriteIdList``, ``ValidCompactorWriteIdList`` and
``ValidCleanerWriteIdList``. An id is valid when it is not above the high watermark and
neither open nor aborted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from hiveacid.core.format.names import parse_number
from hiveacid.core.model import LAST_ID, TableName, TxnId, WriteId
from hiveacid.errors import ConfigError, StoreError

_Id = TypeVar("_Id", bound=int)

NO_OPEN_ID = 9223372036854775807
"""Hive's number for "no id is open" (``Long.MAX_VALUE``)."""
_MAX_IDS = 1_000_000
"""Most open and aborted ids of one list. A few bytes of text may expand to a long run of ids."""


class RangeShare(StrEnum):
    """Share of the ids of a range that have a property, for example that they are visible or aborted."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class ValidTxnList:
    """A snapshot of transactions: everything up to ``high_watermark`` is committed, except the ids listed.

    ``open`` and ``aborted`` are kept ascending and without doubles, however they are given.
    """

    high_watermark: TxnId
    open: tuple[TxnId, ...] = ()
    aborted: tuple[TxnId, ...] = ()

    def __post_init__(self) -> None:
        """Bring the exceptions into order; raise ConfigError when an id is both open and aborted."""
        object.__setattr__(self, "open", _ascending(self.open))
        object.__setattr__(self, "aborted", _ascending(self.aborted))
        _refuse_overlap(self.open, self.aborted)

    @property
    def min_open(self) -> int:
        """Return the lowest open transaction id, ``NO_OPEN_ID`` if there is none."""
        return self.open[0] if self.open else NO_OPEN_ID

    def is_valid(self, txn_id: int) -> bool:
        """Tell whether the transaction is committed in this snapshot."""
        return txn_id <= self.high_watermark and not (
            _contains(self.open, txn_id) or _contains(self.aborted, txn_id)
        )

    def is_aborted(self, txn_id: int) -> bool:
        """Tell whether the transaction is known to be aborted."""
        return _contains(self.aborted, txn_id)

    def to_string(self) -> str:
        """Return ``hwm:minOpen:open:aborted`` (``hive.txn.valid.txns``), runs written as ``a-b``."""
        return f"{self.high_watermark}:{self.min_open}:{_format_runs(self.open)}:{_format_runs(self.aborted)}"


@dataclass(frozen=True)
class ValidWriteIdList:
    """A reader's snapshot of one table's write ids.

    ``table`` is None in lists that Hive writes without a name. ``min_open``: the lowest open write id, None if there is
    none; by default the first of ``open``. A compacted base with this or a higher write id is unusable.
    """

    table: TableName | None
    high_watermark: WriteId
    open: tuple[WriteId, ...] = ()
    aborted: tuple[WriteId, ...] = ()
    min_open: WriteId | None = None

    def __post_init__(self) -> None:
        """Bring the exceptions into order; raise ConfigError when an id is both open and aborted."""
        object.__setattr__(self, "open", _ascending(self.open))
        object.__setattr__(self, "aborted", _ascending(self.aborted))
        _refuse_overlap(self.open, self.aborted)
        if self.open and (self.min_open is None or self.min_open > self.open[0]):
            object.__setattr__(self, "min_open", self.open[0])

    def is_valid(self, write_id: int) -> bool:
        """Tell whether rows of this write id are visible."""
        return write_id <= self.high_watermark and not (
            _contains(self.open, write_id) or _contains(self.aborted, write_id)
        )

    def is_aborted(self, write_id: int) -> bool:
        """Tell whether the write id is known to be aborted."""
        return _contains(self.aborted, write_id)

    def has_open(self, low: int, high: int) -> bool:
        """Tell whether a write id of ``low`` to ``high`` is open."""
        return _count(self.open, low, high) > 0

    def first_exception(self, low: int, high: int) -> WriteId | None:
        """Return the lowest open or aborted write id of ``low`` to ``high``, None if there is none."""
        lists = (ids for ids in (self.open, self.aborted) if _count(ids, low, high))
        return min((ids[bisect_left(ids, low)] for ids in lists), default=None)

    def count_valid(self, low: int, high: int) -> int:
        """Return how many write ids of ``low`` to ``high`` (both included) are visible."""
        reach = min(high, int(self.high_watermark))
        if reach < low:
            return 0
        return reach - low + 1 - _count(self.open, low, reach) - _count(self.aborted, low, reach)

    def visible_share(self, low: int, high: int) -> RangeShare:
        """Return the share of the write ids ``low`` to ``high`` that are visible; SOME: the reader checks each row."""
        if low > self.high_watermark:
            return RangeShare.NONE
        reach = min(high, self.high_watermark)
        invalid = high - reach + _count(self.open, low, reach) + _count(self.aborted, low, reach)
        if invalid == 0:
            return RangeShare.ALL
        return RangeShare.NONE if invalid == high - low + 1 else RangeShare.SOME

    def directory_share(self, low: int, high: int) -> RangeShare:
        """Return the share of a directory's write ids that this list admits; NONE: the directory is not used.

        Hive's ``isWriteIdRangeValid``.
        """
        return self.visible_share(low, high)

    def aborted_share(self, low: int, high: int) -> RangeShare:
        """Return the share of the write ids ``low`` to ``high`` that are aborted (``isWriteIdRangeAborted``)."""
        count = _count(self.aborted, low, high)
        if count == 0:
            return RangeShare.NONE
        return RangeShare.ALL if count == high - low + 1 else RangeShare.SOME

    def to_string(self) -> str:
        """Return ``db.tbl:hwm:minOpen:open:aborted``, ids comma-separated; no table is ``null``."""
        table = "null" if self.table is None else str(self.table)
        min_open = NO_OPEN_ID if self.min_open is None else self.min_open
        exceptions = f"{_format_ids(self.open)}:{_format_ids(self.aborted)}"
        return f"{table}:{self.high_watermark}:{min_open}:{exceptions}"

    def with_own(self, write_id: WriteId) -> ValidWriteIdList:
        """Return a copy in which a transaction's own write id is visible to it.

        If that raises the high watermark, the ids in between belong to other writers and count as open. Raises
        StoreError if there are more of them than a list can hold.
        """
        if write_id - self.high_watermark > _MAX_IDS:
            msg = f"write id {write_id} of {self.table} cannot be: the highest one before it is {self.high_watermark}"
            raise StoreError(msg)
        between = (WriteId(other) for other in range(self.high_watermark + 1, write_id))
        still_open = tuple(
            other for other in (*self.open, *between) if other != write_id and not self.is_aborted(other)
        )
        return ValidWriteIdList(
            self.table,
            WriteId(max(self.high_watermark, write_id)),
            still_open,
            tuple(other for other in self.aborted if other != write_id),
        )

    def below(self, write_id: WriteId) -> ValidWriteIdList:
        """Return a copy without ``write_id`` and all higher ids."""
        if self.high_watermark < write_id:
            return self
        return ValidWriteIdList(
            self.table,
            WriteId(write_id - 1),
            self.open[: bisect_left(self.open, write_id)],
            self.aborted[: bisect_left(self.aborted, write_id)],
        )

    def at(self, write_id: WriteId) -> ValidWriteIdList:
        """Return a copy for time travel, as if ``write_id`` were the last one allocated.

        Raises ConfigError for a negative id or one above the high watermark.
        """
        if not 0 <= write_id <= self.high_watermark:
            msg = f"write id {write_id} is not between 0 and {self.high_watermark}, the last one of the table"
            raise ConfigError(msg)
        return ValidWriteIdList(
            self.table,
            write_id,
            self.open[: bisect_right(self.open, write_id)],
            self.aborted[: bisect_right(self.aborted, write_id)],
        )

    def compactor(self) -> ValidCompactorWriteIdList:
        """Return the compactor's list: it ends below the lowest open write id and excepts aborted ids.

        Hive's ``TxnUtils.createValidCompactWriteIdList``.
        """
        top = self.high_watermark
        if self.min_open is not None:
            top = WriteId(min(top, self.min_open - 1))
        aborted = self.aborted[: bisect_right(self.aborted, top)]
        return ValidCompactorWriteIdList(self.table, top, (), aborted, self.min_open)

    def cleaner(self, high_watermark: WriteId) -> ValidCleanerWriteIdList:
        """Return the cleaner's list after a compaction that covered ids up to ``high_watermark``."""
        top = WriteId(min(self.high_watermark, high_watermark))
        return ValidCleanerWriteIdList(
            self.table,
            top,
            self.open[: bisect_right(self.open, top)],
            self.aborted[: bisect_right(self.aborted, top)],
        )


class ValidCompactorWriteIdList(ValidWriteIdList):
    """List of a compaction, which reads only ended write ids; made by :meth:`ValidWriteIdList.compactor`."""

    def directory_share(self, low: int, high: int) -> RangeShare:  # noqa: ARG002 - the rule asks for the end only
        """Return ALL when the whole range is at or below the high watermark, else NONE."""
        return RangeShare.ALL if high <= self.high_watermark else RangeShare.NONE

    def lowered(self, high_watermark: WriteId) -> ValidCompactorWriteIdList:
        """Return a copy that stops at a smaller high watermark."""
        aborted = self.aborted[: bisect_right(self.aborted, high_watermark)]
        return replace(self, high_watermark=high_watermark, aborted=aborted)


class ValidCleanerWriteIdList(ValidWriteIdList):
    """List of the cleaner; made by :meth:`ValidWriteIdList.cleaner`."""

    def directory_share(self, low: int, high: int) -> RangeShare:
        """Return NONE for a range that reaches above the high watermark, else the reader's answer."""
        return RangeShare.NONE if high > self.high_watermark else self.visible_share(low, high)


def parse_txn_list(text: str) -> ValidTxnList:
    """Read ``hwm:minOpen:open:aborted``; runs ``a-b`` or single ids. Raises ConfigError."""
    parts = text.strip().split(":")
    if len(parts) not in (2, 3, 4):
        raise ConfigError(f"not a valid txn list (hwm:minOpen:open:aborted): {text!r}")
    open_ids, aborted = _sections(parts[2:], text)
    _parse_id(parts[1], text, NO_OPEN_ID)
    return ValidTxnList(
        TxnId(_parse_id(parts[0], text)),
        tuple(TxnId(txn_id) for txn_id in open_ids),
        tuple(TxnId(txn_id) for txn_id in aborted),
    )


def parse_write_id_list(text: str) -> ValidWriteIdList:
    """Read ``db.tbl:hwm:minOpen:open,..:aborted,..`` (table ``null``: no name). Raises ConfigError."""
    parts = text.strip().split(":")
    if len(parts) not in (3, 4, 5):
        raise ConfigError(f"not a valid write-id list (db.table:hwm:minOpen:open:aborted): {text!r}")
    open_ids, aborted = _sections(parts[3:], text)
    min_open = _parse_id(parts[2], text, NO_OPEN_ID)
    return ValidWriteIdList(
        _parse_table(parts[0], text),
        WriteId(_parse_id(parts[1], text)),
        tuple(WriteId(write_id) for write_id in open_ids),
        tuple(WriteId(write_id) for write_id in aborted),
        None if min_open == NO_OPEN_ID else WriteId(min_open),
    )


def _parse_table(text: str, whole: str) -> TableName | None:
    if text.lower() == "null":
        return None
    database, dot, name = text.rpartition(".")
    if not (database and dot and name):
        raise ConfigError(f"the write-id list does not begin with db.table: {whole!r}")
    return TableName(database.lower(), name.lower())


def _sections(parts: Sequence[str], whole: str) -> tuple[list[int], list[int]]:
    padded = [*parts, "", ""]
    return _parse_ids(padded[0], whole), _parse_ids(padded[1], whole)


def _parse_ids(text: str, whole: str) -> list[int]:
    ids: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        low = _parse_id(first, whole)
        high = _parse_id(last, whole) if dash else low
        if high < low:
            raise ConfigError(f"run {part!r} ends before it begins: {whole!r}")
        if len(ids) + high - low >= _MAX_IDS:
            raise ConfigError(f"a list of more than {_MAX_IDS} open or aborted ids: {whole[:200]!r}")
        ids.extend(range(low, high + 1))
    return ids


def _parse_id(text: str, whole: str, highest: int = LAST_ID) -> int:
    number = parse_number(text, highest) if text.isascii() and text.isdigit() else None
    if number is None:
        raise ConfigError(f"{text[:40]!r} is not an id from 0 to {highest}: {whole[:200]!r}")
    return number


def _format_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _format_runs(ids: Sequence[int]) -> str:
    runs: list[tuple[int, int]] = []
    for number in ids:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _ascending(ids: Iterable[_Id]) -> tuple[_Id, ...]:
    return tuple(sorted(set(ids)))


def _refuse_overlap(open_ids: Sequence[int], aborted: Sequence[int]) -> None:
    overlap = set(open_ids).intersection(aborted)
    if overlap:
        raise ConfigError(f"ids are given as open and as aborted: {_format_ids(sorted(overlap))}")


def _contains(ids: Sequence[int], one: int) -> bool:
    index = bisect_left(ids, one)
    return index < len(ids) and ids[index] == one


def _count(ids: Sequence[int], low: int, high: int) -> int:
    return max(0, bisect_right(ids, high) - bisect_left(ids, low))

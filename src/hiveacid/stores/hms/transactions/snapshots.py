"""Conversion of the metastore's snapshots: lists of ids with a bit per id that marks aborted ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hiveacid.core.format.write_id_lists import NO_OPEN_ID, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import LAST_ID, TableName, TxnId, WriteId
from hiveacid.errors import StoreError


def split_by_aborted_bits(ids: Sequence[int], bits: bytes | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ids into open and aborted ones: bit i of a Java ``BitSet`` marks the i-th as aborted."""
    marks = bits or b""
    aborted = tuple(
        one for place, one in enumerate(ids) if place // 8 < len(marks) and marks[place // 8] >> place % 8 & 1
    )
    gone = set(aborted)
    return tuple(one for one in ids if one not in gone), aborted


def checked_id(one: int) -> int:
    """Return an id of a metastore's answer. Raises StoreError for an id that no metastore allocates."""
    if not 0 <= one <= LAST_ID:
        raise StoreError(f"the metastore answered with the id {one}, which is not between 0 and {LAST_ID}")
    return one


def txn_list(answer: Any) -> ValidTxnList:
    """Return a ``GetOpenTxnsResponse`` as a snapshot."""
    running, aborted = split_by_aborted_bits(answer.open_txns, answer.abortedBits)
    return ValidTxnList(
        TxnId(checked_id(answer.txn_high_water_mark)), tuple(map(TxnId, running)), tuple(map(TxnId, aborted))
    )


def format_txn_list(txns: ValidTxnList) -> str:
    """Format a snapshot as ``get_valid_write_ids`` takes it: every id spelt out, which all versions read."""
    top = txns.min_open if txns.open else NO_OPEN_ID
    return f"{txns.high_watermark}:{top}:{_joined(txns.open)}:{_joined(txns.aborted)}"


def write_id_list(table: TableName, answer: Any) -> ValidWriteIdList:
    """Convert a ``TableValidWriteIds``."""
    running, aborted = split_by_aborted_bits(answer.invalidWriteIds, answer.abortedBits)
    return ValidWriteIdList(
        table,
        WriteId(checked_id(answer.writeIdHighWaterMark)),
        tuple(map(WriteId, running)),
        tuple(map(WriteId, aborted)),
    )


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))

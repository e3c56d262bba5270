"""Snapshots of the metastore as values of ours: ids with one bit each that says which of them are aborted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.write_ids import NO_OPEN_ID, ValidTxnList, ValidWriteIdList


def by_bits(ids: Sequence[int], bits: bytes | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ids into open and aborted ones: bit i of a Java ``BitSet`` marks the i-th as aborted."""
    marks = bits or b""
    aborted = tuple(
        one for place, one in enumerate(ids) if place // 8 < len(marks) and marks[place // 8] >> place % 8 & 1
    )
    gone = set(aborted)
    return tuple(one for one in ids if one not in gone), aborted


def txn_list(answer: Any) -> ValidTxnList:
    """Return a ``GetOpenTxnsResponse`` as a snapshot."""
    running, aborted = by_bits(answer.open_txns, answer.abortedBits)
    return ValidTxnList(
        TxnId(answer.txn_high_water_mark), tuple(map(TxnId, running)), tuple(map(TxnId, aborted))
    )


def sent(txns: ValidTxnList) -> str:
    """Return a snapshot as ``get_valid_write_ids`` takes it: every id spelt out, which all versions read."""
    top = txns.min_open if txns.open else NO_OPEN_ID
    return f"{txns.high_watermark}:{top}:{_joined(txns.open)}:{_joined(txns.aborted)}"


def write_id_list(table: TableName, answer: Any) -> ValidWriteIdList:
    """Return a ``TableValidWriteIds`` as a list of ours."""
    running, aborted = by_bits(answer.invalidWriteIds, answer.abortedBits)
    return ValidWriteIdList(
        table,
        WriteId(answer.writeIdHighWaterMark),
        tuple(map(WriteId, running)),
        tuple(map(WriteId, aborted)),
    )


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))

"""Arrow arrays computed for many rows at once: validity of write ids, row numbers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.write_id_lists import ValidWriteIdList


def are_valid(write_ids: ValidWriteIdList, values: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Return a BooleanArray: for each write id, whether it is valid."""
    exceptions = pa.array([int(write_id) for write_id in (*write_ids.open, *write_ids.aborted)], pa.int64())
    visible = pc.less_equal(values, int(write_ids.high_watermark))
    return pc.and_(visible, pc.invert(pc.is_in(values, value_set=exceptions)))


def row_numbers(rows: int) -> pa.Int64Array:
    """Return an Int64Array of the numbers 0, 1, 2 … below ``rows``."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)

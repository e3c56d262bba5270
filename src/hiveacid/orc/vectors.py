"""Arrow arrays of what is asked of many rows at once: which write ids are valid, the rows' numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.write_ids import ValidWriteIdList


def are_valid(write_ids: ValidWriteIdList, values: Any) -> Any:
    """Return of each write id whether it is valid."""
    exceptions = pa.array([int(one) for one in (*write_ids.open, *write_ids.aborted)], pa.int64())
    known = pc.less_equal(values, int(write_ids.high_watermark))
    return pc.and_(known, pc.invert(pc.is_in(values, value_set=exceptions)))


def numbers(rows: int) -> Any:
    """Return 0, 1, 2 …."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)

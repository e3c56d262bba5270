"""Arrow batches from Spark's rows, with wall-clock times as in Hive's TIMESTAMP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.orc.stored_values import without_offset

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCH_ROWS = 10_000  # of one batch


def from_rows(rows: Iterable[Any], schema: StructType) -> Iterator[Any]:
    """Convert rows to batches: Spark 4.0 passes streams to Python row by row."""
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415 - Spark 4.0 and later

    source = iter(rows)
    while some := list(islice(source, _BATCH_ROWS)):
        yield from LocalDataToArrowConversion.convert(some, schema, use_large_var_types=False).to_batches()


def wall_clock(batch: Any) -> Any:
    """Return a batch with every instant replaced by the local time in its time zone."""
    arrays = [_to_wall_clock(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _to_wall_clock(values: Any) -> Any:
    """Replace instants at any depth of nesting; values below a null or outside of a slice do not matter."""
    of = values.type
    if pa.types.is_timestamp(of):
        return values if of.tz is None else pc.local_timestamp(values)
    if not _has_instants(of):
        return values
    values = without_offset(values)
    if pa.types.is_struct(of):
        members = [_to_wall_clock(child) for child in values.flatten()]
        names = [field.name for field in of]
        return pa.StructArray.from_arrays(members, names, mask=values.is_null())
    if pa.types.is_map(of):
        keys, items = _to_wall_clock(values.keys), _to_wall_clock(values.items)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=values.is_null())
    return pa.ListArray.from_arrays(values.offsets, _to_wall_clock(values.values), mask=values.is_null())


def _has_instants(of: Any) -> bool:
    if pa.types.is_timestamp(of):
        return of.tz is not None
    return any(_has_instants(of.field(index).type) for index in range(of.num_fields))

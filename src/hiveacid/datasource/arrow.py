"""Spark's rows as Arrow batches whose times are wall clocks, as Hive's TIMESTAMP is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.orc.stored_values import without_offset

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ROWS = 10_000  # of one batch


def from_rows(rows: Iterable[Any], schema: StructType) -> Iterator[Any]:
    """Yield rows as batches: Spark 4.0 gives streams to Python row by row."""
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415 - Spark 4.0 and later

    source = iter(rows)
    while some := list(islice(source, _ROWS)):
        yield from LocalDataToArrowConversion.convert(some, schema, use_large_var_types=False).to_batches()


def wall_clock(batch: Any) -> Any:
    """Return a batch with every instant replaced by what a clock on the wall of its time zone shows."""
    arrays = [_local(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _local(values: Any) -> Any:
    """Do so at any depth. What lies below a null or beside a slice is not looked at."""
    of = values.type
    if pa.types.is_timestamp(of):
        return values if of.tz is None else pc.local_timestamp(values)
    if not _has_instants(of):
        return values
    values = without_offset(values)
    if pa.types.is_struct(of):
        members = [_local(one) for one in values.flatten()]
        names = [field.name for field in of]
        return pa.StructArray.from_arrays(members, names, mask=values.is_null())
    if pa.types.is_map(of):
        keys, items = _local(values.keys), _local(values.items)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=values.is_null())
    return pa.ListArray.from_arrays(values.offsets, _local(values.values), mask=values.is_null())


def _has_instants(of: Any) -> bool:
    if pa.types.is_timestamp(of):
        return of.tz is not None
    return any(_has_instants(of.field(at).type) for at in range(of.num_fields))

"""Split an Arrow batch by partition and bucket (`arrow_bucket_hash`); rows keep their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import DEFAULT_PARTITION, Column, TableDefinition
from hiveacid.core.schema.partitions import is_canonical
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.key_order import group_rows
from hiveacid.streaming.arrow_bucket_hash import bucket_numbers
from hiveacid.table.partitions import PartitionValues


@dataclass(frozen=True)
class BucketRows:
    """Rows of one partition and bucket; ``values``: the values of the dynamic partition columns."""

    values: PartitionValues
    bucket: int
    rows: Any


def split_by_bucket(table: TableDefinition, dynamic: Sequence[Column], batch: Any) -> Iterator[BucketRows]:
    """Split a batch (the table's columns, then the dynamic partition columns) by partition and bucket.

    Raises UnsupportedFeatureError for a partition value that Hive would format differently.
    """
    rows = batch.select([column.name for column in table.columns])
    keys = [partition_texts(batch.column(column.name), column) for column in dynamic]
    if table.bucketing:
        keys.append(bucket_numbers(table, batch))
    for values, part in group_rows(rows, keys):
        bucket = values.pop() if table.bucketing else 0
        yield BucketRows(tuple(values), bucket, part)


def partition_texts(values: Any, column: Column) -> Any:
    """Format partition values as Hive does in directory names; NULL stands for all texts of the default partition.

    Raises UnsupportedFeatureError for a value whose format in Hive is not known.
    """
    hive = parse_type(column.type)
    kind = hive.name if isinstance(hive, Primitive) else ""
    if kind in ("varchar", "char"):
        texts = pc.utf8_slice_codeunits(values, 0, hive.args[0])  # type: ignore[union-attr]
        texts = pc.utf8_rtrim(texts, " ") if kind == "char" else texts
    else:
        texts = values.cast(pa.string())
    if kind == "timestamp":
        texts = _short_fraction(texts)
    of_default = pc.is_in(texts, pa.array(["", DEFAULT_PARTITION]))
    texts = pc.if_else(of_default, pa.scalar(None, pa.string()), texts)
    for text in pc.unique(texts).to_pylist():
        if text is not None and not is_canonical(text, column.type):
            raise UnsupportedFeatureError(
                f"partition column {column.name}: Hive writes the {column.type} {text} differently; insert these rows by Spark"
            )
    return texts


def _short_fraction(texts: Any) -> Any:
    """Remove trailing zeros of a fraction, and the point if no digit is left."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")

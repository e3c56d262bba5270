"""The partition and the bucket of each row of an Arrow batch.

Integers and dates are hashed as whole NumPy arrays by `hiveacid.core.schema.bucket_hash`, of other types each distinct
value once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hiveacid.core.model import DEFAULT_PARTITION, Column, TableDefinition
from hiveacid.core.schema.bucket_hash import bucket_hash, check_bucketing_type, combine_hashes, integer_hash
from hiveacid.core.schema.partitions import is_canonical
from hiveacid.core.schema.types import HiveType, Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.key_order import group_rows
from hiveacid.orc.stored_values import to_stored_values
from hiveacid.table.partitions import PartitionValues

_POSITIVE = 0x7FFFFFFF


def split_by_partition_and_bucket(
    table: TableDefinition, dynamic: Sequence[Column], batch: pa.RecordBatch
) -> Iterator[tuple[PartitionValues, int, pa.RecordBatch]]:
    """Split a batch (the table's columns, then the dynamic partition columns): dynamic partition values, bucket, rows.

    Raises UnsupportedFeatureError for a partition value that Hive would format differently.
    """
    rows = batch.select([column.name for column in table.columns])
    keys = [partition_texts(batch.column(column.name), column) for column in dynamic]
    if table.bucketing:
        keys.append(bucket_numbers(table, batch))
    for values, part in group_rows(rows, keys):
        bucket = values.pop() if table.bucketing else 0
        yield tuple(values), bucket, part


def partition_texts(values: pa.Array, column: Column) -> pa.Array:
    """Format partition values as Hive does in directory names; NULL stands for all texts of the default partition.

    Raises UnsupportedFeatureError for a value whose format in Hive is not known, ArrowInvalid for texts that are not UTF-8.
    """
    hive = parse_type(column.type)
    kind = hive.name if isinstance(hive, Primitive) else ""
    if kind in ("varchar", "char"):
        texts = pc.utf8_slice_codeunits(values, 0, hive.args[0])  # type: ignore[union-attr]
        texts = pc.utf8_rtrim(texts, " ") if kind == "char" else texts
    else:
        texts = values.cast(pa.string())
    if kind == "timestamp":
        # without trailing zeros of the fraction, and without the point if no digit is left
        texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
        texts = pc.replace_substring_regex(texts, r"\.$", "")
    of_default = pc.is_in(texts, pa.array(["", DEFAULT_PARTITION]))
    texts = pc.if_else(of_default, pa.scalar(None, pa.string()), texts)
    texts.validate(full=True)  # Python's texts are UTF-8
    for text in pc.unique(texts).to_pylist():
        if text is not None and not is_canonical(text, column.type):
            raise UnsupportedFeatureError(
                f"partition column {column.name}: Hive writes the {column.type} {text} differently; insert these rows by Spark"
            )
    return texts


def check_bucketing(table: TableDefinition) -> None:
    """Raise UnsupportedFeatureError if the bucket of a row cannot be computed without Spark."""
    for _, hive in _bucket_columns(table):
        if not isinstance(hive, Primitive):
            raise UnsupportedFeatureError(
                f"{table.name} is bucketed by {hive}: rows can be written by Spark, not by a stream"
            )
        check_bucketing_type(hive, table.bucketing_version)


def bucket_numbers(table: TableDefinition, batch: pa.RecordBatch) -> pa.Array:
    """Return each row's bucket number (int32, from 0) in a bucketed table. Raises ArrowInvalid for texts that are not UTF-8."""
    assert table.bucketing is not None  # noqa: S101 - the caller's condition
    total = np.zeros(batch.num_rows, np.uint64)
    for column, hive in _bucket_columns(table):
        values = to_stored_values(batch.column(column.name), hive)  # CHAR and VARCHAR are cut first
        hashed = _hash(values, hive, table.bucketing_version)
        total = combine_hashes(total, np.where(values.is_valid(), hashed, np.uint64(0)))
    return pa.array(((total & _POSITIVE) % table.bucketing.count).astype(np.int32))


def _bucket_columns(table: TableDefinition) -> Sequence[tuple[Column, HiveType]]:
    by_name = {column.name: column for column in table.columns}
    names = table.bucketing.columns if table.bucketing else ()
    return [(by_name[name], parse_type(by_name[name].type)) for name in names]


def _hash(values: pa.Array, hive: HiveType, version: int) -> NDArray[np.uint64]:
    """Return the hash of each value, 32 bits; that of NULL has no meaning. Types other than integers: of each distinct value."""
    assert isinstance(hive, Primitive)  # noqa: S101 - `check_bucketing`
    of_integers = integer_hash(hive.name, version)
    if of_integers is not None:
        numbers = values.cast(pa.int32()) if hive.name == "date" else values
        wide = numbers.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        hashed: NDArray[np.uint64] = of_integers(wide.view(np.uint64))
        return hashed
    coded = pc.dictionary_encode(values, null_encoding="encode")
    coded.dictionary.validate(full=True)
    hashes = [
        0 if value is None else bucket_hash([value], [hive], version) & 0xFFFFFFFF
        for value in coded.dictionary.to_pylist()
    ]
    positions: NDArray[np.intp] = coded.indices.to_numpy()
    return np.array(hashes, np.uint64)[positions]

"""Partition and bucket of the rows of an Arrow batch; rows keep their order.

Hive's bucket hash, in both bucketing versions, has the rules of `hiveacid.core.schema.bucket_hash`. Integers and dates are
hashed as NumPy arrays, whose 32-bit arithmetic wraps as in Java. For other types, each distinct value is hashed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import DEFAULT_PARTITION, Column, TableDefinition
from hiveacid.core.schema.bucket_hash import (
    MURMUR_C1,
    MURMUR_C2,
    MURMUR_SEED,
    bucket_hash,
    check_bucketing_type,
)
from hiveacid.core.schema.partitions import is_canonical
from hiveacid.core.schema.types import HiveType, Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.key_order import group_rows
from hiveacid.orc.stored_values import to_stored_values
from hiveacid.table.partitions import PartitionValues

_POSITIVE = 0x7FFFFFFF
_HASHED_AS_INT = frozenset({"boolean", "tinyint"})
_HASHED_AS_INT_IN_V1 = frozenset({"int", "date", "smallint"})


def split_by_bucket(
    table: TableDefinition, dynamic: Sequence[Column], batch: Any
) -> Iterator[tuple[PartitionValues, int, Any]]:
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


def check_bucketing(table: TableDefinition) -> None:
    """Raise UnsupportedFeatureError if the bucket of a row cannot be computed without Spark."""
    for _, hive in _bucket_columns(table):
        if not isinstance(hive, Primitive):
            raise UnsupportedFeatureError(
                f"{table.name} is bucketed by {hive}: rows can be written by Spark, not by a stream"
            )
        check_bucketing_type(hive, table.bucketing_version)


def bucket_numbers(table: TableDefinition, batch: Any) -> Any:
    """Return each row's bucket number (int32, from 0) in a bucketed table."""
    assert table.bucketing is not None  # noqa: S101 - the caller's condition
    total = np.zeros(batch.num_rows, np.uint32)
    for column, hive in _bucket_columns(table):
        values = to_stored_values(batch.column(column.name), hive)  # CHAR and VARCHAR are cut first
        hashed = _hash(values, hive, table.bucketing_version)
        total = total * 31 + np.where(values.is_valid(), hashed, np.uint32(0))
    return pa.array(((total & _POSITIVE) % table.bucketing.count).astype(np.int32))


def _bucket_columns(table: TableDefinition) -> Sequence[tuple[Column, HiveType]]:
    by_name = {column.name: column for column in table.columns}
    names = table.bucketing.columns if table.bucketing else ()
    return [(by_name[name], parse_type(by_name[name].type)) for name in names]


def _hash(values: Any, hive: HiveType, version: int) -> Any:
    """Return the hash of each value as an unsigned 32-bit integer; that of NULL has no meaning."""
    assert isinstance(hive, Primitive)  # noqa: S101 - `check_bucketing`
    name = hive.name
    if name in _HASHED_AS_INT or (name in _HASHED_AS_INT_IN_V1 and version == 1):
        return _numbers(values, pa.int32())
    if name in {"int", "date"}:
        return _murmur([_numbers(values, pa.int32())], 4)
    if name == "bigint":
        wide = _numbers(values, pa.int64())
        high, low = (wide >> 32).astype(np.uint32), wide.astype(np.uint32)
        return high ^ low if version == 1 else _murmur([high, low], 8)
    coded = pc.dictionary_encode(values, null_encoding="encode")
    hashes = [
        0 if value is None else bucket_hash([value], [hive], version) & 0xFFFFFFFF
        for value in coded.dictionary.to_pylist()
    ]
    return np.array(hashes, np.uint32)[coded.indices.to_numpy()]


def _numbers(values: Any, of: Any) -> Any:
    """Return values as unsigned integers of the type's width, 0 for NULL."""
    numbers = values.cast(of).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.view(f"u{numbers.dtype.itemsize}")


def _murmur(words: Sequence[Any], length: int) -> Any:
    """Hash words of 32 bits. Each is byte-swapped: Hive hashes big-endian bytes, and murmur reads little-endian words."""
    total: Any = np.full(len(words[0]), MURMUR_SEED, np.uint32)
    for word in words:
        mixed = _rotate(word.byteswap() * MURMUR_C1, 15) * MURMUR_C2
        total = _rotate(total ^ mixed, 13) * 5 + 0xE6546B64
    total ^= length
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        total = (total ^ (total >> shift)) * factor
    return total ^ (total >> 16)


def _rotate(values: Any, bits: int) -> Any:
    return (values << bits) | (values >> (32 - bits))

"""Partitions and buckets of the rows of an Arrow batch, as Hive computes them; rows keep their order.

The rules are those of `hiveacid.core.schema.bucket_hash`. Integers and dates are hashed by Arrow kernels, whose 32-bit
arithmetic wraps as in Java. For other types, each distinct value of a batch is hashed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.bucket_hash import bucket_hash, check_bucketing_type
from hiveacid.core.schema.partitions import is_canonical
from hiveacid.core.schema.types import HiveType, Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError

_SEED, _C1, _C2 = 104729, 0xCC9E2D51, 0x1B873593
_POSITIVE = 0x7FFFFFFF
_HASHED_AS_INT = frozenset({"boolean", "tinyint"})
_HASHED_AS_INT_IN_V1 = frozenset({"int", "date", "smallint"})


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
    total = None
    for column, hive in _bucket_columns(table):
        hashed = pc.fill_null(_hash(batch.column(column.name), hive, table.bucketing_version), 0)
        total = hashed if total is None else pc.add(pc.multiply(total, _constant(31)), hashed)
    positive = pc.bit_wise_and(total, _constant(_POSITIVE))
    count = _constant(table.bucketing.count)
    return pc.subtract(positive, pc.multiply(pc.divide(positive, count), count)).cast(pa.int32())


def _bucket_columns(table: TableDefinition) -> Sequence[tuple[Column, HiveType]]:
    by_name = {column.name: column for column in table.columns}
    names = table.bucketing.columns if table.bucketing else ()
    return [(by_name[name], parse_type(by_name[name].type)) for name in names]


def _constant(value: int) -> Any:
    return pa.scalar(value, pa.uint32())


def _hash(values: Any, hive: HiveType, version: int) -> Any:
    """Return the hash of each value as 32 bits without a sign."""
    name = hive.name if isinstance(hive, Primitive) else ""
    if name in _HASHED_AS_INT:
        return _as_uint32(values.cast(pa.int32()))
    if name in _HASHED_AS_INT_IN_V1 and version == 1:
        return _as_uint32(values.cast(pa.int32()))
    if name in {"int", "date"}:
        return _murmur([_reverse_bytes(_as_uint32(values.cast(pa.int32())))], 4)
    if name == "bigint":
        wide = values.view(pa.uint64())
        high = pc.shift_right(wide, pa.scalar(32, pa.uint64())).cast(pa.uint32())
        low = pc.bit_wise_and(wide, pa.scalar(0xFFFFFFFF, pa.uint64())).cast(pa.uint32())
        return (
            pc.bit_wise_xor(high, low)
            if version == 1
            else _murmur([_reverse_bytes(high), _reverse_bytes(low)], 8)
        )
    return _hash_distinct(values, hive, version)


def _hash_distinct(values: Any, hive: HiveType, version: int) -> Any:
    coded = pc.dictionary_encode(values)
    hashes = [
        bucket_hash([one], [hive], version) & 0xFFFFFFFF if one is not None else 0
        for one in coded.dictionary.to_pylist()
    ]
    return pa.array(hashes, pa.uint32()).take(coded.indices)


def _as_uint32(values: Any) -> Any:
    return values.view(pa.uint32())


def _reverse_bytes(values: Any) -> Any:
    """Reverse the bytes of each number: Hive hashes big-endian bytes, murmur reads little-endian words."""
    parts = [
        pc.shift_left(
            pc.bit_wise_and(pc.shift_right(values, _constant(right)), _constant(0xFF)), _constant(left)
        )
        for right, left in ((0, 24), (8, 16), (16, 8), (24, 0))
    ]
    first, *rest = parts
    for part in rest:
        first = pc.bit_wise_or(first, part)
    return first


def _murmur(words: Sequence[Any], length: int) -> Any:
    total: Any = _constant(_SEED)
    for word in words:
        mixed = pc.multiply(_rotate(pc.multiply(word, _constant(_C1)), 15), _constant(_C2))
        rotated = _rotate(pc.bit_wise_xor(total, mixed), 13)
        total = pc.add(pc.multiply(rotated, _constant(5)), _constant(0xE6546B64))
    total = pc.bit_wise_xor(total, _constant(length))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        total = pc.multiply(
            pc.bit_wise_xor(total, pc.shift_right(total, _constant(shift))), _constant(factor)
        )
    return pc.bit_wise_xor(total, pc.shift_right(total, _constant(16)))


def _rotate(values: Any, bits: int) -> Any:
    return pc.bit_wise_or(
        pc.shift_left(values, _constant(bits)), pc.shift_right(values, _constant(32 - bits))
    )


Values = tuple[str | None, ...]


@dataclass(frozen=True)
class BucketRows:
    """Rows of one partition and bucket; ``values``: the values of the dynamic partition columns."""

    values: Values
    bucket: int
    rows: Any


def split_by_bucket(table: TableDefinition, dynamic: Sequence[Column], batch: Any) -> Iterator[BucketRows]:
    """Split a batch (the table's columns, then the dynamic partition columns) by partition and bucket.

    Raises UnsupportedFeatureError for a partition value that Hive would format differently.
    """
    rows = batch.select([column.name for column in table.columns])
    codes = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    texts = []
    for column in dynamic:
        coded = pc.dictionary_encode(
            partition_texts(batch.column(column.name), column), null_encoding="encode"
        )
        texts.append(coded.dictionary.to_pylist())
        codes = pc.add(pc.multiply(codes, len(texts[-1])), coded.indices.cast(pa.int64()))
    count = table.bucketing.count if table.bucketing else 1
    if table.bucketing:
        codes = pc.add(pc.multiply(codes, count), bucket_numbers(table, batch).cast(pa.int64()))
    for code, part in _rows_by_code(codes, rows):
        rest, bucket = divmod(code, count)
        values: list[str | None] = []
        for known in reversed(texts):
            rest, at = divmod(rest, len(known))
            values.insert(0, known[at])
        yield BucketRows(tuple(values), bucket, part)


def _rows_by_code(codes: Any, rows: Any) -> Iterator[tuple[int, Any]]:
    """Yield the rows of each code."""
    counts = {one["values"]: one["counts"] for one in pc.value_counts(codes).to_pylist()}
    if len(counts) == 1:
        yield next(iter(counts)), rows
        return
    # stable, so that rows of one part keep their order
    ordered = rows.take(pc.sort_indices(codes))
    start = 0
    for code in sorted(counts):
        yield code, ordered.slice(start, counts[code])
        start += counts[code]


def partition_texts(values: Any, column: Column) -> Any:
    """Format partition values as Hive does in directory names; the empty text becomes the default partition (NULL).

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
    for text in pc.unique(texts).to_pylist():
        if text is not None and not is_canonical(text, column.type):
            raise UnsupportedFeatureError(
                f"partition column {column.name}: {text} as {column.type} has another text in Hive; insert it by Spark"
            )
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _short_fraction(texts: Any) -> Any:
    """Remove trailing zeros of a fraction, and the point if no digit is left."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")

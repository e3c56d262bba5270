"""Target of a stream: checks of its table before writing, and the partition and bucket of each row of an Arrow batch.

Integers and dates are hashed as whole NumPy arrays by `hiveacid.core.schema.bucket_hash`, of other types each distinct value once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hiveacid.config import Settings
from hiveacid.core.model import DEFAULT_PARTITION, Column, TableDefinition, TableKind, partition_value
from hiveacid.core.schema.bucket_hash import (
    bucket_hash,
    check_bucketing_type,
    combine_hashes,
    integer_hash,
)
from hiveacid.core.schema.partitions import is_canonical
from hiveacid.core.schema.storage_formats import is_orc
from hiveacid.core.schema.types import HiveType, Primitive, parse_type
from hiveacid.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError, acid_v1, no_such_column
from hiveacid.orc.footer_summary import read_summary
from hiveacid.orc.key_order import group_rows
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.cast_to_table_columns import array_of_python_values, cast
from hiveacid.table.codec_and_writer_options import orc_codec
from hiveacid.table.context import WriterContext
from hiveacid.table.partitions import PartitionValues
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.table.read.visible_locations import may_have_acid_v1_events

_POSITIVE = 0x7FFFFFFF


@dataclass(frozen=True)
class StreamTarget:
    """A table and the static partition values of a stream into it (a prefix of the partition columns).

    ``codec``: of new files.
    """

    table: TableDefinition
    static: PartitionValues
    codec: str

    @classmethod
    def of(cls, table: TableDefinition, partition: Mapping[str, object], settings: Settings) -> StreamTarget:
        """Check that rows can be streamed into the table.

        Raises UnsupportedFeatureError (a plain table, another format than ORC, types that only Spark can write),
        NoSuchColumnError, ConfigError, SchemaMismatchError (the static partition); the errors of `orc_codec`.
        """
        if table.kind is TableKind.PLAIN:
            raise UnsupportedFeatureError(
                f"{table.name} is not transactional: rows are streamed into transactional tables only"
            )
        if not is_orc(table.storage):
            raise UnsupportedFeatureError(f"{table.name} is not stored as ORC: insert its rows by Spark")
        arrow_schema(table.all_columns)
        check_bucketing(table)
        return cls(table, _static_values(table, partition), orc_codec(table, settings, for_stream=True))

    @property
    def dynamic(self) -> tuple[Column, ...]:
        """Return the partition columns whose values the records contain."""
        return self.table.partition_columns[len(self.static) :]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that records contain, dynamic partition columns last."""
        return (*self.table.columns, *self.dynamic)


def _static_values(table: TableDefinition, partition: Mapping[str, object]) -> PartitionValues:
    columns = table.partition_columns
    spec = {name.lower(): value for name, value in partition.items()}
    names = [column.name for column in columns]
    unknown = [name for name in spec if name not in names]
    if unknown:
        raise no_such_column(table.name, unknown[0], names, kind="partition column")
    columns_in_spec = [column for column in columns if column.name in spec]
    if columns_in_spec != list(columns[: len(columns_in_spec)]):
        raise ConfigError("static partition columns come before the dynamic ones (Hive's rule)")
    return tuple(_static_text(column, spec[column.name]) for column in columns_in_spec)


def _static_text(column: Column, value: object) -> str | None:
    """Format a static partition value as in a partition name: '01' in an INT column becomes '1'."""
    hive = parse_type(column.type)
    try:
        if isinstance(value, str):
            value = partition_value(value) if value else value
            array = cast(pa.array([value], pa.string()), arrow_type(hive))
        else:
            array = array_of_python_values([value], hive)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatchError(
            f"{value!r} is not a valid {column.type} (partition column {column.name})"
        ) from error
    text: str | None = partition_texts(array, column)[0].as_py()
    return text


def require_no_update_events(context: WriterContext, table: TableDefinition) -> None:
    """Refuse to add rows beside update events of ACID v1.

    Statements have `require_no_acid_v1_events`, which needs the footers that a connection with Spark keeps.
    """
    if not may_have_acid_v1_events(table):
        return
    fs, store = context.fs, context.transactions.store
    partitions = context.catalog.list_partitions(table.name) if table.partition_columns else None
    txns = store.valid_txns()
    write_ids = store.valid_write_ids(txns, [table.name])[table.name]
    for location in list_locations(fs, table, partitions, write_ids, txns):
        for directory in location.state.row_directories:
            for file in directory.acid_files:
                path = f"{location.root}/{file.path}"
                if read_summary(fs, path, readable_length(fs, path, file)).has_events:
                    raise acid_v1(table.name)


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
        # without trailing zeros of the fraction, and without the point if no digit is left
        texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
        texts = pc.replace_substring_regex(texts, r"\.$", "")
    of_default = pc.is_in(texts, pa.array(["", DEFAULT_PARTITION]))
    texts = pc.if_else(of_default, pa.scalar(None, pa.string()), texts)
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
    """Return each row's bucket number (int32, from 0) in a bucketed table."""
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
    hashes = [
        0 if value is None else bucket_hash([value], [hive], version) & 0xFFFFFFFF
        for value in coded.dictionary.to_pylist()
    ]
    positions: NDArray[np.intp] = coded.indices.to_numpy()
    return np.array(hashes, np.uint64)[positions]

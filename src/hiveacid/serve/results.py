"""Results of statements, read piece by piece, and their columns as the interface's ``TColumn``.

Rows are Arrow batches from Spark, or rows of the server itself. Spark casts types that the interface transports as texts
(dates, timestamps, decimals, JSON of nested types), so that only nine types of Arrow are left. Arrow's own functions build
the bytes; no value becomes a Python object.
"""

from __future__ import annotations

import array
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.serve import hs2_messages

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hiveacid.stores.hms.thrift_structs import ThriftStruct


_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_STRING = 7
_JSON, _TEXT, _DOUBLE_BY_TEXT = "json", "text", "double"
_FIELD = struct.Struct(">bh")
_ITEMS = struct.Struct(">bi")


_TYPES: Mapping[str, tuple[int, pa.DataType, str | None]] = MappingProxyType(
    {
        "boolean": (0, pa.bool_(), None),
        "tinyint": (1, pa.int8(), None),
        "smallint": (2, pa.int16(), None),
        "int": (3, pa.int32(), None),
        "bigint": (4, pa.int64(), None),
        "float": (5, pa.float64(), _DOUBLE_BY_TEXT),  # as Hive: 1.1 stays 1.1
        "double": (6, pa.float64(), None),
        "string": (_STRING, pa.string(), None),
        "timestamp": (8, pa.string(), _TEXT),
        "timestamp_ntz": (8, pa.string(), _TEXT),
        "binary": (9, pa.binary(), None),
        "array": (10, pa.string(), _JSON),
        "map": (11, pa.string(), _JSON),
        "struct": (12, pa.string(), _JSON),
        "decimal": (15, pa.string(), _TEXT),
        "void": (16, pa.string(), _TEXT),
        "date": (17, pa.string(), _TEXT),
    }
)
"""By Spark's types: ``TTypeId``, Arrow type and conversion."""


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: name, ``TTypeId``, Arrow type, and the conversion that Spark makes (None: none)."""

    name: str
    type_id: int
    arrow: pa.DataType
    conversion: str | None = None
    qualifiers: tuple[tuple[str, int], ...] = ()


def result_column(name: str, spark_type: str) -> ResultColumn:
    """Return the column of a result; ``spark_type``: Spark's ``simpleString``. Types without a number become texts."""
    kind = re.split(r"[<( ]", spark_type, maxsplit=1)[0].lower()
    number, arrow, conversion = _TYPES.get(kind, (_STRING, pa.string(), _TEXT))
    decimal = _DECIMAL.fullmatch(spark_type)
    qualifiers = (("precision", int(decimal[1])), ("scale", int(decimal[2]))) if decimal else ()
    return ResultColumn(name, number, arrow, conversion, qualifiers)


def table_schema(columns: Sequence[ResultColumn]) -> ThriftStruct:
    """Return the description of a result's columns."""
    return hs2_messages.TTableSchema(
        columns=[_description(column, number) for number, column in enumerate(columns, 1)]
    )


def _description(column: ResultColumn, position: int) -> ThriftStruct:
    values = {name: hs2_messages.TTypeQualifierValue(i32Value=value) for name, value in column.qualifiers}
    qualifiers = hs2_messages.TTypeQualifiers(qualifiers=values) if values else None
    entry = hs2_messages.TPrimitiveTypeEntry(type=column.type_id, typeQualifiers=qualifiers)
    described = hs2_messages.TTypeDesc(types=[hs2_messages.TTypeEntry(primitiveEntry=entry)])
    return hs2_messages.TColumnDesc(columnName=column.name, typeDesc=described, position=position, comment="")


def encode_column(values: pa.Array) -> bytes:
    """Return an Arrow array as an encoded ``TColumn``."""
    number, item, data = _items(values)
    items = _FIELD.pack(15, 1) + _ITEMS.pack(item, len(values)) + data
    nulls = _null_bits(values)
    body = items + _FIELD.pack(11, 2) + struct.pack(">i", len(nulls)) + nulls + b"\0"
    return _FIELD.pack(12, number) + body + b"\0"


def _items(values: pa.Array) -> tuple[int, int, bytes]:
    """Return the field number in the union ``TColumn``, Thrift's type code of the items, and the bytes of the items."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return (7, 11, _texts(_valid(values))) if pa.types.is_string(kind) else (8, 11, _texts(values))
    if pa.types.is_boolean(kind):
        return 1, 2, _numbers(values.cast(pa.int8()), "b")
    codes = {pa.int8(): (2, 3, "b"), pa.int16(): (3, 6, "h"), pa.int32(): (4, 8, "i")}
    codes |= {pa.int64(): (5, 10, "q"), pa.float64(): (6, 4, "d")}
    number, item, code = codes[kind]
    return number, item, _numbers(values, code)


def _numbers(values: pa.Array, code: str) -> bytes:
    """Return numbers in the byte order of the network; NULL is 0."""
    filled = pc.fill_null(values, pa.scalar(0, values.type))
    numbers = array.array(code)
    size = numbers.itemsize
    buffer = filled.buffers()[1]
    if buffer is not None:
        numbers.frombytes(memoryview(buffer)[filled.offset * size : (filled.offset + len(filled)) * size])
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _valid(values: pa.Array) -> pa.Array:
    """Replace what is not UTF-8, as HiveServer2 does: Spark's texts can hold any bytes, and a driver could read no row."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts = values.cast(pa.binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in texts])
    return values


def _texts(values: pa.Array) -> bytes:
    """Return texts or bytes, each behind its length; NULL is empty."""
    if not len(values):
        return b""
    filled = pc.fill_null(values.cast(pa.binary()), b"")
    lengths = pa.py_buffer(_numbers(pc.binary_length(filled), "i"))
    prefixes = pa.Array.from_buffers(pa.binary(4), len(filled), [None, lengths]).cast(pa.binary())
    joined = pc.binary_join_element_wise(prefixes, filled, b"")
    offsets = memoryview(joined.buffers()[1]).cast("i")
    first, last = offsets[joined.offset], offsets[joined.offset + len(joined)]
    return bytes(memoryview(joined.buffers()[2])[first:last])


def _null_bits(values: pa.Array) -> bytes:
    """Return a bit for each row, the lowest first, set for NULL; one byte of zeros if no row is NULL."""
    if not values.null_count:
        return b"\0"
    bits = pa.concat_arrays([pc.is_null(values)])  # a copy begins at the first bit
    return bytes(memoryview(bits.buffers()[1])[: (len(bits) + 7) // 8])


BATCH_ROWS = 4096
"""Maximum number of rows of an Arrow batch. Python holds at most one batch of a result in memory."""
_ANSI = "spark.sql.ansi.enabled"
_MAX_BYTES = 8 << 20  # of one answer; one row may be larger


class Result(Protocol):
    """Rows with their columns."""

    columns: tuple[ResultColumn, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, from the first row on."""


class SparkResult:
    """Rows of a DataFrame, which Spark computes and sends partition by partition (``toLocalIterator``)."""

    def __init__(self, frame: DataFrame) -> None:
        """Convert the columns that the interface transports as texts."""
        fields = frame.schema.fields
        self.columns = tuple(result_column(field.name, field.dataType.simpleString()) for field in fields)
        with _plain_decimals(frame, self.columns):
            self._frame = frame.toDF(*_names(len(fields))).select(
                *[
                    _converted(name, column)
                    for name, column in zip(_names(len(fields)), self.columns, strict=True)
                ]
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the plan. The driver holds one partition of the result at a time."""
        schema = pa.schema(list(zip(_names(len(self.columns)), (c.arrow for c in self.columns), strict=True)))
        frame = self._frame
        # A client may have set them, but ``schema`` has the small types, and a batch without a bound is a whole partition.
        conf = frame.sparkSession.conf
        conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
        conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
        pieces = frame._jdf.toArrowBatchRdd().toJavaRDD().toLocalIterator()  # noqa: SLF001
        while pieces.hasNext():
            yield pa.ipc.read_record_batch(pa.py_buffer(pieces.next()), schema)


class RowsResult:
    """Rows of the server itself, for metadata calls."""

    def __init__(self, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> None:
        """``columns``: names and types (string, int, smallint, boolean)."""
        self.columns = tuple(result_column(name, kind) for name, kind in columns)
        arrays = [
            pa.array([row[number] for row in rows], column.arrow)
            for number, column in enumerate(self.columns)
        ]
        self._batch = pa.RecordBatch.from_arrays(arrays, names=_names(len(arrays)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        yield self._batch


class ResultCursor:
    """Reads a result in pieces of any size."""

    def __init__(self, result: Result) -> None:
        """Begin before the first row; nothing runs until the first call of `fill`."""
        self.result = result
        self.restart()

    def restart(self) -> None:
        """Go back to the first row; a plan runs again on the same snapshot."""
        self._batches = self.result.batches()
        self._batch_rest: pa.RecordBatch | None = None
        self._failure: BaseException | None = None
        self.position = 0

    def fill(self) -> bool:
        """Read until the next row is in memory; return False if there is none.

        An error is raised by each further call, too, until :meth:`restart`: a client that asks again must not take the
        rows so far for all rows.
        """
        if self._failure is not None:
            raise self._failure
        while self._batch_rest is None or not self._batch_rest.num_rows:
            try:
                self._batch_rest = next(self._batches, None)
            except BaseException as error:
                self._failure, self._batch_rest = error, None
                raise
            if self._batch_rest is None:
                self._batches = iter(())
                return False
        return True

    def take(self, max_rows: int) -> list[bytes]:
        """Return up to ``max_rows`` rows as encoded columns, fewer if the answer would become too large."""
        rest = self._batch_rest if self.fill() else None
        if rest is None:
            return [encode_column(pa.array([], column.arrow)) for column in self.result.columns]
        count = max(1, min(max_rows, rest.num_rows))
        while count > 1 and rest.slice(0, count).nbytes > _MAX_BYTES:
            count //= 2
        piece, self._batch_rest = rest.slice(0, count), rest.slice(count)
        self.position += count
        return [encode_column(values) for values in piece.columns]

    def may_have_more(self) -> bool:
        """Look ahead for a next row; True also if this fails, so that the next call of `take` raises the error."""
        try:
            return self.fill()
        except Exception:  # noqa: BLE001 - fill raises it again
            return True

    def first_number(self) -> int | None:
        """Return the first column of the next row; None if no row is in memory."""
        return None if self._batch_rest is None else int(self._batch_rest.column(0)[0].as_py())

    def close(self) -> None:
        """Release the plan, and with it its snapshot."""
        self._batches, self._batch_rest = iter(()), None


def empty_log() -> list[bytes]:
    """Return the log of a statement: one encoded column of texts without rows."""
    return [encode_column(pa.array([], pa.string()))]


def _names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


@contextmanager
def _plain_decimals(frame: DataFrame, columns: Sequence[ResultColumn]) -> Iterator[None]:
    """Make casts that are analysed inside write decimals as ``0.0000001``: without ANSI mode Spark writes ``1E-7``."""
    conf = frame.sparkSession.conf
    before = conf.get(_ANSI)  # the default, if it is not set
    if before == "true" or not any(column.qualifiers for column in columns):
        yield
        return
    conf.set(_ANSI, "true")
    try:
        yield
    finally:
        conf.set(_ANSI, before or "false")


def _converted(name: str, column: ResultColumn) -> Column:
    from pyspark.sql import functions as F  # noqa: PLC0415 - --help must not import pyspark

    if column.conversion == "json":
        options = {"ignoreNullFields": "false"}
        options |= dict.fromkeys(("timestampFormat", "timestampNTZFormat"), "yyyy-MM-dd HH:mm:ss.SSSSSS")
        return F.to_json(F.col(name), options).alias(name)
    if column.conversion == "text":
        return F.col(name).cast("string").alias(name)
    if column.conversion == "double":
        return F.col(name).cast("string").cast("double").alias(name)
    return F.col(name)

"""Results of statements, read piece by piece: Arrow batches from Spark, or rows of the server itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hiveacid.serve.result_columns import ResultColumn, encode_column, result_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BATCH_ROWS = 4096
"""Maximum number of rows of an Arrow batch. Python holds at most one batch of a result in memory."""
_ANSI = "spark.sql.ansi.enabled"
_MAX_BYTES = 8 << 20  # of one answer; one row may be larger


class Result(Protocol):
    """Rows with their columns."""

    columns: tuple[ResultColumn, ...]

    def batches(self) -> Iterator[Any]:
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

    def batches(self) -> Iterator[Any]:
        """Run the plan. The driver holds one partition of the result at a time."""
        schema = pa.schema(list(zip(_names(len(self.columns)), (c.arrow for c in self.columns), strict=True)))
        frame: Any = self._frame
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

    def batches(self) -> Iterator[Any]:
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
        self._batch_rest: Any = None
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

    def take(self, most: int) -> list[bytes]:
        """Return up to ``most`` rows as encoded columns, fewer if the answer would become too large."""
        if not self.fill():
            return [encode_column(pa.array([], column.arrow)) for column in self.result.columns]
        count = max(1, min(most, self._batch_rest.num_rows))
        while count > 1 and self._batch_rest.slice(0, count).nbytes > _MAX_BYTES:
            count //= 2
        piece, self._batch_rest = self._batch_rest.slice(0, count), self._batch_rest.slice(count)
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
    conf: Any = frame.sparkSession.conf
    before = conf.get(_ANSI)  # the default, if it is not set
    if before == "true" or not any(column.qualifiers for column in columns):
        yield
        return
    conf.set(_ANSI, "true")
    try:
        yield
    finally:
        conf.set(_ANSI, before)


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

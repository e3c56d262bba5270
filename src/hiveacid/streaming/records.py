"""Records of a stream, Arrow data or Python dicts, as Arrow batches of the table's columns.

Nothing is lost: a record that does not fit is an error that names it, as in Hive's strict record writers. Arrow casts whole
batches. Only if one fails, bisection finds its first bad record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import pyarrow as pa

from hiveacid.core.model import Column
from hiveacid.core.schema.types import parse_type
from hiveacid.errors import BadRecordError, ConfigError, SchemaMismatchError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.table.cast_to_table_columns import array_of_python_values, cast_columns

_ROWS = 1_000_000  # of a table that are cast together, at most
_MAX_EXCERPT = 200  # characters of a bad record in a message
Item = TypeVar("Item")
Row = Mapping[str, object]
"""Values of a record by column name."""
Records: TypeAlias = pa.RecordBatch | pa.Table | pa.RecordBatchReader | Row | Iterable[Row]
"""Records that `Connection.write` takes."""
_FAILURES = (pa.ArrowException, ValueError, TypeError, OverflowError)


def to_batches(records: Records, columns: tuple[Column, ...], first: int) -> list[pa.RecordBatch]:
    """Return records as batches of ``columns``. ``first``: the number of the first record, for errors.

    ``records``: a record batch, table or record batch reader, whose columns are matched by name; or one dict or an
    iterable of dicts from column name to value, where a missing key is NULL. Raises BadRecordError for the first record
    whose values do not fit, SchemaMismatchError for other columns, ConfigError for anything else.
    """
    if isinstance(records, pa.RecordBatch | pa.Table | pa.RecordBatchReader):
        done = []
        for batch in _arrow_batches(records):
            done.append(_cast_rows(batch, columns, first))
            first += batch.num_rows
        return done
    if isinstance(records, str | bytes | bytearray | memoryview) or not isinstance(records, Iterable):
        raise ConfigError(
            "write() takes Arrow data, a dict or an iterable of dicts: parse text first, with pyarrow.csv or pyarrow.json"
        )
    rows = [records] if isinstance(records, Mapping) else list(records)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError("write() takes a dict or an iterable of dicts here")
    return [_convert_dicts(rows, columns, first)] if rows else []


def parse_or_name(
    records: Sequence[Item],
    first: int,
    parse: Callable[[Sequence[Item]], pa.RecordBatch],
    show: Callable[[Item], str],
) -> pa.RecordBatch:
    """Return ``parse(records)``. If it fails, raise BadRecordError for the first record that fails."""
    try:
        return parse(records)
    except SchemaMismatchError:
        raise
    except _FAILURES as failure:
        error: Exception = failure
    start, end = 0, len(records)  # the range holds the first bad record
    while end - start > 1:
        middle = (start + end) // 2
        try:
            parse(records[start:middle])
        except _FAILURES as failure:
            end, error = middle, failure
        else:
            start = middle
    try:
        parse(records[start:end])
    except _FAILURES as failure:
        error = failure
    record = show(records[start])
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    excerpt = record if len(record) <= _MAX_EXCERPT else record[:_MAX_EXCERPT] + "…"
    number = first + start
    raise BadRecordError(number, record, f"record {number} does not fit ({reason}): {excerpt}") from error


def _arrow_batches(
    records: pa.RecordBatch | pa.Table | pa.RecordBatchReader,
) -> Iterator[pa.RecordBatch | pa.Table]:
    if isinstance(records, pa.RecordBatch):
        yield records
    elif isinstance(records, pa.RecordBatchReader):
        yield from records
    else:
        for offset in range(0, records.num_rows, _ROWS):
            yield records.slice(offset, _ROWS)


def _cast_rows(batch: pa.RecordBatch | pa.Table, columns: tuple[Column, ...], first: int) -> pa.RecordBatch:
    def cast(rows: Sequence[int]) -> pa.RecordBatch:
        # take, not slice, because nested arrays are validated as a whole
        chosen = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        chosen.validate(full=True)  # Arrow's own functions do not check, for example, that texts are UTF-8
        return cast_columns(chosen, columns)

    def show(row: int) -> str:
        try:
            return repr(batch.slice(row, 1).to_pylist()[0])
        except UnicodeDecodeError:
            return "a row with a text that is not UTF-8"

    return parse_or_name(range(batch.num_rows), first, cast, show)


def _convert_dicts(rows: Sequence[Row], columns: tuple[Column, ...], first: int) -> pa.RecordBatch:
    """Convert dicts. A TIMESTAMP is a datetime without zone, a TIMESTAMP WITH LOCAL TIME ZONE one with a zone."""
    schema = arrow_schema(columns)
    types = {column.name: parse_type(column.type) for column in columns}

    def convert(some: Sequence[Row]) -> pa.RecordBatch:
        unknown = set().union(*some) - types.keys()
        if unknown:
            raise ValueError(f"unexpected field {min(map(str, unknown))}")
        arrays = [
            array_of_python_values([row.get(name) for row in some], hive) for name, hive in types.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return parse_or_name(rows, first, convert, repr)

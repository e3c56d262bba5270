"""Reader of the changes in one file, with pyarrow and stripe by stripe, for the tasks of a streaming query.

It reads the row ids of a stripe first, and the other columns only if a row was inserted or deleted. Values that pyarrow
reads differently from Hive are refused with the column's name. These are days before the Gregorian calendar, fractions of
seconds within a day of 1970-01-01, times before 1677 or after 2262, and zoned times.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.evolution import matching, recipe
from hiveacid.core.schema.types import (
    Array,
    Field,
    HiveType,
    Map,
    Primitive,
    Struct,
    nested_types,
    parse_type,
)
from hiveacid.core.snapshot.changes import CHANGE_TYPE, WRITE_ID
from hiveacid.core.snapshot.originals import OriginalRows
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.orc.arrow_arrays import are_valid, row_numbers
from hiveacid.orc.stored_values import arrow_type, to_stored_values
from hiveacid.orc.summary import summarize
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.streaming.arrow_casts import cast

_KEY = ("originalTransaction", "bucket", "rowId")
_CURRENT = "currentTransaction"
_V1 = 1 << 29  # smaller bucket properties are of codec version 0, which holds only the bucket number
_GREGORIAN = -141_418  # days: 1582-10-25, ten days after the calendar began
_DAY = 86_400_000_000  # microseconds
_SECOND = 1_000_000
_WIDENING = ("tinyint", "smallint", "int", "bigint")
_TEXTS = frozenset({"string", "varchar", "char"})
_PLAIN = frozenset({"boolean", *_WIDENING, "float", "double", "string", "binary", "decimal"})
_ROWS = 65_536  # of one batch


@dataclass(frozen=True)
class DeleteEventFiles:
    """Delete events of a location: their files, and the ascending write ids of overwrites."""

    files: tuple[str, ...] = ()
    overwrites: tuple[int, ...] = ()


@dataclass(frozen=True)
class FileChanges:
    """One file with changes of a span, for one task. ``length``: its committed bytes.

    ``write_id``: the write id of all rows, if they have no row ids (insert-only tables). ``raw``: the row ids, if the file
    has no ACID columns. ``after``, ``until``: the span; without ``after``, all rows that are live at ``until``.
    ``tell_deletes``: yield deleted rows, too. ``with_type``: add the change columns.
    """

    path: str
    length: int
    table: TableDefinition
    level: LayoutLevel
    partition: tuple[str | None, ...]
    until: ValidWriteIdList
    after: ValidWriteIdList | None
    events: DeleteEventFiles
    write_id: int | None = None
    raw: OriginalRows | None = None
    tell_deletes: bool = False
    with_type: bool = False


class FilePrefix(io.RawIOBase):
    """The first ``length`` bytes of a local file, to which its writer may still append."""

    def __init__(self, path: str, length: int) -> None:
        """Open the file."""
        self._file = Path(path.removeprefix("file://").removeprefix("file:")).open("rb")  # noqa: SIM115 - closed by `close`
        self._length = length

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: any offset can be read."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset; SEEK_END is the end of the prefix."""
        return self._file.seek(*((self._length + offset,) if whence == io.SEEK_END else (offset, whence)))

    def tell(self) -> int:
        """Return the offset."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes, up to the end of the prefix."""
        left = max(0, self._length - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))

    def size(self) -> int:
        """Return the length of the prefix."""
        return self._length

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def read_file_changes(file: FileChanges) -> Iterator[Any]:
    """Yield record batches: the table's columns and, with ``with_type``, ``_change_type`` and ``_write_id``.

    Raises UnsupportedFeatureError for values that pyarrow cannot read correctly, BadFileError.
    """
    source = FilePrefix(file.path, file.length)
    try:
        reader = orc.ORCFile(source)
        tail = read_tail(LocalFileSystem(), file.path, file.length)
        columns = _Columns.of(file, tail)
        events = _read_events(file)
        first = 0
        for stripe in range(reader.nstripes):
            keys = _read_keys(file, reader, stripe, tail.stripes[stripe].rows, first)
            first += len(keys.write_ids)
            inserted, deleted, ended = _classify_rows(file, keys, events)
            if pc.any(pc.or_(inserted, deleted)).as_py():
                yield from _batches(file, columns, reader, stripe, keys, inserted, deleted, ended)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeatureError(
            f"{file.path} holds values that can't be read without Spark ({error}): read changes by t.changes()"
        ) from error
    except OSError as error:
        raise BadFileError(
            f"can't be read ({error}); was it cleaned while the query read it? Start the query again",
            path=file.path,
        ) from error
    finally:
        source.close()


@dataclass(frozen=True)
class _Keys:
    write_ids: Any
    ids: Any  # table of row ids (three columns), None if rows have none


def _read_keys(file: FileChanges, reader: Any, stripe: int, rows: int, first: int) -> _Keys:
    if file.write_id is not None:
        return _Keys(_repeat(file.write_id, rows), None)
    if file.raw is not None:
        raw = file.raw
        write_ids = _repeat(int(raw.write_id), rows)
        number = pc.add(row_numbers(rows), first + raw.first_row_id)
        parts = (write_ids, _repeat(raw.bucket_property, rows), number)
        return _Keys(write_ids, pa.table(dict(zip(_KEY, parts, strict=True))))
    ids, current = _key_table(reader.read_stripe(stripe, columns=[*_KEY, _CURRENT]))
    return _Keys(current, ids)


def _repeat(value: int, rows: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.int64()), rows)


def _key_table(stripe: Any) -> tuple[Any, Any]:
    write_id, bucket, row_id, current = (
        stripe.column(stripe.schema.get_field_index(name)).cast(pa.int64()) for name in (*_KEY, _CURRENT)
    )
    low = pc.and_(pc.greater_equal(bucket, 0), pc.less(bucket, _V1))
    translated = pc.bit_wise_or(pc.shift_left(pc.if_else(low, bucket, 0), 16), _V1)
    bucket = pc.if_else(pc.and_(pc.equal(write_id, 0), low), translated, bucket)
    return pa.table(dict(zip(_KEY, (write_id, bucket, row_id), strict=True))), current


def _read_events(file: FileChanges) -> Any:
    """Return one row per deleted row id: the first deleting write id in the span, and whether one came before it."""
    found = []
    for path in file.events.files:
        reader = orc.ORCFile(path)
        for stripe in range(reader.nstripes):
            ids, current = _key_table(reader.read_stripe(stripe, columns=[*_KEY, _CURRENT]))
            before = _existed_before(file, current)
            events = ids.append_column("ended", pc.if_else(before, pa.scalar(None, pa.int64()), current))
            events = events.append_column("before", before.cast(pa.int8()))
            found.append(events.filter(are_valid(file.until, current)))
    if not found:
        return None
    return pa.concat_tables(found).group_by(list(_KEY)).aggregate([("ended", "min"), ("before", "max")])


def _existed_before(file: FileChanges, values: Any) -> Any:
    if file.after is None:
        return pa.repeat(pa.scalar(False), len(values))  # noqa: FBT003 - a value
    return are_valid(file.after, values)


def _classify_rows(file: FileChanges, keys: _Keys, events: Any) -> tuple[Any, Any, Any]:
    """Return masks of inserted and of deleted rows, and the deleting write id of each row (NULL: none)."""
    rows = len(keys.write_ids)
    never, seen = pa.nulls(rows, pa.int64()), are_valid(file.until, keys.write_ids)
    ended = never
    if events is not None and keys.ids is not None:
        numbered = keys.ids.append_column("at", row_numbers(rows))
        met = numbered.join(events, list(_KEY), join_type="left outer").sort_by("at").combine_chunks()
        ended = pa.concat_arrays([never.slice(0, 0), *met.column("ended_min").chunks])
        dead = pa.concat_arrays(met.column("before_max").chunks)
        seen = pc.and_(seen, pc.equal(dead.fill_null(0), 0))
    for overwrite in file.events.overwrites:
        first = pc.min_element_wise(ended, pa.scalar(overwrite, pa.int64()))
        ended = pc.if_else(pc.less(keys.write_ids, overwrite), first, ended)
    gone, none = pc.is_valid(ended), pa.repeat(pa.scalar(False), rows)  # noqa: FBT003 - a value
    if file.after is None:
        return pc.and_(seen, pc.invert(gone)), none, ended
    new = pc.invert(are_valid(file.after, keys.write_ids))
    visible = pc.and_(seen, pc.invert(pc.and_(new, pc.equal(ended, keys.write_ids).fill_null(False))))  # noqa: FBT003
    return pc.and_(visible, new), pc.and_(visible, gone) if file.tell_deletes else none, ended


@dataclass(frozen=True)
class _Columns:
    """Mapping of the table's columns to a file: name (None if absent) and type in the file, column of the table."""

    sources: tuple[tuple[str | None, HiveType, Column], ...]

    @classmethod
    def of(cls, file: FileChanges, tail: OrcTail) -> _Columns:
        summary = summarize(tail)
        if summary.has_events:
            raise UnsupportedFeatureError(
                f"{file.path} may hold update events of Hive 2 or older (ACID v1): compact the table by a major compaction first"
            )
        if summary.is_acid == (file.write_id is not None or file.raw is not None):
            raise BadFileError(
                "a file with row ids has a name for files without, or the other way round", path=file.path
            )
        table, fields = file.table, summary.schema.fields
        names = [field.name for field in fields]
        if len({name.lower() for name in names}) < len(names):
            raise UnsupportedFeatureError(
                f"{file.path} has two columns of one name: read changes by t.changes()"
            )
        wanted = recipe(table.columns, summary.schema, matching(table, file.level))
        places = {name.lower(): field for name, field in zip(names, fields, strict=True)}
        sources: list[tuple[str | None, HiveType, Column]] = []
        for column, source in zip(table.columns, wanted.columns, strict=True):
            if source.problem is not None:
                raise UnsupportedFeatureError(f"{file.path}: {source.problem}")
            field = _field(source.name, places, fields, positional=wanted.positional is not None)
            want = parse_type(column.type)
            sources.append((None, want, column) if field is None else (field.name, field.type, column))
            _require_readable(file.path, column, want if field is None else field.type)
        return cls(tuple(sources))


def _field(
    name: str | None, places: dict[str, Field], fields: Sequence[Field], *, positional: bool
) -> Field | None:
    if name is None:
        return None
    return fields[int(name.removeprefix("c"))] if positional else places.get(name.lower())


def require_readable(table: TableDefinition) -> None:
    """Raise UnsupportedFeatureError with the column's name for types that cannot be read correctly without Spark."""
    for column in table.columns:
        _require_readable(str(table.name), column, parse_type(column.type))


def _require_readable(where: str, column: Column, have: HiveType) -> None:
    want = parse_type(column.type)
    top = isinstance(want, Primitive) and want.name in ("date", "timestamp", "char", "varchar")
    if not ((top and _is_convertible(have, want)) or (_is_plain(want) and _is_convertible(have, want))):
        raise UnsupportedFeatureError(
            f"{where}: column {column.name} is {column.type} (in the file {have}): it can't be read without Spark; read "
            "it by acid.sql or acid.table, changes by t.changes(), or compact the table where it was altered"
        )


def _is_plain(hive: HiveType) -> bool:
    return all(
        part.name in _PLAIN if isinstance(part, Primitive) else isinstance(part, Array | Map | Struct)
        for part in nested_types(hive)
    )


def _is_convertible(have: HiveType, want: HiveType) -> bool:
    if have == want:
        return True
    if not (isinstance(have, Primitive) and isinstance(want, Primitive)):
        return False
    if have.name in _TEXTS and want.name in _TEXTS:
        return True
    return (
        have.name in _WIDENING
        and want.name in _WIDENING
        and _WIDENING.index(have.name) <= _WIDENING.index(want.name)
    )


def _batches(
    file: FileChanges,
    columns: _Columns,
    reader: Any,
    stripe: int,
    keys: _Keys,
    inserted: Any,
    deleted: Any,
    ended: Any,
) -> Iterator[Any]:
    asked = [name for name, _, _ in columns.sources if name is not None]
    acid = file.write_id is None and file.raw is None
    whole = any("." in name for name in asked)
    wanted = (["row"] if whole else [f"row.{name}" for name in asked]) if acid else asked
    values = reader.read_stripe(stripe, columns=None if whole and not acid else wanted) if asked else None
    for mask, kind, write_ids in ((deleted, "delete", ended), (inserted, "insert", keys.write_ids)):
        places = pc.indices_nonzero(mask)
        for begin in range(0, len(places), _ROWS):
            at = places.slice(begin, _ROWS)
            rows = None if values is None else values.take(at)
            yield _batch(file, columns, rows, kind, write_ids.take(at), acid=acid)


def _batch(file: FileChanges, columns: _Columns, rows: Any, kind: str, write_ids: Any, *, acid: bool) -> Any:
    count = len(write_ids)
    names, arrays = [], []
    row = rows.column(rows.schema.get_field_index("row")) if acid and rows is not None else None
    for name, have, column in columns.sources:
        want = parse_type(column.type)
        if name is None:
            values = pa.nulls(count, arrow_type(want))
        else:
            stored = row.field(name) if row is not None else rows.column(rows.schema.get_field_index(name))
            values = _convert(file.path, column, stored, have, want)
        names.append(column.name)
        arrays.append(values)
    for column, text in zip(file.table.partition_columns, file.partition, strict=True):
        names.append(column.name)
        arrays.append(_constant(column, text, count))
    if file.with_type:
        names += [CHANGE_TYPE, WRITE_ID]
        arrays += [pa.repeat(kind, count), write_ids]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _constant(column: Column, text: str | None, count: int) -> Any:
    want = parse_type(column.type)
    of = arrow_type(want)
    if text is None:
        return pa.nulls(count, of)
    stored = to_stored_values(cast(pa.array([text], pa.string()), of), want)
    return pa.repeat(stored[0], count)


def _convert(path: str, column: Column, values: Any, have: HiveType, want: HiveType) -> Any:
    of = arrow_type(want)
    if isinstance(want, Primitive) and want.name == "timestamp":
        micros = pc.floor_temporal(values, unit="microsecond").cast(of)
        _require_far_from_epoch(path, column, micros.cast(pa.int64()))
        return micros
    if isinstance(want, Primitive) and want.name == "date":
        _require_gregorian(path, column, values.cast(pa.int32()))
        return values.cast(of)
    return (
        to_stored_values(values.cast(of), want)
        if have != want or isinstance(want, Primitive)
        else values.cast(of)
    )


def _require_far_from_epoch(path: str, column: Column, micros: Any) -> None:
    """Refuse fractions of a second near 1970-01-01: in some time zones of the writer, pyarrow reads them a second off."""
    near = pc.and_(pc.greater(micros, -_DAY), pc.less(micros, _DAY))
    whole = pc.equal(pc.multiply(pc.divide(micros, _SECOND), _SECOND), micros)
    if pc.any(pc.and_(near, pc.invert(whole))).as_py():
        _refuse_value(path, column, "a time within a day of 1970-01-01 with a fraction of a second")


def _require_gregorian(path: str, column: Column, days: Any) -> None:
    if pc.any(pc.less(days, _GREGORIAN)).as_py():
        _refuse_value(path, column, "a day before the Gregorian calendar (1582-10-25)")


def _refuse_value(path: str, column: Column, what: str) -> None:
    raise UnsupportedFeatureError(
        f"{path}: column {column.name} holds {what}, which can't be read right without Spark: read changes by t.changes()"
    )

"""Reader of one ORC file of a table: maps columns by the rules of schema evolution, and reads stripes in C++.

Arrow asks for 128 KiB at a time, stream by stream. A remote file system takes some 20 ms to answer each request, so that a stripe
of 64 MB would take many seconds. The footer of the stripe tells which bytes Arrow needs for some columns. `FetchedRanges` fetches
them before, in few large pieces, several at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import orc

from hiveacid.core.format.acid_columns import KEY_COLUMNS, AcidColumn, Range
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.read_costs import column_bytes
from hiveacid.core.schema.evolution import map_columns, matching
from hiveacid.core.schema.types import HiveType, Primitive, has_primitive, parse_type
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.orc.build_delete_bitmap import read_delete_events
from hiveacid.orc.footer_summary import summarize
from hiveacid.orc.stored_values import arrow_type
from hiveacid.orc.tail import OrcTail, OrcType, data_streams, read_tail, writer_time_zone
from hiveacid.orc.writing import MicrosConverter
from hiveacid.ports.file_system import FileRange, FileSystem
from hiveacid.storage.local_file_system import local_path
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.stored_to_table_types import (
    ValueRules,
    decode,
    hybrid_micros,
    require_readable,
    wall_clocks_of_java,
)

_WHOLE = 1 << 20  # bytes that arrive in less time than the answer to a second request takes
_GAP = 1 << 20  # bytes between two ranges, likewise
_PIECE = 8 << 20
_AT_ONCE = 4
_TIMES = frozenset({"timestamp", "timestamp with local time zone"})
_WALL_CLOCK = Primitive("timestamp")
_OUT_OF_RANGE = "out of range for nanosecond"  # a part of Arrow's message
_HYBRID, _UNMARKED = 1, 0  # values of the footer's field ``calendar``


@dataclass(frozen=True)
class _Source:
    """Source of a table's column in a file, and its types in both.

    ``index``: among the user's columns in the file; None if the file lacks it. ``problem``: why it cannot be read.
    """

    index: int | None
    stored_type: HiveType
    table_type: HiveType
    problem: str | None = None


class OrcReader:
    """Reader of the stripes of one ORC file. Its errors name the file."""

    def __init__(self, fs: FileSystem, file: ScanFile, table: TableDefinition, level: LayoutLevel) -> None:
        """Read the tail. Raises BadFileError, UnsupportedFeatureError, StorageError."""
        self.file, self.table = file, table
        self._fs, self._level = fs, level
        self._local = threading.local()  # holds an ORCFile of pyarrow for each thread, which cannot share one
        self.tail: OrcTail = read_tail(fs, file.path, file.length)
        summary = summarize(self.tail)
        self.has_events = summary.has_events
        self._schema = summary.schema
        if table.kind is TableKind.FULL_ACID:
            file.require_row_ids_as_named(summary.rows, is_acid=summary.is_acid)

    @property
    def stripes(self) -> int:
        """Return the number of stripes."""
        return len(self.tail.stripes)

    @cached_property
    def _sources(self) -> dict[str, _Source]:
        file_recipe = map_columns(self.table.columns, self._schema, matching(self.table, self._level))
        names = {field.name: index for index, field in enumerate(self._schema.fields)}
        sources = {}
        for column, source in zip(self.table.columns, file_recipe.columns, strict=True):
            table_type = parse_type(column.type)
            if source.problem is not None or source.name is None:
                sources[column.name] = _Source(None, table_type, table_type, source.problem)
                continue
            is_number = file_recipe.positional is not None  # ``c0``, ``c1`` …
            index = int(source.name.removeprefix("c")) if is_number else names.get(source.name)
            stored_type = table_type if index is None else self._schema.fields[index].type
            sources[column.name] = _Source(index, stored_type, table_type)
        return sources

    def _source(self, name: str) -> _Source:
        """Return a column's source. Raises UnsupportedFeatureError if its values cannot be read."""
        source = self._sources[name]
        if source.problem is not None:
            raise UnsupportedFeatureError(f"{self.file.path}: {source.problem}")
        if source.index is not None:
            require_readable(self.file.path, name, source.stored_type, source.table_type)
        return source

    def columns_with_statistics(self, names: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return ORC column ids and types of the columns whose statistics hold for the table's values.

        They do not for values that are converted on reading.
        """
        if self._is_hybrid:
            return {}
        kinds = {column.name: column.type for column in self.table.columns}
        return {
            name: (self._user_columns[source.index], kinds[name])
            for name in names
            if (source := self._sources.get(name)) is not None
            and source.index is not None
            and source.stored_type == source.table_type
        }

    @cached_property
    def _user_columns(self) -> Sequence[int]:
        """Return the ORC column ids of the user's columns."""
        types = self.tail.types
        return types[AcidColumn.ROW.orc_id if self.file.acid else 0].children if types else ()

    def bytes_to_read(self, names: Iterable[str]) -> int:
        """Return about how many bytes have to be read for columns (`column_bytes`); none for those that the file lacks."""
        sources = [source for name in names if (source := self._sources.get(name)) is not None]
        statistics, size = self.tail.column_statistics, 0
        for source in sources:
            if source.index is not None:
                column = self._user_columns[source.index]
                is_known = isinstance(source.stored_type, Primitive) and column < len(statistics)
                on_disk = statistics[column].on_disk if is_known else None
                size += column_bytes(self.tail.number_of_rows, on_disk, self.file.length)
        return size

    @property
    def _is_hybrid(self) -> bool:
        """Tell whether days are of the hybrid calendar, as Spark's scan assumes it (``spark.read.scan_source``)."""
        # originals too: Spark's scan of them is that of a plain table (`spark.read.originals`)
        assumed = self.table.kind is TableKind.PLAIN or self.file.original is not None
        unmarked = self.tail.calendar == _UNMARKED and assumed
        return self.tail.calendar == _HYBRID or unmarked

    @property
    def _orc_file(self) -> orc.ORCFile:
        if not hasattr(self._local, "orc_file"):
            self._local.orc_file = self._open()
        return self._local.orc_file

    def _open(self) -> orc.ORCFile:
        path = self.file.path
        try:
            if is_local(path) and not self.file.growing:
                return orc.ORCFile(local_path(path))
            file = FileRange if is_local(path) else FetchedRanges
            source = file(self._fs, path, self.file.length)
            self._local.source = source
            return orc.ORCFile(pa.PythonFile(source, mode="r"))
        except (pa.ArrowException, OSError) as error:
            raise BadFileError(f"can't be read ({error})", path=path) from error

    @property
    def _fetched(self) -> FetchedRanges | None:
        """Return this thread's file object if the file is remote and open."""
        source = getattr(self._local, "source", None)
        return source if isinstance(source, FetchedRanges) else None

    def forget_fetched(self) -> None:
        """Give back what this thread has fetched of a remote file."""
        if self._fetched is not None:
            self._fetched.forget()

    def _read(self, stripe: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        try:
            opened = self._orc_file
            if self._fetched is not None:
                self._fetched.fetch(self.tail, stripe, columns)
            return opened.read_stripe(stripe, columns=None if columns is None else [*columns])
        except pa.ArrowInvalid as error:
            if _OUT_OF_RANGE in str(error):
                raise _TimeOutOfRangeError(
                    f"{self.file.path}: times before 1677 or after 2262, and a column name that Arrow cannot tell from a member of "
                    "another column: read it with Spark"
                ) from error
            raise BadFileError(f"can't be read ({error})", path=self.file.path) from error
        except (pa.ArrowException, OSError) as error:
            raise BadFileError(f"can't be read ({error})", path=self.file.path) from error

    def values(
        self, stripe: int, names: Sequence[str], keep: pa.BooleanArray | None = None
    ) -> dict[str, pa.Array]:
        """Return columns of a stripe by name; ``keep``: an Arrow mask of the rows to return, None for all."""
        sources = {name: self._source(name) for name in names}
        zone = partial(writer_time_zone, self._fs, self.tail, self.tail.stripes[stripe])
        rules = ValueRules(self.file.path, self._is_hybrid, zone)
        stored = self._stored(stripe, sources, rules, keep)
        rows = self.tail.stripes[stripe].rows if keep is None else keep.true_count
        decoded = {}
        for name, source in sources.items():
            if name not in stored:
                decoded[name] = pa.nulls(rows, arrow_type(source.table_type))
                continue
            try:
                decoded[name] = decode(stored[name], source.stored_type, source.table_type, rules)
            except pa.ArrowException as error:
                raise BadFileError(f"column {name} can't be read ({error})", path=self.file.path) from error
        return decoded

    def _stored(
        self, stripe: int, sources: dict[str, _Source], rules: ValueRules, keep: pa.BooleanArray | None
    ) -> dict[str, pa.Array]:
        """Return the columns that the file has by name, as they are stored."""
        indexes = {name: source.index for name, source in sources.items() if source.index is not None}
        if not indexes:
            return {}
        try:
            read = self._columns(stripe, [*indexes.values()])
        except _TimeOutOfRangeError:
            times = {name for name in indexes if has_primitive(sources[name].stored_type, _TIMES)}
            read = self._columns(stripe, [index for name, index in indexes.items() if name not in times])
            for name in times:
                try:
                    read |= self._columns(stripe, [indexes[name]])
                except _TimeOutOfRangeError:
                    read[indexes[name]] = self._times_by_pyorc(stripe, name, sources[name], rules)
        for name, index in indexes.items():
            if sources[name].stored_type == _WALL_CLOCK and rules.has_old_times(read[index]):
                read[index] = self._times_by_pyorc(stripe, name, sources[name], rules)
        return {
            name: read[index] if keep is None else read[index].filter(keep) for name, index in indexes.items()
        }

    def _columns(self, stripe: int, indexes: Sequence[int]) -> dict[int, pa.Array]:
        """Return the user's columns of these indexes by index, as they are stored."""
        if not indexes:
            return {}
        names = [field.name for field in self._schema.fields]
        wanted = [names[index] for index in indexes]
        # Arrow takes ``a.b`` for the member b of a column a, too
        unclear = (name.startswith(f"{other}.") for name in wanted if "." in name for other in names)
        if len({*names}) < len(names) or any(unclear):  # read all
            batch = self._read(stripe, [AcidColumn.ROW] if self.file.acid else None)
            row = batch.column(0) if self.file.acid else None
            return {index: batch.column(index) if row is None else row.field(index) for index in indexes}
        if self.file.acid:
            row = self._read(stripe, [f"{AcidColumn.ROW}.{name}" for name in wanted]).column(0)
            return {index: row.field(names[index]) for index in indexes}
        batch = self._read(stripe, wanted)
        return {index: batch.column(batch.schema.get_field_index(names[index])) for index in indexes}

    def _times_by_pyorc(self, stripe: int, name: str, source: _Source, rules: ValueRules) -> pa.Int64Array:
        """Return a column with times that Arrow refuses, or shows otherwise than Java, in microseconds, read by pyorc."""
        path = self.file.path
        if not isinstance(source.stored_type, Primitive) or source.index is None:
            raise UnsupportedFeatureError(
                f"{path}: column {name} holds times before 1677 or after 2262 inside {source.table_type}: the column can't be read "
                "without Spark; leave it out by columns="
            )
        try:
            import pyorc  # noqa: PLC0415 - for such times only
        except ImportError as error:
            raise UnsupportedFeatureError(
                f"{path}: column {name} holds times before 1677 or after 2262, or old times of the zone {rules.zone() or 'UTC'}: "
                "pip install 'hiveacid[arrow]'"
            ) from error
        field = self._schema.fields[source.index].name
        converters: Any = dict.fromkeys(
            (pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT), MicrosConverter
        )
        file: Any = FileRange(self._fs, path, self.file.length)
        column = f"{AcidColumn.ROW}.{field}" if self.file.acid else field
        # instants, since pyorc shows wall clocks by Arrow's rules
        reader = pyorc.Reader(file, column_names=[column], converters=converters, timezone=rules.time_zone)
        rows = [*reader.read_stripe(stripe)]
        if self.file.acid:  # the ``row`` of a delete event is NULL
            rows = [(None,) if row[0] is None else row[0] for row in rows]
        values = pa.array([row[0] for row in rows], pa.int64())
        if source.stored_type == _WALL_CLOCK:
            values = wall_clocks_of_java(values, rules.time_zone)
        return hybrid_micros(values) if self._is_hybrid else values

    # keys of rows

    def key_ranges(self, stripe: int) -> list[Range | None]:
        """Return the range of each part of a stripe's keys by its statistics; those of an original file result from its name."""
        original = self.file.original
        rows = self.tail.stripes[stripe].rows
        if original is not None:
            first = original.first_row_id + self.first_row(stripe)
            write_id, bucket = int(original.write_id), original.bucket_property
            return [Range(write_id, write_id), Range(bucket, bucket), Range(first, first + rows - 1)]
        statistics = self.tail.stripes[stripe].statistics
        if len(statistics) <= AcidColumn.ROW_ID.orc_id:
            return [None] * len(KEY_COLUMNS)
        parts = (statistics[column.orc_id] for column in KEY_COLUMNS)
        return [part.integers if part.count == rows else None for part in parts]

    def first_row(self, stripe: int) -> int:
        """Return the number of rows in the stripes before a stripe."""
        return sum(info.rows for info in self.tail.stripes[:stripe])

    def acid_columns(self, stripe: int, names: Sequence[str]) -> list[pa.Array]:
        """Return columns of an ACID file beside ``row``."""
        batch = self._read(stripe, names)
        return [batch.column(batch.schema.get_field_index(name)) for name in names]

    def keys(self, stripe: int) -> pa.RecordBatch:
        """Return the keys of a stripe's rows: an Arrow batch of write id, bucket property and row id."""
        original, rows = self.file.original, self.tail.stripes[stripe].rows
        if original is None:
            parts = [column.cast(pa.int64()) for column in self.acid_columns(stripe, KEY_COLUMNS)]
        else:
            first = original.first_row_id + self.first_row(stripe)
            parts = [
                pa.repeat(pa.scalar(int(original.write_id), pa.int64()), rows),
                pa.repeat(pa.scalar(original.bucket_property, pa.int64()), rows),
                pa.array(np.arange(first, first + rows, dtype=np.int64)),
            ]
        return pa.RecordBatch.from_arrays(parts, names=[*KEY_COLUMNS])

    def row_ids(self, stripe: int) -> npt.NDArray[np.int64]:
        """Return only the third part of a stripe's keys, as a numpy array."""
        (column,) = self.acid_columns(stripe, [AcidColumn.ROW_ID])
        return int64_values(column)


def read_events(fs: FileSystem, file: ScanFile, valid: ValidWriteIdList) -> pa.Table:
    """Return the valid delete events of a file as a table of the columns `KEY_COLUMNS` and `AcidColumn.CURRENT_WRITE_ID`.

    Raises BadFileError, StorageError.
    """
    data = fs.read_bytes(file.path, 0, file.length)
    try:
        return read_delete_events(data, valid if file.partly_valid else None)
    except (pa.ArrowException, OSError) as error:
        raise BadFileError(f"can't be read ({error})", path=file.path) from error


def int64_values(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a column as int64, -1 for nulls."""
    column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(-1)
    chunked = isinstance(column, pa.ChunkedArray)
    values: npt.NDArray[np.int64] = column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False)
    return values


class _TimeOutOfRangeError(UnsupportedFeatureError):
    """A time does not fit 64 bits of nanoseconds."""


class FetchedRanges(FileRange):
    """A remote ORC file as a file object for one thread. What was not fetched is read when it is asked for."""

    def __init__(self, fs: FileSystem, path: str, size: int) -> None:
        """Fetch a small file as a whole, of others nothing."""
        super().__init__(fs, path, size)
        self._footers: dict[int, bytes] = {}
        self._kept: dict[int, bytes] = {}
        if size <= _WHOLE:
            self._fetch([(0, size)])

    def fetch(self, tail: OrcTail, stripe: int, columns: Iterable[str] | None) -> None:
        """Fetch what Arrow reads of some columns of a stripe (``row.a``: a field); None for all. Earlier ranges are forgotten.

        Raises BadFileError, StorageError.
        """
        if self._size <= _WHOLE:
            if not self._kept:
                self._fetch([(0, self._size)])
            return
        info = tail.stripes[stripe]
        stop = info.offset + info.length
        start = stop - info.footer_length
        footer = self._footers.get(start)
        if footer is None:
            self._footers[start] = footer = self._fs.read_bytes(self._path, start, info.footer_length)
        ids = column_ids(tail.types, columns)
        streams = [
            (first, last)
            for column, first, last in data_streams(tail, info, footer)
            if column in ids and last <= start
        ]
        self._fetch(pieces(streams))
        self._kept[start] = footer

    def forget(self) -> None:
        """Give the memory of fetched ranges back."""
        self._kept = {}

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._kept = {}

        def read(part: tuple[int, int]) -> bytes:
            return self._fs.read_bytes(self._path, part[0], part[1] - part[0])

        if len(ranges) > 1:
            with ThreadPoolExecutor(min(_AT_ONCE, len(ranges)), thread_name_prefix="hiveacid-fetch") as pool:
                found = [*pool.map(read, ranges)]
        else:
            found = [*map(read, ranges)]
        for (start, stop), data in zip(ranges, found, strict=True):
            if len(data) == stop - start:
                self._kept[start] = data

    def read(self, length: int = -1) -> bytes:
        """Read at most ``length`` bytes, up to the end of the range."""
        left = max(0, self._size - self._at)
        length = left if length < 0 else min(length, left)
        data = self._fetched(self._at, self._at + length)
        if data is None:
            return super().read(length)
        self._at += length
        return data

    def _fetched(self, start: int, stop: int) -> bytes | None:
        """Return bytes of one fetched range, or of several that follow each other; None if some were not fetched."""
        parts, at = [], start
        while at < stop:
            found = next(((f, kept) for f, kept in self._kept.items() if f <= at < f + len(kept)), None)
            if found is None:
                return None
            first, kept = found
            parts.append(kept[at - first : stop - first])
            at += len(parts[-1])
        return b"".join(parts)


def column_ids(types: Sequence[OrcType], columns: Iterable[str] | None) -> Collection[int]:
    """Return the ids of columns (``row.a``: a field), of all that they are in, and of all in them; None for all columns."""
    if columns is None:
        return range(len(types))
    found = {0}
    for column in columns:
        node = 0
        for name in column.split("."):
            if name not in types[node].names:
                return ()
            node = types[node].children[types[node].names.index(name)]
            found.add(node)
        inside = [*types[node].children]
        while inside:
            node = inside.pop()
            found.add(node)
            inside += types[node].children
    return found


def pieces(streams: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges that cover streams, in order and without overlaps: with small gaps between them, and none too large."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(streams):
        if joined and start - joined[-1][1] <= _GAP:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        elif stop > start:
            joined.append((start, stop))
    return [(at, min(at + _PIECE, stop)) for start, stop in joined for at in range(start, stop, _PIECE)]

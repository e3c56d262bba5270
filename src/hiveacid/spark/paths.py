"""Which files one Spark scan can read together, and what their paths say of partitions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition
from hiveacid.core.partitions import format_partition
from hiveacid.core.types import Primitive, parse_type
from hiveacid.spark.expressions import Expression, as_column, cast, named
from hiveacid.spark.types import spark_type

if TYPE_CHECKING:
    from hiveacid.core.evolution import Recipe
    from hiveacid.core.in_order import Key
    from hiveacid.core.listing import DataFile
    from hiveacid.ports import FileSystem
    from hiveacid.storage.listing import Location

_PATTERN = re.compile(r"[\\*?{}\[\]]")
_NO_DECODING = re.compile(r"[A-Za-z0-9_.=/-]*")
_PATH = "_metadata.file_path"


@dataclass(frozen=True)
class FileFacts:
    """What the survey of a snapshot found out about a file (``table.survey``).

    ``recipe``: how its columns are those of the table. ``has_events``: it may hold events of ACID v1.
    ``copy``: the file that is read instead (the flushed part of a streamed one). ``keys``: two record keys between
    which all of its own are, None where its statistics don't tell.
    """

    rows: int
    recipe: Recipe
    has_events: bool = False
    copy: str | None = None
    keys: tuple[Key, Key] | None = None


@dataclass(frozen=True)
class Reading:
    """How a file is read; files of equal readings share a scan.

    ``check``: rows of invalid write ids must be filtered out. ``recipe``: None where files are not ORC.
    ``original``: the file's own path where a copy of it is read.
    """

    check: bool = False
    recipe: Recipe | None = None
    original: str | None = None


FilesOf = Callable[["Location"], Iterable[tuple["DataFile", Reading, str | None]]]
"""Yields the files of a location: each with how it is read, and the path to read instead if there is one."""


@dataclass(frozen=True)
class FileGroup:
    """Files of one scan.

    ``depth``: path components below their location. ``location``: the one they all lie in, ``place`` what tells
    it apart; None: partition values and place come from the path. ``decode``: some partition name is escaped.
    """

    files: tuple[str, ...]
    depth: int
    location: Location | None
    reading: Reading
    decode: bool = False
    place: str | None = None


def group_files(
    fs: FileSystem,
    table: TableDefinition,
    locations: Sequence[Location],
    files_of: FilesOf,
) -> list[FileGroup]:
    """Group the files of all locations into as few scans as can be (100 scans cost 8 times one scan)."""
    single = len(locations) == 1
    groups: dict[tuple[int, str | None, Reading], list[str]] = defaultdict(list)
    places: dict[str, tuple[Location, str]] = {}
    names: set[str] = set()
    for location in locations:
        name = _regular_name(table, location)
        places[location.root] = location, name or location.root
        if name is not None:
            names.add(name)
        for file, reading, copy in files_of(location):
            if file.size == 0:  # Hive 3 leaves 0-byte buckets: no rows
                continue
            own = single or name is None or copy is not None
            key = (file.path.count("/") + 1, location.root if own else None, reading)
            groups[key].append(fs.spark_path(copy or f"{location.root}/{file.path}"))
    decode = not all(_NO_DECODING.fullmatch(name) for name in names)
    found = []
    for (depth, root, reading), files in groups.items():
        where, place = (None, None) if root is None else places[root]
        found.append(FileGroup(tuple(files), depth, where, reading, decode, place))
    return found


def names(paths: Iterable[str]) -> list[str]:
    """Return paths as Spark's readers take them for names and not for patterns.

    (Their option that turns patterns off reads the other files of a scan twice: seen on 4.3.)
    """
    return [_PATTERN.sub(r"\\\g<0>", path) for path in paths]


def _regular_name(table: TableDefinition, location: Location) -> str | None:
    """Return the name of a partition that lies where Hive puts it, None for any other location."""
    if location.partition is None:
        return None
    name = format_partition([c.name for c in table.partition_columns], location.partition.values)
    return name if location.root.rstrip("/") == f"{table.location.rstrip('/')}/{name}" else None


def place_name(table: TableDefinition, location: Location) -> str:
    """Return what `place` is for the rows of a location."""
    return _regular_name(table, location) or location.root


def partition_columns(table: TableDefinition, group: FileGroup) -> list[Expression]:
    """Return the partition columns of a group's rows: literals, or cut out of the file's path.

    Spark prunes files at planning by any later filter on such an expression.
    """
    columns = table.partition_columns
    if group.location is not None:
        values = group.location.partition.values if group.location.partition else ()
        literals = [_typed(F.lit(value), c.type) for value, c in zip(values, columns, strict=True)]
    else:
        literals = [
            _typed(_path_value(group, len(columns) - index), c.type) for index, c in enumerate(columns)
        ]
    return [named(value, c.name) for value, c in zip(literals, columns, strict=True)]


def file_name(group: FileGroup) -> Expression:
    """Return the name of the file that a row lies in, as Spark spells it."""
    return _PATH if group.reading.original is None else F.lit(group.reading.original)


def place(table: TableDefinition, group: FileGroup) -> Expression:
    """Return what tells partitions apart: a row id is unique in its own partition only."""
    if group.place is not None:
        return F.lit(group.place)
    count = len(table.partition_columns)
    name = f"substring_index({_last(group.depth + count)}, '/', {count})"
    return _url_decode(name) if group.decode else name


def top_directory(group: FileGroup) -> str:
    """Return the first path component below a row's location: ``delta_A_B…``, ``base_N…``, or a file of the root."""
    return f"substring_index({_last(group.depth)}, '/', 1)"


def _last(components: int) -> str:
    return f"substring_index({_PATH}, '/', -{components})"


def _path_value(group: FileGroup, from_end: int) -> str:
    segment = f"substring_index({_last(group.depth + from_end)}, '/', 1)"
    value = f"substr({segment}, instr({segment}, '=') + 1)"
    if group.decode:
        # once for the URI in which Spark names files, once for Hive's own escaping of directory names
        value = _url_decode(_url_decode(value))
    # not nullif, which Spark 4 carries out in a projection below that needs all columns of the row
    return f"if({value} = '{DEFAULT_PARTITION}', NULL, {value})"


def _url_decode(value: str) -> str:
    return f"url_decode(replace({value}, '+', '%2B'))"


def _typed(value: Expression, hive: str) -> Expression:
    parsed = parse_type(hive)
    if isinstance(parsed, Primitive) and parsed.name == "char":
        return F.rpad(as_column(value).cast("string"), parsed.args[0], " ")
    return cast(value, spark_type(parsed))

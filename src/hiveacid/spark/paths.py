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
from hiveacid.spark.expressions import Expression

if TYPE_CHECKING:
    from hiveacid.core.evolution import Recipe
    from hiveacid.core.in_order import Key
    from hiveacid.core.listing import DataFile
    from hiveacid.ports import FileSystem
    from hiveacid.storage.listing import Location

_PATTERN = re.compile(r"[\\*?{}\[\]]")
_NO_DECODING = re.compile(r"[A-Za-z0-9_.=/-]*")
PATH = "_metadata.file_path"


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

    ``depth``: path components below their location. ``numbers``: which of ``locations`` each file lies in.
    ``location``: the one they all lie in, None if their paths, as Hive makes them, tell. ``decode``: some partition
    name is escaped.
    """

    files: tuple[str, ...]
    depth: int
    reading: Reading
    numbers: tuple[int, ...]
    locations: Sequence[Location]
    location: Location | None
    decode: bool = False


def group_files(
    fs: FileSystem,
    table: TableDefinition,
    locations: Sequence[Location],
    files_of: FilesOf,
) -> list[FileGroup]:
    """Group the files of all locations into as few scans as can be (100 scans cost 8 times one scan)."""
    single = len(locations) == 1
    groups: dict[tuple[int, str | None, Reading], list[tuple[str, int]]] = defaultdict(list)
    names: set[str] = set()
    for number, location in enumerate(locations):
        name = _regular_name(table, location)
        if name is not None:
            names.add(name)
        for file, reading, copy in files_of(location):
            if file.size == 0:  # Hive 3 leaves 0-byte buckets: no rows
                continue
            own = single or name is None or copy is not None
            key = (file.path.count("/") + 1, location.root if own else None, reading)
            groups[key].append((fs.spark_path(copy or f"{location.root}/{file.path}"), number))
    decode = not all(_NO_DECODING.fullmatch(name) for name in names)
    found = []
    for (depth, root, reading), members in groups.items():
        files, numbers = (tuple(column) for column in zip(*members, strict=True))
        where = None if root is None else locations[numbers[0]]
        found.append(FileGroup(files, depth, reading, numbers, locations, where, decode))
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
    """Return what tells partitions apart: a row id is unique in its own partition only."""
    return _regular_name(table, location) or location.root


def file_name(group: FileGroup) -> Expression:
    """Return the name of the file that a row lies in, as Spark spells it."""
    return PATH if group.reading.original is None else F.lit(group.reading.original)


def cut_place(table: TableDefinition, group: FileGroup) -> str:
    """Return `place_name` of a row's location as the path of its file has it."""
    count = len(table.partition_columns)
    name = f"substring_index({_last(group.depth + count)}, '/', {count})"
    return _url_decode(name) if group.decode else name


def top_directory(group: FileGroup) -> str:
    """Return the first path component below a row's location: ``delta_A_B…``, ``base_N…``, or a file of the root."""
    return f"substring_index({_last(group.depth)}, '/', 1)"


def _last(components: int) -> str:
    return f"substring_index({PATH}, '/', -{components})"


def cut_value(group: FileGroup, from_end: int) -> str:
    """Return a partition value out of the path of a row's file; ``from_end``: 1 is the last partition column."""
    segment = f"substring_index({_last(group.depth + from_end)}, '/', 1)"
    value = f"substr({segment}, instr({segment}, '=') + 1)"
    if group.decode:
        # once for the URI in which Spark names files, once for Hive's own escaping of directory names
        value = _url_decode(_url_decode(value))
    # not nullif, which Spark 4 carries out in a projection below that needs all columns of the row
    return f"if({value} = '{DEFAULT_PARTITION}', NULL, {value})"


def _url_decode(value: str) -> str:
    return f"url_decode(replace({value}, '+', '%2B'))"

"""Groups of files that one Spark scan reads together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location

_GLOB = re.compile(r"[\\*?{}\[\]]")
_UNESCAPED = re.compile(r"[A-Za-z0-9_.=/-]*")


class ReadOptions(NamedTuple):
    """Options of reading a file; files with equal options share a scan.

    ``check``: rows of invalid write ids must be filtered out. ``mapping``: None if the file is not ORC.
    ``original``: the file's own path if a copy of it is read.
    """

    check: bool = False
    mapping: ColumnMapping | None = None
    original: str | None = None


FilesOf = Callable[[Location], Sequence[ScanFile]]
"""Returns files of a location."""


@dataclass(frozen=True)
class FileGroup:
    """Files of one scan.

    ``depth``: path components below the location. ``numbers``: for each file, the index of its location in
    ``locations``. ``location``: the location of all files, None if it follows from their paths, which are then as Hive
    makes them. ``decode``: some partition name is escaped. ``sizes``: bytes and modification time in ms, by file.
    """

    files: tuple[str, ...]
    depth: int
    options: ReadOptions
    numbers: tuple[int, ...]
    locations: Sequence[Location]
    location: Location | None
    decode: bool = False
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def identity(self) -> dict[str, str]:
        """Reader option that differs if the files of two scans do.

        Spark takes scans of the same paths for the same rows, and answers them from a DataFrame that is cached. A table that
        was dropped and created again, or a plain one that was overwritten, has files of the same names.
        """
        return {"hiveacid.files": blake2b(repr(self.sizes).encode(), digest_size=16).hexdigest()}


def group_files(table: TableDefinition, locations: Sequence[Location], files_of: FilesOf) -> list[FileGroup]:
    """Group the files of all locations into as few scans as possible (100 scans cost 8 times one scan)."""
    single = len(locations) == 1
    groups: dict[tuple[int, str | None, ReadOptions], list[tuple[str, int, tuple[int, int]]]] = defaultdict(
        list
    )
    names: set[str] = set()
    for number, location in enumerate(locations):
        name = _regular_name(table, location)
        if name is not None:
            names.add(name)
        root = spark_path(location.root)
        for file in files_of(location):
            listed, copy = file.listed, file.copy
            options = ReadOptions(
                file.partly_valid, file.mapping, None if copy is None else spark_path(file.path)
            )
            own = single or name is None or copy is not None
            key = (listed.path.count("/") + 1, location.root if own else None, options)
            path = f"{root}/{listed.path}" if copy is None else spark_path(copy)
            groups[key].append((path, number, (listed.size, listed.modified)))
    decode = not all(_UNESCAPED.fullmatch(name) for name in names)
    file_groups = []
    for (depth, place, options), members in groups.items():
        files, numbers, sizes = (tuple(column) for column in zip(*members, strict=True))
        shared = None if place is None else locations[numbers[0]]
        file_groups.append(FileGroup(files, depth, options, numbers, locations, shared, decode, sizes))
    return file_groups


def escape_globs(paths: Iterable[str]) -> list[str]:
    """Escape the glob characters of paths, so that Spark's readers take them literally.

    The readers' option that turns globs off reads the other files of a scan twice (seen on 4.3).
    """
    return [_GLOB.sub(r"\\\g<0>", path) for path in paths]


def _regular_name(table: TableDefinition, location: Location) -> str | None:
    """Return the name of a partition that lies at Hive's default path; None for any other location."""
    if location.partition is None:
        return None
    name = format_partition(table.partition_column_names, location.partition.values)
    return name if location.root.rstrip("/") == f"{table.location.rstrip('/')}/{name}" else None


def partition_key(table: TableDefinition, location: Location) -> str:
    """Return the key that tells partitions apart: a row id is unique only within its partition."""
    return _regular_name(table, location) or location.root

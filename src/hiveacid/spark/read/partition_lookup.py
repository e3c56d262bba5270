"""Partition and partition columns of a row: literals, a lookup of its file's path, or parts of that path.

Nothing can be added to the columns of an ACID file (``spark.read.acid_rows``), so that Spark's own partition columns
cannot be used. A path also tells the directory and the statement id of a row. A lookup in a hash table of paths keeps
the generated code short: the JVM does not compile long methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from urllib.parse import unquote

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import FormatError
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named
from hiveacid.spark.formats.types import spark_type
from hiveacid.spark.read.scan_source import FileGroup, partition_key
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import map_lookup, strings_of
from hiveacid.storage.snapshot_locations import Location

_MAX_FILES = 1000
"""Maximum number of files of a lookup: each task gets hash tables of 0.1 MB for each partition column and for the index of the location."""
_EMPTY_AUTHORITY = re.compile(r"^([A-Za-z0-9+.-]+):///(?!/)")
_STATEMENT = r"^delta_[0-9]+_[0-9]+_([0-9]+)$"
FILE_PATH = "_metadata.file_path"


@dataclass(frozen=True)
class PartitionKeyColumns:
    """Partition of a row in columns that were computed before."""

    name: str
    number: str


@dataclass(frozen=True)
class PartitionLookup:
    """Partition of the rows of a group's scan, as expressions; ``frame``: the scan of its files."""

    env: SparkEnvironment
    table: TableDefinition
    group: FileGroup
    frame: DataFrame = field(repr=False)

    @property
    def name(self) -> Expression:
        """Return the `partition_key`. Raises FormatError if Spark reads other files than those of the group."""
        if self._only_path_tells:
            return partition_key_from_path(self.table, self.group)
        return self._by_location(lambda location: partition_key(self.table, location), "string")

    @property
    def number(self) -> Expression:
        """Return the index of the row's location. Raises FormatError as `name` does."""
        locations = self.group.locations
        if self.group.location is not None:
            return str(self.group.numbers[0])
        if self._only_path_tells:
            numbers = {partition_key(self.table, location): i for i, location in enumerate(locations)}
            return map_lookup(
                self.env, numbers, as_column(partition_key_from_path(self.table, self.group)), "int"
            )
        by_root = {location.root: i for i, location in enumerate(locations)}
        return self._by_location(lambda location: by_root[location.root], "int")

    @property
    def columns(self) -> list[Expression]:
        """Return the partition columns. Spark prunes files at planning by any later filter on them.

        Raises FormatError as `name` does.
        """
        columns = self.table.partition_columns
        expressions: list[Expression] = []
        for index, column in enumerate(columns):
            if self._only_path_tells:
                value: Expression = partition_value_from_path(self.group, len(columns) - index)
            else:
                value = self._by_location(partial(_partition_value, index), "string")
            expressions.append(named(_typed_value(value, column.type), column.name))
        return expressions

    @property
    def _only_path_tells(self) -> bool:
        """Tell whether only the path of a row's file tells its partition."""
        looked_up = self.table.partition_columns and can_look_up(self.group)
        return self.group.location is None and not looked_up

    def _by_location(self, value: Callable[[Location], str | int | None], kind: str) -> Expression:
        """Return the value of a row's location, of a Spark type."""
        if self.group.location is not None:
            return F.lit(value(self.group.location)).cast(kind)
        values = {path: value(location) for path, location in self._locations.items()}
        return map_lookup(self.env, values, F.col(FILE_PATH), kind)

    @cached_property
    def _locations(self) -> dict[str, Location]:
        """Locations by the paths of files, as Spark spells them; asking Spark for its files costs time."""
        indexes = index_by_spark_path(self.env, self.table, self.group, self.frame)
        numbers = self.group.numbers
        return {path: self.group.locations[numbers[index]] for path, index in indexes.items()}


PartitionKey = PartitionKeyColumns | PartitionLookup
"""Partition of a row: ``name`` tells partitions apart; ``number`` is the index of the row's location in the scan."""


def _partition_value(index: int, location: Location) -> str | None:
    return location.partition.values[index] if location.partition else None


def index_by_spark_path(
    env: SparkEnvironment, table: TableDefinition, group: FileGroup, frame: DataFrame
) -> dict[str, int]:
    """Return the index of each of a group's files by its path, spelled as in ``_metadata``.

    ``frame``: the scan of the files. Raises FormatError if Spark reads other files.
    """
    depth = path_depth(table, group)
    wanted = {_path_tail(file, depth): index for index, file in enumerate(group.files)}
    java_frame: JavaObject = frame._jdf  # noqa: SLF001
    tails = {path: _path_tail(unquote(path), depth) for path in strings_of(env, java_frame.inputFiles())}
    if set(tails.values()) != wanted.keys():
        other = sorted(wanted.keys() ^ set(tails.values()))
        raise FormatError(f"Spark reads other files of {table.name} than it was told", path=other[0])
    # Hadoop's paths lose the empty authority of file:///, in whichever version of Spark
    short = {_EMPTY_AUTHORITY.sub(r"\1:/", path): tail for path, tail in tails.items()}
    return {path: wanted[tail] for path, tail in (tails | short).items()}


def can_look_up(group: FileGroup) -> bool:
    """Tell whether values of a file's rows can be looked up by its path: not for very many files."""
    return len(group.files) <= _MAX_FILES


def path_depth(table: TableDefinition, group: FileGroup) -> int:
    """Return the number of last path components that tell a file from all others of its group."""
    return group.depth + (len(table.partition_columns) if group.location is None else 0)


def _path_tail(path: str, depth: int) -> str:
    return "/".join(path.split("/")[-depth:])


def _typed_value(value: Expression, hive: str) -> Expression:
    parsed = parse_type(hive)
    if isinstance(parsed, Primitive) and parsed.name == "char":
        return F.rpad(as_column(value).cast("string"), parsed.args[0], " ")
    return cast(value, spark_type(parsed))


def row_file_name(group: FileGroup) -> Expression:
    """Return the path of a row's file, as an expression."""
    return decoded_path() if group.options.original is None else F.lit(group.options.original)


def decoded_path(path: str = FILE_PATH) -> str:
    """Return a path as it is on disk: ``_metadata`` has URIs, with ``%20`` for a blank."""
    return f"url_decode(replace({path}, '+', '%2B'))"


def partition_key_from_path(table: TableDefinition, group: FileGroup) -> str:
    """Return a row's `partition_key`, cut out of the path of its file."""
    count = len(table.partition_columns)
    name = f"substring_index({_last_components(group.depth + count)}, '/', {count})"
    return decoded_path(name) if group.decode else name


def top_directory(group: FileGroup) -> str:
    """Return the first path component below a row's location: ``delta_A_B…``, ``base_N…``, or a file of the root."""
    return f"substring_index({_last_components(group.depth)}, '/', 1)"


def statement_id_from_path(depth: int) -> str:
    """Return the statement id in the directory name of a row's file, 0 if it has none.

    ``depth``: path components of the file below its location.
    """
    statement = f"regexp_extract(substring_index({_last_components(depth)}, '/', 1), '{_STATEMENT}', 1)"
    return f"if({statement} = '', 0, CAST({statement} AS INT))"


def _last_components(components: int) -> str:
    return f"substring_index({FILE_PATH}, '/', -{components})"


def partition_value_from_path(group: FileGroup, from_end: int) -> str:
    """Return a partition value, cut out of the path of a row's file; ``from_end``: 1 is the last partition column."""
    segment = f"substring_index({_last_components(group.depth + from_end)}, '/', 1)"
    value = f"substr({segment}, instr({segment}, '=') + 1)"
    if group.decode:
        # once for the URI in which Spark names files, once for Hive's own escaping of directory names
        value = decoded_path(decoded_path(value))
    # not nullif, which Spark 4 evaluates in a projection below that needs all columns of the row
    return f"if({value} = '{DEFAULT_PARTITION}', NULL, {value})"

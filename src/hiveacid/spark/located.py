"""Where a row lies, and what its partition columns are: literals, looked up by the path of its file, or cut out of it.

Nothing can be added to the columns of an ACID file (``spark.scan``), so that Spark's own partition columns are out
of reach. A look into a hash table of paths takes little code, and none of it twice: long methods are not compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from pyspark.sql import functions as F

from hiveacid.core.types import Primitive, parse_type
from hiveacid.errors import FormatError
from hiveacid.spark.expressions import Expression, as_column, cast, named
from hiveacid.spark.jvm import lookup, texts_of
from hiveacid.spark.paths import PATH, FileGroup, cut_place, cut_value, place_name
from hiveacid.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableDefinition
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location

_MOST_FILES = 1000
"""Every task gets a hash table for each partition column, and one for the number: of so many files 0.1 MB each."""
_EMPTY_AUTHORITY = re.compile(r"^([A-Za-z0-9+.-]+):///(?!/)")


class Located(Protocol):
    """What tells where a row lies: by name (`place_name`), and by its number among the scan's locations."""

    @property
    def name(self) -> Expression:
        """Return what tells partitions apart."""
        ...

    @property
    def number(self) -> Expression:
        """Return which of the scan's locations it is."""
        ...


@dataclass(frozen=True)
class Counted:
    """The same as columns that were computed before."""

    name: str
    number: str


Values = Callable[["Location"], str | int | None]


@dataclass(frozen=True)
class Place:
    """Expressions over a row of a group's scan.

    ``of``: given what each location has, and the Spark type of that, returns what the row's has; None: nothing but the
    path can tell.
    """

    facts: SparkFacts
    table: TableDefinition
    group: FileGroup
    of: Callable[[Values, str], Expression] | None = field(repr=False)

    @property
    def name(self) -> Expression:
        """Return what tells partitions apart (`place_name`). Raises FormatError where Spark reads other files."""
        if self.of is None:
            return cut_place(self.table, self.group)
        return self.of(lambda at: place_name(self.table, at), "string")

    @property
    def number(self) -> Expression:
        """Return which of the scan's locations a row lies in; classic sessions only. Raises FormatError as `name`."""
        locations = self.group.locations
        if self.group.location is not None:
            return F.lit(self.group.numbers[0])
        if self.of is None:
            numbers = {place_name(self.table, at): nth for nth, at in enumerate(locations)}
            return lookup(self.facts, numbers, as_column(cut_place(self.table, self.group)), "int")
        known = {at.root: nth for nth, at in enumerate(locations)}
        return self.of(lambda at: known[at.root], "int")

    @property
    def columns(self) -> list[Expression]:
        """Return the partition columns. Spark prunes files at planning by any later filter on them.

        Raises FormatError as `name`.
        """
        columns = self.table.partition_columns
        found: list[Expression] = []
        for index, column in enumerate(columns):
            if self.of is None:
                value: Expression = cut_value(self.group, len(columns) - index)
            else:
                value = self.of(partial(_value, index), "string")
            found.append(named(_typed(value, column.type), column.name))
        return found


def _value(index: int, at: Location) -> str | None:
    return at.partition.values[index] if at.partition else None


def place_of(facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame) -> Place:
    """Return where the rows of a group lie; ``frame`` is the scan of its files."""
    own = group.location
    if own is not None:
        return Place(facts, table, group, lambda value, kind: F.lit(value(own)).cast(kind))
    if not table.partition_columns or not can_look_up(facts, group):
        return Place(facts, table, group, None)
    places: list[tuple[str, Location]] = []

    def looked_up(value: Values, kind: str) -> Expression:
        if not places:
            places.extend(_by_path(facts, table, group, frame))
        return lookup(facts, {path: value(at) for path, at in places}, F.col(PATH), kind)

    return Place(facts, table, group, looked_up)


def _by_path(
    facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame
) -> list[tuple[str, Location]]:
    """Return the path of each file, spelled as ``_metadata`` has it, with its location."""
    found = spelled(facts, table, group, frame)
    return [(path, group.locations[group.numbers[nth]]) for path, nth in found.items()]


def spelled(facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame) -> dict[str, int]:
    """Return which of a group's files it is by its path as ``_metadata`` spells it; ``frame`` is the scan of the files.

    Classic sessions only. Raises FormatError where Spark reads other files.
    """
    depth = depth_of(table, group)
    wanted = {_tail(file, depth): nth for nth, file in enumerate(group.files)}
    inside: Any = frame._jdf  # noqa: SLF001 - a classic session's
    found = {path: _tail(unquote(path), depth) for path in texts_of(facts, inside.inputFiles())}
    if set(found.values()) != wanted.keys():
        other = sorted(wanted.keys() ^ set(found.values()))
        raise FormatError(f"Spark reads other files of {table.name} than it was told", path=other[0])
    # Hadoop's paths lose the empty authority of file:///, in whichever version of Spark
    short = {_EMPTY_AUTHORITY.sub(r"\1:/", path): tail for path, tail in found.items()}
    return {path: wanted[tail] for path, tail in (found | short).items()}


def can_look_up(facts: SparkFacts, group: FileGroup) -> bool:
    """Tell whether what the rows of a file have in common is looked up by its path; on Connect nothing is."""
    return facts.classic and len(group.files) <= _MOST_FILES


def depth_of(table: TableDefinition, group: FileGroup) -> int:
    """Return how many of the last components of its path tell a file from all others of its group."""
    return group.depth + (len(table.partition_columns) if group.location is None else 0)


def _tail(path: str, depth: int) -> str:
    return "/".join(path.split("/")[-depth:])


def _typed(value: Expression, hive: str) -> Expression:
    parsed = parse_type(hive)
    if isinstance(parsed, Primitive) and parsed.name == "char":
        return F.rpad(as_column(value).cast("string"), parsed.args[0], " ")
    return cast(value, spark_type(parsed))

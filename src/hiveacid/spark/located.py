"""Where a row lies, and what its partition columns are: literals, looked up by the path of its file, or cut out of it.

Nothing can be added to the columns of an ACID file (``spark.scan``), so that Spark's own partition columns are out
of reach. A look into a hash table of paths takes little code, and none of it twice: long methods are not compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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

_MOST_FILES = 1000
"""Every task gets the whole hash table: a tenth of a megabyte, and a few milliseconds."""
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


@dataclass(frozen=True)
class Place:
    """Expressions over a row of a group's scan. ``of`` returns a value a location: text or number, and its type."""

    table: TableDefinition
    group: FileGroup
    of: Callable[[Sequence[str | int | None], str], Expression] | None = field(repr=False)

    @cached_property
    def name(self) -> Expression:
        """Return what tells partitions apart (`place_name`)."""
        if self.of is None:
            return cut_place(self.table, self.group)
        return self.of([place_name(self.table, at) for at in self.group.locations], "string")

    @cached_property
    def number(self) -> Expression:
        """Return which of the scan's locations a row lies in."""
        count = len(self.group.locations)
        if self.of is not None:
            return self.of(range(count), "int")
        return numbered(
            cut_place(self.table, self.group), [place_name(self.table, at) for at in self.group.locations]
        )

    @property
    def columns(self) -> list[Expression]:
        """Return the partition columns. Spark prunes files at planning by any later filter on them."""
        columns = self.table.partition_columns
        found: list[Expression] = []
        for index, column in enumerate(columns):
            if self.of is None:
                value: Expression = cut_value(self.group, len(columns) - index)
            else:
                known = [at.partition.values[index] if at.partition else None for at in self.group.locations]
                value = self.of(known, "string")
            found.append(named(_typed(value, column.type), column.name))
        return found


def place_of(facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame) -> Place:
    """Return where the rows of a group lie; ``frame`` is the scan of its files.

    Raises FormatError where Spark does not read all of them.
    """
    if group.location is not None:
        nth = group.numbers[0]
        return Place(table, group, lambda values, kind: F.lit(values[nth]).cast(kind))
    if not table.partition_columns or not facts.classic or len(group.files) > _MOST_FILES:
        return Place(table, group, None)
    numbers: list[tuple[str, int]] = []

    def looked_up(values: Sequence[str | int | None], kind: str) -> Expression:
        if not numbers:
            numbers.extend(_by_path(facts, table, group, frame))
        return lookup(facts, {path: values[number] for path, number in numbers}, F.col(PATH), kind)

    return Place(table, group, looked_up)


def numbered(name: Expression, among: Sequence[str]) -> Expression:
    """Return the place of a text among others, counted from 0; another text is an error of Spark's."""
    position = F.call_function("array_position", F.array(*map(F.lit, among)), as_column(name))
    return F.element_at(F.array(*map(F.lit, range(len(among)))), position.cast("int"))


def _by_path(
    facts: SparkFacts, table: TableDefinition, group: FileGroup, frame: DataFrame
) -> list[tuple[str, int]]:
    """Return the path of each file, spelled as ``_metadata`` has it, with the number of its location."""
    depth = group.depth + len(table.partition_columns)
    wanted = {_tail(file, depth): number for file, number in zip(group.files, group.numbers, strict=True)}
    inside: Any = frame._jdf  # noqa: SLF001 - a classic session's
    found = [
        (path, wanted.pop(_tail(unquote(path), depth), None)) for path in texts_of(facts, inside.inputFiles())
    ]
    if wanted or any(number is None for _, number in found):
        raise FormatError(f"Spark reads other files of {table.name} than it was told: {sorted(wanted)[:3]}")
    paths = [(path, number) for path, number in found if number is not None]
    # Hadoop's paths lose the empty authority of file:///, in whichever version of Spark
    return [
        *paths,
        *(
            (short, number)
            for path, number in paths
            if (short := _EMPTY_AUTHORITY.sub(r"\1:/", path)) != path
        ),
    ]


def _tail(path: str, depth: int) -> str:
    return "/".join(path.split("/")[-depth:])


def _typed(value: Expression, hive: str) -> Expression:
    parsed = parse_type(hive)
    if isinstance(parsed, Primitive) and parsed.name == "char":
        return F.rpad(as_column(value).cast("string"), parsed.args[0], " ")
    return cast(value, spark_type(parsed))

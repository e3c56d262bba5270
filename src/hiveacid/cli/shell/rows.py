"""Formats of rows for people: a table that fits the terminal, one value per line, or plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hiveacid.cli.options import escape_controls
from hiveacid.cli.show import aligned_right, as_texts
from hiveacid.spark.session.error_translation import translate_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NARROWEST = 6  # characters of a column; narrower ones are not readable
_FRAME = 3  # characters around a column of a table


@dataclass(frozen=True)
class Result:
    """Rows as texts (None: NULL). ``right``: columns of numbers. ``more``: the query has more rows than these."""

    columns: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: bool = False


def fetch(frame: DataFrame, limit: int | None) -> Result:
    """Run a query and return its first ``limit`` rows (None: all). Raises this project's errors."""
    with translate_errors():
        texts = as_texts(frame)
        rows = texts.collect() if limit is None else texts.take(limit + 1)
    kept = tuple(tuple(row) for row in rows[:limit])
    return Result(tuple(frame.columns), tuple(aligned_right(frame)), kept, more=len(rows) > len(kept))


def _cells(result: Result) -> list[list[str]]:
    """Return the names of the columns and the rows, as they are printed."""
    return [[_shown(cell) for cell in row] for row in (result.columns, *result.rows)]


def _shown(cell: str | None) -> str:
    return "NULL" if cell is None else escape_controls(cell)


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*cells, strict=True)]


def plain_table(result: Result) -> Iterator[str]:
    """Yield lines of aligned columns without frames; nothing is cut."""
    cells = _cells(result)
    widths = _widths(cells)
    for row in cells:
        padded = [
            " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
            for cell, width, right in zip(row, widths, result.right, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def vertical(result: Result) -> Iterator[str]:
    """Yield each value on a line of its own; nothing is cut."""
    for number, row in enumerate(result.rows, start=1):
        yield f"row {number}"
        for name, cell in zip(result.columns, row, strict=True):
            yield f"  {escape_controls(name)}: {_shown(cell)}"


def widest(result: Result) -> int:
    """Return the width in characters of a table in which nothing is cut."""
    widths = _widths(_cells(result))
    return sum(widths) + _FRAME * len(widths) + 1


def is_crowded(columns: int, width: int) -> bool:
    """Tell whether a table of ``columns`` columns would be too narrow to read at ``width`` characters."""
    return columns * (_NARROWEST + _FRAME) + 1 > width


def print_boxed(console: Console, columns: Sequence[str], result: Result) -> None:
    """Print a table that fits the terminal; longer values are cut and end with an ellipsis."""
    table = Table(box=ROUNDED)
    for name, right in zip(columns, result.right, strict=True):
        justify = "right" if right else "left"
        table.add_column(Text(escape_controls(name)), justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]
    for row in result.rows:
        table.add_row(
            *[Text("NULL", style="dim") if cell is None else Text(escape_controls(cell)) for cell in row]
        )
    console.print(table)

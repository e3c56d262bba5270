"""Output of the shell: rows on standard output (boxed, plain or vertical), everything else on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from pyspark.sql import DataFrame
from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hiveacid.cli.options import escape_controls, print_error
from hiveacid.cli.output_formats import aligned_right, as_texts
from hiveacid.cli.shell.backslash_commands import DisplayOptions
from hiveacid.cli.shell.entries import Entry
from hiveacid.errors import StatementError
from hiveacid.spark.session.error_translation import translate_errors

_POSITION = re.compile(r"\(line (\d+), column (\d+)\)\Z")
_NARROWEST = 6  # characters of a column; narrower ones are not readable
_FRAME = 3  # characters around a column of a table


@dataclass(frozen=True)
class StatementResult:
    """Rows as texts (None: NULL). ``right_aligned``: columns of numbers. ``more``: the query has more rows than these."""

    columns: tuple[str, ...]
    right_aligned: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: bool = False


def fetch(frame: DataFrame, limit: int | None) -> StatementResult:
    """Run a query and return its first ``limit`` rows (None: all). Raises this project's errors."""
    with translate_errors():
        texts = as_texts(frame)
        rows = texts.collect() if limit is None else texts.take(limit + 1)
    shown_rows = tuple(tuple(row) for row in rows[:limit])
    return StatementResult(
        tuple(frame.columns), tuple(aligned_right(frame)), shown_rows, more=len(rows) > len(shown_rows)
    )


def _cells(result: StatementResult) -> list[list[str]]:
    """Return the names of the columns and the rows, as they are printed."""
    return [[_shown(cell) for cell in row] for row in (result.columns, *result.rows)]


def _shown(cell: str | None) -> str:
    return "NULL" if cell is None else escape_controls(cell)


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*cells, strict=True)]


def plain_table(result: StatementResult) -> Iterator[str]:
    """Yield lines of aligned columns without frames; nothing is cut."""
    cells = _cells(result)
    widths = _widths(cells)
    for row in cells:
        padded = [
            " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
            for cell, width, right in zip(row, widths, result.right_aligned, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def vertical(result: StatementResult) -> Iterator[str]:
    """Yield each value on a line of its own; nothing is cut."""
    for number, row in enumerate(result.rows, start=1):
        yield f"row {number}"
        for name, cell in zip(result.columns, row, strict=True):
            yield f"  {escape_controls(name)}: {_shown(cell)}"


def uncut_width(result: StatementResult) -> int:
    """Return the width in characters of a table in which nothing is cut."""
    widths = _widths(_cells(result))
    return sum(widths) + _FRAME * len(widths) + 1


def is_crowded(columns: int, width: int) -> bool:
    """Tell whether a table of ``columns`` columns would be too narrow to read at ``width`` characters."""
    return columns * (_NARROWEST + _FRAME) + 1 > width


def print_boxed(console: Console, columns: Sequence[str], result: StatementResult) -> None:
    """Print a table that fits the terminal; longer values are cut and end with an ellipsis."""
    table = Table(box=ROUNDED)
    for name, right in zip(columns, result.right_aligned, strict=True):
        justify = "right" if right else "left"
        table.add_column(Text(escape_controls(name)), justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]
    for row in result.rows:
        table.add_row(
            *[Text("NULL", style="dim") if cell is None else Text(escape_controls(cell)) for cell in row]
        )
    console.print(table)


@dataclass(frozen=True)
class Screen:
    """Standard input and output. ``interactive``: a person types. ``plain``: no frames, no colours, no cursor movement."""

    interactive: bool
    plain: bool

    @classmethod
    def detect(cls, *, plain: bool) -> Screen:
        """Detect the properties of standard input and output; a dumb terminal, or none, is plain."""
        dumb = os.environ.get("TERM", "dumb") in {"", "dumb"}
        return cls(sys.stdin.isatty(), plain or dumb or not sys.stdout.isatty())

    @property
    def uses_editor(self) -> bool:
        """Tell whether lines are typed in the editor, with history and completion."""
        return self.interactive and not self.plain

    @property
    def shows_progress(self) -> bool:
        """Tell whether a progress line may be shown."""
        return self.interactive and not self.plain and sys.stderr.isatty()

    def note(self, text: str) -> None:
        """Print a message to a person; from a pipe, nothing."""
        if self.interactive:
            click.echo(text, err=True)

    def raw(self, text: str) -> None:
        """Write a text to standard error unchanged."""
        sys.stderr.write(text)
        sys.stderr.flush()

    def rows(self, result: StatementResult, display: DisplayOptions) -> None:
        """Print rows, with a note if values are cut."""
        console = None if self.plain else Console(file=sys.stdout)
        below = display.vertical
        if below is None:
            below = console is not None and is_crowded(len(result.columns), console.width)
        if below:
            self._lines(vertical(result))
        elif console is None:
            self._lines(plain_table(result))
        else:
            print_boxed(console, result.columns, result)
            if uncut_width(result) > console.width:
                self.note("longer values are cut to the width of the terminal: \\vertical shows them whole")

    def _lines(self, lines: Iterator[str]) -> None:
        for line in lines:
            click.echo(line)

    def error(self, error: Exception, entry: Entry) -> None:
        """Print an error, and its position in the statement if it is known."""
        print_error(error)
        position = error_position(error)
        lines = entry.text.split("\n")
        if position is None or not 0 <= position[0] - entry.line < len(lines):
            return
        line, column = lines[position[0] - entry.line], position[1]
        if self.plain:
            click.echo(f"line {position[0]}: {escape_controls(line.strip())}", err=True)
            click.echo(f"here: {escape_controls(line[column - 1 :].strip()) or 'at the end'}", err=True)
        else:
            click.echo(f"  {line}", err=True)
            click.echo("  " + "".join("\t" if c == "\t" else " " for c in line[: column - 1]) + "^", err=True)


def error_position(error: Exception) -> tuple[int, int] | None:
    """Return the line and column of an error, both from 1; None if it has no position."""
    if isinstance(error, StatementError) and error.line is not None and error.column is not None:
        return error.line, error.column
    match = _POSITION.search(str(error))
    return (int(match[1]), int(match[2])) if match else None

"""Output of the shell: rows on standard output, everything else on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Console

from hiveacid.cli.options import escape_controls, print_error
from hiveacid.cli.shell.rows import (
    Result,
    is_crowded,
    plain_table,
    print_boxed,
    vertical,
    widest,
)
from hiveacid.errors import StatementError

if TYPE_CHECKING:
    from hiveacid.cli.shell.commands import DisplayOptions
    from hiveacid.cli.shell.entries import Entry

_POSITION = re.compile(r"\(line (\d+), column (\d+)\)\Z")


@dataclass(frozen=True)
class Screen:
    """Standard input and output. ``typed``: a person types. ``plain``: no frames, no colours, no cursor movement."""

    typed: bool
    plain: bool

    @classmethod
    def here(cls, *, plain: bool) -> Screen:
        """Detect the properties of standard input and output; a dumb terminal, or none, is plain."""
        dumb = os.environ.get("TERM", "dumb") in {"", "dumb"}
        return cls(sys.stdin.isatty(), plain or dumb or not sys.stdout.isatty())

    @property
    def edits(self) -> bool:
        """Tell whether lines are typed in the editor, with history and completion."""
        return self.typed and not self.plain

    @property
    def shows_progress(self) -> bool:
        """Tell whether a progress line may be shown."""
        return self.typed and not self.plain and sys.stderr.isatty()

    def note(self, text: str) -> None:
        """Print a message to a person; from a pipe, nothing."""
        if self.typed:
            click.echo(text, err=True)

    def raw(self, text: str) -> None:
        """Write a text to standard error unchanged."""
        sys.stderr.write(text)
        sys.stderr.flush()

    def rows(self, result: Result, view: DisplayOptions) -> None:
        """Print rows, with a note if values are cut."""
        console = None if self.plain else Console(file=sys.stdout)
        below = view.vertical
        if below is None:
            below = console is not None and is_crowded(len(result.columns), console.width)
        if below:
            self._lines(vertical(result))
        elif console is None:
            self._lines(plain_table(result))
        else:
            print_boxed(console, result.columns, result)
            if widest(result) > console.width:
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

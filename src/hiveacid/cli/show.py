"""Rows on standard output: as a table for people, as JSON lines, CSV or TSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
from rich.box import ASCII2, ROUNDED
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WIDEST = 100_000  # of a table that goes to a file or pipe: nothing is cut or wrapped
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_RIGHT = ("int", "bigint", "smallint", "tinyint", "float", "double", "decimal")


def show(frame: DataFrame, output: str) -> None:
    """Print a DataFrame; one without columns (of a definition) prints nothing.

    Raises this project's errors for what goes wrong while it runs.
    """
    from hiveacid.spark.session.error_translation import translate_errors  # noqa: PLC0415 - imports PySpark

    if frame.columns:
        with translate_errors():
            _print_frame(frame, output)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]], output: str) -> None:
    """Print rows of texts and whole numbers that no DataFrame holds."""
    if output == "json":
        for row in rows:
            click.echo(
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
            )
    else:
        numbers = [any(isinstance(row[place], int) for row in rows) for place in range(len(columns))]
        texts = [[None if cell is None else str(cell) for cell in row] for row in rows]
        _print_rows(columns, texts, numbers, output)


def _print_frame(frame: DataFrame, output: str) -> None:
    if output == "json":
        for (line,) in _rows(frame.toDF(*_numbered_names(frame)).selectExpr(_as_json(frame.columns))):
            click.echo(line)
        return
    _print_rows(frame.columns, _rows(as_texts(frame)), aligned_right(frame), output)


def as_texts(frame: DataFrame) -> DataFrame:
    """Return all values as texts, binary ones in hexadecimal digits; columns are named c0, c1 ..."""
    casts = [
        _as_text(name, kind) for name, (_, kind) in zip(_numbered_names(frame), frame.dtypes, strict=True)
    ]
    return frame.toDF(*_numbered_names(frame)).selectExpr(*casts)


def aligned_right(frame: DataFrame) -> list[bool]:
    """Tell of each column whether it holds numbers."""
    return [kind.partition("(")[0] in _RIGHT for _, kind in frame.dtypes]


def _print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str | None]], right: Sequence[bool], output: str
) -> None:
    if output == "table":
        print_table(columns, rows, right)
    elif output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        click.echo("\t".join(_escaped(name) for name in columns))
        for row in rows:
            click.echo("\t".join("NULL" if cell is None else _escaped(cell) for cell in row))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]], right: Sequence[bool]) -> None:
    """Print rows as a table; on a terminal in its width, elsewhere as wide as they are."""
    terminal = sys.stdout.isatty()
    table = Table(box=ROUNDED if terminal else ASCII2)
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text("NULL", style="dim") if cell is None else Text(cell) for cell in row])
    Console(width=None if terminal else _WIDEST, file=sys.stdout).print(table)


def _as_text(name: str, kind: str) -> str:
    """Return the expression of a value's text; binary ones in hexadecimal digits."""
    return f"hex({name}) AS {name}" if kind == "binary" else f"CAST({name} AS STRING) AS {name}"


def _numbered_names(frame: DataFrame) -> list[str]:
    return [f"c{place}" for place in range(len(frame.columns))]


def _rows(frame: DataFrame) -> Iterator[Sequence[str | None]]:
    return iter(frame.collect())


def _as_json(columns: Sequence[str]) -> str:
    """Return the expression of a JSON object; a name that comes again gets a number."""
    pairs, taken = [], set()
    for place, name in enumerate(columns):
        key, count = name, 2
        while key in taken:
            key, count = f"{name}_{count}", count + 1
        taken.add(key)
        pairs.append(f"{_quoted(key)}, c{place}")
    return (
        f"to_json(named_struct({', '.join(pairs)}), "
        "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')) AS line"
    )


def _quoted(text: str) -> str:
    """Return a string literal that needs no escapes but of code points: the same whatever the session's parser settings."""
    return "'" + "".join(c if c.isalnum() or c in " _-()" else f"\\u{ord(c):04x}" for c in text) + "'"


def _escaped(text: str) -> str:
    return text.translate(_TSV_ESCAPES)

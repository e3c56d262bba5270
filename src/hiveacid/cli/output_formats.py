"""Rows on standard output: a table for people; JSON lines, CSV or TSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import escape_controls_of_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WIDEST = 100_000  # characters of a table's line in a file or pipe: nothing is cut or wrapped
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_RIGHT = ("int", "bigint", "smallint", "tinyint", "float", "double", "decimal")


def show(frame: DataFrame, output: str) -> None:
    """Print a DataFrame; one without columns (the result of a definition) prints nothing.

    Errors of Spark while it runs become this project's errors.
    """
    from hiveacid.spark.session.error_translation import translate_errors  # noqa: PLC0415 - imports PySpark

    if frame.columns:
        with translate_errors():
            _print_frame(frame, output)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]], output: str) -> None:
    """Print rows of texts and whole numbers that do not come from a DataFrame."""
    if output == "json":
        for row in rows:
            click.echo(
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
            )
    else:
        numbers = [any(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
        texts = [[None if cell is None else str(cell) for cell in row] for row in rows]
        _print_rows(columns, texts, numbers, output)


def _print_frame(frame: DataFrame, output: str) -> None:
    if output == "json":
        for (line,) in (
            frame.toDF(*_numbered_names(frame)).selectExpr(_json_expression(frame.columns)).collect()
        ):
            click.echo(line)
        return
    _print_rows(frame.columns, as_texts(frame).collect(), aligned_right(frame), output)


def as_texts(frame: DataFrame) -> DataFrame:
    """Return all values as texts (binary ones in hexadecimal), in columns named c0, c1 and so on."""
    casts = [
        f"hex({name}) AS {name}" if kind == "binary" else f"CAST({name} AS STRING) AS {name}"
        for name, (_, kind) in zip(_numbered_names(frame), frame.dtypes, strict=True)
    ]
    return frame.toDF(*_numbered_names(frame)).selectExpr(*casts)


def aligned_right(frame: DataFrame) -> list[bool]:
    """Return for each column whether it holds numbers, which are aligned to the right."""
    return [kind.partition("(")[0] in _RIGHT for _, kind in frame.dtypes]


def _print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str | None]], right_aligned: Sequence[bool], output: str
) -> None:
    if output == "table":
        print_table(columns, rows, right_aligned)
    elif output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        click.echo("\t".join(_escape_tsv(name) for name in columns))
        for row in rows:
            click.echo("\t".join("NULL" if cell is None else _escape_tsv(cell) for cell in row))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | None]], right_aligned: Sequence[bool]
) -> None:
    """Print rows as a table, wrapped to the width of a terminal; elsewhere the lines are as wide as the rows.

    Control characters are escaped: a terminal would obey them.
    """
    from rich.box import ASCII2, ROUNDED  # noqa: PLC0415 - only where a table is printed: it takes a while
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    terminal = sys.stdout.isatty()
    table = Table(box=ROUNDED if terminal else ASCII2)
    for name, is_right in zip(columns, right_aligned, strict=True):
        table.add_column(
            Text(escape_controls_of_lines(name)), justify="right" if is_right else "left", overflow="fold"
        )

    def shown(text: str | None) -> Text:
        return Text("NULL", style="dim") if text is None else Text(escape_controls_of_lines(text))

    for row in rows:
        table.add_row(*[shown(cell) for cell in row])
    Console(width=None if terminal else _WIDEST, file=sys.stdout).print(table)


def _numbered_names(frame: DataFrame) -> list[str]:
    return [f"c{index}" for index in range(len(frame.columns))]


def _json_expression(columns: Sequence[str]) -> str:
    """Return the SQL expression for a row as a JSON object; a repeated column name gets a number."""
    pairs, names = [], set()
    for index, name in enumerate(columns):
        key, count = name, 2
        while key in names:
            key, count = f"{name}_{count}", count + 1
        names.add(key)
        pairs.append(f"{_string_literal(key)}, c{index}")
    return (
        f"to_json(named_struct({', '.join(pairs)}), "
        "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')) AS line"
    )


def _string_literal(text: str) -> str:
    """Return a string literal with code point escapes only, which every parser setting of the session reads alike."""
    return "'" + "".join(c if c.isalnum() or c in " _-()" else f"\\U{ord(c):08x}" for c in text) + "'"


def _escape_tsv(text: str) -> str:
    return text.translate(_TSV_ESCAPES)

"""Rows on standard output: a table for people; JSON lines, CSV or TSV for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import escape_controls_of_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WIDEST = 100_000  # characters of a table's line in a file or pipe: nothing is cut or wrapped
_CSV_QUOTED = re.compile('[,"\n\r]')
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_NARROWEST = 12  # characters of a column of a table, unless its values are shorter
_FRAME = 3  # characters around a column of a table
_RIGHT = ("int", "bigint", "smallint", "tinyint", "float", "double", "decimal")


@dataclass(frozen=True)
class Rows:
    """Rows as texts (None: NULL). ``right_aligned``: columns of numbers. ``more``: the query has more rows than these."""

    columns: tuple[str, ...]
    right_aligned: tuple[bool, ...]
    values: tuple[tuple[str | None, ...], ...]
    more: bool = False


def as_rows(frame: DataFrame, limit: int | None = None) -> Rows:
    """Run a query and return its first ``limit`` rows (None: all). Raises this project's errors."""
    from hiveacid.spark.session.error_translation import translate_errors  # noqa: PLC0415 - imports PySpark

    if not frame.columns:
        return Rows((), (), ())
    casts = [
        f"hex({name}) AS {name}" if kind == "binary" else f"CAST({name} AS STRING) AS {name}"
        for name, (_, kind) in zip(_numbered_names(frame), frame.dtypes, strict=True)
    ]
    with translate_errors():
        texts = frame.toDF(*_numbered_names(frame)).selectExpr(*casts)
        found = texts.collect() if limit is None else texts.take(limit + 1)
    right_aligned = tuple(kind.partition("(")[0] in _RIGHT for _, kind in frame.dtypes)
    values = tuple(tuple(row) for row in found[:limit])
    return Rows(tuple(frame.columns), right_aligned, values, more=len(found) > len(values))


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
        numbers = tuple(any(isinstance(row[index], int) for row in rows) for index in range(len(columns)))
        texts = tuple(tuple(None if cell is None else str(cell) for cell in row) for row in rows)
        _print_rows(Rows(tuple(columns), numbers, texts), output)


def _print_frame(frame: DataFrame, output: str) -> None:
    if output == "json":
        for (line,) in (
            frame.toDF(*_numbered_names(frame)).selectExpr(_json_expression(frame.columns)).collect()
        ):
            click.echo(line)
        return
    _print_rows(as_rows(frame), output)


def _print_rows(rows: Rows, output: str) -> None:
    if output == "table":
        print_table(rows)
    elif output == "csv":
        for row in (rows.columns, *rows.values):
            # a line without any character would not be a row
            click.echo('""' if row == (None,) else ",".join(map(_csv_field, row)))
    else:
        click.echo("\t".join(_escape_tsv(name) for name in rows.columns))
        for row in rows.values:
            click.echo("\t".join("NULL" if cell is None else _escape_tsv(cell) for cell in row))


def print_table(rows: Rows, *, vertical: bool = False, pages: bool = False) -> None:
    """Print rows as a table, wrapped to the width of a terminal; elsewhere the lines are as wide as the rows.

    If the columns would be too narrow to read, or with ``vertical``, each value gets a line of its own. ``pages``: show
    more lines than a terminal has with a pager. Control characters are escaped: a terminal would obey them.
    """
    from rich.box import ASCII2, ROUNDED  # noqa: PLC0415 - only where a table is printed: it takes a while
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _WIDEST, file=sys.stdout)

    def shown(text: str | None) -> Text:
        return Text("NULL", style="dim") if text is None else Text(escape_controls_of_lines(text))

    names = [Text(escape_controls_of_lines(name)) for name in rows.columns]
    cells = [[shown(cell) for cell in row] for row in rows.values]
    columns = zip(names, *cells, strict=True)
    least = [min(_NARROWEST, max(cell_len(cell.plain) for cell in column)) for column in columns]
    if vertical or sum(least) + _FRAME * len(least) + 1 > console.width:
        body = [Text.assemble(f"row {number}") for number in range(1, len(cells) + 1)]
        for number, row in enumerate(cells):
            for name, cell in zip(names, row, strict=True):
                body[number].append("\n  ").append(name).append(": ").append(cell)
        content: Text | Table = Text("\n").join(body)
    else:
        content = Table(box=ROUNDED if terminal else ASCII2)
        for name, is_right, width in zip(names, rows.right_aligned, least, strict=True):
            justify = "right" if is_right else "left"
            content.add_column(name, justify=justify, overflow="fold", min_width=width)  # type: ignore[arg-type]
        for row in cells:
            content.add_row(*row)
    height = len(cells) * (len(names) + 1 if isinstance(content, Text) else 1)
    with console.pager(styles=True) if pages and terminal and height > console.height else nullcontext():
        console.print(content, soft_wrap=not terminal)


def print_result(rows: Rows | None, seconds: float, *, vertical: bool = False) -> None:
    """Print the rows of a statement on a terminal, and behind them their number and the time, as people want to know it.

    Counts of changed rows become a sentence. ``rows``: None if they were printed already. ``vertical`` as in `print_table`.
    """
    summary = "done"
    if rows is not None and rows.columns:
        changed = changed_rows(rows)
        summary = changed or f"{len(rows.values)} row{'' if len(rows.values) == 1 else 's'}"
        if changed is None:
            print_table(rows, vertical=vertical, pages=True)
        if rows.more:
            click.echo(f"only the first {len(rows.values)} rows are shown: --limit 0 shows all", err=True)
    click.echo(f"{summary} in {seconds:.2f} s", err=True)


def changed_rows(rows: Rows) -> str | None:
    """Return what a statement did that changed rows, as a sentence; None for other rows."""
    if rows.columns[:1] != ("num_affected_rows",) or len(rows.values) != 1:
        return None
    row = dict(zip(rows.columns, rows.values[0], strict=True))
    counts = [
        f"{int(count):,} row{'' if count == '1' else 's'} {what}"
        for what in ("inserted", "updated", "deleted")
        if (count := row.get(f"num_{what}_rows")) not in (None, "0")
    ]
    return f"{', '.join(counts) or 'no rows changed'}, write id {row.get('write_id') or 'none'}"


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


def _csv_field(text: str | None) -> str:
    """Return a field: nothing for NULL, and quotes around an empty text, as PostgreSQL writes and reads them."""
    if text is None or (text and not _CSV_QUOTED.search(text)):
        return text or ""
    return '"' + text.replace('"', '""') + '"'


def _escape_tsv(text: str) -> str:
    return text.translate(_TSV_ESCAPES)

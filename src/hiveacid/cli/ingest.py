"""``hiveacid ingest``: writes lines of files or of a pipe into a table, without Spark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hiveacid.cli import options

if TYPE_CHECKING:
    from hiveacid.streaming import Statistics
    from hiveacid.streaming.text_lines import LineFormat


@click.command()
@click.argument("name", metavar="TABLE")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option(
    "--format", "kind", type=click.Choice(["json", "csv"]), default="json", show_default=True,
    help="What a line is: a JSON object, or delimited fields.",
)  # fmt: skip
@click.option("--delimiter", default=",", show_default=True, help="Separator of fields (csv).")
@click.option("--quote", default='"', show_default=True, help="Quote around fields (csv); empty: none.")
@click.option("--null", default="\\N", show_default=True, help="Text of NULL (csv).")
@click.option("--header", is_flag=True, help="Skip the first line of each file (csv).")
@click.option("--ignore-unknown", is_flag=True, help="Ignore JSON keys that are no columns.")
@options.partition_option("Static partition columns; the records hold the others.")
@click.option(
    "--batch-rows", type=click.IntRange(min=1), default=1_000_000, show_default=True,
    help="Rows of one transaction.",
)  # fmt: skip
@click.option(
    "--batch-seconds", type=options.Seconds(min=0.1), default=10, show_default=True,
    help="Seconds after which a transaction is committed while lines still come.",
)  # fmt: skip
@options.output_option("table", "json")
@options.connection_options
def ingest(
    *,
    connection: options.ConnectionOptions,
    name: str,
    files: tuple[str, ...],
    kind: str,
    partition: str | None,
    batch_rows: int,
    batch_seconds: float,
    output: str,
    header: bool,
    **text: object,
) -> None:
    """Write lines of files, or of standard input (-), into a transactional ORC table.

    The first line that does not fit ends the command. Rows committed before stay in the table.
    """
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415 - keeps --help fast
    from hiveacid.streaming import Connection  # noqa: PLC0415
    from hiveacid.streaming.text_lines import Feeder  # noqa: PLC0415

    clock = SystemClock()
    began = clock.now()
    with connection.opened_store() as store:
        stream = Connection(
            name,
            store=store,
            partition=options.partition_spec(partition),
            agent="hiveacid ingest",
        )
        show_progress = _progress(began, clock.now)
        try:
            with stream:
                feeder = Feeder(
                    stream, _line_format(kind, text), clock, batch_rows, batch_seconds, show_progress
                )
                for path in files or ("-",):
                    with _opened(path) as descriptor:
                        feeder.feed(descriptor, path, skip_first=header)
                feeder.finish()
        except BaseException:
            click.echo(f"{stream.stats.records_written} rows were committed before", err=True)
            raise
        _print_summary(name, stream.stats, (clock.now() - began) / 1000, output)


def _line_format(kind: str, text: dict[str, object]) -> LineFormat:
    from hiveacid.streaming.text_lines import DelimitedLines, JsonLines  # noqa: PLC0415

    if kind == "json":
        return JsonLines(bool(text["ignore_unknown"]))
    delimiter = str(text["delimiter"]).replace("\\t", "\t")
    return DelimitedLines(delimiter, str(text["quote"]) or None, str(text["null"]))


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Yield the descriptor of a file or of standard input."""
    from hiveacid.errors import StorageError  # noqa: PLC0415

    if path == "-":
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _progress(began: int, now: Callable[[], int]) -> Callable[[Statistics], None]:
    """Return a function that shows rows and rate on a terminal, to be called after every commit."""

    def show(stats: Statistics) -> None:
        if sys.stderr.isatty():
            rate = stats.records_written * 1000 // max(1, now() - began)
            click.echo(f"\r{stats.records_written:,} rows, {rate:,} rows/s", err=True, nl=False)

    return show


def _print_summary(name: str, stats: Statistics, seconds: float, output: str) -> None:
    if sys.stderr.isatty():
        click.echo(err=True)
    rate = round(stats.records_written / max(seconds, 0.001))
    if output == "json":
        row = {
            "table": name,
            "rows": stats.records_written,
            "transactions": stats.committed_transactions,
            "bytes": stats.bytes_written,
            "seconds": round(seconds, 3),
            "rows_per_second": rate,
        }
        click.echo(json.dumps(row))
        return
    click.echo(
        f"{name}: {stats.records_written} rows in {stats.committed_transactions} transactions, {rate} rows/s"
    )

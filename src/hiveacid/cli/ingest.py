"""``hiveacid ingest``: writes lines of files or of a pipe into a table, without Spark."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiveacid.cli import options
from hiveacid.cli.progress_line import Remaining

if TYPE_CHECKING:
    from hiveacid.streaming import Statistics
    from hiveacid.streaming.text_lines import LineFormat

_SAMPLE = 16 << 20  # bytes that --create looks at


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
@click.option(
    "--create", "creates", is_flag=True,
    help="Create a missing table, with names and types from the beginning of the first file (csv: with --header).",
)  # fmt: skip
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
    creates: bool,
    **text: object,
) -> None:
    """Write lines of files, or of standard input (-), into a transactional ORC table.

    The first line that does not fit ends the command. Rows committed before stay in the table.

    --create looks at the first 16 MB. It takes a type only if all of these lines fit it; 007 stays text. It prints the
    CREATE TABLE that it carries out. If a later line does not fit, make the table by SQL.
    """
    form = _line_format(kind, text)
    if creates:
        _create_table(connection, name, files, form, partition, header=header)
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415 - keeps --help fast
    from hiveacid.streaming import Connection  # noqa: PLC0415
    from hiveacid.streaming.text_lines import Feeder  # noqa: PLC0415

    clock = SystemClock()
    began = clock.now()
    with connection.opened_store() as store:
        stream = Connection(
            name, store=store, partition=options.partition_spec(partition), agent="hiveacid ingest"
        )
        reading = _Reading(files)
        show_progress = _progress(began, clock.now, reading)
        try:
            with stream:
                feeder = Feeder(stream, form, clock, batch_rows, batch_seconds, show_progress)
                for path in files or ("-",):
                    with _opened(path) as descriptor, reading.of(descriptor):
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


def _create_table(
    connection: options.ConnectionOptions,
    name: str,
    files: tuple[str, ...],
    form: LineFormat,
    partition: str | None,
    *,
    header: bool,
) -> None:
    """Create the table for the lines of the first file, unless there is one of this name."""
    from hiveacid.streaming.text_lines import DelimitedLines  # noqa: PLC0415 - keeps --help fast

    if not files or files[0] == "-" or partition is not None:
        raise click.UsageError(
            "--create looks into the first FILE: it takes neither standard input nor --partition"
        )
    if isinstance(form, DelimitedLines) and not header:
        raise click.UsageError("--create takes the names of the columns from the first line: add --header")
    options.require_pyspark()  # the rules of CREATE TABLE; Spark itself is not started
    from hiveacid.arrow.warehouse import open_warehouse  # noqa: PLC0415
    from hiveacid.catalog.ddl import create_table, is_taken  # noqa: PLC0415
    from hiveacid.config.property_definitions import TRANSACTIONAL  # noqa: PLC0415
    from hiveacid.core.model import TableDefinition  # noqa: PLC0415
    from hiveacid.core.schema.storage_formats import ORC  # noqa: PLC0415
    from hiveacid.core.schema.types import quote_name  # noqa: PLC0415
    from hiveacid.streaming.text_lines import columns_of_json, columns_of_text  # noqa: PLC0415

    with connection.opened_store(existing=False):
        pass  # a new warehouse is made, and announced
    with open_warehouse(connection.warehouse, connection.store) as warehouse:
        full_name = warehouse.context.resolve(name)
        if is_taken(warehouse.context, full_name):
            return
        sample = _beginning(files[0])
        columns = (
            columns_of_text(sample, form) if isinstance(form, DelimitedLines) else columns_of_json(sample)
        )
        properties = ((TRANSACTIONAL.name, "true"),)
        create_table(warehouse.context, TableDefinition(full_name, columns, ORC, "", properties=properties))
    listed = ", ".join(f"{quote_name(column.name)} {column.type.upper()}" for column in columns)
    click.echo(
        f"CREATE TABLE {full_name} ({listed}) STORED AS ORC TBLPROPERTIES ('transactional'='true')", err=True
    )


def _beginning(path: str) -> bytes:
    """Return the whole lines among the first bytes of a file; all of a file that ends within them.

    Raises click.UsageError for a pipe, whose lines would be gone when they are written.
    """
    data = b""
    with _opened(path) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise click.UsageError(f"--create reads FILE twice, and {path} is a pipe: save its lines first")
        while len(data) < _SAMPLE and (block := os.read(descriptor, _SAMPLE - len(data))):
            data += block
    return data if len(data) < _SAMPLE else data.rpartition(b"\n")[0]


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


class _Reading:
    """Number of bytes of all files, and of those that were read; None for input of an unknown length, such as a pipe."""

    def __init__(self, files: tuple[str, ...]) -> None:
        regular = files and all(Path(path).is_file() for path in files)
        self.total = sum(Path(path).stat().st_size for path in files) if regular else None
        self._before = 0
        self._descriptor: int | None = None

    @contextmanager
    def of(self, descriptor: int) -> Iterator[None]:
        """Count what is read of a file."""
        self._descriptor = descriptor
        try:
            yield
        finally:
            self._before, self._descriptor = self.done(), None

    def done(self) -> int:
        """Return the number of bytes that were read."""
        if self.total is None or self._descriptor is None:
            return self._before
        return self._before + os.lseek(self._descriptor, 0, os.SEEK_CUR)


def _progress(began: int, now: Callable[[], int], reading: _Reading) -> Callable[[Statistics], None]:
    """Return a function that shows rows, rate and the time left on a terminal, to be called after every commit."""
    remaining = Remaining()

    def show(stats: Statistics) -> None:
        if sys.stderr.isatty():
            rate = stats.records_written * 1000 // max(1, now() - began)
            left = remaining.text("files", reading.done(), reading.total or 0, (now() - began) / 1000)
            click.echo(f"\r{stats.records_written:,} rows, {rate:,} rows/s{left}\x1b[K", err=True, nl=False)

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
    rows = f"{stats.records_written} row{'s' if stats.records_written != 1 else ''}"
    transactions = (
        f"{stats.committed_transactions} transaction{'s' if stats.committed_transactions != 1 else ''}"
    )
    click.echo(f"{name}: {rows} in {transactions}, {rate} rows/s")

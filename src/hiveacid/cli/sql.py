"""``hiveacid sql``: runs statements from the command line, a file or standard input."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiveacid.cli import options
from hiveacid.cli.output_formats import as_rows, print_result, show
from hiveacid.cli.progress_line import at_work

if TYPE_CHECKING:
    from hiveacid.sql.session import AcidSession


@click.command()
@click.option(
    "-e",
    "--execute",
    "texts",
    metavar="SQL",
    multiple=True,
    help="Statements, separated by semicolons; may be given several times.",
)
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of statements."
)
@click.argument("source", required=False, metavar="[-]")
@click.option(
    "-k", "--keep-going", is_flag=True, help="Go on after a failed statement (exit code 1 at the end)."
)
@options.settings_option("A hiveacid setting, such as hive.create.as.acid=true; may be repeated.")
@options.output_option(*options.FORMATS)
@options.connection_options
def sql(
    *,
    connection: options.ConnectionOptions,
    texts: tuple[str, ...],
    file: Path | None,
    source: str | None,
    keep_going: bool,
    settings: tuple[str, ...],
    output: str,
) -> None:
    """Run SQL statements and print their rows.

    With "-", or without -e and -f, statements come from standard input. The first error ends the run; it is
    printed on standard error with its code and position. A warehouse that does not exist is created only if the script
    has a CREATE statement.
    """
    scripts = _scripts(texts, file, source)
    statements = [found for script in scripts for found in _statements(script)]
    creates = any(text.lstrip()[: len("CREATE")].upper() == "CREATE" for text, _ in statements)
    pairs = dict(options.parse_settings(settings))
    with connection.session(new=creates, quiet=True, settings=pairs) as session:
        run_script(session, scripts, output, keep_going=keep_going)


def run_script(session: AcidSession, scripts: Sequence[str], output: str, *, keep_going: bool) -> None:
    """Run the statements of scripts and print their rows; end with exit code 1 after an error."""
    successes = [
        _run(session, statement, line, output, keep_going=keep_going)
        for script in scripts
        for statement, line in _statements(script)
    ]
    options.warn_if_open(session)
    if not all(successes):
        raise click.exceptions.Exit(1)


def _scripts(texts: Sequence[str], file: Path | None, source: str | None) -> Sequence[str]:
    if source not in (None, "-"):
        raise click.UsageError(f"unexpected argument {source}: statements come from -e, -f or standard input")
    if sum((bool(texts), file is not None, source is not None)) > 1:
        raise click.UsageError("give one of -e, -f and -")
    if texts:
        return texts
    if file is not None:
        return (file.read_text(encoding="utf-8-sig"),)
    if source is None and sys.stdin.isatty():
        raise click.UsageError("no statements: give -e SQL or -f FILE, or pipe them in")
    return (sys.stdin.read(),)


def _statements(script: str) -> Iterator[tuple[str, int]]:
    """Yield the statements of a script and their line numbers.

    Each statement keeps its indentation, so that column numbers in messages are those of the script.
    """
    from hiveacid.spark.parser.lexer import split  # noqa: PLC0415 - keeps --help fast

    behind = 0
    for text, line in split(script):
        start = script.index(text, behind)
        behind = start + len(text)
        yield " " * (start - script.rfind("\n", 0, start) - 1) + text, line


def _run(session: AcidSession, text: str, line: int, output: str, *, keep_going: bool) -> bool:
    started = time.monotonic()
    try:
        with session.statement(text):  # reading its rows is part of it
            if output != "table" or not sys.stdout.isatty():
                show(session.sql(text, first_line=line), output)
                return True
            with at_work(session.context.env):
                rows = as_rows(session.sql(text, first_line=line))
        print_result(rows, time.monotonic() - started)
    except Exception as error:
        if not keep_going or not options.is_expected(error):
            raise
        options.print_error(error)
        return False
    return True

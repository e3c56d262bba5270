"""``hiveacid sql``: runs statements from the command line, a file or standard input; also scripts of Hive's beeline.

``source FILE`` runs another file, and ``${hivevar:a}``, ``${a}`` and ``${hiveconf:k}`` stand for variables, which Spark's own
substitution replaces. No line of a script ever runs a command of the operating system.
"""

from __future__ import annotations

import re
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

_SOURCE = re.compile(r"\s*source\s+(\S.*)", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{(?:(hivevar|hiveconf):)?([^\s:}]+)\}")
_DEEPEST = 20  # scripts that run each other


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
@click.option(
    "--hivevar",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable: ${NAME} or ${hivevar:NAME}.",
)
@click.option(
    "--hiveconf",
    "confs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, and a variable: ${hiveconf:NAME}.",
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
    variables: tuple[str, ...],
    confs: tuple[str, ...],
    settings: tuple[str, ...],
    output: str,
) -> None:
    """Run SQL statements and print their rows.

    With "-", or without -e and -f, statements come from standard input. The first error ends the run; it is
    printed on standard error with its code and position. A warehouse that does not exist is created only if the script
    has a CREATE or "source FILE;", which runs another script.
    """
    scripts = _scripts(texts, file, source)
    with options.exit_on_errors():
        statements = [found for script in scripts for found in _statements(script)]
    creates = any(text.lstrip()[: len("CREATE")].upper() in ("CREATE", "SOURCE") for text, _ in statements)
    given = dict(options.parse_pairs("--hiveconf", confs))
    known = [f"{name}={value}" for name, value in given.items() if name.startswith("hive")]
    pairs = dict(options.parse_settings((*known, *settings)))
    given |= dict(options.parse_pairs("--hivevar", variables))
    with connection.session(new=creates, quiet=True, settings=pairs) as session:
        for name, value in given.items():
            _define(session, name, value)
        run_script(session, scripts, output, keep_going=keep_going)


def run_script(session: AcidSession, scripts: Sequence[str], output: str, *, keep_going: bool) -> None:
    """Run the statements of scripts and print their rows; end with exit code 1 after an error."""
    successes = [_run_all(session, script, output, keep_going=keep_going) for script in scripts]
    options.warn_if_open(session)
    if not all(successes):
        raise click.exceptions.Exit(1)


def _run_all(session: AcidSession, script: str, output: str, depth: int = 0, *, keep_going: bool) -> bool:
    """Run the statements of a script, and of those that it runs; tell whether all succeeded."""
    successes = [
        _run(session, statement, line, output, depth, keep_going=keep_going)
        for statement, line in _statements(script)
    ]
    return all(successes)


def _define(session: AcidSession, name: str, value: str) -> None:
    """Give a variable a value: Spark's substitution looks for it among its settings."""
    session.context.env.spark.conf.set(name, value)


def _run_command(
    session: AcidSession, text: str, line: int, output: str, depth: int, *, keep_going: bool
) -> bool | None:
    """Carry out ``source FILE``; None for other statements.

    Raises StatementError for a variable without a value, and for a script that cannot be read.
    """
    from hiveacid.errors import StatementError  # noqa: PLC0415 - keeps --help fast
    from hiveacid.spark.session.jvm import substitute_variables  # noqa: PLC0415 - imports PySpark

    conf = session.context.env.spark.conf
    if conf.get("spark.sql.variable.substitute", "true") == "true":
        for kind, name in _VARIABLE.findall(text):  # Spark would put nothing in its place
            if conf.get(name, None) is None:
                word = kind or "hivevar"
                raise StatementError(
                    f"the variable {name} has no value: give --{word} {name}=..., or SET {word}:{name}=...",
                    line=line,
                )
    sourced = _SOURCE.fullmatch(text)
    if sourced is not None:
        path = Path(substitute_variables(session.context.env, sourced[1]).strip().strip("'\""))
        if depth == _DEEPEST:
            raise StatementError(f"{path}: {_DEEPEST} scripts run each other, perhaps in a circle", line=line)
        try:
            script = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise StatementError(f"source {path}: {error}", line=line) from error
        try:
            return _run_all(session, script, output, depth + 1, keep_going=keep_going)
        except Exception:
            click.echo(f"in {path}:", err=True)
            raise
    return None


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
    from hiveacid.errors import ParseError  # noqa: PLC0415 - keeps --help fast
    from hiveacid.spark.parser.lexer import split  # noqa: PLC0415

    behind = 0
    for text, line in split(script):
        start = script.index(text, behind)
        behind = start + len(text)
        if text.startswith("!"):
            raise ParseError(
                'lines with ! are commands of beeline or of a shell, which a script does not run here: "source FILE;" runs another '
                "script, and the program that calls hiveacid runs commands",
                line=line,
                column=start - script.rfind("\n", 0, start),
            )
        yield " " * (start - script.rfind("\n", 0, start) - 1) + text, line


def _run(session: AcidSession, text: str, line: int, output: str, depth: int, *, keep_going: bool) -> bool:
    started = time.monotonic()
    try:
        done = _run_command(session, text, line, output, depth, keep_going=keep_going)
        if done is not None:
            return done
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

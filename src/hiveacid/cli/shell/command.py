"""Command ``hiveacid shell``: opens the connection and starts the loop."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

import hiveacid
from hiveacid.cli import options
from hiveacid.errors import ConfigError

if TYPE_CHECKING:
    from hiveacid.cli.shell.loop import Shell
    from hiveacid.cli.shell.screen import Screen
    from hiveacid.sql.session import AcidSession

_MAX_ROWS = 1000  # shown on a terminal without --limit


@click.command()
@click.option(
    "--plain",
    is_flag=True,
    help="No frames, colours, editor or cursor movement: for screen readers. Also with TERM=dumb.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Show at most this many rows of a table (0: all; default: {_MAX_ROWS} on a terminal, else all).",
)
@click.option("-k", "--keep-going", is_flag=True, help="From a pipe: go on after a failed statement.")
@options.output_option(*options.FORMATS)
@options.connection_options
def shell(
    *, connection: options.ConnectionOptions, plain: bool, limit: int | None, keep_going: bool, output: str
) -> None:
    r"""Type SQL statements; each ends with a semicolon and may have several lines.

    Tab completes keywords, tables and columns. Ctrl-C cancels a statement: its transaction is aborted, and its
    locks are released. Ctrl-D ends the shell. \help lists the other commands. The history of statements, except
    those that may hold a password, is kept in ~/.local/state/hiveacid/history.

    From a pipe, statements run as with "hiveacid sql": the first error ends the run with exit code 1.
    """
    from hiveacid.cli.shell.screen import Screen  # noqa: PLC0415 - keeps --help fast

    screen = Screen.detect(plain=plain)
    if screen.uses_editor and find_spec("prompt_toolkit") is None:
        raise ConfigError(
            "the shell edits lines with prompt_toolkit: pip install 'hiveacid[shell]', or use --plain"
        )
    screen.note("starting Spark ...")
    if limit is None and sys.stdout.isatty():
        limit = _MAX_ROWS
    from hiveacid.cli.shell.cancel import on_interrupt  # noqa: PLC0415 - keeps --help fast

    # PySpark has replaced Python's handler of Ctrl-C by its own
    with connection.session(new=True) as session, on_interrupt(signal.default_int_handler):
        failed = _run(session, screen, limit or None, output, keep_going=keep_going)
    if failed:
        raise click.exceptions.Exit(1)


def _run(session: AcidSession, screen: Screen, limit: int | None, output: str, *, keep_going: bool) -> bool:
    """Run the shell until it ends; tell whether a statement from a pipe failed."""
    from hiveacid.cli.shell.backslash_commands import DisplayOptions  # noqa: PLC0415
    from hiveacid.cli.shell.cancel import StatementRunner  # noqa: PLC0415 - keeps --help fast
    from hiveacid.cli.shell.loop import Shell  # noqa: PLC0415

    runner = StatementRunner(session)
    loop = Shell(session, screen, runner, DisplayOptions(screen.interactive, limit), output, keep_going)
    version = session.context.facts.spark.version
    screen.note(f"hiveacid {hiveacid.__version__} on Spark {version}, {session.context.warehouse}")
    screen.note("\\help lists the commands; Ctrl-D ends")
    try:
        if screen.uses_editor:
            from hiveacid.cli.shell.editor import Editor, typed_entries  # noqa: PLC0415 - needs the extra

            loop.run_edited(typed_entries(Editor(loop.complete, screen.note), loop.prompt))
        elif screen.interactive:
            loop.run_lines(_typed_lines(loop))
        else:
            loop.run_lines(line.rstrip("\n") for line in sys.stdin)
    finally:
        options.warn_if_open(session)
        runner.close()
    return loop.failed and not screen.interactive


def _typed_lines(loop: Shell) -> Iterator[str | None]:
    """Yield lines typed without the editor; None for Ctrl-C. Ctrl-D ends."""
    while True:
        try:
            click.echo(loop.prompt(), nl=False)
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            click.echo()
            yield None
            continue
        if not line:
            return
        yield line.rstrip("\n")

r"""``hiveacid shell``: SQL statements typed on a terminal, by prompt_toolkit (editor) and rich (results).

A statement runs in a second thread: Ctrl-C cancels it, and a line shows its progress. A pipe is read as ``hiveacid sql -``
reads it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click

import hiveacid
from hiveacid.cli import options
from hiveacid.cli.output_formats import Rows, as_rows, print_result, show
from hiveacid.cli.progress_line import stages_line
from hiveacid.cli.sql import run_script
from hiveacid.core.model import TableName
from hiveacid.errors import ConfigError, HiveAcidError, ParseError
from hiveacid.serve.audit import is_secret

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from hiveacid.sql.session import AcidSession

_MAX_ROWS = 1000  # shown on a terminal without --limit
_WORDS = """
ABORT ADD ALTER AND AS BEGIN BETWEEN BUCKETS BY CASCADE CASE CAST CLUSTERED COLUMNS COMMIT COMPACT
COMPACTIONS CREATE CROSS DATABASE DATABASES DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXISTS
EXPLAIN EXTENDED EXTERNAL FALSE FORMATTED FROM FULL GROUP HAVING IF IN INNER INSERT INTERVAL INTO IS
JOIN LEFT LIKE LIMIT LOAD LOCATION LOCKS MATCHED MERGE NOT NULL ON OPTIMIZE OR ORC ORDER OUTER OVER
OVERWRITE PARTITION PARTITIONED PARTITIONS RENAME REPLACE RESTORE RIGHT ROLLBACK ROW__ID SELECT SET
SHOW SORT STORED TABLE TABLES TBLPROPERTIES TEMPORARY THEN TO TRANSACTION TRANSACTIONS TRUE TRUNCATE
UNION UPDATE USE USING VACUUM VALUES VIEW WHEN WHERE WITH
"""
_KEYWORDS = tuple(_WORDS.split())
_HELP = r"""A statement ends with ; and may have several lines. Tab completes, Ctrl-C cancels, Ctrl-D ends.

  \dt [DATABASE]  list tables              \x  each value on a line of its own, or not
  \l              list databases           \?  this text
  \d TABLE        describe a table         \q  end
"""
_SHORTHANDS = {"\\dt": "SHOW TABLES", "\\l": "SHOW DATABASES", "\\d": "DESCRIBE FORMATTED"}
_OWNER_ONLY = 0o600
_POLL_INTERVAL = 0.1  # seconds between two looks at Ctrl-C and the progress

T = TypeVar("T")


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_MAX_ROWS,
    show_default=True,
    help="Show at most this many rows of a table; 0: all. A pipe shows all.",
)
@click.option("-k", "--keep-going", is_flag=True, help="From a pipe: go on after a failed statement.")
@options.settings_option("A hiveacid setting, such as hive.create.as.acid=true; may be repeated.")
@options.output_option(*options.FORMATS)
@options.connection_options
def shell(
    *,
    connection: options.ConnectionOptions,
    limit: int,
    keep_going: bool,
    settings: tuple[str, ...],
    output: str,
) -> None:
    r"""Type SQL statements; each ends with a semicolon and may have several lines.

    Tab completes keywords, tables and columns. Ctrl-C cancels a statement: its transaction is aborted, and its
    locks are released. Ctrl-D ends the shell. \? lists the other commands. The history of statements, except
    those that may hold a password, is kept in ~/.local/state/hiveacid/history.

    From a pipe, statements run as with "hiveacid sql": the first error ends the run with exit code 1.
    """
    options.require_pyspark()
    pairs = dict(options.parse_settings(settings))
    if not sys.stdin.isatty():
        script = sys.stdin.read()
        with connection.session(new=True, settings=pairs) as session:
            run_script(session, [script], output, keep_going=keep_going)
        return
    if find_spec("prompt_toolkit") is None:
        raise ConfigError("the shell edits lines with prompt_toolkit: pip install 'hiveacid[shell]'")
    # PySpark has replaced Python's handler of Ctrl-C by its own
    with connection.session(new=True, settings=pairs) as session, on_interrupt(signal.default_int_handler):
        version = session.context.env.spark.version
        click.echo(
            f"hiveacid {hiveacid.__version__} on Spark {version}, {session.context.warehouse}", err=True
        )
        click.echo("\\? lists the commands; Ctrl-D ends", err=True)
        runner = StatementRunner(session)
        try:
            Shell(session, runner, limit or None, output).run(_typed_texts(session))
        finally:
            options.warn_if_open(session)
            runner.close()


@dataclass
class Shell:
    """Runs typed texts. ``vertical``: each value on a line of its own; else a table, if it fits."""

    session: AcidSession
    runner: StatementRunner
    limit: int | None
    output: str
    vertical: bool = False

    def run(self, texts: Iterator[str]) -> None:
        """Run texts of whole statements or a command each, until one of them ends the shell."""
        from hiveacid.spark.parser.lexer import split  # noqa: PLC0415 - keeps --help fast

        for text in texts:
            command = text.strip().rstrip("; \t")
            if command.lower() in {"exit", "quit", "\\q"}:
                return
            try:
                if command.startswith("\\"):
                    self._command(*command.split(None, 1))
                    continue
                for statement, line in split(text):
                    self._statement(statement, line, text)
            except Exception as error:
                if not options.is_expected(error):
                    raise
                self._report(error, text)

    def _command(self, name: str, argument: str = "") -> None:
        if name == "\\x":
            self.vertical = not self.vertical
            click.echo(f"one value a line: {'on' if self.vertical else 'off'}", err=True)
        elif name not in _SHORTHANDS or (name == "\\d" and not argument):
            click.echo(_HELP.rstrip())
        else:
            where = "IN " if argument and name == "\\dt" else ""
            statement = f"{_SHORTHANDS[name]} {where}{argument}".rstrip()
            self._statement(statement, 1, statement)

    def _statement(self, statement: str, line: int, text: str) -> None:
        # the statement keeps its indentation, so that columns in messages are those of the text
        start = text.find(statement)
        indented = " " * max(0, start - text.rfind("\n", 0, start) - 1) + statement
        started = time.monotonic()
        write = _write_raw if sys.stderr.isatty() else lambda _: None
        progress = stages_line(self.session.context.env, write, "; Ctrl-C cancels")
        try:
            rows = self.runner.run(lambda: self._rows(indented, line), progress.watch)
        finally:
            progress.clear()
        print_result(rows, time.monotonic() - started, vertical=self.vertical)

    def _rows(self, statement: str, line: int) -> Rows | None:
        """Run a statement in the runner's thread, which also prints formats other than tables."""
        with self.session.statement(statement):  # reading its rows is part of it
            frame = self.session.sql(statement, first_line=line)
            if not frame.columns or self.output == "table":
                return as_rows(frame, self.limit)
            show(frame, self.output)
            sys.stdout.flush()
            return None

    def _report(self, error: Exception, text: str) -> None:
        """Print an error, and its position if it is known."""
        options.print_error(error)
        position = error_position(error)
        lines = text.split("\n")
        if position is None or position[0] > len(lines):
            return
        shown, column = lines[position[0] - 1], position[1]
        click.echo(f"  {options.escape_controls(shown)}", err=True)
        click.echo("  " + "".join("\t" if c == "\t" else " " for c in shown[: column - 1]) + "^", err=True)


def error_position(error: Exception) -> tuple[int, int] | None:
    """Return the line and column of an error, both from 1; None if it has no position."""
    if isinstance(error, HiveAcidError) and error.line is not None and error.column is not None:
        return error.line, error.column
    return None


def is_complete(text: str) -> bool:
    r"""Tell whether Enter should run a text: a \-command, ``quit``, a text that ends with ``;``, or an empty one."""
    from hiveacid.spark.parser.lexer import tokenize  # noqa: PLC0415 - keeps --help fast

    if text.lstrip().startswith("\\") or text.strip().rstrip("; \t").lower() in {"exit", "quit"}:
        return True
    try:
        tokens = tokenize(text)
    except ParseError:
        return False
    return len(tokens) == 1 or tokens[-2].keyword == ";"


def completion_words(session: AcidSession) -> Callable[[], Sequence[str]]:
    """Return a function that lists keywords, databases, and the tables and columns of the current database."""

    @lru_cache(maxsize=1)
    def words(database: str, _minute: int) -> tuple[str, ...]:
        catalog = session.context.catalog
        try:
            tables = catalog.list_tables(database)
            names = {*catalog.list_databases(), *tables, *catalog.list_views(database)}
            found = (catalog.get_table(TableName(database, name)) for name in tables[:_MAX_ROWS])
            names.update(column.name for table in found if table is not None for column in table.all_columns)
        except HiveAcidError:  # completion is no reason to stop typing
            names = set()
        return (*sorted(names), *_KEYWORDS)

    return lambda: words(session.context.database, int(time.monotonic() / 60))


def history_path(environment: dict[str, str]) -> Path:
    """Return the path of the history: ``$XDG_STATE_HOME/hiveacid/history``, by default in ``~/.local/state``."""
    state = environment.get("XDG_STATE_HOME", "")
    # XDG specification: a relative path in the variable must be ignored
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "hiveacid" / "history"


def open_history(path: Path) -> History:
    """Open the history in a file of mode 0600, without secrets; if that fails, say so and keep it in memory."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory  # noqa: PLC0415 - an extra

    class PrivateHistory(FileHistory):
        def store_string(self, string: str) -> None:
            if not is_secret(string):
                super().store_string(string)

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, _OWNER_ONLY)
        try:
            os.fchmod(descriptor, _OWNER_ONLY)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        click.echo(f"no history is kept: {error}", err=True)
        return InMemoryHistory()
    return PrivateHistory(str(path))


def _editor(session: AcidSession) -> PromptSession[str]:
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - an extra
    from prompt_toolkit.completion import WordCompleter  # noqa: PLC0415
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent  # noqa: PLC0415
    from prompt_toolkit.lexers import PygmentsLexer  # noqa: PLC0415
    from prompt_toolkit.output import ColorDepth  # noqa: PLC0415
    from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped] # noqa: PLC0415

    bindings = KeyBindings()

    def enter(event: KeyPressEvent) -> None:
        """Run complete statements; otherwise begin a new line. In the completion menu, take the selected word."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    bindings.add("enter")(enter)
    return PromptSession(
        history=open_history(history_path(dict(os.environ))),
        completer=WordCompleter(completion_words(session), ignore_case=True),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=bindings,
        color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
    )


def _typed_texts(session: AcidSession) -> Iterator[str]:
    """Yield what is typed. Ctrl-C discards it, Ctrl-D ends."""
    editor = _editor(session)
    while True:
        # a star marks an open transaction, an exclamation mark one that can only be rolled back
        star = "" if session.joined is None else "!" if session.joined.failed else "*"
        prompt = f"hiveacid:{session.context.database}{star}> "
        try:
            yield editor.prompt(prompt, prompt_continuation="-> ".rjust(len(prompt)))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _write_raw(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class StatementRunner:
    """Runs statements one by one in a second thread, while the main thread waits for Ctrl-C."""

    def __init__(self, session: AcidSession) -> None:
        """Make the session's operations cancellable."""
        from hiveacid.sql.cancellation import StatementThread  # noqa: PLC0415 - imports PySpark

        self._thread = StatementThread(session, "hiveacid-statement", "cancelled by Ctrl-C")

    def run(self, work: Callable[[], T], watch: Callable[[], None]) -> T:
        """Run ``work`` and return its result; ``watch`` is called every 0.1 seconds meanwhile.

        Raises the errors of ``work``. Raises StatementCancelledError if Ctrl-C was pressed before the statement ended; a
        transaction begun by START TRANSACTION is then rolled back.
        """
        pressed = threading.Event()  # an exception during a call to the JVM would break the connection
        with on_interrupt(lambda *_: pressed.set()):
            running = self._thread.submit(work)
            while not running.done_within(_POLL_INTERVAL):
                if pressed.is_set():
                    self._thread.cancel(running)
                else:
                    watch()
            return running.future.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()


@contextmanager
def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let Ctrl-C call a handler in the block. Outside the main thread, where Python allows none, change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Main loop of the shell: read an entry, run it, show the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from hiveacid.cli.options import is_expected, print_error
from hiveacid.cli.output_formats import show
from hiveacid.cli.shell.backslash_commands import COMMANDS, DisplayOptions, evaluate_command
from hiveacid.cli.shell.cancel import ProgressLine, StatementRunner
from hiveacid.cli.shell.completion import Candidate, CatalogNames, candidates
from hiveacid.cli.shell.entries import Entries, Entry, ends_shell
from hiveacid.cli.shell.screen import Screen, StatementResult, fetch
from hiveacid.errors import ParseError, StatementCancelledError
from hiveacid.sql.session import AcidSession


@dataclass
class Shell:
    """State of a running shell. ``failed``: an entry has failed."""

    session: AcidSession
    screen: Screen
    runner: StatementRunner
    display: DisplayOptions
    output: str = "table"
    keep_going: bool = False
    failed: bool = False

    def prompt(self) -> str:
        """Return the prompt; ``*`` marks an open transaction, ``!`` one that can only be rolled back."""
        txn = self.session.joined
        star = "" if txn is None else "!" if txn.failed else "*"
        return f"hiveacid:{self.session.context.database}{star}> "

    def complete(self, text: str, cursor: int) -> list[Candidate]:
        """Return the candidates for a position in a text, without a call to Spark."""
        context = self.session.context
        return candidates(text, cursor, CatalogNames(context.catalog, context.database), COMMANDS)

    def run_edited(self, texts: Iterator[str | None]) -> None:
        """Run texts from the editor, each with complete entries; None means Ctrl-C."""
        for text in texts:
            if text is None:
                continue
            if ends_shell(text):
                return
            entries = Entries()
            try:
                whole = [entry for line in text.split("\n") for entry in entries.feed(line)]
                whole += entries.finish()
            except ParseError as error:
                self._report(error, Entry(text, 1))
                continue
            if not self._run_all(whole):
                return

    def run_lines(self, lines: Iterator[str | None]) -> None:
        """Run single lines. None (Ctrl-C) discards the current statement.

        From a pipe, the first error ends the run unless ``keep_going`` is set.
        """
        entries = Entries()
        for line in lines:
            if line is None:
                entries.drop()
            elif (not entries.begun and ends_shell(line)) or not self._run_all(entries.feed(line)):
                return
            elif self.screen.interactive and not entries.begun:
                entries.drop()  # each statement counts its lines from 1
        if not self.screen.interactive:
            try:
                self._run_all(entries.finish())
            except ParseError as error:
                self._report(error, Entry("", 1))

    def _run_all(self, entries: Sequence[Entry]) -> bool:
        """Run entries; return False if the shell must end."""
        for entry in entries:
            try:
                if not entry.is_command:
                    self._statement(entry)
                elif not self._command(entry):
                    return False
            except Exception as error:
                if not is_expected(error):
                    raise
                self._report(error, entry)
                if not (self.screen.interactive or self.keep_going):
                    return False
                if self.screen.interactive:
                    return True  # skip the rest, which may depend on the failed entry
        return True

    def _report(self, error: Exception, entry: Entry) -> None:
        self.failed = True
        if isinstance(error, StatementCancelledError):
            print_error(error)
        else:
            self.screen.error(error, entry)

    def _command(self, entry: Entry) -> bool:
        result = evaluate_command(entry.text, self.display)
        if result.display is not None:
            self.display = result.display
        if result.text:
            click.echo(result.text, err=result.display is not None)
        if result.statement:
            self._statement(Entry(result.statement, 1))
        return not result.ends

    def _statement(self, entry: Entry) -> None:
        started = time.monotonic()
        progress = ProgressLine(
            self.session.context.facts, self.screen.raw, enabled=self.screen.shows_progress
        )
        try:
            result = self.runner.run(lambda: self._result(entry), progress.watch)
        finally:
            progress.clear()
        seconds = time.monotonic() - started
        if result is not None and result.columns:
            try:
                self.screen.rows(result, self.display)
            except KeyboardInterrupt:  # Ctrl-C while rows are printed
                if not self.screen.interactive:
                    raise
        self._footer(result, seconds)

    def _result(self, entry: Entry) -> StatementResult | None:
        """Run a statement in the runner's thread, which also prints formats other than tables."""
        with self.session.statement(entry.text):  # reading its rows is part of it
            frame = self.session.sql(entry.text, first_line=entry.line)
            if not frame.columns:
                return StatementResult((), (), ())
            if self.output != "table":
                show(frame, self.output)
                sys.stdout.flush()
                return None
            return fetch(frame, self.display.limit)

    def _footer(self, result: StatementResult | None, seconds: float) -> None:
        if result is not None and result.more:
            note = f"only the first {len(result.rows)} rows are shown: \\limit 0 shows all"
            click.echo(note, err=True)
        summary = "done"
        if result is not None and result.columns:
            summary = f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}"
        if self.display.timing:
            click.echo(f"{summary} in {seconds:.2f} s", err=True)
        else:
            self.screen.note(summary)

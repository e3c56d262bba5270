"""Feeder of lines from files and pipes into a `Connection`, with commits by number of rows or by time."""

from __future__ import annotations

import codecs
import os
import select
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hiveacid.errors import StorageError
from hiveacid.ports.clock import Clock
from hiveacid.streaming.connection import Connection, Statistics
from hiveacid.streaming.text_lines import LineFormat, parse_lines

_BLOCK = 4 << 20  # bytes read at a time


@dataclass
class Feeder:
    """Writes lines and commits. A transaction ends after ``rows`` rows or ``seconds`` seconds.

    ``on_commit`` is called after every commit.
    """

    connection: Connection
    form: LineFormat
    clock: Clock
    rows: int
    seconds: float
    on_commit: Callable[[Statistics], object] = lambda _: None
    _open: bool = False
    _begun: int = 0  # ms
    _taken: int = 0  # lines of the transaction
    _lines: int = 0  # given so far

    def __post_init__(self) -> None:
        """Raise UnsupportedFeatureError for columns that the lines cannot hold."""
        self.form.check(self.connection.columns)

    def feed(self, descriptor: int, name: str, *, skip_first: bool = False) -> None:
        """Write all lines of a file or pipe; the last one may lack its line break. Raises StorageError.

        A byte order mark at the start of the file is no part of the first line.
        """
        remainder, mark = b"", codecs.BOM_UTF8
        for block in _blocks(descriptor, name, self.seconds):
            if block:
                whole, newline, remainder = (remainder + block).rpartition(b"\n")
                whole += newline
                if newline:
                    whole, mark = whole.removeprefix(mark), b""
                if skip_first and newline:
                    whole, skip_first = whole.partition(b"\n")[2], False
                self._write(whole)
            self._commit_if_due()
        if remainder and not skip_first:
            self._write(remainder.removeprefix(mark) + b"\n")

    def finish(self) -> None:
        """Commit the open transaction, if there is one."""
        if self._open:
            self._open = False
            self.connection.commit()
            self.on_commit(self.connection.stats)

    def _write(self, lines: bytes) -> None:
        while lines:
            if not self._open:
                self.connection.begin_transaction()
                self._open, self._begun, self._taken = True, self.clock.now(), 0
            room = self.rows - self._taken
            if lines.count(b"\n") > room:
                *head, lines = lines.split(b"\n", room)
                block = b"\n".join(head) + b"\n"
            else:
                block, lines = lines, b""
            count = block.count(b"\n")
            self.connection.write(parse_lines(self.form, block, self.connection.columns, self._lines + 1))
            self._taken += count
            self._lines += count
            self._commit_if_due()

    def _commit_if_due(self) -> None:
        late = self.clock.now() - self._begun >= self.seconds * 1000
        if self._open and (late or self._taken >= self.rows):
            self.finish()


def _blocks(descriptor: int, name: str, seconds: float) -> Iterator[bytes]:
    """Yield blocks of bytes. A pipe without data for a second yields b'', so that the caller can check for a due commit."""
    waits = stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor)
    try:
        while True:
            if waits and not select.select([descriptor], [], [], min(1.0, seconds))[0]:
                yield b""
                continue
            block = os.read(descriptor, _BLOCK)
            if not block:
                return
            yield block
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror or error}") from error

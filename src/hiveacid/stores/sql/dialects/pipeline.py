"""Connections of PostgreSQL whose waits have a limit, and pipelines: several statements in one message (libpq's pipeline mode).

psycopg's own pipeline sends each statement as it comes. Between the first, which takes locks, and the last, which
releases them, the client may lose its processor while others wait for the locks. The server needs no client to go on
once it has all statements.
"""

from __future__ import annotations

import itertools
import re
import selectors
import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, cast

from psycopg import Connection, OperationalError, errors, pq
from psycopg.abc import PQGen

from hiveacid.stores.sql.dialects.dialect import NamedRow, Step

_PLACE = re.compile(r"%\((\w+)\)s|%%")
_READ = selectors.EVENT_READ
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE
_BOOLEAN, _NUMBERS = 16, frozenset({20, 21, 23})  # types in pg_type

_T = TypeVar("_T")


class LimitedConnection(Connection[tuple[Any, ...]]):
    """A connection that is closed when the server sends nothing for :attr:`silence` seconds, instead of waiting for ever."""

    silence = 10.0

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:
        """Wait as psycopg does. Raises OperationalError at the limit."""
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: PQGen[_T]) -> PQGen[_T]:
        heard = time.monotonic()
        ready: Any = None  # the first value that a generator takes
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                result: _T = end.value
                return result
            ready = yield wanted  # psycopg sends a zero every tenth of a second
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard > self.silence:
                raise self.lost()

    def lost(self) -> OperationalError:
        """Close the connection, and return the error to raise."""
        self.close()
        return OperationalError(f"no answer from the server for {self.silence:.0f} s")


class Pipeline:
    """A connection, idle and in autocommit mode, with its prepared statements."""

    def __init__(self, driver: LimitedConnection) -> None:
        """``driver``: the connection."""
        self._driver = driver
        self._connection: pq.abc.PGconn = driver.pgconn
        self._encoding: str = driver.info.encoding
        self._prepared: dict[str, bytes] = {}
        self._names = 0

    def run(self, steps: Sequence[Step]) -> list[list[NamedRow]]:
        """Run statements with places like ``%(name)s`` as one transaction; return the rows of each, as named tuples.

        Raises psycopg's errors; then nothing has happened. After any other exception (Ctrl-C) the connection is of
        no use any more.
        """
        try:
            return self._run(steps)
        except (errors.InvalidSqlStatementName, errors.FeatureNotSupported):
            if not self._prepared:
                raise
            # psycopg drops prepared statements, ours too, after a ROLLBACK; a plan may be of an older schema.
            self._prepared.clear()
            return self._run(steps)

    def _run(self, steps: Sequence[Step]) -> list[list[NamedRow]]:
        connection = self._connection
        connection.enter_pipeline_mode()
        new_statements: dict[str, bytes] = {}
        counts = [self._send(text, values, new_statements) for text, values in steps]
        connection.pipeline_sync()
        results = self._answers()
        connection.exit_pipeline_mode()
        failed = next((result for result in results if result.status == pq.ExecStatus.FATAL_ERROR), None)
        if failed is not None:
            raise self._error(failed)
        self._prepared |= new_statements
        last = itertools.accumulate(counts)  # the rows of a statement follow the answer to its preparation
        return [self._rows(results[index - 1]) for index in last]

    def _send(self, text: str, values: Mapping[str, object], new_statements: dict[str, bytes]) -> int:
        """Queue a statement, preceded by its preparation if needed; return the number of its results."""
        statement, names = _numbered(text)
        name, results = self._prepared.get(text) or new_statements.get(text), 1
        if name is None:
            # Names are never reused: after an error it is unknown whether the server has taken one.
            self._names += 1
            name = new_statements[text] = f"hiveacid_{self._names}".encode()
            self._connection.send_prepare(name, statement.encode(self._encoding))
            results = 2
        self._connection.send_query_prepared(
            name, [self._parameter(values[parameter]) for parameter in names]
        )
        return results

    def _answers(self) -> list[pq.abc.PGresult]:
        """Send the queued statements and return all results."""
        connection = self._connection
        results: list[pq.abc.PGresult] = []
        with selectors.DefaultSelector() as selector:
            selector.register(connection.socket, _BOTH)
            while connection.flush():
                if any(event & _READ for _, event in self._select(selector)):
                    connection.consume_input()
            selector.modify(connection.socket, _READ)
            while True:
                while connection.is_busy():
                    self._select(selector)
                    connection.consume_input()
                result = connection.get_result()
                if result is None:
                    if connection.status == pq.ConnStatus.BAD:
                        raise OperationalError("the connection is closed")
                elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                    return results
                else:
                    results.append(result)

    def _select(self, selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
        ready = selector.select(self._driver.silence)
        if not ready:
            raise self._driver.lost()
        return ready

    def _parameter(self, value: object) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, list):
            return f"{{{','.join(map(_element, value))}}}".encode(self._encoding)
        return str(value).encode(self._encoding)

    def _rows(self, result: pq.abc.PGresult) -> list[NamedRow]:
        columns = range(result.nfields)
        kind = _row(tuple((result.fname(column) or b"").decode(self._encoding) for column in columns))
        readers = [self._reader(result.ftype(column)) for column in columns]
        return [
            kind(*[reader(result.get_value(row, index)) for index, reader in enumerate(readers)])
            for row in range(result.ntuples)
        ]

    def _reader(self, oid: int) -> Callable[[bytes | None], int | bool | str | None]:
        if oid in _NUMBERS:
            return lambda value: None if value is None else int(value)
        if oid == _BOOLEAN:
            return lambda value: None if value is None else value == b"t"
        return lambda value: None if value is None else value.decode(self._encoding)

    def _error(self, result: pq.abc.PGresult) -> Exception:
        message = (result.error_message or b"").decode(self._encoding, "replace").strip()
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        kind: type[Exception] = OperationalError
        if state:
            with suppress(KeyError):
                kind = errors.lookup(state.decode())
        return kind(message)


@cache
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace named placeholders by ``$1``, ``$2``, …; return the text for the server and the names in order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _PLACE.sub(number, text), tuple(names)


def _element(value: str | None) -> str:
    if value is None:
        return "NULL"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@cache
def _row(names: tuple[str, ...]) -> Callable[..., NamedRow]:
    return cast("Callable[..., NamedRow]", namedtuple("Row", names, rename=True))  # noqa: PYI024 - the names are a statement's

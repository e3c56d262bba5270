"""Source positions: positions in Spark's errors about a piece of the user's text, mapped to the whole text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hiveacid.errors import CatalogError, ConfigError, HiveAcidError, StatementError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.sql.statements import Slice

if TYPE_CHECKING:
    from pyspark.errors import QueryContext


# Spark counts lines from 1 and columns from 0; columns of errors at run time from 1.
_PLACE = re.compile(r"line (?P<line>\d+),? pos(?P<late>ition)? (?P<column>\d+)")


@contextmanager
def errors_at(line: int, column: int) -> Iterator[None]:
    """Add a position to errors about the name at that position."""
    try:
        yield
    except (CatalogError, ConfigError) as error:
        if error.line is None:
            error.line, error.column = line, column
        raise


@contextmanager
def spark_errors_at_source(*pieces: Slice, before: str = "") -> Iterator[None]:
    """Raise Spark's errors about the pieces as hiveacid's errors with positions in the user's text.

    ``before``: the prefix that Spark got in front of each piece.
    """
    try:
        with translate_errors():
            yield
    except (CatalogError, StatementError) as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, HiveAcidError):
            raise
        if isinstance(error, StatementError) or error.line is None:  # else `errors_at` knows better
            error.line, error.column = _position_of(cause, pieces, len(before)) or (None, None)
        raise


def _position_of(cause: BaseException, pieces: Sequence[Slice], before: int) -> tuple[int, int] | None:
    mark = _PLACE.search(str(cause))
    if mark is None:
        return None
    line, column = int(mark["line"]), int(mark["column"]) - bool(mark["late"])
    for piece in pieces:
        offset = _offset(piece.text, line, column - (before if line == 1 else 0))
        if offset is not None and (len(pieces) == 1 or _is_about(cause, piece.text, offset)):
            return piece.position(offset)
    return None


def _offset(text: str, line: int, column: int) -> int | None:
    lines = text.split("\n")
    if line == len(lines) + 1:  # the parenthesis after the text
        return len(text)
    if column < 0 or line > len(lines) or column > len(lines[line - 1]):
        return None
    return sum(len(text_line) + 1 for text_line in lines[: line - 1]) + column


def _is_about(cause: BaseException, text: str, offset: int) -> bool:
    """Tell whether Spark's error concerns this text, because the fragment that it quotes begins at the offset."""
    contexts: list[QueryContext] = getattr(cause, "getQueryContext", list)()  # not there in PySpark 3.5
    if any(text.startswith(str(c.fragment()), offset) for c in contexts if c.fragment()):
        return True
    message = str(cause)
    if "== SQL" in message:
        return text.split("\n", 1)[0] in message
    word = next((token.name for token in tokenize(text) if token.start == offset), None)
    return word is not None and f"`{word}`" in message

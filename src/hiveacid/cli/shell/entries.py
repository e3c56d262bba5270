r"""Splitting of typed lines into complete entries: statements and \-commands."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import Token, TokenKind, tokenize


@dataclass(frozen=True)
class Entry:
    r"""A statement or a \-command as it was typed.

    ``text``: a statement without its semicolon. It keeps its indentation, so that column numbers in messages are those of
    the input. ``line``: the number of its first line, from 1.
    """

    text: str
    line: int

    @property
    def is_command(self) -> bool:
        r"""Tell whether it is a \-command."""
        return self.text.startswith("\\")


class Entries:
    """Collects lines until a statement is complete: a ``;`` outside quotes and comments ends it."""

    def __init__(self) -> None:
        """Begin without lines."""
        self._held = ""
        self._line = 1  # of the first line held

    @property
    def begun(self) -> bool:
        """Tell whether an incomplete statement has begun."""
        try:
            return tokenize(self._held)[0].kind is not TokenKind.END
        except ParseError:
            return True

    def feed(self, line: str) -> list[Entry]:
        """Add one line without its line break; remove and return the entries that are now complete."""
        if line.lstrip().startswith("\\") and not self.begun:
            self._skip()
            self._line += 1
            return [Entry(line.strip(), self._line - 1)]
        self._held += line + "\n"
        if ";" not in line:
            return []
        try:
            tokens = tokenize(self._held)
        except ParseError:  # inside quotes or a comment, which a later line ends
            return []
        return self._take_complete(tokens)

    def finish(self) -> list[Entry]:
        """Return a last statement without ``;``. Raises ParseError for quotes or a comment without end."""
        entries = self._take_complete(tokenize(self._held, self._line), at_end=True)
        self._skip()
        return entries

    def drop(self) -> None:
        """Discard the incomplete statement."""
        self._held, self._line = "", 1

    def _take_complete(self, tokens: list[Token], *, at_end: bool = False) -> list[Entry]:
        held, entries = self._held, list[Entry]()
        first: Token | None = None
        cut, end = 0, 0
        for token in tokens:
            if token.keyword != ";" and not (at_end and token.kind is TokenKind.END):
                first, end = first or token, token.end
                continue
            if first is not None:
                indent = first.start - held.rfind("\n", 0, first.start) - 1
                line = self._line + held.count("\n", 0, first.start)
                entries.append(Entry(" " * indent + held[first.start : end], line))
            first, cut = None, token.end
        self._line += held.count("\n", 0, cut)
        rest = held[cut:]
        # text after a semicolon keeps its column
        self._held = " " * (cut - held.rfind("\n", 0, cut) - 1) + rest if rest.strip() else rest
        return entries

    def _skip(self) -> None:
        self._line += self._held.count("\n")
        self._held = ""


def ends_shell(text: str) -> bool:
    """Tell whether a text is ``exit`` or ``quit``, in any case, with or without a semicolon."""
    return text.strip().rstrip(";").rstrip().lower() in {"exit", "quit"}


def is_complete(text: str) -> bool:
    r"""Tell whether Enter should run a text: a \-command, ``quit``, a text that ends with ``;``, or an empty one."""
    if text.lstrip().startswith("\\") or ends_shell(text):
        return True
    try:
        tokens = tokenize(text)
    except ParseError:
        return False
    return len(tokens) == 1 or tokens[-2].keyword == ";"

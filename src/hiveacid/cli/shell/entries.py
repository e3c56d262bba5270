r"""Splitting of typed lines into complete entries: statements and \-commands; the latter.

There are few \-commands, because statements cover most requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hiveacid.errors import ConfigError, ParseError
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
    """Collects lines until a statement is complete: a ``;`` outside of quotes and comments ends it."""

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
        except ParseError:  # inside of quotes or a comment, which a later line ends
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


def is_whole(text: str) -> bool:
    r"""Tell whether Enter should run a text: a \-command, ``quit``, a text that ends with ``;``, or an empty one."""
    if text.lstrip().startswith("\\") or ends_shell(text):
        return True
    try:
        tokens = tokenize(text)
    except ParseError:
        return False
    return len(tokens) == 1 or tokens[-2].keyword == ";"


HELP = r"""A statement ends with ; and may have several lines. Tab completes, Ctrl-C cancels, Ctrl-D ends.

  \tables [DATABASE]    list tables (\dt)
  \databases            list databases (\l)
  \describe TABLE       columns, partitions, properties of a table (\d)
  \timing [on|off]      show how long a statement took
  \vertical [on|off|auto]  each value on a line of its own (\x)
  \limit N              show N rows at most; 0: all
  \help                 this text (\?)
  \quit                 end, as Ctrl-D does (\q)
"""
_SHORT = {
    "\\dt": "\\tables",
    "\\l": "\\databases",
    "\\d": "\\describe",
    "\\x": "\\vertical",
    "\\?": "\\help",
    "\\h": "\\help",
    "\\q": "\\quit",
}
_ARGUMENT = re.compile(r"(?:`(?:[^`]|``)*`|\S)+")  # names in back-quotes may have blanks
COMMANDS = ("\\databases", "\\describe", "\\help", "\\limit", "\\quit", "\\tables", "\\timing", "\\vertical")


@dataclass(frozen=True)
class DisplayOptions:
    """Display of results. ``vertical``: None if the number of columns decides."""

    timing: bool
    limit: int | None
    vertical: bool | None = None


@dataclass(frozen=True)
class CommandResult:
    r"""Effect of a \-command: a statement to run, a text to show, new display options, or the end of the shell."""

    statement: str = ""
    text: str = ""
    view: DisplayOptions | None = None
    ends: bool = False


def command(text: str, view: DisplayOptions) -> CommandResult:
    r"""Return the result of a \-command. Raises ConfigError for an unknown one or a wrong argument."""
    name, *arguments = _ARGUMENT.findall(text.rstrip("; \t"))
    full = _SHORT.get(name.lower(), name.lower())
    if full not in COMMANDS:
        raise ConfigError(f"there is no {name}: see \\help")
    if len(arguments) > 1:
        raise ConfigError(f"{full} takes one argument at most: see \\help")
    if arguments and full in {"\\databases", "\\quit"}:
        raise ConfigError(f"{full} takes no argument: see \\help")
    return _result(full, arguments[0] if arguments else "", view)


def _result(name: str, argument: str, view: DisplayOptions) -> CommandResult:
    match name:
        case "\\tables":
            return CommandResult(statement=f"SHOW TABLES IN {argument}" if argument else "SHOW TABLES")
        case "\\databases":
            return CommandResult(statement="SHOW DATABASES")
        case "\\describe" if not argument:
            raise ConfigError("which table? \\describe TABLE")
        case "\\describe":
            return CommandResult(statement=f"DESCRIBE FORMATTED {argument}")
        case "\\timing":
            return _timing(argument, view)
        case "\\vertical":
            return _vertical(argument, view)
        case "\\limit":
            return _limit(argument, view)
        case "\\quit":
            return CommandResult(ends=True)
    return CommandResult(text=HELP.rstrip())


def _timing(word: str, view: DisplayOptions) -> CommandResult:
    on = not view.timing if not word else _parse_choice(word, "\\timing", {"on": True, "off": False})
    return CommandResult(text=f"timing is {'on' if on else 'off'}", view=replace(view, timing=bool(on)))


def _vertical(word: str, view: DisplayOptions) -> CommandResult:
    choices = {"on": True, "off": False, "auto": None}
    on = not view.vertical if not word else _parse_choice(word, "\\vertical", choices)
    shown = next(name for name, value in choices.items() if value is on)
    return CommandResult(text=f"vertical is {shown}", view=replace(view, vertical=on))


def _limit(number: str, view: DisplayOptions) -> CommandResult:
    if not (number.isascii() and number.isdigit()):
        raise ConfigError("how many rows? \\limit N (0: all)")
    limit = int(number) or None
    text = "all rows are shown" if limit is None else f"{limit} rows are shown at most"
    return CommandResult(text=text, view=replace(view, limit=limit))


def _parse_choice(word: str, name: str, choices: dict[str, bool] | dict[str, bool | None]) -> bool | None:
    if word.lower() not in choices:
        raise ConfigError(f"{name} {word}: expected {', '.join(choices)}")
    return choices[word.lower()]

r"""The \-commands: few, because most of what one asks is a statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from hiveacid.errors import ConfigError

HELP = r"""A statement ends with ; and may have several lines. Tab completes, Ctrl-C cancels, Ctrl-D ends.

  \tables [DATABASE]    list tables (\dt)
  \databases            list databases (\l)
  \describe TABLE       columns, partitions, properties of a table (\d)
  \timing [on|off]      say how long a statement took
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
class View:
    """How results are shown. ``vertical``: None where it depends on how many columns there are."""

    timing: bool
    limit: int | None
    vertical: bool | None = None


@dataclass(frozen=True)
class Answer:
    """What a command comes to: a statement to run, a text to show, another view, or the end."""

    statement: str = ""
    text: str = ""
    view: View | None = None
    ends: bool = False


def command(text: str, view: View) -> Answer:
    r"""Return what a \-command comes to. Raises ConfigError for an unknown one or a wrong argument."""
    name, *arguments = _ARGUMENT.findall(text.rstrip("; \t"))
    full = _SHORT.get(name.lower(), name.lower())
    if full not in _RUN:
        raise ConfigError(f"there is no {name}: see \\help")
    if len(arguments) > 1:
        raise ConfigError(f"{full} takes one argument at most: see \\help")
    return _RUN[full](arguments[0] if arguments else "", view)


def _tables(database: str, view: View) -> Answer:
    del view
    return Answer(statement=f"SHOW TABLES IN {database}" if database else "SHOW TABLES")


def _databases(nothing: str, view: View) -> Answer:
    del view
    _none(nothing, "\\databases")
    return Answer(statement="SHOW DATABASES")


def _describe(table: str, view: View) -> Answer:
    del view
    if not table:
        raise ConfigError("which table? \\describe TABLE")
    return Answer(statement=f"DESCRIBE FORMATTED {table}")


def _timing(word: str, view: View) -> Answer:
    on = not view.timing if not word else _switch(word, "\\timing", {"on": True, "off": False})
    return Answer(text=f"timing is {'on' if on else 'off'}", view=replace(view, timing=bool(on)))


def _vertical(word: str, view: View) -> Answer:
    choices = {"on": True, "off": False, "auto": None}
    on = not view.vertical if not word else _switch(word, "\\vertical", choices)
    shown = next(name for name, value in choices.items() if value is on)
    return Answer(text=f"vertical is {shown}", view=replace(view, vertical=on))


def _limit(number: str, view: View) -> Answer:
    if not (number.isascii() and number.isdigit()):
        raise ConfigError("how many rows? \\limit N (0: all)")
    limit = int(number) or None
    text = "all rows are shown" if limit is None else f"{limit} rows are shown at most"
    return Answer(text=text, view=replace(view, limit=limit))


def _help(nothing: str, view: View) -> Answer:
    del nothing, view
    return Answer(text=HELP.rstrip())


def _quit(nothing: str, view: View) -> Answer:
    del view
    _none(nothing, "\\quit")
    return Answer(ends=True)


def _none(argument: str, name: str) -> None:
    if argument:
        raise ConfigError(f"{name} takes no argument: see \\help")


def _switch(word: str, name: str, choices: dict[str, bool] | dict[str, bool | None]) -> bool | None:
    if word.lower() not in choices:
        raise ConfigError(f"{name} {word}: expected {', '.join(choices)}")
    return choices[word.lower()]


_RUN: dict[str, Callable[[str, View], Answer]] = {
    "\\tables": _tables,
    "\\databases": _databases,
    "\\describe": _describe,
    "\\timing": _timing,
    "\\vertical": _vertical,
    "\\limit": _limit,
    "\\help": _help,
    "\\quit": _quit,
}

r"""The \-commands of the shell: few, because statements cover most requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from hiveacid.errors import ConfigError

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
    if full not in _RUN:
        raise ConfigError(f"there is no {name}: see \\help")
    if len(arguments) > 1:
        raise ConfigError(f"{full} takes one argument at most: see \\help")
    return _RUN[full](arguments[0] if arguments else "", view)


def _tables(database: str, view: DisplayOptions) -> CommandResult:
    del view
    return CommandResult(statement=f"SHOW TABLES IN {database}" if database else "SHOW TABLES")


def _databases(nothing: str, view: DisplayOptions) -> CommandResult:
    del view
    _refuse_argument(nothing, "\\databases")
    return CommandResult(statement="SHOW DATABASES")


def _describe(table: str, view: DisplayOptions) -> CommandResult:
    del view
    if not table:
        raise ConfigError("which table? \\describe TABLE")
    return CommandResult(statement=f"DESCRIBE FORMATTED {table}")


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


def _help(nothing: str, view: DisplayOptions) -> CommandResult:
    del nothing, view
    return CommandResult(text=HELP.rstrip())


def _quit(nothing: str, view: DisplayOptions) -> CommandResult:
    del view
    _refuse_argument(nothing, "\\quit")
    return CommandResult(ends=True)


def _refuse_argument(argument: str, name: str) -> None:
    if argument:
        raise ConfigError(f"{name} takes no argument: see \\help")


def _parse_choice(word: str, name: str, choices: dict[str, bool] | dict[str, bool | None]) -> bool | None:
    if word.lower() not in choices:
        raise ConfigError(f"{name} {word}: expected {', '.join(choices)}")
    return choices[word.lower()]


_RUN: dict[str, Callable[[str, DisplayOptions], CommandResult]] = {
    "\\tables": _tables,
    "\\databases": _databases,
    "\\describe": _describe,
    "\\timing": _timing,
    "\\vertical": _vertical,
    "\\limit": _limit,
    "\\help": _help,
    "\\quit": _quit,
}

r"""The shell's \-commands. There are few, because statements cover most requests."""

from __future__ import annotations

import re
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
    display: DisplayOptions | None = None
    ends: bool = False


def evaluate_command(text: str, display: DisplayOptions) -> CommandResult:
    r"""Return the result of a \-command. Raises ConfigError for an unknown one or a wrong argument."""
    name, *arguments = _ARGUMENT.findall(text.rstrip("; \t"))
    full = _SHORT.get(name.lower(), name.lower())
    if full not in COMMANDS:
        raise ConfigError(f"there is no {name}: see \\help")
    if len(arguments) > 1:
        raise ConfigError(f"{full} takes one argument at most: see \\help")
    if arguments and full in {"\\databases", "\\quit"}:
        raise ConfigError(f"{full} takes no argument: see \\help")
    return _result(full, arguments[0] if arguments else "", display)


def _result(name: str, argument: str, display: DisplayOptions) -> CommandResult:
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
            return _timing(argument, display)
        case "\\vertical":
            return _vertical(argument, display)
        case "\\limit":
            return _limit(argument, display)
        case "\\quit":
            return CommandResult(ends=True)
    return CommandResult(text=HELP.rstrip())


def _timing(word: str, display: DisplayOptions) -> CommandResult:
    on = not display.timing if not word else _parse_choice(word, "\\timing", {"on": True, "off": False})
    return CommandResult(text=f"timing is {'on' if on else 'off'}", display=replace(display, timing=bool(on)))


def _vertical(word: str, display: DisplayOptions) -> CommandResult:
    choices = {"on": True, "off": False, "auto": None}
    on = not display.vertical if not word else _parse_choice(word, "\\vertical", choices)
    shown = next(name for name, value in choices.items() if value is on)
    return CommandResult(text=f"vertical is {shown}", display=replace(display, vertical=on))


def _limit(number: str, display: DisplayOptions) -> CommandResult:
    if not (number.isascii() and number.isdigit()):
        raise ConfigError("how many rows? \\limit N (0: all)")
    limit = int(number) or None
    text = "all rows are shown" if limit is None else f"{limit} rows are shown at most"
    return CommandResult(text=text, display=replace(display, limit=limit))


def _parse_choice(word: str, name: str, choices: dict[str, bool] | dict[str, bool | None]) -> bool | None:
    if word.lower() not in choices:
        raise ConfigError(f"{name} {word}: expected {', '.join(choices)}")
    return choices[word.lower()]

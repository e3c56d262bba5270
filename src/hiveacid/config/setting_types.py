"""Type `Setting`, and parsers of its text: Hive's spellings of durations and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from types import MappingProxyType
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from hiveacid.errors import ConfigError

T = TypeVar("T", bool, int, float, str)
Value = bool | int | float | str

_SECONDS: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(("d", "day", "days"), 86_400.0)
    | dict.fromkeys(("h", "hour", "hours"), 3_600.0)
    | dict.fromkeys(("m", "min", "minute", "minutes"), 60.0)
    | dict.fromkeys(("s", "sec", "second", "seconds"), 1.0)
    | dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3)
    | dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-6)
    | dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9)
)
_BYTES: Mapping[str, int] = MappingProxyType(
    {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
)
_AMOUNT = re.compile(r"(-?\d{1,18})\s*+([a-z]*)")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One setting: name, default (the text that Hive prints), documentation, and parser of its text.

    ``kind``: its type as documented for users (bool, int, float, duration, size, text, or the choices).
    ``difference_from_hive``: in words for users; None for a setting with Hive's name and Hive's meaning.
    """

    name: str
    default: str
    doc: str
    kind: str
    parse: Callable[[str], T]
    difference_from_hive: str | None = None


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false``, in any case."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ConfigError(f"expected true or false, got {text!r}")
    return lowered == "true"


def parse_int(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text.strip())
    except ValueError as error:
        raise ConfigError(f"expected a whole number, got {text!r}") from error


def parse_float(text: str) -> float:
    """Read a decimal number; not ``nan`` or ``inf``, with which no comparison makes sense."""
    try:
        number = float(text.strip())
    except ValueError as error:
        raise ConfigError(f"expected a number, got {text!r}") from error
    if not isfinite(number):
        raise ConfigError(f"expected a number, got {text!r}")
    return number


def parse_fraction(text: str) -> float:
    """Read a number above 0 and below 1, in a form that Java reads, too: without ``_`` and with the digits 0 to 9."""
    value = parse_float(text)
    if not 0 < value < 1 or not text.isascii() or "_" in text:
        raise ConfigError(f"expected a number above 0 and below 1, got {text!r}")
    return value


LONGEST = 1e9
"""Seconds, 31 years: a longer duration means for ever. Clocks, waits and databases can add this one."""


def parse_duration(text: str, bare_unit: str = "s", *, negative: bool = False) -> float:
    """Parse a duration in Hive's spelling (``300s``, ``5min``, ``12h``) and return it in seconds.

    A bare number is in ``bare_unit``, which differs between Hive's settings (HiveConf's TimeValidator). ``negative``: a
    duration below 0 is allowed. More than `LONGEST` is that long.
    """
    match = _AMOUNT.fullmatch(text.strip().lower())
    seconds = None if match is None else _SECONDS.get(match[2] or bare_unit)
    if match is None or seconds is None or (int(match[1]) < 0 and not negative):
        raise ConfigError(f"expected a duration such as 300s, 5min or 12h, got {text[:80]!r}")
    return max(-LONGEST, min(int(match[1]) * seconds, LONGEST))


def parse_size(text: str) -> int:
    """Read a number of bytes, bare or with kb, mb or gb."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    unit = None if match is None else _BYTES.get(match[2])
    if match is None or unit is None or int(match[1]) < 0:
        raise ConfigError(f"expected a size such as 67108864 or 64mb, got {text[:80]!r}")
    return int(match[1]) * unit


def parse_lineage_target(text: str) -> str:
    """Check ``off``, or a URL to which events of lineage go. Raises ConfigError, also if the library is not installed."""
    text = text.strip()
    if text != "off":
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"not a URL: {error}") from error
        if parts.username is not None or parts.query or parts.fragment:
            raise ConfigError("the URL can hold no secret: set the variable OPENLINEAGE_API_KEY")
        is_file = parts.scheme == "file" and not host and len(parts.path) > 1
        if not is_file and not (parts.scheme in {"http", "https"} and host):
            raise ConfigError(
                f"expected off, file:///DIRECTORY/FILE or http(s)://HOST[:PORT], got {text[:80]!r}"
            )
        if find_spec("openlineage") is None:
            raise ConfigError("the events need openlineage-python: pip install 'hiveacid[openlineage]'")
    return text


def flag(name: str, default: str, doc: str, difference_from_hive: str | None = None) -> Setting[bool]:
    """Make a setting that is true or false."""
    return Setting(name, default, doc, "bool", parse_bool, difference_from_hive)


def count(
    name: str, default: str, doc: str, difference_from_hive: str | None = None, minimum: int | None = None
) -> Setting[int]:
    """Make a setting that is a whole number, not below ``minimum``."""

    def parse(text: str) -> int:
        value = parse_int(text)
        if minimum is not None and value < minimum:
            raise ConfigError(f"must be at least {minimum}, got {value}")
        return value

    return Setting(name, default, doc, "int", parse, difference_from_hive)


def duration(
    name: str, default: str, doc: str, *, bare_unit: str = "s", positive: bool = False, negative: bool = False
) -> Setting[float]:
    """Make a setting that is a duration; a bare number is in ``bare_unit``.

    ``positive``: it is not 0. ``negative``: it may be below 0.
    """

    def parse(text: str) -> float:
        seconds = parse_duration(text, bare_unit, negative=negative)
        if positive and not seconds:
            raise ConfigError(f"must be longer than 0, got {text!r}")
        return seconds

    return Setting(name, default, doc, "duration", parse)


def size(name: str, default: str, doc: str, difference_from_hive: str | None = None) -> Setting[int]:
    """Make a setting that is a number of bytes."""
    return Setting(name, default, doc, "size", parse_size, difference_from_hive)


def text(name: str, default: str, doc: str, difference_from_hive: str | None = None) -> Setting[str]:
    """Make a setting that is any text."""
    return Setting(name, default, doc, "text", str, difference_from_hive)


def choice(
    name: str, choices: tuple[str, ...], doc: str, difference_from_hive: str | None = None
) -> Setting[str]:
    """Make a setting with fixed values, the first being the default; case does not count."""
    by_lower = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        match = by_lower.get(text.strip().lower())
        if match is None:
            raise ConfigError(f"expected one of {', '.join(choices)}, got {text!r}")
        return match

    return Setting(name, choices[0], doc, " | ".join(choices), parse, difference_from_hive)


AnySetting = Setting[bool] | Setting[int] | Setting[float] | Setting[str]

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Section(Generic[Entry]):
    """A group of settings or table properties under its heading in the documentation."""

    title: str
    entries: tuple[Entry, ...]


def divide_into_sections(
    constants: Iterable[object], firsts: Sequence[tuple[str, Entry]]
) -> tuple[Section[Entry], ...]:
    """Divide the constants of a registry, in their order, into sections.

    ``firsts``: the title of each section and the entry that it begins with. Constants of other types are left out.
    """
    entries = [constant for constant in constants if isinstance(constant, type(firsts[0][1]))]
    starts = [entries.index(first) for _, first in firsts]
    ends = [*starts[1:], len(entries)]
    return tuple(
        Section(title, tuple(entries[start:end]))
        for (title, _), start, end in zip(firsts, starts, ends, strict=True)
    )

"""Quiet hours: the windows of the day, or of some days, in which automatic major compactions may start.

``22:00-06:00``, ``Mon-Fri 22:00-05:30, Sat-Sun 00:00-24:00 Europe/Berlin`` and ``always`` are texts of them. A window that ends at or before
its beginning ends on the next day, and belongs to the day on which it begins. Without a time zone at the end, times are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from hiveacid.core.model import ShownAsText
from hiveacid.errors import ConfigError

_ALWAYS = "always"
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))? +)?(?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)",
    re.IGNORECASE | re.ASCII,
)
_ZONE = re.compile(r"(.*\d) +([A-Za-z][\w+/-]*)", re.ASCII)
_DAY = 24 * 60  # minutes
_EXAMPLE = (
    "expected always, or times such as 22:00-06:00, or Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin"
)


@dataclass(frozen=True)
class Window:
    """One window: the weekdays on which it begins (Monday is 0), and its minutes of the day; an end above 24 hours is the next day's."""

    days: frozenset[int]
    begin: int
    end: int


@dataclass(frozen=True)
class QuietHours(ShownAsText):
    """The windows of a text, which is ``always`` if there are none, and the zone of their times."""

    text: str = _ALWAYS
    windows: tuple[Window, ...] = ()
    zone: tzinfo = UTC

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def is_open(self, now: int) -> bool:
        """Tell whether a moment (ms) lies in a window; the end does not belong to it."""
        return not self.windows or any(begin <= now < end for begin, end in self._around(now))

    def next_opening(self, now: int) -> int:
        """Return when the next window begins after a moment (ms); the moment itself if it lies in one."""
        if self.is_open(now):
            return now
        return min(begin for begin, _ in self._around(now) if begin > now)

    def _around(self, now: int) -> Iterator[tuple[int, int]]:
        """Yield begins and ends (ms) of the windows from the day before a moment to the same day of the next week."""
        today = datetime.fromtimestamp(now / 1000, self.zone).replace(
            tzinfo=None, hour=0, minute=0, second=0, microsecond=0
        )
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            for window in self.windows:
                if day.weekday() in window.days:
                    yield self._millis(day, window.begin), self._millis(day, window.end)

    def _millis(self, day: datetime, minutes: int) -> int:
        return int((day + timedelta(minutes=minutes)).replace(tzinfo=self.zone).timestamp() * 1000)


ALWAYS = QuietHours()


def parse_quiet_hours(text: str) -> QuietHours:
    """Return the quiet hours of a text. Raises ConfigError."""
    stripped = text.strip()
    if stripped.lower() == _ALWAYS:
        return ALWAYS
    with_zone = _ZONE.fullmatch(stripped)
    windows, zone = (stripped, "UTC") if with_zone is None else (with_zone[1], with_zone[2])
    try:
        info = UTC if zone == "UTC" else ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"there is no time zone {zone[:80]!r} on this machine: {_EXAMPLE}") from error
    return QuietHours(stripped, tuple(_window(part.strip()) for part in windows.split(",")), info)


def _window(text: str) -> Window:
    match = _WINDOW.fullmatch(text)
    first, last = (
        ("", "") if match is None else ((match["first"] or "mon").lower(), (match["last"] or "").lower())
    )
    last = last or (first if match is not None and match["first"] else "sun")
    if match is None or first not in _DAYS or last not in _DAYS:
        raise ConfigError(f"{_EXAMPLE}, got {text[:80]!r}")
    begin, end = (60 * int(time[:2]) + int(time[3:]) for time in (match["begin"], match["end"]))
    if begin >= _DAY or end > _DAY or int(match["begin"][3:]) > 59 or int(match["end"][3:]) > 59:  # noqa: PLR2004
        raise ConfigError(f"{_EXAMPLE}, got {text[:80]!r}")
    start, count = _DAYS.index(first), (_DAYS.index(last) - _DAYS.index(first)) % 7 + 1
    days = frozenset((start + offset) % 7 for offset in range(count))
    return Window(days, begin, end + _DAY * (end <= begin))

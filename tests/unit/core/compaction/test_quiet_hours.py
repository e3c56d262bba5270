"""Windows of the day: which moments lie in them, and when the next one begins."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hiveacid.core.compaction.initiation_and_retry_policy import parse_quiet_hours
from hiveacid.errors import ConfigError

MINUTE = 60_000


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "moment", "is_open"),
    [
        ("always", "2026-01-07 12:00", True),
        ("22:00-06:00", "2026-01-07 21:59", False),
        ("22:00-06:00", "2026-01-07 22:00", True),
        ("22:00-06:00", "2026-01-08 05:59", True),
        ("22:00-06:00", "2026-01-08 06:00", False),
        ("01:00-02:00, 03:00-04:00", "2026-01-08 02:30", False),
        ("01:00-02:00,03:00-04:00", "2026-01-08 03:30", True),
        ("00:00-24:00", "2026-01-08 00:00", True),
        ("12:00-12:00", "2026-01-08 11:59", True),  # a whole day, each day
        ("Mon-Fri 22:00-06:00", "2026-01-10 05:00", True),  # the window of Friday
        ("Mon-Fri 22:00-06:00", "2026-01-10 23:00", False),
        ("Mon-Fri 22:00-06:00", "2026-01-12 05:00", False),  # that of Sunday would be
        ("sat 00:00-24:00", "2026-01-10 23:59", True),
        ("sat 00:00-24:00", "2026-01-11 00:00", False),
        ("Sun-Mon 10:00-11:00", "2026-01-12 10:30", True),
        ("Sun-Mon 10:00-11:00", "2026-01-13 10:30", False),
        ("22:00-06:00 Europe/Berlin", "2026-01-07 21:00", True),
        ("22:00-06:00 Europe/Berlin", "2026-07-07 20:00", True),
        ("22:00-06:00 Europe/Berlin", "2026-07-08 04:00", False),
    ],
)
def test_a_moment_lies_in_a_window_or_not(text: str, moment: str, *, is_open: bool) -> None:
    assert parse_quiet_hours(text).is_open(at(moment)) is is_open


@pytest.mark.parametrize(
    ("text", "moment", "opening"),
    [
        ("22:00-06:00", "2026-01-07 12:00", "2026-01-07 22:00"),
        ("22:00-06:00", "2026-01-07 23:00", "2026-01-07 23:00"),
        ("01:00-02:00, 03:00-04:00", "2026-01-07 02:00", "2026-01-07 03:00"),
        ("Sat 01:00-02:00", "2026-01-10 02:00", "2026-01-17 01:00"),
        ("Sat 01:00-02:00 Europe/Berlin", "2026-01-10 00:59", "2026-01-10 00:59"),
    ],
)
def test_the_next_opening(text: str, moment: str, opening: str) -> None:
    assert parse_quiet_hours(text).next_opening(at(moment)) == at(opening)


def test_days_on_which_the_clock_is_changed_have_their_window() -> None:
    hours = parse_quiet_hours("01:30-04:00 Europe/Berlin")
    for day in ("2026-03-29", "2026-10-25"):
        begin, end = at(f"{day} 01:30", "Europe/Berlin"), at(f"{day} 04:00", "Europe/Berlin")
        assert [hours.is_open(time) for time in (begin - 1, begin, end - 1, end)] == [
            False,
            True,
            True,
            False,
        ]
    skipped = parse_quiet_hours("02:15-02:45 Europe/Berlin")  # does not exist in the first of these nights
    assert skipped.next_opening(at("2026-03-29 00:00")) <= at("2026-03-30 02:15", "Europe/Berlin")


def test_between_a_moment_and_the_next_opening_no_window_is_open() -> None:
    choice = random.Random(47)
    for _ in range(300):
        days = choice.choice(["", "Mon ", "Tue-Thu ", "Fri-Mon "])
        begin, end = (f"{choice.randrange(24):02}:{choice.choice(['00', '15', '59'])}" for _ in range(2))
        hours = parse_quiet_hours(
            f"{days}{begin}-{end} {choice.choice(['UTC', 'Europe/Berlin', 'Asia/Kolkata'])}"
        )
        now = at("2026-03-20 00:00") + choice.randrange(60 * 24 * 12) * MINUTE
        opening = hours.next_opening(now)
        assert opening >= now
        assert hours.is_open(opening), (hours, now)
        assert not any(hours.is_open(time) for time in range(now, opening, 7 * MINUTE)), (hours, now)
        assert opening - now <= timedelta(days=8) / timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "never", "22-06", "22:00", "24:00-06:00", "22:00-24:01", "22:60-23:00", "xyz 01:00-02:00"),
        *("Mon- 01:00-02:00", "01:00-02:00,", "01:00-02:00 03:00-04:00", "01:00-02:00 Nowhere/At_All"),
        *("01:00-02:00 ../../etc/passwd", "\u0660\u0661:00-02:00", "01:00-02:00 Europe"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"22:00-06:00"):
        parse_quiet_hours(text)


def test_the_text_is_kept() -> None:
    assert str(parse_quiet_hours(" Mon-Fri 22:00-06:00 ")) == "Mon-Fri 22:00-06:00"
    assert str(parse_quiet_hours("ALWAYS")) == "always"

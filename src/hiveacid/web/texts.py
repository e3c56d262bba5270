"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "—"
"""The text of an unknown value."""
_KIB = 1024
_THOUSAND, _MILLION, _BILLION = 10**3, 10**6, 10**9
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def format_bytes(size: int | None) -> str:
    """Return a size with a unit, three digits at most before the point."""
    if size is None:
        return UNKNOWN
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):  # noqa: B007 - the last one is used
        if value < _KIB:
            break
        value /= _KIB
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def format_count(number: float | None) -> str:
    """Return a number with separators; from ten million on, in millions or billions."""
    if number is None:
        return UNKNOWN
    if number >= 10 * _BILLION:
        return f"{number / _BILLION:,.1f} bn"
    if number >= 10 * _MILLION:
        return f"{number / _MILLION:,.1f} M"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration in its two largest units."""
    if seconds is None:
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def format_time(millis: int | None) -> str:
    """Return a moment in UTC, to the second."""
    if millis is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"

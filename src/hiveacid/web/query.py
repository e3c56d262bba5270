"""Parameters of a page's address: each with a bound, and a link that changes some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import urlencode

from hiveacid.errors import StatementError

LONGEST_TEXT = 300
PAGE_SIZES = (10, 25, 50, 100, 200)
_LAST_PAGE = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RANGES: Mapping[str, int | None] = {
    "1h": 3_600_000,
    "6h": 21_600_000,
    "1d": 86_400_000,
    "7d": 604_800_000,
    "30d": 2_592_000_000,
    "all": None,
}
"""Time ranges up to now, in ms; None: since the beginning."""

T = TypeVar("T")


class BadParameterError(StatementError):
    """A parameter of an address that is out of its bounds."""


@dataclass(frozen=True)
class Span:
    """Time range of a page in ms: after ``since`` (None: the beginning), up to ``until``. ``name``: its entry of `RANGES`."""

    since: int | None
    until: int
    name: str

    @property
    def start(self) -> int:
        """Return the begin, 0 if there is none."""
        return self.since or 0

    def data(self) -> dict[str, object]:
        """Return the fields, and the start."""
        return {"since": self.since, "until": self.until, "name": self.name, "start": self.start}

    def holds(self, time: int | None) -> bool:
        """Tell whether a moment is in the range; an unknown one is."""
        return time is None or self.start < time <= self.until


@dataclass(frozen=True)
class Query:
    """The parameters of a request. Readers raise BadParameterError."""

    path: str
    values: Mapping[str, str]

    def text(self, name: str, *, needed: bool = False) -> str:
        """Return a text, empty if it is not given."""
        value = self.values.get(name, "").strip()
        if needed and not value:
            raise BadParameterError(f"{name} is missing")
        if len(value) > LONGEST_TEXT:
            raise BadParameterError(f"{name} has more than {LONGEST_TEXT} characters")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of the choices."""
        value = self.values.get(name) or default
        if value not in choices:
            raise BadParameterError(f"{name} is one of {', '.join(choices)}")
        return value

    def number(self, name: str, low: int, high: int, default: int) -> int:
        """Return a number in the bounds."""
        text = self.values.get(name) or str(default)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):  # noqa: PLR2004 - digits
            raise BadParameterError(f"{name} is a number from {low} to {high}")
        return int(text)

    def span(self, now: int, default: str = "1d") -> Span:
        """Return the time range: ``from`` and ``to`` (ISO 8601, UTC), or ``range``."""
        first, last = self._moment("from"), self._moment("to")
        if first is not None or last is not None:
            return Span(first, now if last is None else last, "")
        name = self.choice("range", list(RANGES), default)
        length = RANGES[name]
        return Span(None if length is None else now - length, now, name)

    def _moment(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
            # in UTC, so that charts can write the year
            in_utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
            return (in_utc - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError) as error:
            raise BadParameterError(f"{name} is a time such as 2026-01-31T12:00 (UTC)") from error

    def page_of(self, rows: Sequence[T], word: str = "") -> tuple[Sequence[T], dict[str, int | str]]:
        """Return the rows of the page asked for, and what a pager shows; ``word``: what the rows are."""
        size = self.number("size", PAGE_SIZES[0], PAGE_SIZES[-1], 25)
        pages = max(1, -(-len(rows) // size))
        page = min(self.number("page", 1, _LAST_PAGE, 1), pages)
        first = (page - 1) * size
        shown = rows[first : first + size]
        pager: dict[str, int | str] = {
            "page": page,
            "pages": pages,
            "size": size,
            "total": len(rows),
            "first": first + 1 if shown else 0,
            "last": first + len(shown),
            "word": word,
        }
        return shown, pager

    def link(self, **changes: object) -> str:
        """Return this address with other parameters; None removes one. Any change but of the page shows the first page."""
        values = dict(self.values)
        if "page" not in changes:
            values.pop("page", None)
        for name, value in changes.items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = str(value)
        return f"{self.path}?{urlencode(values)}" if values else self.path

    def hidden(self, *names: str) -> Iterator[tuple[str, str]]:
        """Yield the parameters that a form has to keep, which has fields of its own for ``names``."""
        for name, value in self.values.items():
            if name not in (*names, "page"):
                yield name, value

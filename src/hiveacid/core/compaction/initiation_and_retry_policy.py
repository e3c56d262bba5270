"""Compaction policy: whether, how and when the initiator compacts a location, also again after failures.

Rules: Hive 4's ``Initiator``, ``TableOptimizer`` and ``CompactorUtil.determineCompactionType``. The first question,
whether it may be compacted now, needs the queue only. The second, whether it pays, needs a listing.

This module counts failed jobs. `stores.limits.Limits.max_lost_workers` limits how often a job is queued again because
its worker was lost.

Quiet hours are the windows of the day, or of some days, in which automatic major compactions may start: ``22:00-06:00``,
``Mon-Fri 22:00-05:30, Sat-Sun 00:00-24:00 Europe/Berlin`` and ``always`` are texts of them. A window that ends at or
before its beginning ends on the next day, and belongs to the day on which it begins. Without a time zone at the end,
times are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import BaseName, DeltaName, layout_name
from hiveacid.core.model import ShownAsText, TableKind
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.core.transactions.states import UNDER_WAY, CompactionState
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
_ENDED_WELL = (CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED)
_SMALL = 0.01  # metastore.deltametrics.delta.pct.threshold


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


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of automatic compaction, of the settings that are named below; times in seconds.

    ``delta_num``, ``delta_pct``: ``hive.compactor.delta.{num,pct}.threshold``. ``aborted_txns``,
    ``aborted_age`` (negative: never): ``hive.compactor.abortedtxn.threshold`` and
    ``hive.compactor.aborted.txn.time.threshold``. ``failures``, ``retry_after`` (0: never):
    ``hive.compactor.initiator.failed.compacts.threshold`` and ``...failed.retry.time``. ``insert_only``:
    ``hive.compactor.compact.insert.only``. ``major_interval`` (0: never), ``window``: ``hiveacid.compactor.major.interval`` and
    ``hiveacid.compactor.window``.
    """

    delta_num: int
    delta_pct: float
    aborted_txns: int
    aborted_age: float
    failures: int
    retry_after: float
    insert_only: bool
    major_interval: float = 0.0
    window: QuietHours = ALWAYS


@dataclass(frozen=True)
class CompactionCandidate:
    """Facts about a table or partition that are known without listing its files.

    ``attempts``: jobs of this location, in the queue and in its history. ``aborted``: abort times (ms) of
    transactions that wrote here and whose files are not cleaned yet. ``disabled``: "table" or "database", depending
    on where ``no_auto_compaction`` is set; None: nowhere.
    """

    kind: TableKind
    attempts: tuple[Compaction, ...] = ()
    aborted: tuple[int, ...] = ()
    disabled: str | None = None


@dataclass(frozen=True)
class LocationSizes:
    """Sizes at a location: bytes of the base (or the original files) and of all deltas, delete deltas included.

    ``deltas``: number of directories, delete deltas included. ``old_bases``: an obsolete base is not deleted yet.
    ``small_deltas`` (smaller than a hundredth of the base) and ``obsolete_deltas`` are only metrics for operators.
    ``base_written``, ``oldest_delta``: times (ms; 0: unknown) of the base's newest and of the deltas' oldest file.
    """

    base_bytes: int
    delta_bytes: int
    deltas: int
    old_bases: bool = False
    small_deltas: int = 0
    obsolete_deltas: int = 0
    base_written: int = 0
    oldest_delta: int = 0


@dataclass(frozen=True)
class Decision:
    """Compact (``kind``) or not (None), and why.

    ``noted``: the queue records it as "did not initiate". ``again``: the time (ms) at which the decision may be another
    one although nothing was written.
    """

    kind: CompactionKind | None
    reason: str
    noted: bool = False
    again: int | None = None


def measure_location(state: AcidState) -> LocationSizes:
    """Sum up what a snapshot (of the compactor's write ids) reads at a location."""
    base = () if state.base is None else state.base.files
    base_bytes = sum(file.size for file in (*base, *state.originals))
    deltas = (*state.deltas, *state.delete_deltas)
    sizes = [sum(file.size for file in directory.files) for directory in deltas]
    obsolete = [layout_name(path) for path in state.obsolete]
    return LocationSizes(
        base_bytes,
        delta_bytes=sum(sizes),
        deltas=len(sizes),
        old_bases=any(isinstance(name, BaseName) for name in obsolete),
        small_deltas=sum(size < _SMALL * base_bytes for size in sizes),
        obsolete_deltas=sum(isinstance(name, DeltaName) for name in obsolete),
        base_written=max((file.modified for file in (*base, *state.originals)), default=0),
        oldest_delta=min((file.modified for directory in deltas for file in directory.files), default=0),
    )


def decide_not_to_initiate(
    candidate: CompactionCandidate, thresholds: Thresholds, now: int
) -> Decision | None:
    """Return why a location must not be compacted automatically now, None if it may be.

    ``now``: ms. The files do not matter here. Compactions that a user requests are not checked.
    """
    if candidate.disabled is not None:
        return Decision(None, f"no_auto_compaction is set on the {candidate.disabled}")
    if candidate.kind is TableKind.PLAIN:
        return Decision(None, "the table is not transactional")
    if candidate.kind is TableKind.INSERT_ONLY and not thresholds.insert_only:
        return Decision(None, "the table is insert-only and hive.compactor.compact.insert.only=false")
    under_way = next((attempt for attempt in candidate.attempts if attempt.state in UNDER_WAY), None)
    if under_way is not None:
        # again: what is written meanwhile counts when that one has ended
        return Decision(None, f"compaction {under_way.id} is {under_way.state} already", again=now)
    failed = _failures_in_a_row(candidate.attempts, thresholds.failures)
    if not failed:
        return None
    last = max(attempt.enqueued or 0 for attempt in failed)
    if thresholds.retry_after > 0 and last + thresholds.retry_after * 1000 < now:
        return None
    return Decision(
        None,
        f"Compaction is not initiated since last {len(failed)} consecutive compaction attempts failed",
        noted=True,
    )


def _failures_in_a_row(attempts: Sequence[Compaction], limit: int) -> list[Compaction]:
    """Return the newest ``limit`` ended attempts if all of them failed, else none."""
    ended = [
        attempt
        for attempt in attempts
        if attempt.state in (CompactionState.SUCCEEDED, CompactionState.FAILED)
    ]
    newest = sorted(ended, key=lambda attempt: attempt.id, reverse=True)[:limit]
    return (
        newest
        if len(newest) == limit and all(attempt.state == CompactionState.FAILED for attempt in newest)
        else []
    )


def decide_by_aborts(candidate: CompactionCandidate, thresholds: Thresholds, now: int) -> Decision | None:
    """Return the compaction that aborted transactions require, None if they require none.

    Transactions that were aborted before the last successful compaction do not count again. That compaction has
    dropped their rows; the store keeps their ids for the sake of other locations.
    """
    began = max(
        (attempt.started or 0 for attempt in candidate.attempts if attempt.state in _ENDED_WELL), default=0
    )
    aborted = [time for time in candidate.aborted if time >= began]
    if len(aborted) > thresholds.aborted_txns:
        reason = f"{len(aborted)} aborted transactions, more than {thresholds.aborted_txns}"
        return Decision(CompactionKind.MAJOR, f"{reason} (hive.compactor.abortedtxn.threshold)")
    age = (now - min(aborted)) / 1000 if aborted else 0.0
    if 0 <= thresholds.aborted_age < age:
        reason = f"a transaction was aborted {age / 3600:.1f} hours ago, more than {thresholds.aborted_age / 3600:g}"
        return Decision(CompactionKind.MINOR, f"{reason} (hive.compactor.aborted.txn.time.threshold)")
    return None


def decide_by_files(figures: LocationSizes, thresholds: Thresholds) -> Decision:
    """Return the compaction that the files of a location require (``determineCompactionType``)."""
    base, deltas = figures.base_bytes, figures.delta_bytes
    if base or not deltas:
        share = deltas / base if base else 0.0
        if share > thresholds.delta_pct:
            reason = f"deltas are {share:.3g} times the size of the base, more than {thresholds.delta_pct:g}"
            return Decision(CompactionKind.MAJOR, f"{reason} (hive.compactor.delta.pct.threshold)")
        if not deltas and figures.old_bases:
            return Decision(CompactionKind.MAJOR, "nothing but bases, one of them obsolete")
    if figures.deltas <= thresholds.delta_num:
        reason = f"Not enough deltas to initiate compaction: {figures.deltas}, not more than"
        return Decision(None, f"{reason} {thresholds.delta_num} (hive.compactor.delta.num.threshold)")
    kind = CompactionKind.MINOR if base else CompactionKind.MAJOR
    reason = f"{figures.deltas} deltas, more than {thresholds.delta_num} (hive.compactor.delta.num.threshold)"
    return Decision(kind, reason if base else f"{reason}, and no base")


def decide_by_time(figures: LocationSizes, thresholds: Thresholds, now: int, otherwise: Decision) -> Decision:
    """Return a major compaction if the base is older than the interval and there are deltas; else ``otherwise``.

    Without a base the oldest delta counts. ``otherwise``: the decision by the files.
    """
    since = figures.base_written or figures.oldest_delta
    if (
        thresholds.major_interval <= 0
        or otherwise.kind is CompactionKind.MAJOR
        or not (figures.deltas and since)
    ):
        return otherwise
    due = since + int(1000 * thresholds.major_interval)
    if now < due:
        return replace(otherwise, again=due)
    reason = f"the last major compaction was {(now - since) / 3_600_000:.1f} hours ago, with deltas since"
    return Decision(CompactionKind.MAJOR, f"{reason} (hiveacid.compactor.major.interval)")


def wait_for_window(
    decision: Decision, figures: LocationSizes | None, thresholds: Thresholds, now: int
) -> Decision:
    """Return the decision; instead of a major compaction outside of the window a minor one for many deltas, or none yet."""
    if decision.kind is not CompactionKind.MAJOR or thresholds.window.is_open(now):
        return decision
    opening = thresholds.window.next_opening(now)
    reason = f"{decision.reason}; major compactions start {thresholds.window} (hiveacid.compactor.window)"
    many = figures is not None and figures.base_bytes > 0 and figures.deltas > thresholds.delta_num
    return Decision(CompactionKind.MINOR if many else None, reason, again=opening)

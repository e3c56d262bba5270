"""Charts as SVG, drawn on the server: text and lines that style sheets colour, without a style attribute."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from hiveacid.core.transactions.locks_and_conflicts import Wait
from hiveacid.web.texts import format_bytes, format_count

_WIDTH, _HEIGHT = 720, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 10, 26
_DAY = 86_400_000
_MOST_POINTS = 400
_BARS = 48
_MOST_NODES = 80
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 176, 44, 64, 14


@dataclass(frozen=True)
class Series:
    """Values by time (ms, ascending); ``css``: the class that colours it."""

    name: str
    css: str
    points: Sequence[tuple[int, float]]


def step_chart(title: str, series: Series, since: int, until: int, *, as_bytes: bool) -> Markup:
    """Draw a value that stays until it changes."""
    points = [(min(max(time, since), until), value) for time, value in thin_out(series.points)]
    if not points or until <= since:
        return Markup()
    top = max(value for _, value in points) or 1.0
    top = top if as_bytes else _round_up(max(top, 2.0))
    corners = []
    for (time, value), (after, _) in pairwise([*points, (until, 0.0)]):
        height = _y(value, top)
        corners += [
            f"{_x(time, since, until):.1f},{height:.1f}",
            f"{_x(after, since, until):.1f},{height:.1f}",
        ]
    floor = _HEIGHT - _BOTTOM
    first = corners[0].partition(",")[0]
    last = corners[-1].partition(",")[0]
    area = f"{first},{floor} {' '.join(corners)} {last},{floor}"
    body = Markup('<polygon class="area {0}" points="{1}"/><polyline class="line {0}" points="{2}"/>').format(
        series.css, area, " ".join(corners)
    )
    label = f"{title}: from {_label(points[0][1], as_bytes)} to {_label(points[-1][1], as_bytes)}"
    return _frame(label, body, top, since, until, as_bytes=as_bytes)


def thin_out(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most some hundred points: of each stretch the last one, so that ends are kept."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    stride = -(-len(points) // _MOST_POINTS)
    thinned = [points[min(index + stride, len(points)) - 1] for index in range(0, len(points), stride)]
    return [points[0], *thinned]


def bar_chart(title: str, all_series: Sequence[Series], since: int, until: int) -> Markup:
    """Draw sums over stretches of time, one series on top of another."""
    if until <= since:
        return Markup()
    width = (until - since) / _BARS
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0] * len(all_series))
    for number, series in enumerate(all_series):
        for time, value in series.points:
            if since <= time <= until:
                sums[min(_BARS - 1, int((time - since) / width))][number] += value
    top = max((sum(values) for values in sums.values()), default=0.0)
    if not top:
        return Markup()
    top = _round_up(top)
    body = Markup()
    step = (_WIDTH - _LEFT - _RIGHT) / _BARS
    for index, values in sorted(sums.items()):
        floor = float(_HEIGHT - _BOTTOM)
        for series, value in zip(all_series, values, strict=True):
            if value:
                height = max(1.0, value / top * (_HEIGHT - _TOP - _BOTTOM))
                floor -= height
                body += Markup(
                    '<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {}</title></rect>'
                ).format(
                    series.css,
                    _LEFT + index * step,
                    floor,
                    step - 1.5,
                    height,
                    series.name,
                    format_count(value),
                )
    totals = [
        (series, sum(values[number] for values in sums.values())) for number, series in enumerate(all_series)
    ]
    label = f"{title}: {', '.join(f'{format_count(total)} {series.name}' for series, total in totals)}"
    legend = Markup('<ul class="legend">{}</ul>').format(
        Markup().join(
            Markup('<li><span class="swatch {}"></span>{} {}</li>').format(
                series.css, series.name, format_count(total)
            )
            for series, total in totals
            if total
        )
    )
    return _frame(label, body, top, since, until, as_bytes=False) + legend


def _round_up(top: float) -> float:
    """Return a number at or above the highest value whose half is a round number, too."""
    unit = 10.0 ** math.floor(math.log10(top))
    return next(step * unit for step in (1, 2, 4, 6, 8, 10) if step * unit >= top)


def _frame(label: str, body: Markup, top: float, since: int, until: int, *, as_bytes: bool) -> Markup:
    """Return the picture with its axes: two values at the left, five times below."""
    floor = _HEIGHT - _BOTTOM
    axes = Markup()
    for share in (0.0, 0.5, 1.0):
        height = _y(top * share, top)
        axes += Markup(
            '<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/><text class="axis end" x="{3}" y="{4:.1f}">{5}</text>'
        ).format(_LEFT, _WIDTH - _RIGHT, height, _LEFT - 6, height + 4, _label(top * share, as_bytes))
    form = "%H:%M" if until - since <= _DAY else "%d %b %H:%M" if until - since <= 4 * _DAY else "%d %b"
    for number in range(5):
        moment = since + (until - since) * number / 4
        text = datetime.fromtimestamp(moment / 1000, UTC).strftime(form)
        side = ("start", "middle", "middle", "middle", "end")[number]
        axes += Markup('<text class="axis {}" x="{:.1f}" y="{}">{}</text>').format(
            side, _x(moment, since, until), floor + 18, text
        )
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>').format(
        _WIDTH, _HEIGHT, label, axes, body
    )


def _x(time: float, since: int, until: int) -> float:
    return _LEFT + (time - since) / (until - since) * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _label(value: float, as_bytes: bool) -> str:  # noqa: FBT001 - said by the caller's keyword
    return format_bytes(int(value)) if as_bytes else format_count(value)


def wait_graph(waits: Sequence[Wait], names: Mapping[int, str]) -> Markup:
    """Draw who waits for whom: those that have to end first at the left, each waiting one to the right of its blocker."""
    shown = waits[:_MOST_NODES]
    if not shown:
        return Markup()
    depth = {wait.root: 0 for wait in shown} | {
        wait.txn_id: wait.depth for wait in shown if wait.txn_id != wait.root
    }
    places: dict[int, tuple[int, int]] = {}
    rows: dict[int, int] = defaultdict(int)
    row = 0
    for root in dict.fromkeys(wait.root for wait in shown):
        rows.clear()
        for txn_id in [root, *(wait.txn_id for wait in shown if wait.root == root and wait.txn_id != root)]:
            column = depth[txn_id]
            places[txn_id] = (column, row + rows[column])
            rows[column] += 1
        row += max(rows.values())
    stuck = {wait.txn_id for wait in shown if wait.deadlocked}
    body = Markup()
    for wait in shown:
        if wait.waits_for in places:
            body += _arrow(places[wait.waits_for], places[wait.txn_id])
    roots = {wait.root for wait in shown}
    for txn_id, (column, line) in places.items():
        kind = "stuck" if txn_id in stuck else "root" if txn_id in roots else "waiting"
        left, top = column * (_BOX_WIDTH + _GAP_X), line * (_BOX_HEIGHT + _GAP_Y)
        body += Markup(
            '<g class="node {}"><rect x="{}" y="{}" width="{}" height="{}" rx="6"/><text class="id" x="{}" y="{}">{}</text>'
            '<text class="who" x="{}" y="{}">{}</text></g>'
        ).format(
            kind, left + 1, top + 1, _BOX_WIDTH, _BOX_HEIGHT, left + 10, top + 19, f"transaction {txn_id}",
            left + 10, top + 35, names.get(txn_id, "")[:26],
        )  # fmt: skip
    width = (1 + max(column for column, _ in places.values())) * (_BOX_WIDTH + _GAP_X) - _GAP_X + 2
    height = row * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2
    label = f"{len(shown)} waiting transactions behind {len(roots)} others"
    more = len(waits) - len(shown)
    note = Markup("<p>{} more wait.</p>").format(more) if more else Markup()
    return (
        Markup(
            '<svg class="graph" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">{3}</svg>'
        ).format(width, height, label, body)
        + note
    )


def _arrow(blocker: tuple[int, int], waiting: tuple[int, int]) -> Markup:
    """Return a curve from the right of a blocker to the left of one that waits; in a circle it may lead back."""
    x1 = blocker[0] * (_BOX_WIDTH + _GAP_X) + _BOX_WIDTH
    x2 = waiting[0] * (_BOX_WIDTH + _GAP_X)
    y1, y2 = (place[1] * (_BOX_HEIGHT + _GAP_Y) + _BOX_HEIGHT / 2 for place in (blocker, waiting))
    middle = (x1 + x2) / 2
    return Markup('<path class="edge" d="M{0} {1} C{2} {1} {2} {3} {4} {3}"/>').format(x1, y1, middle, y2, x2)


def meter(share: float | None, title: str) -> Markup:
    """Draw a share of one as a bar behind its number."""
    if share is None:
        return Markup('<span title="unknown">—</span>')
    return Markup('<svg class="meter" viewBox="0 0 60 8" aria-hidden="true"><rect class="rail" width="60" height="8" rx="4"/>'
                  '<rect class="fill {}" width="{:.1f}" height="8" rx="4"/></svg> <span title="{}">{:.0%}</span>').format(
        "high" if share >= 0.2 else "low", 60 * min(1.0, max(0.0, share)), escape(title), share  # noqa: PLR2004 - as the advice
    )  # fmt: skip


def row_changes(changes: Sequence[Mapping[str, int]], since: int, until: int) -> Markup:
    """Draw the rows that commits inserted, updated and deleted."""
    kinds = (("inserted", "two"), ("updated", "three"), ("deleted", "four"))
    series = [Series(name, css, [(one["time"], one[name]) for one in changes]) for name, css in kinds]
    return bar_chart("Rows changed", series, since, until)


def figure_charts(points: Sequence[Mapping[str, Any]], since: int, until: int, **titles: str) -> Markup:
    """Draw recorded figures: a chart for each of these names, without unknown values."""
    charts = []
    for name, title in titles.items():
        series = Series(
            name, "one", [(one["time"], one[name]) for one in points if one.get(name) is not None]
        )
        start = max(since, points[0]["time"])
        charts.append(_boxed(title, step_chart(title, series, start, until, as_bytes=name == "bytes")))
    return Markup().join(charts)


def duration_bars(durations: Sequence[Mapping[str, Any]], since: int, until: int) -> Markup:
    """Draw the seconds that compactions took, by the time at which they ended."""
    ended = [(one["time"], one["seconds"], one["state"] == "failed") for one in durations]
    first = max(since, min((time for time, *_ in ended), default=since))
    series = [
        Series(name, css, [(time, seconds) for time, seconds, failed in ended if failed == is_failed])
        for name, css, is_failed in (
            ("seconds of work", "one", False),
            ("seconds of failed work", "four", True),
        )
    ]
    return _boxed("Seconds of compactions", bar_chart("Seconds of compactions", series, first, until))


def conflict_bars(samples: Sequence[Mapping[str, int]], since: int, until: int) -> Markup:
    """Draw the transactions that began, and those refused by a conflict."""
    kinds = (("conflicts", "four", "conflicts"), ("transactions", "one", "begun"))
    series = [Series(name, css, [(one["time"], one[key]) for one in samples]) for name, css, key in kinds]
    return _boxed("Transactions and conflicts", bar_chart("Transactions and conflicts", series, since, until))


def wait_graph_of(waits: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> Markup:
    """Draw waits that are given as plain values."""
    return wait_graph([Wait(**wait) for wait in waits], names)


def _boxed(caption: str, chart: Markup) -> Markup:
    return (
        Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(caption, chart) if chart else Markup()
    )

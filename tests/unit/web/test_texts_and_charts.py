"""Numbers as people read them, and pictures that hold what they are given."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from hiveacid.core.transactions.locks_and_conflicts import Wait
from hiveacid.web import charts
from hiveacid.web.charts import Series
from hiveacid.web.texts import format_bytes, format_count, format_seconds, format_time

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(None), "—"), (format_bytes(0), "0 B"), (format_bytes(1023), "1023 B"), (format_bytes(1024), "1.0 KiB"),
        (format_bytes(5 << 40), "5.0 TiB"), (format_bytes(1 << 62), "4.0 EiB"), (format_count(None), "—"),
        (format_count(1234567), "1,234,567"), (format_count(0.5), "0.50"), (format_count(12_000_000), "12.0 M"),
        (format_count(3 * 10**10), "30.0 bn"), (format_seconds(None), "—"), (format_seconds(0.04), "0.0 s"),
        (format_seconds(59.6), "1 min 0 s"), (format_seconds(3599), "59 min 59 s"), (format_seconds(90_000), "1 d 1 h"),
        (format_seconds(-5), "0.0 s"), (format_time(None), "—"), (format_time(0), "1970-01-01 00:00:00"),
        (format_time(10**18), "1000000000000000000 ms"),
    ],
)  # fmt: skip
def test_numbers_are_short(text: str, expected: str) -> None:
    assert text == expected


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(re.sub(r"(?s)</svg>.*", "</svg>", svg))  # noqa: S314 - our own


def test_a_step_chart_goes_from_left_to_right() -> None:
    chart = charts.step_chart(
        "Size", Series("bytes", "one", [(0, 0), (HOUR, 2048), (2 * HOUR, 1024)]), 0, 4 * HOUR, as_bytes=True
    )
    root = parsed(chart)
    assert root.get("aria-label") == "Size: from 0 B to 1.0 KiB"
    line = next(one for one in root.iter() if one.tag == "polyline").get("points") or ""
    corners = [tuple(map(float, corner.split(","))) for corner in line.split()]
    assert [x for x, _ in corners] == sorted(x for x, _ in corners)
    assert (corners[0][0], corners[-1][0]) == (64.0, 710.0)
    assert len({y for _, y in corners}) == 3
    assert charts.step_chart("Size", Series("", "one", []), 0, HOUR, as_bytes=True) == ""


def test_many_points_are_thinned_out_and_the_ends_stay() -> None:
    points = [(number, float(number)) for number in range(100_000)]
    thinned = charts.thin_out(points)
    assert len(thinned) < 500
    assert (thinned[0], thinned[-1]) == (points[0], points[-1])


def test_bars_sum_up_and_name_hostile_series_safely() -> None:
    series = [Series("<script>", "one", [(1, 2.0), (2, 3.0), (10**9, 5.0)]), Series("b", "two", [])]
    chart = charts.bar_chart("Rows", series, 0, HOUR)
    assert "<script>" not in chart
    titles = [one.text for one in parsed(chart).iter() if one.tag == "title"]
    assert titles == ["<script>: 5"]
    assert charts.bar_chart("Rows", [Series("a", "one", [])], 0, HOUR) == ""
    assert charts.bar_chart("Rows", series, HOUR, HOUR) == ""


def test_the_graph_has_a_box_for_each_and_a_line_for_each_wait() -> None:
    waits = [
        Wait(2, 1, 1, 1),
        Wait(3, 2, 1, 2),
        Wait(9, 8, 8, 2, deadlocked=True),
        Wait(8, 9, 8, 2, deadlocked=True),
    ]
    graph = charts.wait_graph(waits, {1: "<b>ann</b>"})
    root = parsed(graph)
    boxes = [one.get("class") for one in root.iter() if one.tag == "g"]
    assert boxes == ["node root", "node waiting", "node waiting", "node stuck", "node stuck"]
    assert sum(one.tag == "path" for one in root.iter()) == 4
    assert "<b>" not in graph
    assert charts.wait_graph([], {}) == ""


def test_a_large_graph_says_what_it_leaves_out() -> None:
    graph = charts.wait_graph([Wait(number, 1, 1, 1) for number in range(2, 200)], {})
    assert "118 more wait." in graph


def test_a_meter_shows_its_share() -> None:
    assert "25%" in charts.meter(0.25, "1 of 4")
    assert "unknown" in charts.meter(None, "")

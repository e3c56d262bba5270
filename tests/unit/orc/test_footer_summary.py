"""Schemas of cached summaries: equal ones are one object, because a plan maps columns once for each object."""

from __future__ import annotations

from hiveacid.core.schema.types import parse_type
from hiveacid.orc.footer_summary import FileSummary, LruCache, SummaryCache


def test_equal_schemas_are_one_object_whatever_comes_between() -> None:
    cache = SummaryCache()
    texts = ("struct<a:int>", "struct<a:int>", "struct<b:int>", "struct<a:int>", "struct<b:int>")
    summaries = [
        cache.put((text, number, 1), FileSummary(1, parse_type(text)))  # type: ignore[arg-type]
        for number, text in enumerate(texts)
    ]
    first, again, other, later, other_later = (summary.schema for summary in summaries)
    assert first is again is later
    assert other is other_later
    assert first != other


def test_what_was_used_last_is_kept_as_far_as_there_is_room() -> None:
    kept: LruCache[str] = LruCache(max_size=10, max_values=3)
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    assert kept.get("a") == ("A",)
    kept.put("c", "C", 4)
    assert [kept.get(key) for key in "abc"] == [("A",), None, ("C",)]
    kept.put("a", "AA", 9)
    assert [kept.get(key) for key in "abc"] == [("AA",), None, None]
    kept.put("d", "D", 11)
    assert [kept.get(key) for key in "ad"] == [("AA",), None], (
        "what is too large takes no room from the others"
    )
    kept.put("a", "AAA", 11)
    assert kept.get("a") is None, "nor is what was there before it shown"
    for key in "wxyz":
        kept.put(key, key.upper(), 0)
    assert [kept.get(key) for key in "wxyz"] == [None, ("X",), ("Y",), ("Z",)]


def test_nothing_to_keep_is_kept_as_well() -> None:
    kept: LruCache[str | None] = LruCache(max_size=10, max_values=3)
    assert kept.get("a") is None
    kept.put("a", None, 1)
    assert kept.get("a") == (None,)

"""Schemas of cached summaries: equal ones are one object, because a plan maps columns once for each object."""

from __future__ import annotations

from hiveacid.core.schema.types import parse_type
from hiveacid.orc.footer_summary import FileSummary, SummaryCache


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

"""Schemas of cached summaries: equal ones are one object, because a plan maps columns once for each object."""

from __future__ import annotations

from hiveacid.core.format.acid_columns import Range
from hiveacid.core.schema.types import Field, Primitive, Struct, parse_type
from hiveacid.orc.footer_summary import FileSummary, LruCache, SummaryCache, facts_of, summary_of


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


def test_a_summary_comes_back_from_its_facts_or_has_none() -> None:
    """A schema that Hive's types do not have, and an ACID file without statistics of its keys, are read from the footer."""
    flat = FileSummary(3, parse_type("struct<a:int,`b c`:array<string>>"), statistics=(b"", b"\1"))  # type: ignore[arg-type]
    keys = Range(1, 2), Range(3, 3), Range(0, 9)
    acid = FileSummary(3, flat.schema, True, True, *keys, flat.statistics)
    for summary in (flat, acid):
        facts = facts_of(summary)
        assert facts is not None
        assert summary_of(facts) == summary
    assert facts_of(acid._replace(row_id=None)) is None
    assert facts_of(flat._replace(statistics=(b"x" * 10_000, b"y" * 10_000))) is None, "too much for a record"
    odd = Struct((Field("A", Primitive("int")),))  # names of Hive's types are lower case
    assert facts_of(flat._replace(schema=odd)) is None

"""What is kept of delete events is bounded, and what is used last stays."""

from __future__ import annotations

from hiveacid.orc.lru_cache import LruCache


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

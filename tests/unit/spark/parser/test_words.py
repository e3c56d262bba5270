"""Where words begin and end in Spark SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.spark.parser.lexer import scan


def texts(text: str) -> list[str]:
    return [token.text for token in scan(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a AND b", ["a", "AND", "b"]),
        ("'it''s' \"x\\\"y\" `a``b`", ["'it''s'", '"x\\"y"', "`a``b`"]),
        ("a -- AND\nb", ["a", "b"]),
        ("a -- x \\\n AND\nb", ["a", "b"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("SELECT /*+ HINT(t) /* */ a", ["SELECT", "a"]),
        ("a /* b", ["a"]),
        (r"'\'' AND r'\'", [r"'\''", "AND", r"r'\'"]),
        ("'open AND b", ["'", "open", "AND", "b"]),
        ("größe=1", ["größe", "=", "1"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@given(st.text("ab '\"`/*-+\n\\()ANDé😀", max_size=30))
def test_words_have_their_exact_places(text: str) -> None:
    end = 0
    for word in scan(text):
        assert end <= word.start < word.end
        assert text[word.start : word.end] == word.text
        end = word.end
    assert end <= len(text)

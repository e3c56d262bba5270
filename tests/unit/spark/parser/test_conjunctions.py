"""Where words begin and end in Spark SQL, and where a condition can be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.spark.parser.lexer import scan, split_conjunction


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", ["a = 1"]),
        ("a = 1 AND b = 2 and c", ["a = 1 ", " b = 2 ", " c"]),
        ("(a AND b)", ["a ", " b"]),
        ("((a) AND (b AND (c OR d)))", ["a", "b ", "c OR d"]),
        ("a AND b OR c", ["a AND b OR c"]),
        ("a BETWEEN 1 AND 2 AND b", ["a BETWEEN 1 AND 2 ", " b"]),
        ("a BETWEEN 1 AND 2 AND b BETWEEN (3) AND 4", ["a BETWEEN 1 AND 2 ", " b BETWEEN (3) AND 4"]),
        ("CASE WHEN a AND b THEN c END AND d", ["CASE WHEN a AND b THEN c END ", " d"]),
        ("p = 1 AND end = 2 OR c", ["p = 1 AND end = 2 OR c"]),
        ("p = 1 AND end = 2", ["p = 1 AND end = 2"]),  # not cut, because END may close a CASE
        ("CASE WHEN t.end = 1 AND b THEN c END AND d", ["CASE WHEN t.end = 1 AND b THEN c END AND d"]),
        ("a = 'x AND y' AND b", ["a = 'x AND y' ", " b"]),
        ("f(a AND b) AND `AND`", ["f(a AND b) ", " `AND`"]),
        ("(a) = (b)", ["(a) = (b)"]),
        ("a[b AND c] AND d", ["a[b AND c] ", " d"]),
    ],
)
def test_conditions_are_cut_at_their_outermost_ands(text: str, expected: list[str]) -> None:
    assert [part.strip() for part in split_conjunction(text)] == [part.strip() for part in expected]


@given(st.text("ab ()'AND", max_size=25))
def test_any_text_can_be_cut(text: str) -> None:
    assert "".join(split_conjunction(text)).replace("(", "").replace(")", "").count("b") == text.count("b")

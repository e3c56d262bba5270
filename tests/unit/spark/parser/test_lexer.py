from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import TokenKind, mentions, split, string_value, tokenize


def texts(sql: str) -> list[str]:
    return [token.text for token in tokenize(sql)[:-1]]


@pytest.mark.parametrize(
    ("sql", "tokens"),
    [
        ("select a.b", ["select", "a", ".", "b"]),
        ("`a b`.`c``d`", ["`a b`", ".", "`c``d`"]),
        ("'it''s' \"x\\\"y\" '\\\\'", ["'it''s'", '"x\\"y"', "'\\\\'"]),
        ("r'a\\' R\"b\\\"", ["r'a\\'", 'R"b\\"']),
        (
            "1 2.5 .5 1e3 1.5E-3 10L 3S 2.5BD 7y",
            ["1", "2.5", ".5", "1e3", "1.5E-3", "10L", "3S", "2.5BD", "7y"],
        ),
        ("db.2024_t t1 1b", ["db", ".", "2024_t", "t1", "1b"]),
        (
            "a<=b>=c<>d!=e<=>f==g||h",
            ["a", "<=", "b", ">=", "c", "<>", "d", "!=", "e", "<=>", "f", "==", "g", "||", "h"],
        ),
        ("array<array<int>>", ["array", "<", "array", "<", "int", ">", ">"]),
        ("a -- 'not a string\nb", ["a", "b"]),
        ("a -- goes on \\\nhere\nb", ["a", "b"]),
        ("a /* 'x' /* inner */ still */ b", ["a", "b"]),
        ("select /*+ BROADCAST(t) */ a", ["select", "a"]),
        ("a--", ["a"]),
        ("über `日本`", ["über", "`日本`"]),
        ("${x} @y ? :z", ["$", "{", "x", "}", "@", "y", "?", ":", "z"]),
        ("", []),
    ],
)
def test_tokens(sql: str, tokens: list[str]) -> None:
    assert texts(sql) == tokens


def test_places_point_into_the_text() -> None:
    sql = "a\n  'x\ny' /* \n */ `b`;"
    found = [(token.text, token.line, token.column) for token in tokenize(sql)]
    assert found == [("a", 1, 1), ("'x\ny'", 2, 3), ("`b`", 4, 5), (";", 4, 8), ("", 4, 9)]
    assert tokenize("a", first_line=7)[0].line == 7
    end = tokenize("ab")[-1]
    assert (end.kind, end.start, end.line, end.column) == (TokenKind.END, 2, 1, 3)


@pytest.mark.parametrize(
    ("sql", "line", "column", "what"),
    [
        ("a\n 'b", 2, 2, "string"),
        ('a "b', 1, 3, "string"),
        ("'a\\'", 1, 1, "string"),
        ("a `b", 1, 3, "back-quotes"),
        ("a ``", 1, 3, "empty"),
        ("a /* b", 1, 3, "comment"),
        ("a /* /* */ b", 1, 3, "comment"),
        ("a /*+ b", 1, 3, "comment"),
    ],
)
def test_what_has_no_end_is_refused_where_it_begins(sql: str, line: int, column: int, what: str) -> None:
    with pytest.raises(ParseError, match=what) as caught:
        tokenize(sql)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a'", "a"),
        ('"a\'b"', "a'b"),
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        (r"'\n\t\r\b\\'", "\n\t\r\b\\"),
        (r"'\0\001\Z'", "\0\x01\x1a"),
        (r"'\u00e4\uD83D\uDE00'", "ä😀"),
        (r"'\uD83D'", "�"),
        (r"'\U0001F600\U0010fffd'", "😀\U0010fffd"),
        (r"'\U00110000\U0001F60'", "U00110000U0001F60"),
        (r"'100\% a\_b'", r"100\% a\_b"),
        (r"'\;\q'", ";q"),
        (r"'\u12'", "u12"),
        (r"r'a\n'", r"a\n"),
    ],
)
def test_string_values_by_hives_escapes(written: str, value: str) -> None:
    assert string_value(written) == value


def test_mentions_looks_at_words_only() -> None:
    names = ("ROW__ID", "INPUT__FILE__NAME")
    assert mentions(tokenize("SELECT row__id.writeid, t.Input__File__Name FROM t"), names) == {
        "row__id",
        "input__file__name",
    }
    assert mentions(tokenize("SELECT `ROW__ID` FROM t"), names) == {"row__id"}
    assert (
        mentions(tokenize("SELECT 'ROW__ID' -- ROW__ID\n /* INPUT__FILE__NAME */ FROM row__ids"), names)
        == frozenset()
    )


def test_split_keeps_each_statement_and_its_line() -> None:
    script = "-- first;\nUSE a;\n\n;; SELECT ';' -- ;\n , `b;c`\n/* ; */;\nDROP TABLE \"x;\" -- end"
    assert split(script) == [("USE a", 2), ("SELECT ';' -- ;\n , `b;c`", 4), ('DROP TABLE "x;"', 7)]
    assert split(" -- nothing\n ; ") == []
    with pytest.raises(ParseError, match="no end"):
        split("USE a; SELECT 'b; USE c")


sql_like = st.text(max_size=80) | st.text("ab1.\"'`\\-/*+;\n 2eEL()<=>", max_size=80)


@given(sql_like)
def test_tokens_cover_the_text_in_order(sql: str) -> None:
    try:
        found = tokenize(sql)
    except ParseError:
        return
    assert all(token.text == sql[token.start : token.end] for token in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert found[-1].start == len(sql)
    for token in found[:-1]:
        before = sql[: token.start]
        assert (token.line, token.column) == (before.count("\n") + 1, token.start - before.rfind("\n"))

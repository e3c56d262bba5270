from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.sql import statements
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Slice
from hiveacid.sql.statements.dml import Query, Update

WORDS = ["SELECT", "a", "`b c`", "'x\ny'", "1.5", "10L", "(", ")", ",", "<=>", "-- x\n", "/* y\n */", "db.t"]


@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", "\n", "\n  "])), min_size=1), st.data()
)
def test_the_tokens_of_a_piece_are_those_of_its_text(
    words: list[tuple[str, str]], data: st.DataObject
) -> None:
    text = "".join(word + blank for word, blank in words)
    tokens = tokenize(text)[:-1]
    if not tokens:
        return
    first = data.draw(st.integers(0, len(tokens) - 1))
    last = data.draw(st.integers(first, len(tokens) - 1))
    piece = Slice.of_tokens(text, tokens[first : last + 1])
    assert list(piece.tokens) == tokenize(piece.text)


def test_pieces_of_a_parsed_statement_are_not_tokenised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    query, update = parse(" SELECT *\n FROM t;"), parse("UPDATE t SET a = b + 1\nWHERE c = 'x'")
    assert isinstance(query, Query)
    assert isinstance(update, Update)
    pieces = [query.text, update.assignments[0].expression, update.where]
    expected = [tokenize(str(piece)) for piece in pieces]
    monkeypatch.setattr(statements, "tokenize", None)
    assert [list(piece.tokens) for piece in pieces if piece is not None] == expected


def test_a_text_without_end_has_no_tokens() -> None:
    with pytest.raises(ParseError, match="no end"):
        _ = Slice("SELECT 'x").tokens

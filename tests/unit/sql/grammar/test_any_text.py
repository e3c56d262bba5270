"""Whatever the text, the answer is a statement or a ParseError with a place in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import split
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable

WORDS = """\
SELECT FROM WHERE INSERT INTO OVERWRITE TABLE PARTITION VALUES UPDATE SET DELETE MERGE USING ON WHEN NOT
MATCHED THEN AND BY SOURCE CREATE EXTERNAL DATABASE IF EXISTS ALTER ADD DROP COLUMNS RENAME TO COMPACT 'major' WAIT
SHOW TABLES COMPACTIONS LOCKS DESCRIBE FORMATTED EXPLAIN WITH AS CLUSTERED SORTED INTO BUCKETS STORED ROW FORMAT
DELIMITED FIELDS TERMINATED SERDE LOCATION TBLPROPERTIES LIKE COMMENT PRIMARY KEY CONSTRAINT CHECK DEFAULT ABORT
TRANSACTIONS START COMMIT USE RESET MSCK ANALYZE CASE END t d.t a `b c` int string array<int> struct<x:int> 'x' "y"
1 2.5 = <> , ( ) [ ] * . ; -- /* */
"""

fragments = st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join)


def refusal(text: str) -> ParseError | None:
    """Parse a text; any other error than a ParseError comes through."""
    try:
        parse(text)
    except ParseError as error:
        return error
    return None


@given(fragments | st.text(max_size=60))
@example("CREATE TABLE t (a array<array<int")
@example("SELECT " + "(" * 5000)
@example("EXPLAIN " * 2000)
@example("CREATE TABLE t (a " + "array<" * 3000)
@example("SET \x00=\ud800")
def test_nothing_but_a_parse_error(text: str) -> None:
    error = refusal(text)
    if error is not None:
        assert error.line is not None
        assert error.column is not None
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


GOLDEN: dict[str, str] = json.loads(
    (Path(__file__).parents[3] / "golden" / "show_create.json").read_text(encoding="utf-8")
)


@given(st.sampled_from(sorted(GOLDEN)), st.integers(0, 2000), st.text("`'(),;<> a1\n", max_size=3))
def test_damaged_ddl_is_refused_or_parsed(name: str, at: int, inserted: str) -> None:
    text = GOLDEN[name]
    error = refusal(text[:at] + inserted + text[at + 1 :])
    assert error is None or error.line is not None


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_show_create_of_hive_parses(name: str) -> None:
    found = parse(GOLDEN[name])
    assert isinstance(found, CreateTable)
    assert found.storage is not None


def test_errors_in_a_script_have_the_scripts_line() -> None:
    (first, one), (second, four) = split("USE a;\n\n\nCREATE TABLE t (\n  a integr)")
    parse(first, one)
    with pytest.raises(ParseError) as caught:
        parse(second, four)
    assert (caught.value.line, caught.value.column) == (5, 5)
    with pytest.raises(ParseError) as caught:
        parse("\nDROP 5", 10)
    assert (caught.value.line, caught.value.column) == (11, 6)

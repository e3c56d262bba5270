"""SQL text of any kind and size: a statement or a typed error, within seconds and 200 MB (issue 20, 15).

HIVEACID_TEST_COUNT: how many mutated statements are tried (a longer run: 100000).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import HiveAcidError, ParseError, StatementTooLargeError
from hiveacid.spark.parser.lexer import MAX_COMMENT_DEPTH, MAX_DEPTH, MAX_LENGTH, MAX_TOKENS, split, tokenize
from hiveacid.sql.binding.parameters import with_arguments
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Slice
from support.cost import SECONDS, assert_quick, assert_small, cpu_seconds
from support.exhaustive import COUNT, examples

if TYPE_CHECKING:
    from hiveacid import AcidSession

MUTATED = COUNT or examples(4000)
_PIECES = (
    "(", ")", "[", "]", ",", ";", ".", "'", '"', "`", "``", "\\", "/*", "*/", "/*+", "--", "\n", "=", "<", ">", ":", "?",
    "SELECT", "FROM", "CASE", "END", "WHEN", "THEN", "INSERT", "VALUES", "WITH", "AS", "PARTITION", "ORDER BY", "LIMIT",
    "NULL", "NOT", "1", "1e", "0x", "1.5BD", "9" * 400, "${env:HOME}", ":v", "é", "\u00a0", "\x00", "\ud800", "\U0001f600",
    "array<", "struct<a:", ">", "VERSION AS OF", "IDENTIFIER(", "LATERAL VIEW", "r'", "X'", "INTERVAL", "EXPLAIN",
)  # fmt: skip


def _statements() -> list[str]:
    """Return the statements of the test scripts: all that the grammars know."""
    found = []
    for script in sorted((Path(__file__).parents[1] / "sql").glob("*.test")):
        for block in script.read_text(encoding="utf-8").split("\n\n"):
            lines = block.strip().split("\n")
            if len(lines) > 1 and ("statement" in lines[0] or "query" in lines[0]):
                found.append("\n".join(lines[1:]).partition("\n----")[0])
    return found


def _mutated(random_: random.Random, text: str, others: list[str]) -> str:
    """Return a text with pieces cut, doubled, moved, put in or repeated many times."""
    for _ in range(random_.randint(1, 4)):
        start, end = sorted((random_.randint(0, len(text)), random_.randint(0, len(text))))
        piece = random_.choice(_PIECES)
        text = random_.choice([
            text[:end],
            text[:start] + text[end:],
            text[:end] + text[start:],
            f"{text[:start]} {piece} {text[start:]}",
            text[:start] + piece + text[end:],
            text[:start] + f" {piece} " * random_.choice((2, 50, 700)) + text[start:],
            text[:start] + random_.choice(others) + text[start:],
        ])[:200_000]  # fmt: skip
    return text


def _parse_all_ways(text: str) -> None:
    """Give a text to everything that reads it before Spark does; only errors of ours may come back."""
    for read in (_fill_in, parse, split):
        try:
            read(text)
        except HiveAcidError:
            continue


def _fill_in(text: str) -> str:
    return with_arguments(Slice(text), {"v": "a'${env:HOME}"})


def test_mutated_statements_are_parsed_or_refused_at_once() -> None:
    """Whatever is cut out of them or put into them."""
    statements = _statements()
    assert len(statements) > 300
    random_ = random.Random(20)
    for number in range(MUTATED):
        text = _mutated(random_, random_.choice(statements), statements)
        try:
            seconds = cpu_seconds(partial(_parse_all_ways, text))
        except Exception as error:
            raise AssertionError(f"statement {number}: {text[:2000]!r}") from error
        assert seconds < SECONDS, (number, text[:2000])


# Those that need most memory for their size; measuring takes several times as long as parsing.
_MEASURED = frozenset({"clauses", "text", "quotes"})


def _huge() -> Iterator[tuple[str, str]]:
    """Yield shapes that once took more than linear time, near the largest size that a statement may have."""
    count = 20_000
    yield (
        "clauses",
        "MERGE INTO t USING s ON t.a = s.a " + "WHEN MATCHED AND t.a = 1 THEN UPDATE SET b = 2 " * count,
    )
    yield "digits", "SELECT " + "1" * 1_000_000 + "x"
    yield "fields", f"CREATE TABLE t (a STRUCT<{', '.join(f'c{one}: INT' for one in range(count))}>)"
    yield "rows", "INSERT INTO t VALUES " + ", ".join(["(1, 'a')"] * count)
    yield "names", f"CREATE TABLE t ({', '.join(f'c{one} INT' for one in range(count))})"
    yield "partitions", "ALTER TABLE t DROP " + ", ".join(["PARTITION (p = 1)"] * count)
    yield "constraints", f"CREATE TABLE t (a INT{', PRIMARY KEY (a) DISABLE NOVALIDATE' * count})"
    yield "order", "ALTER TABLE t COMPACT 'rebalance' ORDER BY " + ", ".join(["a"] * count)
    yield "comments", "SELECT 1" + "/* " * 300_000 + "*/ " * 300_000
    yield "text", f"SELECT '{'x' * (MAX_LENGTH - 10)}'"
    yield "quotes", "SELECT " + "'a''" * 400_000
    yield "blanks", "SELECT" + " \n" * 1_000_000 + "1"


@pytest.mark.sampled(6, "the cases differ in one value each")
@pytest.mark.parametrize(("shape", "text"), [pytest.param(*case, id=case[0]) for case in _huge()])
def test_huge_statements_take_seconds_and_200_mb_at_most(shape: str, text: str) -> None:
    """Whether they are parsed or refused."""
    assert_quick(partial(_parsed_or_refused, text), 2 * SECONDS)
    if shape in _MEASURED:
        assert_small(partial(_parsed_or_refused, text))


def _parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except ParseError:
        return


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '" + "x" * MAX_LENGTH + "'",
        "SELECT " + "1," * MAX_TOKENS,
        "SELECT " + "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1),
        "SELECT " + "CASE WHEN a THEN " * (MAX_DEPTH + 1) + "1" + " END" * (MAX_DEPTH + 1),
    ],
    ids=["characters", "words", "parentheses", "cases"],
)  # fmt: skip
def test_statements_above_the_limits_are_refused(text: str) -> None:
    """With an error of their own, by the tokenizer: whoever reads a statement meets it."""
    for read in (parse, tokenize):
        with pytest.raises(StatementTooLargeError, match=r"more than \d+"):
            read(text)


def test_statements_too_deep_for_spark_are_refused(acid: AcidSession) -> None:
    """Spark's parser calls itself for each level, and may run out of stack."""
    acid.sql("CREATE TABLE t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    deep: tuple[Callable[[str], str], ...] = (
        lambda word: f"SELECT a FROM t WHERE {word * 20_000} a = 1",
        lambda word: f"DELETE FROM t WHERE {word * 20_000} a = 1",
    )
    for statement in deep:
        with pytest.raises(ParseError, match=r"nested (?:too deeply|more than)|too complex"):
            acid.sql(statement("NOT "))
    assert acid.sql("SELECT count(*) FROM t").collect()[0][0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "/*" * 30 + "*/" * 30 + " 1",
        "SELECT 1 /*" + " /*" * 30,
        "SELECT /*+ a " + "/*" * 30 + "*/" * 31 + " 1",
        "SELECT /*+ ' */ '"
        + "/*" * 30
        + "*/" * 30
        + " 1",  # Spark's string in the hint ends before the comments
        "SELECT 'open " + "/*" * 30,
        "SELECT ` " + "/*" * 30,
        "SELECT " + "NOT " * (MAX_DEPTH + 1) + "true",
        "SELECT " + "- " * (MAX_DEPTH + 1) + "1",
        "SELECT " + "~ NOT " * MAX_DEPTH + "1",
        "SELECT " + "x -> " * (MAX_DEPTH + 1) + "1",
        # minutes for 18 of them in Spark's parser
        "SELECT * FROM " + "IDENTIFIER (" * 4 + "'t'" + ")" * 4,
        "DROP TABLE IDENTIFIER(concat(IDENTIFIER([identifier /**/ (IDENTIFIER('a'))])))",
        "SELECT CAST(NULL AS " + "ARRAY<" * 101 + "INT" + ">" * 101 + ")",
    ],
)
def test_nesting_that_occupies_or_overflows_sparks_parser_is_refused(text: str) -> None:
    with pytest.raises(StatementTooLargeError, match="nested more than"):
        tokenize(text)


def test_identifier_clauses_beside_each_other_are_no_nesting() -> None:
    clause = "IDENTIFIER(('a') || 'b')"
    assert tokenize("SELECT " + f"{clause}, " * 20 + f"IDENTIFIER(IDENTIFIER({clause}))")


def test_ordinary_comments_and_texts_with_their_signs_are_no_nesting() -> None:
    assert len(tokenize("SELECT 1 " + "/* a */ " * 1000)) == 3
    assert len(tokenize("SELECT 1 " + "/*" * MAX_COMMENT_DEPTH + "*/" * MAX_COMMENT_DEPTH)) == 3
    paths = ", ".join(f"'/data/{number}/*'" for number in range(100))
    assert len(tokenize(f"SELECT * FROM t WHERE path IN ({paths})")) == 209
    assert len(tokenize("SELECT /*+ BROADCAST(a) */ " + ", ".join(["- 1"] * 1000))) == 3001

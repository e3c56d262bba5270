from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.sql.grammar.advice import ADVICE, ALTERATIONS, advice_on_query
from hiveacid.sql.grammar.parse import parse

ROOT = Path(__file__).parents[4]
MERGE = "MERGE INTO t USING s"
COMPACT = "ALTER TABLE t COMPACT 'major'"
STATEMENTS = {
    "COMPACT t 'major'": COMPACT,
    "UPSERT INTO t VALUES (1)": MERGE,
    "REPLACE INTO t VALUES (1)": MERGE,
    "INSERT OR REPLACE INTO t VALUES (1)": MERGE,
    "COPY INTO t FROM '/data'": "LOAD DATA INPATH",
    "CALL system.rewrite_data_files('t')": COMPACT,
    "UPDATE t SET v = s.v FROM s WHERE s.k = t.k": MERGE,
    "UPDATE t JOIN s ON t.k = s.k SET v = 1": MERGE,
    "DELETE FROM t USING s WHERE s.k = t.k": "WHERE EXISTS",
    "DESCRIBE TABLE EXTENDED t AS JSON": "DESCRIBE EXTENDED t",
    "DESC EXTENDED t AS JSON": "DESCRIBE EXTENDED t",
    "ALTER TABLE d.t SET LOCATION '/x'": "LOCATION '...' AS SELECT * FROM t",
    "ALTER TABLE t PARTITION (p=1) SET LOCATION '/x'": "LOCATION '...' AS SELECT * FROM t",
    "ALTER TABLE t EXCHANGE PARTITION (p=1) WITH TABLE s": "LOAD DATA INPATH",
    "ALTER TABLE t TOUCH": "not needed",
    "LOCK TABLE t SHARED": "START TRANSACTION",
    "UNLOCK TABLE t": "START TRANSACTION",
    "EXPORT TABLE t TO '/x' FOR REPLICATION('a')": "hiveacid backup",
    "GRANT SELECT ON t TO USER ann": "no privileges",
    "REVOKE SELECT ON t FROM USER ann": "no privileges",
    "SHOW GRANT USER ann ON TABLE t": "no privileges",
    "SHOW GRANTS ON t": "no privileges",
    "SHOW ROLES": "no privileges",
    "CREATE MATERIALIZED VIEW v AS SELECT 1": "CREATE VIEW",
    "CREATE TEMPORARY TABLE x LIKE t": "CREATE TEMPORARY VIEW",
    "CREATE TEMPORARY TABLE x (id INT)": "CREATE TEMPORARY VIEW",
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_of_another_system_gets_a_sentence_with_the_alternative(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"\n {text} ;")
    assert STATEMENTS[text] in str(caught.value)
    assert "expected" not in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, 2)


def test_each_sentence_has_a_statement() -> None:
    """Here, or on the page of Hive's statements."""
    parts = tomllib.loads((ROOT / "tools" / "hive_statements.toml").read_text(encoding="utf-8"))["part"]
    examples = [text for part in parts for mark, text, *_ in part["statements"] if mark.startswith("✘")]
    found = set()
    for text in (*STATEMENTS, *examples):
        try:
            parse(text)
        except ParseError as error:
            found.add(re.sub(r" \(line 1, column \d+\)$", "", str(error)))
    assert {*ADVICE.values(), *ALTERATIONS.values()} - found == set()


def test_a_query_of_hive_that_spark_refuses_gets_a_sentence() -> None:
    queries = {
        "SELECT a FROM t ORDER BY a LIMIT 1, 2": "LIMIT b OFFSET a",
        "SELECT a FROM t TABLESAMPLE (BUCKET 1 OUT OF 2 ON a) s": "pmod",
        "SELECT a FROM t TABLESAMPLE(100M)": "n PERCENT",
        "SELECT * FROM noop(ON t PARTITION BY a)": "window functions",
        "SELECT * FROM TABLE(VALUES (1) AS v (a)) t": "AS v (a, b)",
    }
    for text, sentence in queries.items():
        assert sentence in (advice_on_query(tokenize(text)) or "")
    assert advice_on_query(tokenize("SELECT 'LIMIT 1, 2', `ON` FROM t JOIN u ON (t.a = u.a) WHERE")) is None


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET a = b IS DISTINCT FROM c, d",
        "DELETE FROM t WHERE",
        "ALTER TABLE t SET ORC",
        "DESCRIBE t (AS JSON)",
        "UPDATE t SET a (SELECT 1 FROM s)",
    ],
)
def test_other_errors_stay(text: str) -> None:
    with pytest.raises(ParseError, match="expected"):
        parse(text)


def test_an_own_table_may_have_such_a_name() -> None:
    parse("SELECT * FROM optimize")
    parse("UPDATE vacuum SET copy = 1 WHERE x.`from` IS DISTINCT FROM 2")
    parse("DESCRIBE `detail` t")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("SELEC 1", "SELECT"),
        ("UPDTE t SET a = 1", "UPDATE"),
        ("SHOW TABLS", "TABLES"),
        ("CLUSTER t", None),
        ("COMPARE t", None),
    ],
)
def test_only_a_near_word_is_suggested(text: str, suggestion: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert (f"did you mean {suggestion}?" in str(caught.value)) == (suggestion is not None)
    assert ("did you mean" in str(caught.value)) == (suggestion is not None)
    if not text.startswith("SHOW"):
        assert "ROLLBACK" not in str(caught.value)

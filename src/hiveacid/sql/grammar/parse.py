"""Text to statement: the first word selects the grammar of an area.

Statements of other systems, and of Hive and Spark, that do not exist here get the sentence that names what does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import Token, TokenKind, tokenize
from hiveacid.sql.grammar import admin, create_alter_drop, dml
from hiveacid.sql.grammar.admin import describe, show
from hiveacid.sql.grammar.create_table import QUERY_WORDS
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.dml import merge
from hiveacid.sql.statements import Statement
from hiveacid.sql.statements.dml import Explain, Query

_UPSERT = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_PRIVILEGES = "hiveacid keeps no privileges: those of the files and of the store count (docs/security.md)"
_LOCKS = "each statement takes its locks itself; what must happen together goes between START TRANSACTION and COMMIT"
_FIXED = "the location of a table does not change: CREATE TABLE n ... LOCATION '...' AS SELECT * FROM t, or move the warehouse (hiveacid relocate)"
_SPEC = (
    "ALTER TABLE t ADD PARTITION (...) LOCATION '...' takes in files, and DROP PARTITION (...) removes rows"
)

ADVICE: Mapping[str, str] = {
    "COMPACT": "COMPACT is written ALTER TABLE t COMPACT 'major'",
    "UPSERT": f"UPSERT is written {_UPSERT}",
    "REPLACE INTO": f"REPLACE INTO is written {_UPSERT}",
    "INSERT OR": f"INSERT OR ... is written {_UPSERT}",
    "COPY": "COPY is called LOAD DATA INPATH, for files of the table's format; hiveacid ingest reads CSV and JSON",
    "CALL": "there are no procedures: ALTER TABLE t COMPACT 'major' compacts, t.files and t.history show files and commits",
    "UPDATE … FROM": "an UPDATE from another table is written MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET v = s.v",
    "UPDATE … JOIN": "an UPDATE of a join is written MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET v = s.v",
    "DELETE … USING": "DELETE ... USING is written DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
    "DESCRIBE … AS JSON": "DESCRIBE ... AS JSON is not supported: DESCRIBE EXTENDED t returns rows",
    "DESC … AS JSON": "DESC ... AS JSON is not supported: DESCRIBE EXTENDED t returns rows",
    "ALTER TABLE … SET LOCATION": _FIXED,
    "ALTER TABLE … CONCATENATE": "CONCATENATE is called ALTER TABLE t [PARTITION (...)] COMPACT 'major'",
    "ALTER TABLE … EXCHANGE": f"EXCHANGE PARTITION is not supported: {_SPEC}",
    "ALTER TABLE … RECOVER PARTITIONS": f"RECOVER PARTITIONS is not supported: {_SPEC}",
    "ALTER TABLE … TOUCH": "TOUCH is not needed: hiveacid runs no hooks",
    "ALTER TABLE … SET OWNER": f"SET OWNER is not supported: {_PRIVILEGES}",
    "LOCK": f"LOCK is not needed: {_LOCKS}",
    "UNLOCK": f"UNLOCK is not needed: {_LOCKS}",
    "EXPORT": "EXPORT is not supported: hiveacid backup copies a warehouse, CREATE TABLE n STORED AS ... AS SELECT a table",
    "IMPORT": "IMPORT is not supported: LOAD DATA takes in files, acid.adopt(...) the directory of a table",
    "GRANT": _PRIVILEGES,
    "REVOKE": _PRIVILEGES,
    "SHOW GRANT": _PRIVILEGES,
    "SHOW GRANTS": _PRIVILEGES,
    "SHOW ROLES": _PRIVILEGES,
    "CREATE MATERIALIZED VIEW": "materialized views are not supported: CREATE VIEW shows the present, INSERT OVERWRITE TABLE t SELECT "
    "refreshes a table",
    "CREATE TEMPORARY TABLE": "temporary tables are not supported: CREATE TEMPORARY VIEW v AS SELECT ..., or CREATE TABLE and DROP TABLE",
}
"""First words of a statement, and others behind ``…``, to a sentence."""


def advice_on(tokens: Sequence[Token]) -> str | None:
    """Return the sentence for a statement that the grammar refuses; None for a statement of no known system."""
    text = f" {' '.join(_outer_words(tokens))} "
    return next((sentence for words, sentence in ADVICE.items() if _is_meant(text, words)), None)


def _is_meant(text: str, words: str) -> bool:
    first, _, behind = words.partition(" … ")
    return text.startswith(f" {first} ") and (not behind or f" {behind} " in text)


def _outer_words(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the keywords outside parentheses, without the FROM of IS DISTINCT FROM."""
    depth, last = 0, ""
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind is TokenKind.WORD and (last, token.keyword) != ("DISTINCT", "FROM"):
            yield token.keyword
        last = token.keyword


_EXPLAIN_OPTIONS = frozenset(
    {
        "EXTENDED",
        "FORMATTED",
        "DEPENDENCY",
        "LOGICAL",
        "AUTHORIZATION",
        "AST",
        "CBO",
        "COST",
        "JOINCOST",
        "LOCKS",
    }
    | {"CODEGEN", "VECTORIZATION", "ONLY", "SUMMARY", "OPERATOR", "EXPRESSION", "DETAIL", "DEBUG", "DDL"}
)


def parse(text: str, first_line: int = 1, tokens: Sequence[Token] | None = None) -> Statement:
    """Parse one statement; a ``;`` may follow.

    ``first_line`` is the number of the text's first line, for statements of a script (`lexer.split`).
    ``tokens``: those of the text, where it is tokenised already.
    Raises ParseError with line and column, and with what was expected there, for anything that is neither one
    of the statements nor begins like a query. A statement of another system gets a sentence with what to write here.
    """
    tokens = tokenize(text, first_line) if tokens is None else tokens
    cursor = Cursor(text, first_line, tokens)
    try:
        statement = _statement(cursor)
        cursor.expect_end()
    except ParseError as error:
        advice = advice_on(tokens)
        if advice is None:
            raise
        raise ParseError(advice, line=tokens[0].line, column=tokens[0].column) from error
    return statement


def _statement(cursor: Cursor) -> Statement:
    if cursor.sees_any(QUERY_WORDS):
        return dml.query(cursor)
    grammars: dict[str, Callable[[Cursor], Statement]] = {
        "CREATE": create_alter_drop.create,
        "DROP": create_alter_drop.drop,
        "ALTER": create_alter_drop.alter,
        "TRUNCATE": create_alter_drop.truncate,
        "COMMENT": create_alter_drop.comment,
        "INSERT": dml.insert,
        "UPDATE": dml.update,
        "DELETE": dml.delete,
        "MERGE": merge,
        "LOAD": dml.load,
        "RESTORE": dml.restore,
        "SHOW": show,
        "DESCRIBE": describe,
        "DESC": describe,
        "EXPLAIN": _explain,
        "USE": admin.use,
        "SET": admin.set_option,
        "RESET": admin.reset_option,
        "START": admin.start_transaction,
        "BEGIN": admin.start_transaction,
        "COMMIT": admin.commit,
        "ROLLBACK": admin.rollback,
        "ABORT": admin.abort,
        "REFRESH": admin.refresh,
        "CACHE": admin.cache,
        "UNCACHE": admin.cache,
        "MSCK": admin.repair,
        "ANALYZE": admin.analyze,
        "OPTIMIZE": admin.optimize,
        "VACUUM": admin.vacuum,
    }
    grammar = grammars.get(cursor.next.keyword)
    if grammar is None:
        cursor.fail("a statement or a query", known=(*grammars, *QUERY_WORDS))
    if grammar is describe and _describes_query(cursor):
        return Query(cursor.rest("a query"))
    cursor.advance()
    return grammar(cursor)


def _describes_query(cursor: Cursor) -> bool:
    """Tell DESCRIBE [QUERY] SELECT … from DESCRIBE t, where a table may have such a name."""
    index = 2 if cursor.ahead(1).keyword == "QUERY" else 1
    words = QUERY_WORDS if index == 2 else QUERY_WORDS - {"TABLE", "MAP", "REDUCE"}  # noqa: PLR2004
    return cursor.ahead(index).keyword in words and cursor.ahead(index + 1).kind is not TokenKind.END


def _explain(cursor: Cursor) -> Explain:
    options: list[str] = []
    while cursor.sees_any(_EXPLAIN_OPTIONS) or (
        cursor.sees("ANALYZE") and not cursor.sees("ANALYZE", "TABLE")
    ):
        options.append(cursor.advance().keyword)
    if cursor.sees("EXPLAIN"):
        cursor.refuse("EXPLAIN cannot explain itself")
    return Explain(_statement(cursor), tuple(options))

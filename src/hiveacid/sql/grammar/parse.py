"""Text to statement: the first word selects the grammar of an area; `hiveacid.sql.grammar.advice` answers what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hiveacid.errors import ParseError
from hiveacid.spark.parser.lexer import Token, TokenKind, tokenize
from hiveacid.sql.grammar import admin, create_alter_drop, dml
from hiveacid.sql.grammar.admin import describe, show
from hiveacid.sql.grammar.advice import advice_on
from hiveacid.sql.grammar.create_table import QUERY_WORDS
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.dml import merge
from hiveacid.sql.statements import Statement
from hiveacid.sql.statements.dml import Explain, Query

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
        "REOPTIMIZATION",
    }
    | {"CODEGEN", "VECTORIZATION", "ONLY", "SUMMARY", "OPERATOR", "EXPRESSION", "DETAIL", "DEBUG", "DDL"}
)


_RESOURCES = frozenset({"JAR", "JARS", "FILE", "FILES", "ARCHIVE", "ARCHIVES"})


def parse(text: str, first_line: int = 1, tokens: Sequence[Token] | None = None) -> Statement:
    """Parse one statement; a ``;`` may follow.

    ``first_line`` is the number of the text's first line, for statements of a script (`lexer.split`).
    ``tokens``: those of the text, where it is tokenised already.
    Raises ParseError with line and column, and with what was expected there, for anything that is neither one
    of the statements nor begins like a query. A statement of another system gets a sentence with what to write here.
    """
    tokens = tokenize(text, first_line) if tokens is None else tokens
    text, tokens = _with_offset(text, first_line, tokens)
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


def _with_offset(text: str, first_line: int, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """Return a text with Hive's LIMIT a, b as Spark writes it: LIMIT b OFFSET a."""
    for word, skipped, comma, count in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        numbers = skipped.kind is TokenKind.NUMBER and count.kind is TokenKind.NUMBER
        if word.keyword == "LIMIT" and numbers and comma.text == ",":
            text = f"{text[: skipped.start]}{count.text} OFFSET {skipped.text}{text[count.end :]}"
            return _with_offset(text, first_line, tokenize(text, first_line))
    return text, tokens


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
        "EXPORT": dml.export_table,
        "IMPORT": dml.import_table,
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
    if _is_on_functions_or_files(cursor):
        return Query(cursor.rest("a statement"))
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


def _is_on_functions_or_files(cursor: Cursor) -> bool:
    """Tell a statement on functions or files of the session, which Spark carries out."""
    first, second, third = (cursor.ahead(index).keyword for index in range(3))
    if second == "FUNCTION":
        return first in {"DESCRIBE", "DESC"} and bool(third)
    if (second, third) == ("TEMPORARY", "FUNCTION"):  # without one that is a query, which may read tables
        is_of_class = cursor.ahead(4).keyword == "AS" and cursor.ahead(5).kind is TokenKind.STRING
        return first == "DROP" or (first == "CREATE" and is_of_class)
    return (first, second) == ("SHOW", "FUNCTIONS") or (first in {"ADD", "LIST"} and second in _RESOURCES)


def _explain(cursor: Cursor) -> Explain:
    options: list[str] = []
    while cursor.sees_any(_EXPLAIN_OPTIONS) or (
        cursor.sees("ANALYZE") and not cursor.sees("ANALYZE", "TABLE")
    ):
        options.append(cursor.advance().keyword)
    if cursor.sees("EXPLAIN"):
        cursor.refuse("EXPLAIN cannot explain itself")
    return Explain(_statement(cursor), tuple(options))

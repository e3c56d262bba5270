"""Names in ``IDENTIFIER('db.t')``: they are written out before a statement's tables are looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError, StatementTooLargeError
from hiveacid.spark.parser.catalyst import active_session, parser_of, scala_items
from hiveacid.spark.parser.lexer import Token, mentions, tokenize
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import frame_of_plan
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.sql.statements.values import Slice


def has_identifier_clause(piece: Slice) -> bool:
    """Tell whether a text contains ``IDENTIFIER(...)``; False for one with tokens that only Spark knows."""
    try:
        return any(_clauses(piece.tokens))
    except StatementTooLargeError:
        raise
    except HiveAcidError:
        return False


def with_written_names(env: SparkEnvironment, piece: Slice) -> Slice:
    """Replace ``IDENTIFIER(constant)`` by the name that it is, as Spark does when it runs the statement.

    An argument that is not constant (a column, a parameter) stays, and Spark reports it.
    """
    # Tokens of a long text take time, and the parser makes them again.
    if "IDENTIFIER" not in piece.text.upper():
        return piece
    try:
        clauses = list(_clauses(piece.tokens))
    except HiveAcidError:  # the parser reports it, with the line
        return piece
    parts, end = [], 0
    for name, opening, closing in clauses:
        argument = piece.text[opening.end : closing.start]
        written = None if mentions(tokenize(argument), ("SELECT", "FROM")) else _name(env, argument)
        if written is not None:
            parts += [piece.text[end : name.start], written]
            end = closing.end
    return Slice("".join([*parts, piece.text[end:]])) if parts else piece


def _clauses(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token, Token]]:
    """Yield the word IDENTIFIER of each clause, and its parentheses."""
    for index, (name, opening) in enumerate(pairwise(tokens)):
        if name.keyword != "IDENTIFIER" or opening.keyword != "(":
            continue
        depth = 0
        for token in tokens[index + 1 :]:
            depth += (token.keyword == "(") - (token.keyword == ")")
            if depth == 0:
                yield name, opening, token
                break


def _name(env: SparkEnvironment, expression: str) -> str | None:
    """Return the value of a constant text, as a quoted name."""
    parser = parser_of(env)
    try:
        with active_session(env), translate_errors():
            row = frame_of_plan(env, parser.parsePlan(f"SELECT {expression}\n")).first()
            value = None if row is None or len(row) != 1 else row[0]
            if not isinstance(value, str):
                return None
            return ".".join(
                quote_name(str(part)) for part in scala_items(parser.parseMultipartIdentifier(value))
            )
    except HiveAcidError:
        return None

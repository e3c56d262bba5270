"""Placeholders in a statement: parameters (``args=`` of ``spark.sql``) become SQL literals, ``IDENTIFIER(...)`` the name it means."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError, StatementError, StatementTooLargeError, UnsupportedFeatureError
from hiveacid.spark.parser.lexer import Token, TokenKind, mentions, tokenize
from hiveacid.spark.session.classic_session import frame_of_plan
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import active_session, parser_of, scala_items
from hiveacid.sql.statements import Slice

Arguments = Mapping[str, object] | Sequence[object]

_INTEGER = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)
_BEFORE_EXPRESSIONS = frozenset(
    {
        "ALL",
        "AND",
        "BETWEEN",
        "BY",
        "CASE",
        "DEFAULT",
        "DISTINCT",
        "DIV",
        "ELSE",
        "ESCAPE",
        "FOR",
        "FROM",
        "HAVING",
    }
    | {
        "ILIKE",
        "IN",
        "LIKE",
        "LIMIT",
        "NOT",
        "OF",
        "OFFSET",
        "ON",
        "OR",
        "QUALIFY",
        "REGEXP",
        "RETURN",
        "RLIKE",
    }
    | {"SELECT", "SET", "THEN", "TO", "USING", "VALUES", "WHEN", "WHERE"}
)


def with_arguments(piece: Slice, args: Arguments | None, *, escapes: bool = True) -> str:
    """Replace every ``:name`` (``args`` is a mapping) or ``?`` (a sequence) in the text by the literal of its value.

    Strings, quoted names and comments stay unchanged. Raises StatementError with the marker's position if a marker has no
    value, or if a sequence has more or fewer values than there are markers. Raises UnsupportedFeatureError for values
    without a literal. ``escapes``: False if Spark does not read backslashes in strings as escapes
    (``spark.sql.parser.escapedStringLiterals``).
    """
    text = piece.text
    if not args:
        return text
    markers = list(_markers(piece.tokens, named=isinstance(args, Mapping)))
    if not isinstance(args, Mapping) and len(args) != len(markers):
        raise StatementError(f"the statement has {len(markers)} parameters (?), but got {len(args)} values")
    parts, offset = [], 0
    for index, (marker, end) in enumerate(markers):
        name = text[marker.start + 1 : end]
        if isinstance(args, Mapping) and name not in args:
            raise StatementError(
                f"no value is given for the parameter :{name}", line=marker.line, column=marker.column
            )
        value = args[name] if isinstance(args, Mapping) else args[index]
        before, value_text = text[offset : marker.start], literal(value, escapes=escapes)
        # without blanks a literal would become part of a word: SELECT:x
        parts += [before, " " * before[-1:].isalnum(), value_text, " " * text[end : end + 1].isalnum()]
        offset = end
    return "".join([*parts, text[offset:]])


def _markers(tokens: Sequence[Token], *, named: bool) -> list[tuple[Token, int]]:
    """Return the first token and the end offset of each marker."""
    if not named:
        return [(token, token.end) for token in tokens if token.keyword == "?"]
    markers, in_struct = [], 0
    for index, (token, name) in enumerate(pairwise(tokens)):
        if token.keyword == "<" and (in_struct or (index and tokens[index - 1].keyword == "STRUCT")):
            in_struct += 1
        elif token.keyword == ">":
            in_struct = max(0, in_struct - 1)
        elif token.keyword == ":" and name.kind is TokenKind.WORD and name.start == token.end:
            is_field = in_struct and index > 1 and tokens[index - 2].keyword in {"<", ","}
            if not is_field and not (index and _ends_operand(tokens[index - 1], token)):
                markers.append((token, name.end))
    return markers


def _ends_operand(before: Token, colon: Token) -> bool:
    """Tell whether a colon follows an expression, as in the path ``parse_json(x):key``; a marker begins one."""
    if before.kind in {TokenKind.QUOTED, TokenKind.STRING} or before.keyword in {")", "]"}:
        return True
    is_word = before.kind is TokenKind.WORD and before.keyword not in _BEFORE_EXPRESSIONS
    return is_word and before.end == colon.start


def has_parameters(piece: Slice) -> bool:
    """Tell whether a text contains ``:name`` or ``?``. Raises ParseError for a string or comment without end."""
    return bool(_markers(piece.tokens, named=True) or _markers(piece.tokens, named=False))


def literal(value: object, *, escapes: bool = True) -> str:
    """Return the SQL text of a Python value, with the type that ``pyspark.sql.functions.lit`` gives it.

    ``escapes`` as in `with_arguments`. Raises UnsupportedFeatureError for a value without a literal.
    """
    if isinstance(value, list | tuple):
        return f"array({', '.join(literal(member, escapes=escapes) for member in value)})"
    if isinstance(value, dict):
        members = (member for pair in value.items() for member in pair)
        return f"map({', '.join(literal(member, escapes=escapes) for member in members)})"
    if isinstance(value, str):
        return _text(value, escapes=escapes)
    text = _number(value) if isinstance(value, int | float | Decimal) else _other(value)
    if text is None:
        raise UnsupportedFeatureError(
            f"a value of type {type(value).__name__} cannot be a parameter: {value!r}"
        )
    return text


def _number(value: float | Decimal) -> str | None:
    match value:
        case bool():
            return str(value).upper()
        case int() if value in _LONG:
            if value not in _INTEGER:
                return f"CAST('{value}' AS BIGINT)"
            return f"({value})" if value < 0 else f"{value}"  # VERSION AS OF takes a bare number only
        case float():
            return f"CAST('{float(value)!r}' AS DOUBLE)"  # numpy.float64 is a float with another repr
        case Decimal() if value.is_finite():
            return f"({value:f}BD)"
    return None


def _other(value: object) -> str | None:
    match value:
        case None:
            return "NULL"
        case bytes() | bytearray():
            return f"X'{bytes(value).hex()}'"
        case dt.datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP_LTZ"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return None


def _text(value: str, *, escapes: bool) -> str:
    # Spark's parser replaces ${variables} everywhere in a text, strings included (VariableSubstitution).
    if escapes:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
        return f"'{escaped}'"
    if "\\" in value or "'" in value or "${" in value:
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return f"'{value}'"


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

"""Parameters of a statement (``args=`` of ``spark.sql``): markers in the text become SQL literals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from hiveacid.errors import StatementError, UnsupportedFeatureError
from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.sql.statements.values import Slice

Arguments = Mapping[str, object] | Sequence[object]

_INTEGER = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)


def with_arguments(piece: Slice, args: Arguments | None, *, escapes: bool = True) -> str:
    """Replace every ``:name`` (``args`` is a mapping) or ``?`` (a sequence) in the text by the literal of its value.

    Strings, quoted names and comments stay unchanged. Raises StatementError with the marker's position if a marker has no
    value, or if a sequence has more or fewer values than there are markers. Raises UnsupportedFeatureError for values
    without a literal. ``escapes``: False if Spark does not read backslashes in strings as escapes (``spark.sql.parser.escapedStringLiterals``).
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
        parts += [text[offset : marker.start], literal(value, escapes=escapes)]
        offset = end
    return "".join([*parts, text[offset:]])


def _markers(tokens: Sequence[Token], *, named: bool) -> list[tuple[Token, int]]:
    """Return the first token and the end offset of each marker."""
    if not named:
        return [(token, token.end) for token in tokens if token.keyword == "?"]
    return [
        (token, name.end)
        for token, name in pairwise(tokens)
        if token.keyword == ":" and name.kind is TokenKind.WORD and name.start == token.end
    ]


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
            return f"({value})" if value in _INTEGER else f"CAST('{value}' AS BIGINT)"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
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

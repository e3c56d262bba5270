"""Parser of conditions in SQL without Spark, for a small part of its grammar.

Columns are compared with literals by ``= == <> != < <= > >= <=>``, IN, BETWEEN and IS NULL, joined by AND, OR and NOT. Literals
are numbers, strings, TRUE, FALSE, NULL, ``DATE '…'``, ``TIMESTAMP '…'`` and ``X'…'``. Everything else is refused with its
position. The text becomes a predicate, never code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NoReturn

from hiveacid.core.model import TableDefinition
from hiveacid.core.predicates import (
    FALSE,
    TRUE,
    UNKNOWN,
    AllOf,
    AnyOf,
    Bounds,
    Comparison,
    Not,
    Operator,
    Predicate,
    may_match,
)
from hiveacid.core.schema.types import INTEGER_TYPES, LOCAL_TIMESTAMP, Primitive, parse_type
from hiveacid.errors import ParseError, no_such_column
from hiveacid.spark.parser.lexer import Token, TokenKind, string_value, tokenize

_OPERATORS = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_OR_EQUAL,
    "<=>": Operator.NULL_SAFE_EQUAL,
    "<>": None,
    "!=": None,
}
_MIRRORED = {
    Operator.LESS: Operator.GREATER,
    Operator.GREATER: Operator.LESS,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_MAX_DEPTH = 100
_MAX_DIGITS = 38  # of a decimal
_NUMBERS = frozenset({*INTEGER_TYPES, "decimal", "float", "double"})
_FLOATING = frozenset({"float", "double"})
_TEXTS = frozenset({"string", "varchar", "char"})
_WHOLE_NUMBER = re.compile(r"-?\d{1,38}", re.ASCII)
_TIME = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?\s*", re.ASCII
)


@dataclass(frozen=True)
class _Operand:
    """A column or a literal. ``kind``: the name of its Hive type, "nested", or null. ``value``: that of a literal."""

    kind: str
    token: Token
    value: Any = None
    column: str | None = None

    def __str__(self) -> str:
        """Return the kind, with the column's name."""
        return self.kind if self.column is None else f"{self.column} ({self.kind})"


def parse_predicate(text: str, table: TableDefinition) -> Predicate:
    """Return the predicate of a condition on a table. Raises ParseError with the position, NoSuchColumnError."""
    parser = _Parser(table, tokenize(text))
    predicate = parser.disjunction(0)
    if parser.token.kind is not TokenKind.END:
        parser.fail("the condition should end here")
    return predicate


class _Parser:
    """Recursive descent over the tokens of a condition."""

    def __init__(self, table: TableDefinition, tokens: Sequence[Token]) -> None:
        self._table, self._tokens, self._position = table, tokens, 0
        self._types = {column.name: parse_type(column.type) for column in table.all_columns}

    @property
    def token(self) -> Token:
        return self._tokens[self._position]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        token = token or self.token
        text = token.text if token.kind is not TokenKind.END else "the end"
        raise ParseError(
            f"{message} (at {text}); without Spark, a condition in SQL compares columns with literals by =, <>, <, <=, >, >=, "
            "<=>, IN, BETWEEN and IS NULL, joined by AND, OR and NOT; for others pass a pyarrow expression, or use Polars, "
            "DuckDB or Spark",
            line=token.line,
            column=token.column,
        )

    def take(self, *words: str) -> bool:
        """Move past the words and return True, if all of them come next."""
        after = self._tokens[self._position : self._position + len(words)]
        if [token.keyword for token in after] != [*words]:
            return False
        self._position += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.fail(f"{word} was expected")

    def disjunction(self, depth: int) -> Predicate:
        parts = [self._conjunction(depth)]
        while self.take("OR"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._negation(depth)]
        while self.take("AND"):
            parts.append(self._negation(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _negation(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            self.fail(f"the condition is nested more than {_MAX_DEPTH} deep")
        if self.take("NOT") or self.take("!"):
            return Not(self._negation(depth + 1))
        if self.take("("):
            inner = self.disjunction(depth + 1)
            self.expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        left, token = self._operand(), self.token
        if token.keyword in _OPERATORS:
            self._position += 1
            operator, right = _OPERATORS[token.keyword], self._operand()
            if operator is None:
                return Not(self._compare(left, Operator.EQUAL, right, token))
            return self._compare(left, operator, right, token)
        if self.take("IS"):
            negated = self.take("NOT")
            if not self.take("NULL"):
                self.fail("NULL was expected")
            return Not(_is_null(left)) if negated else _is_null(left)
        negated, token = self.take("NOT"), self.token
        if self.take("IN"):
            self.expect("(")
            items = [self._operand()]
            while self.take(","):
                items.append(self._operand())
            self.expect(")")
            predicate = self._in(left, items, token)
        elif self.take("BETWEEN"):
            low = self._operand()
            self.expect("AND")
            high = self._operand()
            ends = ((Operator.GREATER_OR_EQUAL, low), (Operator.LESS_OR_EQUAL, high))
            predicate = AllOf(tuple(self._compare(left, end, value, token) for end, value in ends))
        elif negated:
            self.fail("IN or BETWEEN was expected")
        elif left.kind == "boolean":
            predicate = self._compare(
                left, Operator.EQUAL, _Operand("boolean", left.token, value=True), token
            )
        elif left.kind == "null":
            predicate = UNKNOWN
        else:
            self.fail("a comparison was expected")
        return Not(predicate) if negated else predicate

    # columns and literals

    def _operand(self) -> _Operand:
        parentheses = 0
        while self.take("("):
            parentheses += 1
        operand = self._column_or_literal()
        for _ in range(parentheses):
            self.expect(")")
        return operand

    def _next_token(self) -> Token:
        token = self.token
        self._position += 1
        return token

    def _column_or_literal(self) -> _Operand:
        token = self._next_token()
        if token.kind is TokenKind.NUMBER or token.keyword in ("-", "+"):
            return self._number(token)
        if token.kind is TokenKind.STRING:
            text = string_value(token.text)
            while self.token.kind is TokenKind.STRING:
                text += string_value(self._next_token().text)
            return _Operand("string", token, value=text)
        if not token.is_name:
            self._position -= 1
            self.fail("a column or literal was expected")
        literal = self._word_literal(token) if token.kind is TokenKind.WORD else None
        return self._column(token) if literal is None else literal

    def _number(self, first: Token) -> _Operand:
        sign = ""
        token = first
        while token.keyword in ("-", "+"):
            if token.keyword == "-" and sign:  # `- -2147483648` overflows in Spark
                self.fail("a number has one minus sign at most", token)
            sign = "-" if token.keyword == "-" else sign
            token = self._next_token()
        if token.kind is not TokenKind.NUMBER:
            self.fail("a number was expected", token)
        text = token.text.lower()
        if text.endswith(("bd", "l", "s", "y", "f")):
            self.fail(
                "numbers with the letters BD, L, S, Y or F are not supported: leave the letters out", token
            )
        if text.endswith("d") or "e" in text:
            return _Operand("double", first, value=float(sign + text.removesuffix("d")))
        number = Decimal(sign + text)
        if len(number.as_tuple().digits) > _MAX_DIGITS:
            self.fail(f"a number has {_MAX_DIGITS} digits at most", token)
        return (
            _Operand("decimal", first, value=number)
            if "." in text
            else _Operand("bigint", first, int(number))
        )

    def _word_literal(self, token: Token) -> _Operand | None:
        word, after = token.keyword, self.token
        if word in ("TRUE", "FALSE"):
            return _Operand("boolean", token, value=word == "TRUE")
        if word == "NULL":
            return _Operand("null", token)
        if after.kind is not TokenKind.STRING or word not in ("DATE", "TIMESTAMP", "X"):
            return None
        text = string_value(self._next_token().text)
        if word == "X":
            try:
                return _Operand(
                    "binary", token, value=bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
                )
            except ValueError:
                self.fail("hexadecimal digits were expected", after)
        value = _parse_literal(word.lower(), text)
        if value is None:
            self.fail(
                f"this is not a {word.lower()} of the form 2026-01-31{'' if word == 'DATE' else ' 12:00:00'}",
                after,
            )
        return _Operand(word.lower(), token, value=value)

    def _column(self, token: Token) -> _Operand:
        parts = [token.name.lower()]
        while self.token.keyword == ".":
            self._position += 1
            if not self.token.is_name:
                self.fail("a name was expected")
            parts.append(self._next_token().name.lower())
        if self.token.keyword == "(":
            self.fail("functions are not supported", token)
        own = self._table.name
        is_qualified = parts[:-1] in ([own.name], [own.database, own.name])
        name = parts[-1] if is_qualified else parts[0]
        if name not in self._types:
            raise no_such_column(own, name, self._types, line=token.line, column=token.column)
        if len(parts) > 1 and not is_qualified:
            self.fail("fields of structs are not supported", token)
        hive = self._types[name]
        return _Operand(hive.name if isinstance(hive, Primitive) else "nested", token, column=name)

    # comparisons

    def _compare(self, left: _Operand, operator: Operator, right: _Operand, token: Token) -> Predicate:
        if left.column is None and right.column is not None:
            left, operator, right = right, _MIRRORED.get(operator, operator), left
        if "null" not in (left.kind, right.kind):
            return self._test(left, operator, [right], token)
        if operator is not Operator.NULL_SAFE_EQUAL:
            return UNKNOWN
        return _is_null(left if right.kind == "null" else right)

    def _in(self, left: _Operand, items: Sequence[_Operand], token: Token) -> Predicate:
        present = [item for item in items if item.kind != "null"]
        # Spark compares all of them as DOUBLE, if one is.
        if left.kind not in _FLOATING and any(item.kind in _FLOATING for item in present):
            for item in present:
                if item.column is not None or item.kind not in _NUMBERS:
                    self.fail("with a DOUBLE in its list, IN compares numbers only", item.token)
        if left.column is None and any(item.column for item in items):
            return AnyOf(tuple(self._compare(item, Operator.EQUAL, left, token) for item in items))
        if left.kind == "null" or not present:
            return UNKNOWN
        member = self._test(left, Operator.IN, present, token)
        return member if len(present) == len(items) else AnyOf((member, UNKNOWN))

    def _test(
        self, left: _Operand, operator: Operator, literals: Sequence[_Operand], token: Token
    ) -> Predicate:
        """Return the comparison of a column with literals; TRUE or FALSE for a literal on the left."""
        values = [self._value(left, literal, token) for literal in literals]
        own = left.value
        if left.kind == "timestamp" or any(isinstance(value, datetime) for value in values):
            own, *values = map(_moment, (own, *values))
        if left.column is not None:
            return Comparison(left.column, operator, tuple(values))
        bounds = {"": Bounds(own, own, has_null=False)}
        return TRUE if may_match(Comparison("", operator, tuple(values)), bounds) else FALSE

    def _value(self, left: _Operand, literal: _Operand, token: Token) -> Any:
        """Return a literal's value for a comparison with a column or literal of the kind of ``left``."""
        kinds, value = {left.kind, literal.kind}, literal.value
        if literal.column is not None:
            self.fail("two columns are not compared", literal.token)
        if LOCAL_TIMESTAMP in kinds:
            self.fail(
                f"comparisons of {LOCAL_TIMESTAMP} depend on a session's time zone: pass a pyarrow expression instead",
                token,
            )
        if kinds <= _NUMBERS:
            return float(value) if left.kind in _FLOATING else value
        if kinds <= _TEXTS:
            return value if left.kind != "char" else self._padded(left, literal)
        if kinds <= {"date", "timestamp"} or kinds in ({"boolean"}, {"binary"}):
            return value
        parsed = (
            _parse_literal(left.kind, value) if left.column is not None and literal.kind == "string" else None
        )
        if parsed is None:
            self.fail(
                f"{left} and {literal} cannot be compared: write the literal in the column's type", token
            )
        return parsed

    def _padded(self, column: _Operand, literal: _Operand) -> str:
        """Return a text with the padding of a char column. Blanks after its length count for nothing."""
        length = self._types[str(column.column)].args[0]  # type: ignore[union-attr]
        text = literal.value.rstrip(" ").ljust(length)
        if any(character < " " for character in text[length:]):
            self.fail(
                f"{column.column} is compared with a longer text that has control characters", literal.token
            )
        return str(text)


def _is_null(operand: _Operand) -> Predicate:
    if operand.column is not None:
        return Comparison(operand.column, Operator.IS_NULL)
    return TRUE if operand.kind == "null" else FALSE


def _moment(value: Any) -> Any:
    """Return a day as its midnight, because Spark compares days and times as times."""
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, time()) if is_day else value


def _parse_literal(kind: str, text: str) -> Any:
    """Return a text in quotes as a value of a kind; None if it could mean several values or none. A day is its midnight."""
    if kind in INTEGER_TYPES:
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
    match = _TIME.fullmatch(text) if kind in {"date", "timestamp"} else None
    if match is None or (kind == "date" and match[4]):
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        if kind == "date":
            return date(year, month, day)
        return datetime(year, month, day, hour, minute, second, int((match[7] or "").ljust(6, "0")))  # noqa: DTZ001 - a wall clock
    except ValueError:
        return None

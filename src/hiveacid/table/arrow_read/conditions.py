"""Parser of SQL conditions into filters for Arrow, for a part of Spark's grammar.

Supported are comparisons (``= == <> != < <= > >= <=>``), AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL. They compare columns
and literals: numbers, strings, TRUE, FALSE, NULL, ``DATE '…'``, ``TIMESTAMP '…'`` and ``X'…'``. Operands may be integer
`arithmetic`. Everything else is refused with its position. The text becomes values and calls of Arrow, never code.

A condition is true, false or NULL, and a filter selects the rows where it is true. The parser therefore computes two
expressions for each condition (`three_valued_logic.Truth`): where it is true and where it is false. NOT exchanges them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.display import did_you_mean
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, Primitive, parse_type
from hiveacid.errors import ConfigError, NoSuchColumnError, ParseError
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.parser.lexer import Token, TokenKind, string_value, tokenize
from hiveacid.table.arrow_read.arithmetic import calculate
from hiveacid.table.arrow_read.comparisons import (
    TEXTS,
    CommonTypeOperands,
    Term,
    cast_to_common_type,
    compare_operands,
    like_regex,
    parse_day,
    parse_moment,
)
from hiveacid.table.arrow_read.three_valued_logic import ALWAYS, NEVER, UNKNOWN, Truth, all_of, any_of

_NEGATED_OPERATORS = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED_OPERATORS = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NUMBERED_COLUMN = "FieldPath("  # how pyarrow prints a column that is given by its number
_QUOTED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPERATOR_SYNONYMS = {"==": "=", "!=": "<>"}
SUBQUERY_STARTS = frozenset({"SELECT", "WITH"})
_MAX_DEPTH = 100
_MAX_CALCULATIONS = 200  # Arrow evaluates nested expressions by recursion
# ``( … )`` followed by one of these is an operand; followed by anything else, it is a condition.
_OPERATORS_AFTER_PARENTHESIS = frozenset(
    {
        *_NEGATED_OPERATORS,
        *_OPERATOR_SYNONYMS,
        "<=>",
        "+",
        "-",
        "*",
        "%",
        "IS",
        "IN",
        "NOT",
        "BETWEEN",
        "LIKE",
    }
)
_MAX_DIGITS = 38  # of a decimal
_FLOATING = frozenset({"float", "double"})


@dataclass(frozen=True)
class Condition:
    """A filter (an expression of pyarrow) and the columns that it refers to.

    ``parses_texts``: a text in quotes is compared with a column of another type, such as a number or a date.
    """

    predicate: Any
    columns: tuple[str, ...]
    parses_texts: bool = False


InSubquery = Callable[[str, Any], Truth]
"""Returns the truth of ``column IN (SELECT …)``; arguments: name and Arrow type of the column."""


def parse_condition(
    text: str, table: TableDefinition, alias: str | None = None, in_subquery: InSubquery | None = None
) -> Condition:
    """Return the filter of a condition on a table; ``alias``: the name by which a statement calls the table.

    Without ``in_subquery``, subqueries are refused. Raises ParseError with the position, NoSuchColumnError.
    """
    parser = _Parser(table, tokenize(text), alias, in_subquery)
    truth = parser.disjunction(0)
    if parser.token.kind is not TokenKind.END:
        parser.fail("the condition should end here")
    return Condition(truth.true, tuple(dict.fromkeys(parser.columns)), parser.parses_texts)


def condition_from_arrow(expression: Any, schema: Any) -> Condition:
    """Return the condition of a pyarrow expression.

    pyarrow does not list the columns of an expression, so they are found by trial: a column is used if the expression does
    not fit the schema without it. Raises NoSuchColumnError if the expression does not fit the schema. Raises ConfigError for a
    column that is given by its number, because a read has only some of the columns, in an order of its own.
    """
    if _NUMBERED_COLUMN in _QUOTED_TEXT.sub("", str(expression)):
        raise ConfigError("where: the expression names a column by its number: pyarrow.compute.field('name')")
    empty = schema.empty_table()
    try:
        empty.filter(expression)
    except pa.ArrowException as error:
        raise NoSuchColumnError(f"where: the expression does not fit the table ({error})") from error
    columns = []
    for index, name in enumerate(schema.names):
        try:
            empty.remove_column(index).filter(expression)
        except pa.ArrowException:
            columns.append(name)
    return Condition(expression, tuple(columns))


class _Parser:
    """Recursive descent over the tokens of a condition."""

    def __init__(
        self,
        table: TableDefinition,
        tokens: Sequence[Token],
        alias: str | None,
        in_subquery: InSubquery | None,
    ) -> None:
        self._table, self._tokens, self._position, self._in_subquery = table, tokens, 0, in_subquery
        names = {(table.name.name,), (table.name.database, table.name.name)}
        self._qualifiers = names if alias is None else {(alias.lower(),)}
        self._types = {column.name: column.type for column in table.all_columns}
        self.columns: list[str] = []
        self.parses_texts = False
        self._calculations = 0
        self._closing = _closing_parentheses(tokens)

    @property
    def token(self) -> Token:
        return self._tokens[self._position]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        token = token or self.token
        text = token.text if token.kind is not TokenKind.END else "the end"
        raise ParseError(
            f"{message} (at {text}); conditions without Spark may have columns, literals, comparisons, AND, OR, NOT, "
            "IN, BETWEEN, LIKE and IS NULL, and the operators + - * % and pmod for whole numbers",
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

    def disjunction(self, depth: int) -> Truth:
        parts = [self.conjunction(depth)]
        while self.take("OR"):
            parts.append(self.conjunction(depth))
        return any_of(parts)

    def conjunction(self, depth: int) -> Truth:
        parts = [self.negation(depth)]
        while self.take("AND"):
            parts.append(self.negation(depth))
        return all_of(parts)

    def negation(self, depth: int) -> Truth:
        if depth > _MAX_DEPTH:
            self.fail(f"the condition is nested more than {_MAX_DEPTH} deep")
        if self.take("NOT") or self.take("!"):
            return ~self.negation(depth + 1)
        if not self._opens_operand() and self.take("("):
            inner = self.disjunction(depth + 1)
            self.expect(")")
            return inner
        return self.comparison()

    def _opens_operand(self) -> bool:
        """Tell whether a parenthesis comes next that holds an operand: ``(i + 1) = 2``, not ``(i = 1)``."""
        end = self._closing.get(self._position)
        return end is not None and self._tokens[end + 1].keyword in _OPERATORS_AFTER_PARENTHESIS

    def comparison(self) -> Truth:
        left = self.term()
        operator = _OPERATOR_SYNONYMS.get(self.token.keyword, self.token.keyword)
        if operator == "<=>" or operator in _NEGATED_OPERATORS:
            token = self._next_token()
            right = self.term()
            if operator == "<=>":
                return self._compare_null_safe(left, right, token)
            return self._compare(left, operator, right, token)
        if self.take("IS"):
            negated = self.take("NOT")
            if not self.take("NULL"):
                self.fail("NULL was expected")
            return ~_is_null(left) if negated else _is_null(left)
        negated = self.take("NOT")
        token = self.token
        if self.take("IN"):
            truth = self._in_list_or_subquery(left, token)
        elif self.take("BETWEEN"):
            low = self.term()
            self.expect("AND")
            high = self.term()
            truth = all_of([self._compare(left, ">=", low, token), self._compare(left, "<=", high, token)])
        elif self.take("LIKE"):
            truth = self._like(left, token)
        elif negated:
            self.fail("IN, BETWEEN or LIKE was expected")
        elif left.kind == "boolean":
            truth = self._compare(left, "=", Term("boolean", left.token, value=True), left.token)
        elif left.kind == "null":
            truth = UNKNOWN
        else:
            self.fail("a comparison was expected")
        return ~truth if negated else truth

    # columns, literals and arithmetic

    def term(self, depth: int = 0) -> Term:
        left = self._product(depth)
        while self.token.keyword in ("+", "-"):
            operator = self._next_token()
            left = self._calculate(operator.keyword, left, self._product(depth), operator)
        return left

    def _product(self, depth: int) -> Term:
        left = self._operand(depth)
        while self.token.keyword in ("*", "%"):
            operator = self._next_token()
            left = self._calculate(operator.keyword, left, self._operand(depth), operator)
        return left

    def _operand(self, depth: int) -> Term:
        if depth > _MAX_DEPTH:
            self.fail(f"the condition is nested more than {_MAX_DEPTH} deep")
        start = self.token
        if self.take("("):
            inner = self.term(depth + 1)
            self.expect(")")
            return inner
        if self.take("PMOD", "("):
            dividend = self.term(depth + 1)
            self.expect(",")
            divisor = self.term(depth + 1)
            self.expect(")")
            return self._calculate("pmod", dividend, divisor, start)
        return self._column_or_literal()

    def _calculate(self, operator: str, left: Term, right: Term, token: Token) -> Term:
        self._calculations += 1
        if self._calculations > _MAX_CALCULATIONS:
            self.fail(f"the condition has more than {_MAX_CALCULATIONS} calculations", token)
        result = calculate(operator, left, right)
        if result is None:
            self.fail(
                "arithmetic takes whole numbers of at most 64 bits, and % and pmod need a literal above 0 on the right",
                token,
            )
        return result

    def _next_token(self) -> Token:
        token = self.token
        self._position += 1
        return token

    def _column_or_literal(self) -> Term:
        token = self._next_token()
        if token.kind is TokenKind.NUMBER or token.keyword in ("-", "+"):
            return self._number(token)
        if token.kind is TokenKind.STRING:
            text = string_value(token.text)
            while self.token.kind is TokenKind.STRING:
                text += string_value(self._next_token().text)
            return Term("string", token, value=text)
        if not token.is_name:
            self._position -= 1
            self.fail("a column or literal was expected")
        if token.kind is TokenKind.WORD:
            literal = self._word_literal(token)
            if literal is not None:
                return literal
        return self._column(token)

    def _number(self, first: Token) -> Term:
        sign = ""
        token = first
        while token.keyword in ("-", "+"):
            if token.keyword == "-" and sign:  # of INT's lowest number that overflows in Spark
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
            return Term("double", first, value=float(sign + text.removesuffix("d")))
        number = Decimal(sign + text)
        if len(number.as_tuple().digits) > _MAX_DIGITS:
            self.fail(f"a number has {_MAX_DIGITS} digits at most", token)
        if "." in text:
            return Term("decimal", first, value=number)
        return Term("bigint", first, value=int(number))

    def _word_literal(self, token: Token) -> Term | None:
        word, after = token.keyword, self.token
        if word in ("TRUE", "FALSE"):
            return Term("boolean", token, value=word == "TRUE")
        if word == "NULL":
            return Term("null", token)
        if after.kind is not TokenKind.STRING or word not in ("DATE", "TIMESTAMP", "X"):
            return None
        text = string_value(self._next_token().text)
        if word == "X":
            try:
                return Term("binary", token, value=bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}"))
            except ValueError:
                self.fail("hexadecimal digits were expected", after)
        value = parse_day(text) if word == "DATE" else parse_moment(text)
        if value is None:
            self.fail(
                f"this is not a {word.lower()} of the form 2026-01-31{'' if word == 'DATE' else ' 12:00:00'}",
                after,
            )
        return Term(word.lower(), token, value=value)

    def _column(self, token: Token) -> Term:
        parts = [token.name.lower()]
        while self.token.keyword == ".":
            self._position += 1
            if not self.token.is_name:
                self.fail("a name was expected")
            parts.append(self._next_token().name.lower())
        if self.token.keyword == "(":
            self.fail("functions are not supported", token)
        is_qualified = tuple(parts[:-1]) in self._qualifiers
        name = parts[-1] if is_qualified else parts[0]
        if name not in self._types:
            columns, near = ", ".join(self._types), did_you_mean(name, self._types)
            raise NoSuchColumnError(
                f"{self._table.name} has no column {name} (line {token.line}, column {token.column}); "
                f"it has {columns}{near}"
            )
        if len(parts) > 1 and not is_qualified:
            self.fail("fields of structs are not supported", token)
        hive = parse_type(self._types[name])
        self.columns.append(name)
        if not isinstance(hive, Primitive):
            return Term("nested", token, column=name)
        return Term(hive.name, token, column=name, hive=hive)

    # conditions

    def _compare_null_safe(self, left: Term, right: Term, token: Token) -> Truth:
        if left.kind == "null":
            left, right = right, left
        if right.kind == "null":
            return _is_null(left)
        equal = self._compare(left, "=", right, token)
        left_null, right_null = (NEVER if t.is_literal else t.expression.is_null() for t in (left, right))
        both_null, one_null = left_null & right_null, left_null != right_null
        return Truth(equal.true | both_null, equal.false | one_null)

    def _compare(self, left: Term, operator: str, right: Term, token: Token) -> Truth:
        if "null" in (left.kind, right.kind):
            return UNKNOWN
        if left.is_literal and not right.is_literal:
            left, operator, right = right, _SWAPPED_OPERATORS.get(operator, operator), left
        sides = self._require_comparable(left, right, token)
        return Truth(compare_operands(sides, operator), compare_operands(sides, _NEGATED_OPERATORS[operator]))

    def _in_list_or_subquery(self, left: Term, token: Token) -> Truth:
        start = self._position
        self.expect("(")
        if self.token.keyword in SUBQUERY_STARTS and self._in_subquery and left.column and left.hive:
            self._position = self._closing.get(start, len(self._tokens) - 1)
            self.expect(")")
            return self._in_subquery(left.column, arrow_type(left.hive))
        items = [self.term()]
        while self.take(","):
            items.append(self.term())
        self.expect(")")
        values = self._with_common_type(left, [item for item in items if item.kind != "null"])
        membership = self._constant_membership(left, values, token)
        if membership is None:
            nulls = [UNKNOWN] if len(values) < len(items) else []
            return any_of([*(self._compare(left, "=", item, token) for item in values), *nulls])
        return Truth(
            membership, ~membership & left.expression.is_valid() if len(values) == len(items) else NEVER
        )

    def _with_common_type(self, left: Term, items: Sequence[Term]) -> Sequence[Term]:
        """Return the items of an IN, as DOUBLE if one of them is: Spark then compares all of them as DOUBLE."""
        if left.kind in _FLOATING or not any(item.kind in _FLOATING for item in items):
            return items
        for item in items:
            if not item.is_literal or item.kind not in (*_FLOATING, "bigint", "decimal"):
                self.fail("with a DOUBLE in its list, IN compares numbers only", item.token)
        return [Term("double", item.token, value=float(item.value)) for item in items]

    def _constant_membership(self, left: Term, items: Sequence[Term], token: Token) -> Any:
        """Return membership as one expression; None unless all items are constants of the type of ``left``."""
        if left.hive is None or not all(item.is_literal for item in items):
            return None
        values = []
        for item in items:
            sides = self._require_comparable(left, item, token)
            if sides.constant is None:
                return None
            values.append(sides.constant.as_py())
        return left.expression.isin(pa.array(values, arrow_type(left.hive))) if values else NEVER

    def _like(self, left: Term, token: Token) -> Truth:
        pattern = self.term()
        escape = "\\"
        if self.take("ESCAPE"):
            literal = self.term()
            if literal.kind != "string" or len(literal.value) != 1:
                self.fail("one character in quotes was expected", literal.token)
            escape = literal.value
        if "null" in (left.kind, pattern.kind):
            return UNKNOWN
        is_text_column = left.column is not None and left.kind in TEXTS
        if not is_text_column or pattern.kind != "string" or not pattern.is_literal:
            self.fail("LIKE compares a column of text with a pattern in quotes", token)
        regex = like_regex(pattern.value, escape)
        if regex is None:
            self.fail(f"in a pattern, {escape} comes before %, _ or itself only", pattern.token)
        matches = pc.match_substring_regex(left.expression, pattern=regex)
        return Truth(matches, ~matches)

    def _require_comparable(self, left: Term, right: Term, token: Token) -> CommonTypeOperands:
        if LOCAL_TIMESTAMP in (left.kind, right.kind):
            self.fail(
                f"comparisons of {LOCAL_TIMESTAMP} depend on a session's time zone: pass a pyarrow expression instead",
                token,
            )
        sides = cast_to_common_type(left, right)
        if sides is None:
            kinds = [
                term.kind if term.column is None else f"{term.column} ({term.kind})" for term in (left, right)
            ]
            self.fail(
                f"{kinds[0]} and {kinds[1]} cannot be compared: write the literal in the column's type", token
            )
        self.parses_texts |= "string" in (left.kind, right.kind) and not {left.kind, right.kind} <= TEXTS
        return sides


def _is_null(term: Term) -> Truth:
    if term.is_literal:
        return Truth(ALWAYS, NEVER) if term.kind == "null" else Truth(NEVER, ALWAYS)
    return Truth(term.expression.is_null(), term.expression.is_valid())


def _closing_parentheses(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the position of the closing parenthesis by that of the opening one."""
    closing, opened = {}, []
    for position, token in enumerate(tokens):
        if token.keyword == "(":
            opened.append(position)
        elif token.keyword == ")" and opened:
            closing[opened.pop()] = position
    return closing

"""Comparisons as expressions of Arrow that cast and order values as Spark does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hiveacid.core.schema.types import Primitive
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.parser.lexer import Token

WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Bits of each integer type."""
TEXTS = frozenset({"string", "varchar", "char"})
_DATE = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})\s*", re.ASCII)
_WIDE_DIGITS = 76
_TIME = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\s*", re.ASCII
)


@dataclass(frozen=True)
class Term:
    """A column, a literal, or a result of arithmetic: an operand of a comparison.

    ``kind``: the name of its Hive type, or null. ``column`` or ``computed`` is set unless it is a literal: the column's name,
    or the expression of a result. ``hive``: the type of either. ``value``: the literal's value in Python.
    """

    kind: str
    token: Token
    column: str | None = None
    hive: Primitive | None = None
    value: Any = None
    computed: Any = None

    @property
    def is_literal(self) -> bool:
        """Tell whether the term has the same value in each row."""
        return self.column is None and self.computed is None

    @property
    def expression(self) -> Any:
        """The expression of a column or result."""
        return ds.field(self.column) if self.computed is None else self.computed


@dataclass(frozen=True)
class CommonTypeOperands:
    """The expressions on both sides of a comparison, of one type.

    ``floating``: they may be NaN. ``constant``: the right side as a scalar of the type of the left term, if it is one.
    """

    left: Any
    right: Any
    floating: bool = False
    constant: Any = None


def compare_operands(sides: CommonTypeOperands, operator: str) -> Any:
    """Return the comparison of two sides by one of ``= <> < <= > >=``."""
    left, right = sides.left, sides.right
    plain = {
        "=": lambda: left == right,
        "<>": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
    }[operator]()
    if not sides.floating:
        return plain
    # In Spark NaN equals NaN and is greater than all other numbers. In Arrow only <> is true of NaN.
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    match operator:
        case "=":
            return plain | (left_nan & right_nan)
        case "<>":
            return plain & ~(left_nan & right_nan)
        case "<":
            return plain | (right_nan & ~left_nan)
        case ">":
            return plain | (left_nan & ~right_nan)
        case "<=":
            return plain | right_nan & left.is_valid()
    return plain | left_nan & right.is_valid()


def cast_to_common_type(left: Term, right: Term) -> CommonTypeOperands | None:
    """Cast two terms to one type; None if Spark's cast may fail or change a value."""
    kinds = {left.kind, right.kind}
    if kinds <= {*WHOLE, "decimal", "float", "double"}:
        return _numbers(left, right)
    if kinds <= TEXTS:
        return _texts(left, right)
    if right.kind == "string" and right.is_literal and left.column is not None:
        parsed = _parsed_literal(left, right)
        return None if parsed is None else cast_to_common_type(left, parsed)
    if kinds == {"date", "timestamp"}:
        data_type = pa.timestamp("us")
        return CommonTypeOperands(cast_term(left, data_type), cast_term(right, data_type))
    if len(kinds) == 1 and kinds <= {"date", "timestamp", "boolean", "binary"}:
        data_type = arrow_type(left.hive) if left.hive is not None else pa.scalar(left.value).type
        return _cast_to_type(left, right, data_type)
    return None


def _cast_to_type(left: Term, right: Term, data_type: Any) -> CommonTypeOperands:
    constant = pa.scalar(right.value, data_type) if right.is_literal else None
    return CommonTypeOperands(cast_term(left, data_type), cast_term(right, data_type), constant=constant)


def cast_term(term: Term, data_type: Any) -> Any:
    """Return a term as an expression of a type."""
    if term.is_literal:
        value = term.value
        if isinstance(value, date) and not isinstance(value, datetime) and pa.types.is_timestamp(data_type):
            value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a wall clock
        return pc.scalar(pa.scalar(value, data_type))
    own = None if term.hive is None else arrow_type(term.hive)
    if own == data_type:
        return term.expression
    to_float = pa.types.is_floating(data_type)
    if (
        term.kind == "decimal" and to_float
    ):  # by a text to the nearest number, which Arrow's direct cast may miss
        return term.expression.cast(pa.string()).cast(data_type)
    rounds = term.kind in WHOLE and to_float  # as Spark does
    return term.expression.cast(data_type, safe=not rounds)


def is_within(value: int | Decimal, kind: str) -> bool:
    """Tell whether a number is in the range of an integer type."""
    limit = 1 << WHOLE[kind] - 1
    return -limit <= value < limit


def _parsed_literal(left: Term, right: Term) -> Term | None:
    """Return a string on the right as a literal of the left column's type; None if it could mean several values or none."""
    text = right.value
    if left.kind in WHOLE and re.fullmatch(r"-?\d{1,38}", text, re.ASCII):
        return Term("bigint", right.token, value=int(text))
    if left.kind == "date" and (day := parse_day(text)) is not None:
        return Term("date", right.token, value=day)
    if left.kind == "timestamp" and (moment := parse_moment(text)) is not None:
        return Term("timestamp", right.token, value=moment)
    return None


def _numbers(left: Term, right: Term) -> CommonTypeOperands:
    if {left.kind, right.kind} & {"float", "double"}:
        data_type = pa.float64()
        if left.kind == right.kind == "float" and not right.is_literal:
            data_type = pa.float32()
        return CommonTypeOperands(
            cast_term(_float(left), data_type), cast_term(_float(right), data_type), floating=True
        )
    hive = left.hive
    if hive is not None and right.is_literal:
        value = Decimal(right.value)
        if hive.name in WHOLE and value == value.to_integral_value() and is_within(value, hive.name):
            return _cast_to_type(left, Term("bigint", right.token, value=int(value)), arrow_type(hive))
        if hive.name == "decimal" and _fits_decimal(value, *hive.args):
            return _cast_to_type(left, Term("decimal", right.token, value=value), arrow_type(hive))
    scale = max(_scale(left), _scale(right))
    data_type = pa.decimal256(_WIDE_DIGITS, scale)
    return CommonTypeOperands(cast_term(_decimal(left), data_type), cast_term(_decimal(right), data_type))


def _float(term: Term) -> Term:
    return Term("double", term.token, value=float(term.value)) if term.is_literal else term


def _decimal(term: Term) -> Term:
    return Term("decimal", term.token, value=Decimal(term.value)) if term.is_literal else term


def _fits_decimal(value: Decimal, precision: int, scale: int) -> bool:
    value = value.normalize()
    exponent = int(value.as_tuple().exponent)
    return -exponent <= scale and value.adjusted() < precision - scale


def _scale(term: Term) -> int:
    if not term.is_literal:
        return term.hive.args[1] if term.hive is not None and term.hive.name == "decimal" else 0
    return max(0, -int(Decimal(term.value).as_tuple().exponent))


def _texts(left: Term, right: Term) -> CommonTypeOperands:
    """Pad the shorter side of a comparison of two char columns, or of one with a literal, as Spark does."""
    lengths = [
        term.hive.args[0] for term in (left, right) if term.hive is not None and term.hive.name == "char"
    ]
    sides: list[Any] = [cast_term(term, pa.string()) for term in (left, right)]
    if len(lengths) == 2:  # noqa: PLR2004 - both are char
        return CommonTypeOperands(*(pc.utf8_rpad(side, max(lengths), " ") for side in sides))
    if not right.is_literal:
        return CommonTypeOperands(*sides)
    value = str(right.value).ljust(max(lengths, default=0))
    if lengths and len(value) > lengths[0]:
        return CommonTypeOperands(pc.utf8_rpad(sides[0], len(value), " "), sides[1])
    constant = pa.scalar(value, pa.string())
    return CommonTypeOperands(sides[0], pc.scalar(constant), constant=constant)


def like_regex(pattern: str, escape: str) -> str | None:
    """Return a LIKE pattern as a regular expression; None for an escape before another character or at the end."""
    parts, index = [], 0
    while index < len(pattern):
        character = pattern[index]
        if character == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                return None
            parts.append(_quoted(pattern[index]))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or _quoted(character))
        index += 1
    return rf"\A(?s:{''.join(parts)})\z"


def _quoted(character: str) -> str:
    return character if character.isalnum() or ord(character) >= 0x80 else f"\\x{ord(character):02x}"  # noqa: PLR2004 - ASCII


def parse_day(text: str) -> date | None:
    """Return the day that a text such as ``2026-01-31`` names, None if it names none."""
    match = _DATE.fullmatch(text)
    try:
        return None if match is None else date(*map(int, match.groups()))
    except ValueError:
        return None


def parse_moment(text: str) -> datetime | None:
    """Return the wall-clock time that a text names (a day is its midnight), None if it names none."""
    day = parse_day(text)
    if day is not None:
        return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall clock
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, of_month, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        return datetime(year, month, of_month, hour, minute, second, int((match[7] or "").ljust(6, "0")))  # noqa: DTZ001
    except ValueError:
        return None

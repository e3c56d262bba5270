"""What a condition says about single columns, as Spark itself understands its text.

Spark parses and analyses the text against an empty frame of the table's columns; the analysed tree is then read
from Python. What is not understood is left out: callers may only use the answer to read less, never to decide
which rows qualify.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import types as T

from hiveacid.spark.catalyst import explained, items, parser_of, session_of
from hiveacid.spark.lexer import split_conjunction

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts

Value = int | float | str | bool | date | datetime | Decimal


class Operator(StrEnum):
    """How a simple condition compares its column."""

    EQUAL = "="
    NULL_SAFE_EQUAL = "<=>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "in"
    BETWEEN = "between"
    IS_NULL = "is null"
    IS_NOT_NULL = "is not null"


@dataclass(frozen=True)
class Simple:
    """``column operator value``, true by the values themselves whatever casts Spark put around them.

    ``values``: none for IS [NOT] NULL, one, two for BETWEEN, any number for IN (NULLs in the list left out).
    Whole numbers are int, also where the text had ``5.0``; timestamps are in UTC. ``type``: the column's.
    """

    column: str
    operator: Operator
    values: tuple[Value, ...]
    type: T.DataType


@dataclass(frozen=True)
class Conjunct:
    """One of the conditions that all must be true.

    ``text``: the user's own words (put them into parentheses before joining them with others). ``columns``: top-level columns it refers to. ``simple``: set where it is of that form.
    """

    text: str
    columns: frozenset[str]
    simple: Simple | None


def conjuncts(
    facts: SparkFacts, schema: T.StructType, where: str, *, alias: str | None = None
) -> list[Conjunct]:
    """Return those of a condition's conjuncts that depend on nothing but the row.

    Left out: subqueries, functions that are not deterministic, and those that depend on the time or the user
    (a frame may run much later than it is made). ``alias``: a name the columns may be qualified with. Nothing
    is known ([]) on Spark Connect.

    Raises ParseError; NoSuchColumnError naming candidates; SchemaMismatchError, StatementError.
    """
    if not facts.classic:
        return []
    jvm: Any = facts.spark._jvm  # noqa: SLF001
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    with explained():
        pieces = _pieces(parser_of(facts), where, patterns.PLAN_EXPRESSION())
        trees = _analysed(facts, schema, [piece.text for piece in pieces], alias) if pieces else []
    known = []
    for piece in pieces:
        mine, trees = trees[: piece.leaves], trees[piece.leaves :]
        if all(t.deterministic() and not t.containsPattern(patterns.CURRENT_LIKE()) for t in mine):
            known.append(_Reader(schema).conjunct(piece.text, mine))
    return known


@dataclass(frozen=True)
class _Piece:
    """A conjunct's text and how many conditions Spark makes of it (BETWEEN is two in Spark 3)."""

    text: str
    leaves: int


def _pieces(parser: Any, where: str, subquery: Any) -> list[_Piece]:
    """Return the conjuncts without subqueries; the cut is checked against Spark's own reading."""
    whole = _leaves(parser.parseExpression(where))
    texts = split_conjunction(where)
    try:
        parsed = [_leaves(parser.parseExpression(text)) for text in texts] if len(texts) > 1 else [whole]
    except ParseException:  # cut at an AND that is a name
        parsed = []
    ours = [leaf for leaves in parsed for leaf in leaves]
    if len(ours) != len(whole) or not all(_same(a, b, subquery) for a, b in zip(ours, whole, strict=True)):
        texts, parsed = [where], [whole]
    pairs = zip(texts, parsed, strict=True)
    return [
        _Piece(text.strip(), len(leaves))
        for text, leaves in pairs
        if not any(leaf.containsPattern(subquery) for leaf in leaves)
    ]


def _same(ours: Any, theirs: Any, subquery: Any) -> bool:
    # Two readings of one subquery differ by their ids.
    return bool(ours.equals(theirs)) or (ours.containsPattern(subquery) and theirs.containsPattern(subquery))


def _leaves(tree: Any) -> list[Any]:
    if tree.nodeName() != "And":
        return [tree]
    return [*_leaves(tree.left()), *_leaves(tree.right())]


def _analysed(facts: SparkFacts, schema: T.StructType, texts: Sequence[str], alias: str | None) -> list[Any]:
    jvm: Any = facts.spark._jvm  # noqa: SLF001
    types = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    frame = session_of(facts).createDataFrame(jvm.java.util.ArrayList(), types)
    frame = frame.alias(alias) if alias is not None else frame
    # The line break ends a trailing comment.
    condition = " AND ".join(f"({text}\n)" for text in texts)
    return _leaves(frame.filter(condition).queryExecution().analyzed().condition())


_COMPARISONS = {
    "EqualTo": Operator.EQUAL,
    "EqualNullSafe": Operator.NULL_SAFE_EQUAL,
    "LessThan": Operator.LESS,
    "LessThanOrEqual": Operator.LESS_OR_EQUAL,
    "GreaterThan": Operator.GREATER,
    "GreaterThanOrEqual": Operator.GREATER_OR_EQUAL,
}
_MIRRORED = {
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_NULL = object()
_UNKNOWN = object()


class _Reader:
    """Reads one analysed condition."""

    def __init__(self, schema: T.StructType) -> None:
        self._fields = {field.name.lower(): field for field in schema.fields}
        self._common: Any = None  # what a CommonExpressionRef stands for (BETWEEN in Spark 4)

    def conjunct(self, text: str, trees: Sequence[Any]) -> Conjunct:
        names = [str(a.name()).lower() for tree in trees for a in items(tree.references().toSeq())]
        columns = frozenset(self._fields[name].name for name in names)
        simple = None
        if len(columns) == 1:
            simple = self._simple(trees[0])
            if len(trees) > 1:
                simple = _between(simple, self._simple(trees[1]))
        return Conjunct(text, columns, simple)

    def _simple(self, tree: Any) -> Simple | None:
        kind = tree.nodeName()
        if kind in _COMPARISONS:
            return self._comparison(_COMPARISONS[kind], tree.left(), tree.right())
        match kind:
            case "In":
                return self._in(tree)
            case "IsNull" | "IsNotNull":
                field = self._column(tree.child())
                operator = Operator.IS_NULL if kind == "IsNull" else Operator.IS_NOT_NULL
                return field and Simple(field.name, operator, (), field.dataType)
            case "And":
                return _between(self._simple(tree.left()), self._simple(tree.right()))
            case "Between":
                return self._simple(tree.replacement())
            case "With" if tree.defs().size() == 1:
                self._common = tree.defs().apply(0).child()
                return self._simple(tree.child())
            case "AttributeReference" | "Not":
                field = self._column(tree if kind == "AttributeReference" else tree.child())
                if field is not None and isinstance(field.dataType, T.BooleanType):
                    return Simple(field.name, Operator.EQUAL, (kind != "Not",), field.dataType)
        return None

    def _comparison(self, operator: Operator, left: Any, right: Any) -> Simple | None:
        field = self._column(left)
        if field is None:
            field, right = self._column(right), left
            operator = _MIRRORED.get(operator, operator)
        value = _UNKNOWN if field is None else _constant(right)
        if field is None or value is _UNKNOWN:
            return None
        if value is _NULL:
            is_null = operator is Operator.NULL_SAFE_EQUAL
            return Simple(field.name, Operator.IS_NULL, (), field.dataType) if is_null else None
        return Simple(field.name, operator, (value,), field.dataType)

    def _in(self, tree: Any) -> Simple | None:
        field = self._column(tree.value())
        values = [_constant(item) for item in items(tree.list())] if field is not None else []
        if field is None or _UNKNOWN in values:
            return None
        present = tuple(value for value in values if value is not _NULL)
        return Simple(field.name, Operator.IN, present, field.dataType)

    def _column(self, tree: Any) -> T.StructField | None:
        """Return the column that a tree is, or a cast of it that loses and changes nothing."""
        kind = tree.nodeName()
        if kind == "CommonExpressionRef" and self._common is not None:
            return self._column(self._common)
        if kind == "AttributeReference":
            return self._fields.get(str(tree.name()).lower())
        if kind != "Cast":
            return None
        have, want = (_plain(t.dataType().catalogString()) for t in (tree.child(), tree))
        if have is None or want is None or not _keeps_values(have, want):
            return None
        return self._column(tree.child())


def _between(low: Simple | None, high: Simple | None) -> Simple | None:
    if low is None or high is None or low.column != high.column:
        return None
    if (low.operator, high.operator) != (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL):
        return None
    return Simple(low.column, Operator.BETWEEN, (*low.values, *high.values), low.type)


def _plain(text: str) -> T.DataType | None:
    """Return the type of a name that Spark gave; None for those we do not compare (collated strings too)."""
    simple: Sequence[T.DataType] = (
        T.BooleanType(),
        T.ByteType(),
        T.ShortType(),
        T.IntegerType(),
        T.LongType(),
        T.FloatType(),
        T.DoubleType(),
        T.StringType(),
        T.DateType(),
        T.TimestampType(),
    )
    if text.startswith("decimal("):
        precision, scale = text[len("decimal(") : -1].split(",")
        return T.DecimalType(int(precision), int(scale))
    return next((t for t in simple if t.simpleString() == text), None)


_WHOLE_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}


def _keeps_values(have: T.DataType, want: T.DataType) -> bool:
    """Tell whether a cast neither changes nor merges values nor their order."""
    if have == want:
        return True
    digits, more = (_WHOLE_DIGITS.get(type(t), 0) for t in (have, want))
    if digits and more:
        return digits <= more
    if isinstance(want, T.DecimalType):
        scale = have.scale if isinstance(have, T.DecimalType) else 0
        whole = have.precision - scale if isinstance(have, T.DecimalType) else digits
        return 0 < whole <= want.precision - want.scale and scale <= want.scale
    return isinstance(have, T.FloatType) and isinstance(want, T.DoubleType)


def _constant(tree: Any) -> Any:
    """Return a literal's value, through casts; _NULL for NULL, _UNKNOWN for anything else."""
    if not _is_constant(tree):
        return _UNKNOWN
    kind = _plain(tree.dataType().catalogString())
    if kind is None:
        return _UNKNOWN
    try:
        value = tree.eval(None)
    except (Py4JError, PySparkException):  # a cast that fails: the query itself will say so
        return _UNKNOWN
    return _NULL if value is None else _python_value(value, kind)


def _is_constant(tree: Any) -> bool:
    match tree.nodeName():
        case "Literal":
            return True
        case "Cast" | "UnaryMinus":
            return _is_constant(tree.child())
    return False


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _python_value(value: Any, kind: T.DataType) -> Any:
    try:
        match kind:
            case T.StringType():
                return str(value.toString())
            case T.DateType():
                return _EPOCH.date() + timedelta(days=value)
            case T.TimestampType():
                return _EPOCH + timedelta(microseconds=value)
            case T.FloatType():  # arrives as its shortest text: 74.72 for 74.72000122
                return struct.unpack("f", struct.pack("f", value))[0]
            case T.DecimalType():
                number = Decimal(str(value.toString()))
                return int(number) if number == number.to_integral_value() else number
    except OverflowError:
        return _UNKNOWN
    return value

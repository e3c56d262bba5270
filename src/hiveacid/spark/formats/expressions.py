"""Expressions as SQL text where possible: a text is one Py4J round trip, a PySpark function five.

Stars in the expressions of UPDATE, DELETE and MERGE (``hash(*)``, ``struct(t.*)``) are replaced by column names. Spark itself
would expand a star to all columns of the scan, which has ``ROW__ID`` and other columns besides those of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from itertools import chain

from py4j.java_gateway import JavaObject
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.schema.types import quote_name
from hiveacid.errors import ConfigError, StatementError
from hiveacid.spark.parser.lexer import Token, tokenize
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import class_of_session, star_targets

_NESTED = (T.StructType, T.ArrayType, T.MapType)
_SEPARATOR = "\x01"
DEFAULT = "NULL /* DEFAULT */"
"""DEFAULT of Hive's UPDATE and MERGE as Spark SQL: NULL, unless a constraint gives another value."""
BEFORE_EXPRESSION = "("
"""Prefix that `parenthesised` adds; positions in errors of Spark count it."""
_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})


@dataclass(frozen=True)
class BoundExpression:
    """SQL text whose subqueries name tables that only ``bind`` knows: it makes a Column of a text."""

    text: str
    bind: Callable[[str], SparkColumn] = field(compare=False)


Expression = str | SparkColumn | BoundExpression
"""SQL text, or a Column."""
Qualifier = tuple[str, ...]
"""Parts of a name by which columns may be called, the last one alone or with those before it; empty for bare names."""


def text_of(expression: Expression | None) -> str | None:
    """Return an expression's text; None if it is a Column."""
    if isinstance(expression, BoundExpression):
        return expression.text
    return expression if isinstance(expression, str) else None


def with_text(expression: Expression, text: str) -> Expression:
    """Return an expression with another text."""
    return replace(expression, text=text) if isinstance(expression, BoundExpression) else text


def as_column(expression: Expression) -> SparkColumn:
    """Return an expression as a Column."""
    if isinstance(expression, BoundExpression):
        return expression.bind(expression.text)
    return F.expr(expression) if isinstance(expression, str) else expression


def parenthesised(expression: Expression) -> str | SparkColumn:
    """Return a user's expression in parentheses, in which Spark accepts no alias.

    Without them it takes the last word of ``a = 1 AND``, or of ``price tax``, for an alias, and ignores it.
    """
    # the line break ends a trailing comment
    if isinstance(expression, str):
        return f"{BEFORE_EXPRESSION}{expression}\n)"
    if isinstance(expression, BoundExpression):
        return expression.bind(f"{BEFORE_EXPRESSION}{expression.text}\n)")
    return expression


def named(expression: Expression, name: str) -> Expression:
    """Return an expression under a column name."""
    if isinstance(expression, str):
        return f"{expression} AS {quote_name(name)}"
    column = as_column(expression)
    if hasattr(column, "_jc"):  # one round trip; PySpark's own alias takes eleven, most for the call site
        return type(column)(column._jc.alias(name))  # noqa: SLF001
    return column.alias(name)


def when(condition: Expression, value: Expression, otherwise: Expression) -> Expression:
    """Return ``value`` where a condition holds, else ``otherwise``."""
    if isinstance(condition, str) and isinstance(value, str) and isinstance(otherwise, str):
        return f"CASE WHEN {condition} THEN {value} ELSE {otherwise} END"
    return F.when(as_column(condition), as_column(value)).otherwise(as_column(otherwise))


def cast_type(target: T.DataType) -> str:
    """Return the name of a type in CAST; a setting makes TIMESTAMP the type without time zone."""
    return "timestamp_ltz" if isinstance(target, T.TimestampType) else target.simpleString()


def cast(expression: Expression, target: T.DataType) -> Expression:
    """Cast a value; Spark matches struct fields by position, not by name."""
    if isinstance(expression, str) and not isinstance(target, _NESTED):  # fields may have names of any kind
        return f"CAST({expression} AS {cast_type(target)})"
    return as_column(expression).cast(target)


def selected(frame: DataFrame, expressions: Iterable[Expression]) -> DataFrame:
    """Return a frame with these expressions as its columns."""
    columns = list(expressions)
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) < len(columns):
        return _mixed(frame, columns)
    whole = _SEPARATOR.join(texts)
    if not hasattr(frame, "_jdf") or not texts or whole.count(_SEPARATOR) >= len(texts):
        return frame.selectExpr(*texts)
    return _from_java(frame, frame._jdf.selectExpr(_java_array(frame, whole)))  # noqa: SLF001


def _mixed(frame: DataFrame, expressions: Sequence[Expression]) -> DataFrame:
    """Select texts and Columns: a text takes one round trip here, but three in PySpark's ``expr``."""
    if not hasattr(frame, "_jdf"):
        return frame.select(*map(as_column, expressions))
    parse = class_of_session(frame.sparkSession, "org.apache.spark.sql.functions").expr
    columns: list[JavaObject] = [parse(e) if isinstance(e, str) else as_column(e)._jc for e in expressions]  # noqa: SLF001
    to_seq = class_of_session(frame.sparkSession, "org.apache.spark.api.python.PythonUtils").toSeq
    return _from_java(frame, frame._jdf.select(to_seq(columns)))  # noqa: SLF001


def renamed(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame under these column names."""
    whole = _SEPARATOR.join(names)
    if not hasattr(frame, "_jdf") or not names or whole.count(_SEPARATOR) >= len(names):
        return frame.toDF(*names)
    return _from_java(frame, frame._jdf.toDF(_java_array(frame, whole)))  # noqa: SLF001


def without_column(frame: DataFrame, name: str) -> DataFrame:
    """Return a frame without a column."""
    return _from_java(frame, frame._jdf.drop(name)) if hasattr(frame, "_jdf") else frame.drop(name)  # noqa: SLF001


def sorted_in_partitions(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a frame with the rows of each partition in ascending order of two or more columns."""
    if not hasattr(frame, "_jdf"):
        return frame.sortWithinPartitions(*names)
    rest = _java_array(frame, _SEPARATOR.join(names[1:]))
    return _from_java(frame, frame._jdf.sortWithinPartitions(names[0], rest))  # noqa: SLF001


def _java_array(frame: DataFrame, texts: str) -> JavaObject:
    """Return texts as a Java array, by three round trips; PySpark makes one for each element of a list."""
    return class_of_session(frame.sparkSession, "java.util.regex.Pattern").compile(_SEPARATOR).split(texts)


def _from_java(frame: DataFrame, made: JavaObject) -> DataFrame:
    result: DataFrame = type(frame)(made, frame.sparkSession)
    return result


def expand_stars(expression: Expression, relations: Mapping[Qualifier, Sequence[str]]) -> Expression:
    """Return the expression with column names in place of stars. Stars in subqueries stay.

    ``relations``: column names by qualifier. Raises StatementError for a star with EXCEPT, and for a star in a Column;
    ConfigError for a bare value: PySpark's own error would not say which one.
    """
    given: object = expression
    if given is None or isinstance(given, (int, float, Decimal, date, bytes)):
        raise ConfigError(
            f"an expression is SQL text or a Column, not {given!r}: pass pyspark.sql.functions.lit({given!r}), or its SQL"
        )
    text = text_of(expression) or ""
    if "*" not in text and not isinstance(expression, SparkColumn):
        return expression
    columns = {
        tuple(map(str.lower, qualifier)): [
            ".".join(map(quote_name, (*qualifier[-1:], name))) for name in names
        ]
        for qualifier, names in relations.items()
    }

    def columns_called(parts: Qualifier) -> list[str] | None:
        if not parts:
            return [*chain(*columns.values())]
        lower = tuple(map(str.lower, parts))
        return next(
            (names for qualifier, names in columns.items() if qualifier[-len(lower) :] == lower), None
        )

    if isinstance(expression, SparkColumn):
        with translate_errors():
            stars = [*star_targets(expression)]
        if any(columns_called(parts) is not None for parts in stars):
            raise StatementError(
                f"{expression}: the star of a Column would also stand for ROW__ID and others that are not the table's: name the "
                "columns, or pass the expression as SQL text"
            )
        return expression
    pieces, end = [], 0
    tokens = tokenize(text)
    for index in _stars(tokens):
        first = index
        while first > 1 and tokens[first - 1].keyword == ".":
            first -= 2
        names = columns_called(tuple(map(_name_before_star, tokens[first:index:2])))
        if names is None:
            continue  # all fields of a struct, or a table of another name
        star = tokens[index]
        if tokens[index + 1].keyword == "EXCEPT":
            raise StatementError("name the columns instead of * EXCEPT", line=star.line, column=star.column)
        pieces += [text[end : tokens[first].start], ", ".join(names)]
        end = star.end
    return with_text(expression, "".join((*pieces, text[end:])))


def _name_before_star(token: Token) -> str:
    """Return a part of a name; it may be in double quotes (``spark.sql.ansi.doubleQuotedIdentifiers``)."""
    return token.name if token.is_name else token.text[1:-1].replace('""', '"')


def _stars(tokens: Sequence[Token]) -> list[int]:
    """Return the positions of asterisks that are stars (not multiplication signs), outside subqueries."""
    positions, in_query = [], [False]
    for index, token in enumerate(tokens):
        match token.keyword:
            case "(":
                in_query.append(in_query[-1] or tokens[index + 1].keyword in _QUERY)
            case ")" if len(in_query) > 1:
                in_query.pop()
            case "*" if not in_query[-1] and (not index or tokens[index - 1].keyword in ("(", ",", ".")):
                positions.append(index)
    return positions


def bind(value: SparkColumn, body: Callable[[SparkColumn], SparkColumn]) -> SparkColumn:
    """Return ``body`` of a value that Spark plans and computes only once, however often ``body`` uses it."""
    return F.transform(F.array(value), body).getItem(0)

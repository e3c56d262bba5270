"""Conjuncts of a condition as Spark parses and analyses them, the columns that it may name, and the partitions that it leaves.

Spark analyses the text against an empty frame of the table's columns, and Python reads the analysed tree. Conjuncts
that are not understood are left out. Callers may therefore use the result only to read less, never to select rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.model import Column, Partition, TableDefinition, TableKind, TableName
from hiveacid.core.predicates import (
    UNDECIDED,
    UNKNOWN,
    Bounds,
    Comparison,
    Predicate,
    Value,
    bounds_test,
    columns_of,
    leaves,
    sole_comparison,
)
from hiveacid.core.schema.types import INTEGER_BITS, Primitive, parse_type, quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.expressions import Expression, cast_type, parenthesised
from hiveacid.spark.formats.types import ROW_ID_TYPE, column_type, hive_type_name
from hiveacid.spark.predicates.predicate_reader import PredicateReader
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import column_of_expression, java_class, parser_of, scala_items, session_of

# Spark pads values that are compared with a column of this metadata, so that 'a' equals 'a   ' as in Hive.
_CHAR_METADATA_KEY = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR_AS_STRING = "spark.sql.legacy.charVarcharAsString"


def visible_columns(table: TableDefinition) -> T.StructType:
    """Return the columns of `hiveacid.spark.read.scan_frames.scan`: data, partition and virtual columns."""
    fields = [
        T.StructField(c.name, column_type(c), metadata=char_metadata(c.type)) for c in table.all_columns
    ]
    if table.kind is TableKind.FULL_ACID:
        fields.append(T.StructField(ROW_ID, ROW_ID_TYPE))
    return T.StructType([*fields, T.StructField(FILE_NAME, T.StringType())])


def char_metadata(hive: str) -> dict[str, str]:
    """Return the metadata of a column of a Hive type; empty except for char."""
    return {_CHAR_METADATA_KEY: hive} if hive.startswith("char(") else {}


def with_char_metadata(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Add char metadata to the columns of a scan, for Spark's ``ApplyCharTypePadding``."""
    marks = {c.name: char_metadata(c.type) for c in table.all_columns}
    if not any(marks.values()):
        return frame
    require_char_padding(frame.sparkSession, table)
    columns = [
        F.col(quote_name(name)).alias(name, metadata=mark)
        if (mark := marks.get(name))
        else F.col(quote_name(name))
        for name in frame.columns
    ]
    return frame.select(*columns)


def char_types(frame: DataFrame) -> dict[int, str]:
    """Return the types of a query's columns that are columns of type CHAR, by their numbers; Spark shows a STRING with blanks.

    A UNION has the metadata of its first side only. If the other side has another type, it is unknown how long the texts are, and no
    column counts as CHAR.
    """
    marks = {
        number: str(field.metadata.get(_CHAR_METADATA_KEY, "")) for number, field in enumerate(frame.schema)
    }
    found = {number: mark for number, mark in marks.items() if mark.startswith("char(")}
    return found if found and not _mixes_chars(plan_of(frame)) else {}


def _mixes_chars(plan: JavaObject) -> bool:
    """Tell whether a UNION in a plan has sides with different metadata of CHAR columns."""
    children = [*scala_items(plan.children())]
    if str(plan.nodeName()).startswith("Union"):
        sides = [[_char_of(column) for column in scala_items(child.output())] for child in children]
        if any(side != sides[0] for side in sides):
            return True
    return any(map(_mixes_chars, children))


def _char_of(column: JavaObject) -> str:
    metadata = column.metadata()
    return str(metadata.getString(_CHAR_METADATA_KEY)) if metadata.contains(_CHAR_METADATA_KEY) else ""


def require_char_padding(spark: SparkSession, table: TableDefinition) -> None:
    """Refuse CHAR columns in a session in which Spark does not pad what they are compared with: rows would be missing.

    Raises UnsupportedFeatureError.
    """
    chars = [column.name for column in table.all_columns if column.type.startswith("char(")]
    if chars and str(spark.conf.get(_CHAR_AS_STRING)).lower() == "true":
        raise UnsupportedFeatureError(
            f"{_CHAR_AS_STRING}=true: conditions on the CHAR column {chars[0]} of {table.name} would not find 'ab' in 'ab  ': "
            f"SET {_CHAR_AS_STRING}=false"
        )


@dataclass(frozen=True)
class Conjunct:
    """One of the conditions joined by AND.

    ``expression``: as Spark's parser read it, not analysed. ``columns``: the top-level columns that it refers to.
    """

    expression: JavaObject
    columns: frozenset[str]
    predicate: Predicate

    @property
    def comparison(self) -> Comparison | None:
        """The comparison of one column with constants that it is; None if it is more or less."""
        return sole_comparison(self.predicate)


def table_conjuncts(
    env: SparkEnvironment, table: TableDefinition, where: str, *, alias: str | None = None
) -> list[Conjunct]:
    """Return the conjuncts of a condition on a table that depend on nothing but the row.

    Left out are subqueries, functions that are not deterministic, and those that depend on the time or the user: a
    frame may run much later than it is made. ``alias``: a name for the table (default: its own).

    Raises ParseError; NoSuchColumnError naming candidates; SchemaMismatchError, StatementError.
    """
    require_char_padding(env.spark, table)
    patterns = java_class(env, "org.apache.spark.sql.catalyst.trees.TreePattern")
    current, subquery = patterns.CURRENT_LIKE(), patterns.PLAN_EXPRESSION()
    with translate_errors():
        rows = empty_rows(env, table, alias or table.name)
        parsed = _split_tree(parser_of(env).parseExpression(where))
        parsed = [tree for tree in parsed if not tree.containsPattern(subquery)]
        analysed = _analyse(env, rows, parsed)
        if analysed is None:
            parsed = [tree for tree in parsed if _analyse(env, rows, [tree]) is not None]
            analysed = _analyse(env, rows, parsed) or []
        return [
            _conjunct(table, expression, tree)
            for expression, tree in zip(parsed, analysed, strict=True)
            if tree.deterministic() and not (tree.containsPattern(current) or tree.containsPattern(subquery))
        ]


def conjunction(env: SparkEnvironment, expressions: Sequence[JavaObject]) -> SparkColumn:
    """Return expressions of Catalyst joined by AND."""
    both = java_class(env, "org.apache.spark.sql.catalyst.expressions.And")
    return column_of_expression(env, reduce(both, expressions))


def condition_rows(
    env: SparkEnvironment, table: TableDefinition, where: Expression | None, *, alias: str | None = None
) -> DataFrame:
    """Return the rows of `empty_rows` that a condition selects; ``alias`` as in `table_conjuncts`, as are the errors."""
    require_char_padding(env.spark, table)
    with translate_errors():
        rows = empty_rows(env, table, alias or table.name)
        return rows if where is None else rows.where(parenthesised(where))


def predicate_of(
    table: TableDefinition, plan: JavaObject, subquery: Callable[[JavaObject], Predicate] | None = None
) -> Predicate:
    """Return the predicate of the condition in the plan of `condition_rows`.

    Parts that depend on more than the row are undecided. ``subquery`` returns the predicate of ``… IN (SELECT …)``.
    """
    # A function of SQL makes further plans.
    if plan.nodeName() != "Filter" or plan.child().nodeName() != "SubqueryAlias":
        return UNDECIDED
    return PredicateReader(visible_columns(table), subquery).predicate(plan.condition())


@dataclass(frozen=True)
class JoinConditions:
    """Reader of conditions in a join of a table with a source, as Spark has analysed it.

    ``fields``: by the id that Spark gave a column, its name (`of_target`, `of_source`) and type.
    """

    fields: Mapping[int, T.StructField]

    @classmethod
    def of(cls, table: TableDefinition, source: DataFrame, join: JavaObject) -> JoinConditions:
        """Return the reader of a join whose left side has the columns of `empty_rows`."""
        kinds = {column.name: column_type(column) for column in table.all_columns}
        own = source.schema.fields
        left = ((column, str(column.name()).lower()) for column in scala_items(join.left().output()))
        fields = {
            int(column.exprId().id()): T.StructField(of_target(name), kinds[name])
            for column, name in left
            if name in kinds
        }
        right = zip(scala_items(join.right().output()), range(len(own)), strict=False)
        fields |= {
            int(column.exprId().id()): T.StructField(of_source(number), own[number].dataType)
            for column, number in right
            if not own[number].metadata  # CHAR, which Spark may pad later
        }
        return cls(fields)

    @property
    def columns(self) -> list[Column]:
        """Return the columns with their Hive types."""
        fields = self.fields.values()
        return [Column(field.name, hive_type_name(field.dataType, field.name)) for field in fields]

    def predicate(self, tree: JavaObject) -> Predicate:
        """Return the predicate of a condition."""
        reader = PredicateReader(
            T.StructType([]), field_of=lambda column: self.fields.get(int(column.exprId().id()))
        )
        return reader.predicate(tree)


def of_target(name: str) -> str:
    """Return what `JoinConditions` calls a column of the target."""
    return f"target_{name}"


def of_source(number: int) -> str:
    """Return what `JoinConditions` calls a column of the source."""
    return f"source_{number}"


def empty_rows(
    env: SparkEnvironment, table: TableDefinition, name: str | TableName | None = None
) -> DataFrame:
    """Return a frame without rows, with the columns of a scan, in which Spark analyses expressions.

    ``name``: what may qualify the columns (`called`).
    """
    key = (table.all_columns, table.kind, name)
    kept = env.empty_frames.get(key)
    if kept is None:
        schema = java_class(env, "org.apache.spark.sql.types.DataType").fromJson(
            visible_columns(table).json()
        )
        rows = session_of(env).createDataFrame(java_class(env, "java.util.ArrayList")(), schema)
        frame = DataFrame(rows, env.spark)
        kept = (frame if name is None else called(env, frame, name),)
        env.empty_frames.put(key, kept[0], 1)
    return kept[0]


def _split_tree(tree: JavaObject) -> list[JavaObject]:
    """Return the parts of a tree that AND joins, from left to right."""
    parts, todo = [], [tree]
    while todo:
        node = todo.pop()
        if node.nodeName() == "And":
            todo += (node.right(), node.left())
        else:
            parts.append(node)
    return parts


def _conjunct(table: TableDefinition, expression: JavaObject, tree: JavaObject) -> Conjunct:
    reader = PredicateReader(visible_columns(table))
    columns = reader.columns([tree])
    return Conjunct(expression, columns, reader.predicate(tree) if columns else UNDECIDED)


def _analyse(
    env: SparkEnvironment, rows: DataFrame, expressions: Sequence[JavaObject]
) -> list[JavaObject] | None:
    """Return Spark's trees of expressions; None if it needs more than a filter for them, as for a function of SQL."""
    if not expressions:
        return []
    plan = plan_of(rows.where(conjunction(env, expressions)))
    trees = _split_tree(plan.condition()) if plan.nodeName() == "Filter" else []
    return trees if len(trees) == len(expressions) else None


_INDEX = "__hiveacid_partition"
# Texts of integers and dates that have only one meaning: pruning by them needs no Spark job.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def prune_partitions(
    env: SparkEnvironment,
    table: TableDefinition,
    partitions: Sequence[Partition],
    conditions: Sequence[Conjunct],
    *,
    alias: str | None = None,
) -> tuple[Partition, ...]:
    """Return the partitions that may hold rows for which all ``conditions`` are true, in their order.

    Only conjuncts over partition columns alone count. ``alias`` as in `table_conjuncts`. All partitions stay if no conjunct
    is usable, or if Spark fails on some value; the query itself then reports the error.
    """
    names = {column.name for column in table.partition_columns}
    usable = [c for c in conditions if c.columns and c.columns <= names]
    if not usable or not partitions:
        return tuple(partitions)
    kept = _prune_in_python(table, partitions, usable)
    if kept is None:
        kept = _prune_in_spark(env, table, partitions, usable, alias or table.name)
    return tuple(partitions) if kept is None else tuple(partitions[index] for index in kept)


def _prune_in_spark(
    env: SparkEnvironment,
    table: TableDefinition,
    partitions: Sequence[Partition],
    usable: Sequence[Conjunct],
    name: str | TableName,
) -> list[int] | None:
    columns = table.partition_columns
    fields = [T.StructField(f"v{index}", T.StringType()) for index in range(len(columns))]
    rows = [(index, *partition.values) for index, partition in enumerate(partitions)]
    frame = env.spark.createDataFrame(rows, T.StructType([T.StructField(_INDEX, T.IntegerType()), *fields]))
    typed = [_typed_value(env, f"v{position}", column) for position, column in enumerate(columns)]
    condition = conjunction(env, [conjunct.expression for conjunct in usable])
    try:
        matches = called(env, frame.select(_INDEX, *typed), name).where(condition).select(_INDEX).collect()
    except (Py4JError, PySparkException):
        return None
    return sorted(row[0] for row in matches)


def _typed_value(env: SparkEnvironment, value: str, column: Column) -> SparkColumn:
    """Return a partition value as the scan returns it (``spark.read.partition_lookup``); NULL where that fails."""
    kind = parse_type(column.type)
    if isinstance(kind, Primitive) and kind.name == "char":
        return F.rpad(F.col(value), kind.args[0], " ").alias(column.name, metadata=char_metadata(column.type))
    # Without ANSI mode a cast reads 5.0 as the INT 5, but TRY_CAST, which always has the rules of that mode, as NULL.
    verb = "TRY_CAST" if env.ansi else "CAST"
    return F.expr(f"{verb}({value} AS {cast_type(column_type(column))})").alias(column.name)


def _prune_in_python(
    table: TableDefinition, partitions: Sequence[Partition], usable: Sequence[Conjunct]
) -> list[int] | None:
    """Return the indexes of the partitions that may match; None if only Spark can decide."""
    types = {column.name: column.type for column in table.partition_columns}
    trees = [conjunct.predicate for conjunct in usable]
    if not all(leaf == UNKNOWN or _is_comparable(leaf, types) for tree in trees for leaf in leaves(tree)):
        return None
    kept: Sequence[int] = range(len(partitions))
    for tree in trees:
        names = columns_of(tree)
        may_match = bounds_test(tree, names)
        columns = [(table.partition_column_names.index(name), _PARSERS[types[name]][0]) for name in names]

        def bounds(
            partition: Partition, columns: Sequence[tuple[int, Callable[[str], Value]]] = columns
        ) -> list[Bounds]:
            return [_exact_bounds(parse, partition.values[position]) for position, parse in columns]

        try:
            kept = [index for index in kept if may_match(bounds(partitions[index]))]
        except ValueError:
            return None
    return list(kept)


def _is_comparable(leaf: Predicate, types: Mapping[str, str]) -> bool:
    if not isinstance(leaf, Comparison) or leaf.column not in types:
        return False
    _, kinds = _PARSERS.get(types[leaf.column], (None, ()))
    return bool(kinds) and all(type(value) in kinds for value in leaf.values)


def _exact_bounds(parse: Callable[[str], Value], text: str | None) -> Bounds:
    """Return the bounds of a partition's value. Raises ValueError for a text that may mean several values."""
    if text is None:
        return Bounds(has_value=False)
    value = parse(text)
    return Bounds(value, value, has_null=False)


def _parse_integer(bits: int) -> Callable[[str], Value]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) and -limit <= (number := int(text)) < limit:
            return number
        raise ValueError(text)

    return parse


def _parse_date(text: str) -> date:
    if _DATE.fullmatch(text):
        return date.fromisoformat(text)
    raise ValueError(text)


_PARSERS: dict[str, tuple[Callable[[str], Value], tuple[type, ...]]] = {
    **{hive: (_parse_integer(bits), (int, Decimal)) for hive, bits in INTEGER_BITS.items()},
    "date": (_parse_date, (date,)),
    "string": (str, (str,)),
}
"""For each type, the parser of a partition's value, and the types of constants that it is compared with."""

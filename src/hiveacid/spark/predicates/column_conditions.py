"""Conjuncts of a condition as Spark parses and analyses them, and the columns that a condition may name.

Spark analyses the text against an empty frame of the table's columns, and Python reads the analysed tree. Conjuncts
that are not understood are left out. Callers may therefore use the result only to read less, never to select rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.predicates import UNDECIDED, Comparison, Predicate, sole_comparison
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.expressions import Expression, parenthesised
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.parser.catalyst import java_class, parser_of, session_of
from hiveacid.spark.parser.lexer import split_conjunction
from hiveacid.spark.predicates.predicate_reader import PredicateReader
from hiveacid.spark.read.scan_source import ROW_ID_TYPE
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import translate_errors

# Spark pads values that are compared with a column of this metadata, so that 'a' equals 'a   ' as in Hive.
_CHAR_METADATA_KEY = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR_AS_STRING = "spark.sql.legacy.charVarcharAsString"


def visible_columns(table: TableDefinition) -> T.StructType:
    """Return the columns of `hiveacid.spark.read.scan.scan`: data, partition and virtual columns."""
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


def table_conjuncts(
    facts: SparkFacts, table: TableDefinition, where: str, *, alias: str | None = None
) -> list[Conjunct]:
    """Return the `conjuncts` of a condition on a table; ``alias``: a name for it (default: its own)."""
    require_char_padding(facts.spark, table)
    return conjuncts(facts, visible_columns(table), where, name=alias or table.name)


@dataclass(frozen=True)
class Conjunct:
    """One of the conditions joined by AND.

    ``text``: as the user wrote it; put it into parentheses before joining it with others. ``columns``: the top-level
    columns that it refers to.
    """

    text: str
    columns: frozenset[str]
    predicate: Predicate

    @property
    def comparison(self) -> Comparison | None:
        """The comparison of one column with constants that it is; None if it is more or less."""
        return sole_comparison(self.predicate)


def conjuncts(
    facts: SparkFacts, schema: T.StructType, where: str, *, name: str | TableName | None = None
) -> list[Conjunct]:
    """Return the conjuncts of a condition that depend on nothing but the row.

    Left out are subqueries, functions that are not deterministic, and those that depend on the time or the user: a
    frame may run much later than it is made. ``name``: what may qualify the columns (`called`).

    Raises ParseError; NoSuchColumnError naming candidates; SchemaMismatchError, StatementError.
    """
    patterns = java_class(facts, "org.apache.spark.sql.catalyst.trees.TreePattern")
    with translate_errors():
        pieces = _split_condition(parser_of(facts), where, patterns.PLAN_EXPRESSION())
        found = _analyse(facts, schema, [piece.text for piece in pieces], name) if pieces else []
        if found is None:
            pieces = [p for p in pieces if _analyse(facts, schema, [p.text], name) is not None]
            found = _analyse(facts, schema, [p.text for p in pieces], name) if pieces else []
        trees = found or []
    usable, of_the_run = [], (patterns.CURRENT_LIKE(), patterns.PLAN_EXPRESSION())
    for piece in pieces:
        own_trees, trees = trees[: piece.leaves], trees[piece.leaves :]
        if all(t.deterministic() and not any(map(t.containsPattern, of_the_run)) for t in own_trees):
            usable.append(_conjunct(schema, piece.text, own_trees))
    return usable


def condition_rows(
    facts: SparkFacts, table: TableDefinition, where: Expression | None, *, alias: str | None = None
) -> DataFrame:
    """Return the rows of `empty_rows` that a condition selects; ``alias`` as in `table_conjuncts`, as are the errors."""
    require_char_padding(facts.spark, table)
    with translate_errors():
        rows = empty_rows(facts, table, alias or table.name)
        return rows if where is None else rows.where(parenthesised(where))


def predicate_of(
    table: TableDefinition, plan: Any, subquery: Callable[[Any], Predicate] | None = None
) -> Predicate:
    """Return the predicate of the condition in the plan of `condition_rows`.

    Parts that depend on more than the row are undecided. ``subquery`` returns the predicate of ``… IN (SELECT …)``.
    """
    # A function of SQL makes further plans.
    if plan.nodeName() != "Filter" or plan.child().nodeName() != "SubqueryAlias":
        return UNDECIDED
    return PredicateReader(visible_columns(table), subquery).predicate(plan.condition())


def empty_rows(facts: SparkFacts, table: TableDefinition, name: str | TableName | None = None) -> DataFrame:
    """Return a frame without rows, with the columns of a scan, in which Spark analyses expressions; ``name`` as in `conjuncts`."""
    key = (table.all_columns, table.kind, name)
    kept = facts.empty_frames.get(key)
    if kept is None:
        kept = (_empty_frame(facts, visible_columns(table), name),)
        facts.empty_frames.put(key, kept[0], 1)
    return kept[0]


@dataclass(frozen=True)
class _ConjunctText:
    """Text of a conjunct, and the number of conditions that Spark makes of it (two of BETWEEN in Spark 3)."""

    text: str
    leaves: int


def _split_condition(parser: Any, where: str, subquery: Any) -> list[_ConjunctText]:
    """Return the conjuncts without subqueries; Spark's own parse of the whole condition checks the split."""
    whole = _split_tree(parser.parseExpression(where))
    texts = split_conjunction(where)
    try:
        parsed = [_split_tree(parser.parseExpression(text)) for text in texts] if len(texts) > 1 else [whole]
    except ParseException:  # cut at an AND that is a name
        parsed = []
    leaves_of_texts = [leaf for leaves in parsed for leaf in leaves]
    if len(leaves_of_texts) != len(whole) or not all(
        _equal_trees(a, b, subquery) for a, b in zip(leaves_of_texts, whole, strict=True)
    ):
        texts, parsed = [where], [whole]
    pairs = zip(texts, parsed, strict=True)
    return [
        _ConjunctText(text.strip(), len(leaves))
        for text, leaves in pairs
        if not any(leaf.containsPattern(subquery) for leaf in leaves)
    ]


def _equal_trees(tree: Any, other: Any, subquery: Any) -> bool:
    # Two readings of one subquery differ by their ids.
    return bool(tree.equals(other)) or (tree.containsPattern(subquery) and other.containsPattern(subquery))


def _split_tree(tree: Any) -> list[Any]:
    if tree.nodeName() != "And":
        return [tree]
    return [*_split_tree(tree.left()), *_split_tree(tree.right())]


def _conjunct(schema: T.StructType, text: str, trees: Sequence[Any]) -> Conjunct:
    reader = PredicateReader(schema)
    columns = reader.columns(trees)
    return Conjunct(text, columns, reader.predicate(*trees) if columns else UNDECIDED)


def _analyse(
    facts: SparkFacts, schema: T.StructType, texts: Sequence[str], name: str | TableName | None
) -> list[Any] | None:
    """Return Spark's trees of conditions; None if it needs more than a filter for them, as for a function of SQL."""
    frame = _empty_frame(facts, schema, name)
    # The line break ends a trailing comment.
    condition = " AND ".join(f"({text}\n)" for text in texts)
    plan = plan_of(frame.where(condition))
    return _split_tree(plan.condition()) if plan.nodeName() == "Filter" else None


def _empty_frame(facts: SparkFacts, schema: T.StructType, name: str | TableName | None) -> DataFrame:
    types = java_class(facts, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    rows = session_of(facts).createDataFrame(java_class(facts, "java.util.ArrayList")(), types)
    frame = DataFrame(rows, facts.spark)
    return frame if name is None else called(facts, frame, name)

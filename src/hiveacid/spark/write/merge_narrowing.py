"""Narrow a large MERGE target by the keys of the source before the join.

An outer join cannot broadcast the side whose unmatched rows it keeps. A MERGE that inserts keeps those of the source, so
Spark would shuffle the whole target. Instead, the source is computed once and cached. Its keys then filter
the target, by push-down and by a semi join, and the remaining rows join like any small table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import text_of
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.write.update_delete_merge_rows import MatchKind, MergePlan

_PLAIN = re.compile(r"[ !#%&(-\[\]-~]*")  # ASCII without quotes, backslash, and $, as of ${variables}


@dataclass(frozen=True)
class NarrowedSource:
    """Number of rows of a source, and a condition that every matching target row fulfils."""

    rows: int
    where: str | None


def can_narrow(plan: MergePlan) -> bool:
    """Tell whether unmatched target rows stay as they are, and all expressions are texts.

    A column of a DataFrame (``source["id"]``) might refer to the source before it was computed.
    """
    by_text = all(text_of(expression) is not None for expression in plan.expressions())
    return by_text and not any(clause.when is MatchKind.TARGET_ONLY for clause in plan.clauses)


def narrow_source(plan: MergePlan, target: DataFrame, computed: DataFrame) -> NarrowedSource:
    """Return what the keys of a source (`computed_once`) say about matching target rows."""
    pairs = equal_columns(plan_of(plan.joined(target, computed)), computed)
    ends = [end(quote_name(pair.source)).cast("string") for pair in pairs for end in (F.min, F.max)]
    (row,) = computed.agg(F.count(F.lit(1)), *ends).collect()
    conditions = []
    for index, pair in enumerate(pairs):
        low, high = (_literal(row[1 + 2 * index + end], pair.kind) for end in (0, 1))
        if low is not None and high is not None:
            conditions.append(f"{quote_name(pair.target)} BETWEEN {low} AND {high}")
    return NarrowedSource(row[0], " AND ".join(conditions) or None)


def equal_columns(join: Any, source: DataFrame) -> list[EqualColumns]:
    """Return the pairs of columns that are equal in every match of an analysed join, without source names that occur twice."""
    names = Counter(column.lower() for column in source.columns)
    return [pair for pair in _equal_columns(join) if names[pair.source.lower()] == 1]


@dataclass(frozen=True)
class EqualColumns:
    """Columns of target and source that are equal in every match, and the name of their type without arguments."""

    target: str
    source: str
    kind: str


def _equal_columns(join: Any) -> Iterator[EqualColumns]:
    if join.condition().isEmpty():
        return
    in_target, todo = join.left().outputSet(), [join.condition().get()]
    while todo:
        node = todo.pop()
        if node.nodeName() == "And":
            todo += [node.left(), node.right()]
        elif node.nodeName() == "EqualTo":
            sides = [node.left(), node.right()]
            if any(side.nodeName() != "AttributeReference" for side in sides):
                continue
            if not in_target.contains(sides[0]):
                sides.reverse()
            kind, other = (str(side.dataType().simpleString()) for side in sides)
            apart = in_target.contains(sides[0]) and not in_target.contains(sides[1])
            if apart and kind == other and kind.partition("(")[0] in _LITERAL_FORMATS:
                target = str(sides[0].name()).lower()  # Spark keeps the case of the condition
                yield EqualColumns(target, str(sides[1].name()), kind.partition("(")[0])


_LITERAL_FORMATS = {"int": "{}", "bigint": "{}L", "decimal": "{}BD", "date": "DATE'{}'", "string": "'{}'"}


def _literal(text: str | None, kind: str) -> str | None:
    """Return a value as SQL; None for NULL and for texts that would have to be escaped."""
    if text is None or not _PLAIN.fullmatch(text):
        return None
    return _LITERAL_FORMATS[kind].format(text)

"""What a MERGE's source leaves of a large target, found out before the two are joined.

A join that keeps source rows without a match cannot send the source to all tasks (Spark's broadcast joins keep the
other side), so that it would shuffle the whole target. The source is computed once and kept; its keys then filter
the target, where it is read and by a semi join, and what is left joins as any small table does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.spark.merge import MergePlan, When

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")  # ASCII without quotes and backslash


@dataclass(frozen=True)
class Narrowing:
    """A source as it was computed, its number of rows, and what each target row fulfils that one of them matches."""

    source: DataFrame
    rows: int
    where: str | None


def can_narrow(plan: MergePlan) -> bool:
    """Tell whether target rows without a match don't matter, and all expressions name columns by texts.

    A column of a DataFrame (``source["id"]``) may be another one once the source was computed.
    """
    expressions = [plan.on]
    for clause in plan.clauses:
        expressions += [one for one in (clause.condition, *(clause.values or {}).values()) if one is not None]
    by_text = all(isinstance(one, str) for one in expressions)
    return by_text and not any(clause.when is When.TARGET_ONLY for clause in plan.clauses)


def narrowing(plan: MergePlan, target: DataFrame, source: DataFrame) -> Narrowing:
    """Compute the source, once: a second time it might be another one (``rand()``, a changing file)."""
    kept = source.localCheckpoint(eager=False)  # the job below does it
    pairs = [pair for pair in _equal_columns(plan.joined(target, kept)) if _is_single(kept, pair.source)]
    ends = [end(quote_name(pair.source)).cast("string") for pair in pairs for end in (F.min, F.max)]
    (found,) = kept.agg(F.count(F.lit(1)), *ends).collect()
    conditions = []
    for nth, pair in enumerate(pairs):
        low, high = (_literal(found[1 + 2 * nth + end], pair.kind) for end in (0, 1))
        if low is not None and high is not None:
            conditions.append(f"{quote_name(pair.target)} BETWEEN {low} AND {high}")
    return Narrowing(kept, found[0], " AND ".join(conditions) or None)


def _is_single(frame: DataFrame, name: str) -> bool:
    return Counter(column.lower() for column in frame.columns)[name.lower()] == 1


@dataclass(frozen=True)
class _Pair:
    """Columns of target and source that are equal in every match, and their type's beginning."""

    target: str
    source: str
    kind: str


def _equal_columns(joined: DataFrame) -> Iterator[_Pair]:
    join: Any = joined._jdf.queryExecution().analyzed()  # noqa: SLF001
    if join.condition().isEmpty():
        return
    in_target, todo = join.left().outputSet(), [join.condition().get()]
    while todo:
        one = todo.pop()
        if one.nodeName() == "And":
            todo += [one.left(), one.right()]
        elif one.nodeName() == "EqualTo":
            sides = [one.left(), one.right()]
            if any(side.nodeName() != "AttributeReference" for side in sides):
                continue
            if not in_target.contains(sides[0]):
                sides.reverse()
            kind, other = (str(side.dataType().simpleString()) for side in sides)
            apart = in_target.contains(sides[0]) and not in_target.contains(sides[1])
            if apart and kind == other and kind.partition("(")[0] in _WRITTEN:
                yield _Pair(str(sides[0].name()), str(sides[1].name()), kind.partition("(")[0])


_WRITTEN = {"int": "{}", "bigint": "{}L", "decimal": "{}BD", "date": "DATE'{}'", "string": "'{}'"}


def _literal(text: str | None, kind: str) -> str | None:
    """Return a value as SQL; None for NULL and for texts that would have to be escaped."""
    if text is None or not _PLAIN.fullmatch(text):
        return None
    return _WRITTEN[kind].format(text)

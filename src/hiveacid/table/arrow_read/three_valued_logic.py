"""SQL's three-valued logic as pairs of Arrow expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow.compute as pc

NEVER, ALWAYS = pc.scalar(False), pc.scalar(True)  # noqa: FBT003 - values


@dataclass(frozen=True)
class Truth:
    """Two expressions: one selects rows where a condition is true, the other rows where it is false; none selects NULL."""

    true: Any
    false: Any

    def __invert__(self) -> Truth:
        """Return the truth of NOT the condition."""
        return Truth(self.false, self.true)


UNKNOWN, ANYTHING = Truth(NEVER, NEVER), Truth(ALWAYS, ALWAYS)
"""UNKNOWN: the truth of NULL. ANYTHING: of a condition that is not computed yet, and so must not exclude a row."""


def all_of(parts: Sequence[Truth]) -> Truth:
    """Return the truth of conditions joined by AND."""
    return Truth(_joined([part.true for part in parts], and_), _joined([part.false for part in parts], or_))


def any_of(parts: Sequence[Truth]) -> Truth:
    """Return the truth of conditions joined by OR."""
    return ~all_of([~part for part in parts])


def _joined(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join expressions as a balanced tree: Arrow evaluates them by recursion, which thousands would nest too deeply."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [reduce(join, pair) for pair in pairs]
    return parts[0]


def membership(column: Any, values: Any) -> Truth:
    """Return the truth of ``column IN (values)``. ``values``: a chunked array, which may have nulls."""
    if not len(values):
        return Truth(NEVER, ALWAYS)  # NULL IN () is false, too
    distinct = values.unique().drop_null()
    found = column.isin(distinct)
    return Truth(found, NEVER if values.null_count else ~found & column.is_valid())

"""Three-valued logic of conditions as expressions of Arrow."""

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
    """Two expressions: one is true where a condition is true, the other where it is false. Both are false at NULL."""

    true: Any
    false: Any

    def __invert__(self) -> Truth:
        """Return the truth of the opposite condition."""
        return Truth(self.false, self.true)


UNKNOWN, ANYTHING = Truth(NEVER, NEVER), Truth(ALWAYS, ALWAYS)
"""Truth of NULL; and of a condition whose value is not known yet, so that no row is excluded."""


def all_of(parts: Sequence[Truth]) -> Truth:
    """Return the truth of conditions joined by AND."""
    return Truth(_joined([part.true for part in parts], and_), _joined([part.false for part in parts], or_))


def any_of(parts: Sequence[Truth]) -> Truth:
    """Return the truth of conditions joined by OR."""
    return ~all_of([~part for part in parts])


def _joined(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join expressions as a balanced tree, so that thousands of them are not nested as deeply."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [reduce(join, pair) for pair in pairs]
    return parts[0]


def membership(column: Any, values: Any) -> Truth:
    """Return whether a column is IN values: a chunked array, which may have nulls."""
    if not len(values):
        return Truth(NEVER, ALWAYS)  # also for NULL
    distinct = values.unique().drop_null()
    found = column.isin(distinct)
    return Truth(found, NEVER if values.null_count else ~found & column.is_valid())

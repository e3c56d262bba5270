"""Integer arithmetic in conditions without Spark: ``+``, ``-``, ``*``, ``%`` and ``pmod``.

A result has the type that it has in Spark. Where it is out of range, Arrow raises an error: it never wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.schema.types import Primitive
from hiveacid.orc.stored_values import arrow_type
from hiveacid.table.arrow_read.comparisons import WHOLE, Term, cast_term, is_within

REMAINDERS = frozenset({"%", "pmod"})


def calculate(operator: str, left: Term, right: Term) -> Term | None:
    """Return the result of an operator; None for operands that are not supported.

    Operands are integers. A divisor must be a literal above 0, so that a division cannot fail.
    """
    kinds = [_kind(left), _kind(right)]
    if None in kinds or (operator in REMAINDERS and not (right.is_literal and right.value > 0)):
        return None
    kind = max((kind for kind in kinds if kind is not None), key=WHOLE.__getitem__)
    if left.is_literal and right.is_literal:
        result = replace(left, value=_LITERALS[operator](left.value, right.value))
        return result if is_within(result.value, kind) else None
    hive = Primitive(kind)
    data_type = arrow_type(hive)
    operands = (cast_term(left, data_type), cast_term(right, data_type))
    return Term(kind, left.token, hive=hive, computed=_COLUMNS[operator](*operands, data_type))


def _kind(term: Term) -> str | None:
    """Return the type of an integer; None for other terms. Spark gives a literal the type int if it fits."""
    if term.kind not in WHOLE:
        return None
    if not term.is_literal:
        return term.kind
    return next((kind for kind in ("int", "bigint") if is_within(term.value, kind)), None)


def _remainder(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend, as Java does."""
    return left % right if left >= 0 else -(-left % right)


_LITERALS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "%": _remainder,
    "pmod": lambda left, right: left % right,
}


def _column_remainder(left: Any, right: Any, _: Any) -> Any:
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _column_pmod(left: Any, right: Any, data_type: Any) -> Any:
    remainder = _column_remainder(left, right, data_type)
    return pc.if_else(
        pc.less(remainder, pc.scalar(pa.scalar(0, data_type))), pc.add(remainder, right), remainder
    )


_COLUMNS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "+": lambda left, right, _: pc.add_checked(left, right),
    "-": lambda left, right, _: pc.subtract_checked(left, right),
    "*": lambda left, right, _: pc.multiply_checked(left, right),
    "%": _column_remainder,
    "pmod": _column_pmod,
}

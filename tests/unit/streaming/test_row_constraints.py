"""Constraints hold for the values that a stream stores, not for those that it was given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.core.model import Constraint, ConstraintKind
from hiveacid.errors import ConstraintViolationError


@pytest.mark.parametrize("where", ["(v VARCHAR(3))", "(n INT) PARTITIONED BY (v VARCHAR(3))"])
def test_a_check_is_of_the_text_that_is_stored(wh: Warehouse, where: str) -> None:
    """VARCHAR is cut: 'abcd' passed, and was stored as 'abc'."""
    table = wh.create(f"CREATE TABLE t {where} {ACID}")
    check = Constraint(ConstraintKind.CHECK, "c", expression="v <> 'abc'")
    wh.store.alter_table(table.name, replace(table, constraints=(check,)))
    rest = {} if where.startswith("(v") else {"n": 1}
    with wh.connect("t") as stream:
        for text in ("abcd", "abc"):
            with pytest.raises(ConstraintViolationError, match="does not satisfy"), stream.transaction():
                stream.write([{"v": text, **rest}])
        with stream.transaction():
            stream.write([{"v": "abd", **rest}, {"v": None, **rest}])
    assert len(wh.rows("t")) == 2

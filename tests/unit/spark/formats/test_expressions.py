"""Stars in expressions of UPDATE, DELETE and MERGE, and values that are none."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from hiveacid.errors import ConfigError, StatementError
from hiveacid.spark.formats.expressions import expand_stars

RELATIONS = {("c", "d", "t"): ["k", "v w"], (): ["x"]}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("k * 2", "k * 2"),
        ("(k)*(2)", "(k)*(2)"),
        ("hash(*)", "hash(`t`.`k`, `t`.`v w`, `x`)"),
        ("hash(1, /* all */ *, 2) * 2", "hash(1, /* all */ `t`.`k`, `t`.`v w`, `x`, 2) * 2"),
        ("struct( T . * )", "struct( `t`.`k`, `t`.`v w` )"),
        ("struct(`t`.*, other.*, e.t.*)", "struct(`t`.`k`, `t`.`v w`, other.*, e.t.*)"),
        ("f(d.t.*, 1) + g(C.`d`.T.*)", "f(`t`.`k`, `t`.`v w`, 1) + g(`t`.`k`, `t`.`v w`)"),
        ("f(t.k.*, b.c.d.t.*, d.*)", "f(t.k.*, b.c.d.t.*, d.*)"),
        ('f("d"."t".*)', "f(`t`.`k`, `t`.`v w`)"),
        ("(SELECT count(*) FROM s) > f(*)", "(SELECT count(*) FROM s) > f(`t`.`k`, `t`.`v w`, `x`)"),
        ("EXISTS (SELECT 1, (f(t.*)) FROM s)", "EXISTS (SELECT 1, (f(t.*)) FROM s)"),
        ("v = '(*)'", "v = '(*)'"),
        ("*", "`t`.`k`, `t`.`v w`, `x`"),
    ],
)
def test_stars_outside_of_queries_become_columns(text: str, expanded: str) -> None:
    assert expand_stars(text, RELATIONS) == expanded


def test_a_star_with_exceptions_is_refused_with_its_position() -> None:
    with pytest.raises(StatementError, match="column 8") as raised:
        expand_stars("struct(* EXCEPT (k))", RELATIONS)
    assert raised.value.line == 1


@pytest.mark.parametrize("value", [5, True, 1.5, None, Decimal("1.5"), date(2026, 1, 1), b"x"])
def test_a_bare_value_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(ConfigError) as raised:
        expand_stars(value, RELATIONS)  # type: ignore[arg-type]
    assert f"not {value!r}: pass pyspark.sql.functions.lit({value!r})" in str(raised.value)

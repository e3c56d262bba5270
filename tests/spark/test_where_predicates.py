"""Which queries give a condition that may keep files unread."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hiveacid.spark.parser.relations import find_relations
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.sql.binding.predicates import Predicate, where_predicate
from hiveacid.sql.statements.values import Slice


def hint(spark: SparkSession, text: str) -> Predicate | None:
    return where_predicate(Slice(text), find_relations(SparkFacts(spark), text))


@pytest.mark.parametrize(
    ("text", "condition", "alias"),
    [
        ("SELECT * FROM t WHERE id = 1", "id = 1", "t"),
        (
            "SELECT a FROM db.t AS x WHERE x.id = 1 AND (b OR c) ORDER BY a LIMIT 1",
            "x.id = 1 AND (b OR c)",
            "x",
        ),
        ("select count(*) from t x where id in (1, 2) group by a having count(*) > 1", "id in (1, 2)", "x"),
    ],
)
def test_one_table_and_a_condition(spark: SparkSession, text: str, condition: str, alias: str) -> None:
    assert hint(spark, text) == Predicate(condition, alias)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT * FROM t JOIN u ON t.a = u.a WHERE t.id = 1",
        "SELECT * FROM t LEFT JOIN range(3) r ON t.id = r.id WHERE t.id = 1",
        "SELECT * FROM range(3) r LEFT JOIN t ON t.id = r.id WHERE t.id IS NULL",
        "SELECT * FROM t, range(3) WHERE t.id = 1",
        "SELECT * FROM (SELECT * FROM t) x WHERE id = 1",
        "SELECT * FROM (SELECT * FROM t WHERE a = 2) x WHERE id = 1",
        "SELECT * FROM t WHERE id = 1 UNION ALL SELECT 1, 2",
        "SELECT * FROM t TABLESAMPLE (10 PERCENT) WHERE id = 1",
        "SELECT * FROM t WHERE id IN (SELECT id FROM u)",
        "SELECT * FROM t LATERAL VIEW explode(xs) e AS x WHERE x = 1",
        "WITH t2 AS (SELECT 1) SELECT * FROM t WHERE id = 1",
    ],
)
def test_nothing_where_it_is_not_certain(spark: SparkSession, text: str) -> None:
    assert hint(spark, text) is None

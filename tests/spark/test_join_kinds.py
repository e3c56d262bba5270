"""Joins of transactional tables, beside the same joins of plain ORC tables with Spark's statistics."""

from __future__ import annotations

import re

from hiveacid.sql.native.session import NativeSession

QUERIES = (
    "SELECT count(*) FROM {0}sales f JOIN {0}shops s ON f.shop = s.shop",
    "SELECT s.region, sum(price) FROM {0}sales f JOIN {0}shops s ON f.shop = s.shop GROUP BY 1",
    "SELECT i.name, t FROM {0}sales f JOIN {0}items i ON f.item = i.item WHERE i.kind = 5",
    "SELECT * FROM {0}sales f JOIN {0}items i ON f.item = i.item JOIN {0}shops s ON f.shop = s.shop",
    "SELECT f.t FROM {0}sales f LEFT JOIN {0}shops s ON f.shop = s.shop WHERE s.region IS NULL",
    "SELECT i.kind FROM {0}items i WHERE i.item IN (SELECT item FROM {0}sales WHERE price > 100)",
    "SELECT count(*) FROM {0}sales a JOIN {0}sales b ON a.id = b.id",
)
TABLES = {
    "sales": "SELECT id, id % 1000 AS shop, id % 20000 AS item, cast(id AS decimal(12,2)) AS price, "
    "concat('text', id) AS t FROM range(200000)",
    "shops": "SELECT id AS shop, concat('name', id) AS name, id % 7 AS region FROM range(1000)",
    "items": "SELECT id AS item, concat('name ', id) AS name, cast(id % 97 AS int) AS kind, rand(1) AS r FROM range(20000)",
}
# bytes: below, between and above the sizes of the tables' files (about 2,000, 250,000 and 600,000)
THRESHOLDS = (200, 20_000, 5_000_000)


def _joins(native: NativeSession, query: str) -> list[tuple[str, str]]:
    plan = native.sql(query)._jdf.queryExecution().sparkPlan().toString()
    return re.findall(r"(\w+Join) [^\n]*?(BuildLeft|BuildRight|$)", plan, re.MULTILINE)


def test_joins_are_those_of_plain_tables_with_statistics(native: NativeSession) -> None:
    sql = native.sql
    for name, query in TABLES.items():
        sql(f"CREATE TABLE plain_{name} USING orc AS {query}")
        sql(f"ANALYZE TABLE plain_{name} COMPUTE STATISTICS")
        sql(f"CREATE TABLE {name} STORED AS ORC TBLPROPERTIES ('transactional'='true') AS {query}")
    kinds = set()
    for change in (
        "SELECT 1",
        "DELETE FROM sales WHERE id % 10 = 3",
        "UPDATE items SET r = 0 WHERE kind = 3",
    ):
        sql(change)
        for threshold in THRESHOLDS:
            native.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
            for query in QUERIES:
                expected = _joins(native, query.format("plain_"))
                assert _joins(native, query.format("")) == expected, (change, threshold, query)
                kinds.update(expected)
    assert kinds == {("SortMergeJoin", ""), ("BroadcastHashJoin", "BuildRight")}

"""Which queries give a condition that may keep files unread, and which are a count of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.sql.statements import Slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
Hints = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    acid = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("tables")))
    acid.sql("CREATE DATABASE db")
    acid.sql(f"CREATE TABLE db.t (id INT, a INT, b BOOLEAN, c BOOLEAN, xs ARRAY<INT>) {ACID}")
    acid.sql(f"CREATE TABLE db.u (id INT, a INT) {ACID}")
    acid.sql("INSERT INTO db.t VALUES (1, 2, true, true, array(1))")
    yield acid
    acid.close()


def hints(acid: AcidSession, text: str) -> Hints:
    """Return the condition and the alias for each table of a query that has one."""
    with acid.binder() as binder:
        binder.run(binder.bind(Slice(text))).schema  # noqa: B018 - analysed
        return {
            source.table.name: (source.predicate.condition, source.predicate.alias)
            for source in binder.rows
            if source.predicate is not None
        }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM db.t WHERE id = 1", {"t": ("(id = 1)", "t")}),
        (
            "SELECT a FROM db.t AS x WHERE x.id = 1 AND (b OR c) ORDER BY a LIMIT 1",
            {"t": ("((x.id = 1) AND (b OR c))", "x")},
        ),
        (
            "select a, count(*) from db.t x where id in (1, 2) group by a having count(*) > 1",
            {"t": ("(id IN (1, 2))", "x")},
        ),
        ("SELECT * FROM (SELECT * FROM db.t WHERE a = 2) x WHERE id = 1", {"t": ("(a = 2)", "t")}),
        ("SELECT id FROM db.t WHERE id = 1 UNION ALL SELECT 2", {"t": ("(id = 1)", "t")}),
        ("WITH q AS (SELECT * FROM db.t WHERE id = 1) SELECT * FROM q", {"t": ("(id = 1)", "t")}),
        (
            "SELECT * FROM (SELECT * FROM db.t WHERE id = 1) x FULL JOIN (SELECT id FROM db.u y WHERE a > 1) z USING (id)",
            {"t": ("(id = 1)", "t"), "u": ("(a > 1)", "y")},
        ),
        ("SELECT * FROM db.t WHERE id = 1 AND a = 2 -- OR id = 2", {"t": ("((id = 1) AND (a = 2))", "t")}),
    ],
)
def test_a_condition_directly_above_a_table(tables: AcidSession, text: str, found: Hints) -> None:
    assert hints(tables, text) == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM db.t",
        "SELECT * FROM db.t JOIN db.u ON t.a = u.a WHERE t.id = 1",
        "SELECT * FROM db.t LEFT JOIN range(3) r ON t.id = r.id WHERE t.id = 1",
        "SELECT * FROM range(3) r LEFT JOIN db.t ON t.id = r.id WHERE t.id IS NULL",
        "SELECT * FROM db.t, range(3) r WHERE t.id = 1",
        "SELECT * FROM (SELECT * FROM db.t) x WHERE id = 1",
        "SELECT * FROM (SELECT * FROM db.t LIMIT 3) WHERE id = 1",
        "SELECT id FROM db.t WHERE id = 1 UNION ALL SELECT id FROM db.t WHERE id = 2",
        "SELECT * FROM db.t TABLESAMPLE (10 PERCENT) WHERE id = 1",
        "SELECT * FROM db.t VERSION AS OF 1 WHERE id = 1",
        "SELECT * FROM db.t AS x(id, a, b, c, d) WHERE id = 1",
        "SELECT * FROM db.t WHERE id IN (SELECT id FROM db.u)",
        "SELECT 1 WHERE EXISTS (SELECT * FROM db.t WHERE id = 1)",
        "SELECT * FROM db.u, LATERAL (SELECT id AS x FROM db.t WHERE t.id = u.id)",
        "SELECT * FROM db.t LATERAL VIEW explode(xs) e AS x WHERE x = 1",
        "SELECT id FROM db.t GROUP BY id HAVING id = 1",
    ],
)
def test_nothing_where_it_is_not_certain(tables: AcidSession, text: str) -> None:
    assert hints(tables, text) == {}


def test_only_a_count_of_all_rows_is_one(tables: AcidSession) -> None:
    def counted(text: str) -> list[bool]:
        with tables.binder() as binder:
            binder.run(binder.bind(Slice(text))).schema  # noqa: B018 - analysed
            return [source.count_only for source in binder.rows]

    for text in ("SELECT count(*) FROM db.t", "select Count(1) AS n FROM db.t x"):
        assert counted(text) == [True], text
    for text in (
        "SELECT count(*) FILTER (WHERE id > 1) FROM db.t",
        "SELECT count(*), max(id) FROM db.t",
        "SELECT count(*) FROM db.t WHERE id = 1",
        "SELECT count(*) FROM db.t HAVING max(id) > 1",
        "SELECT count(*) FROM db.t LIMIT 1",
        "SELECT count(*) OVER () FROM db.t",
        "SELECT count(DISTINCT id) FROM db.t",
        "SELECT count(*) FROM db.t VERSION AS OF 1",
        "SELECT (SELECT count(*) FROM db.t)",
        "SELECT count(*) FROM db.t TABLESAMPLE (10 PERCENT)",
    ):
        assert counted(text) == [False], text

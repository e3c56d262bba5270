"""ROW__ID and INPUT__FILE__NAME: a name finds them, and nothing else that stands for all columns does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import NoSuchColumnError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
# Each query has the same rows as the one beside it, which names all columns.
SAME = {
    "SELECT *, v AS z FROM t WHERE ROW__ID.rowid >= 0 ORDER BY 3 LIMIT 1": "SELECT 3, 10, 10",
    "SELECT *, v AS z FROM t WHERE INPUT__FILE__NAME != '' ORDER BY 3 DESC LIMIT 1": "SELECT 1, 30, 30",
    "SELECT * FROM dup WHERE ROW__ID.rowid = 1 INTERSECT ALL SELECT * FROM dup WHERE ROW__ID.rowid = 0": "SELECT 1, 'a'",
    "SELECT * FROM dup WHERE ROW__ID.rowid = 1 EXCEPT ALL SELECT * FROM dup WHERE ROW__ID.rowid = 0": "SELECT 1 WHERE false",
    "SELECT * FROM dup WHERE ROW__ID.rowid >= 0 UNION SELECT * FROM dup WHERE ROW__ID.rowid = 0": "VALUES (1, 'a'), (2, 'b')",
    "SELECT DISTINCT * FROM dup WHERE ROW__ID.rowid >= 0": "VALUES (1, 'a'), (2, 'b')",
    "SELECT count(DISTINCT *) FROM dup WHERE ROW__ID.rowid >= 0": "SELECT 2",
    "SELECT v, count(*) FROM dup WHERE ROW__ID.rowid >= 0 GROUP BY ALL": "VALUES ('a', 2), ('b', 1)",
    "SELECT to_json(struct(*)) FROM t WHERE ROW__ID.rowid = 0": """SELECT '{"id":1,"v":30}'""",
    "SELECT * FROM t NATURAL JOIN t u WHERE t.ROW__ID = u.ROW__ID AND u.ROW__ID.rowid = 0": "SELECT 1, 30",
    "SELECT * FROM t JOIN t u USING (id) WHERE t.ROW__ID.rowid = 1": "SELECT 2, 20, 20",
    "SELECT * FROM (SELECT * FROM t WHERE ROW__ID.rowid = 0) PIVOT (max(v) FOR id IN (1, 2))": "SELECT 30, NULL",
    "SELECT * FROM (SELECT * FROM t WHERE ROW__ID.rowid = 0) UNPIVOT (w FOR n IN (id, v))": "VALUES ('id', 1), ('v', 30)",
    "SELECT * FROM (SELECT * FROM t WHERE ROW__ID.rowid = 0) AS q(a, b)": "SELECT 1, 30",
    "WITH q(a, b) AS (SELECT * FROM t WHERE ROW__ID.rowid = 0) SELECT * FROM q": "SELECT 1, 30",
    "SELECT ROW__ID.rowid, x.* FROM t x ORDER BY 1 DESC LIMIT 1": "SELECT 2L, 3, 10",
    "SELECT a.id FROM t a JOIN t b ON a.ROW__ID = b.ROW__ID WHERE b.ROW__ID.rowid > 0": "VALUES (2), (3)",
    "SELECT a.id FROM t a LEFT JOIN t b ON a.ROW__ID = b.ROW__ID AND b.id = 1 WHERE b.ROW__ID IS NULL": "VALUES (2), (3)",
    "SELECT id FROM t a WHERE EXISTS (SELECT * FROM t b WHERE b.ROW__ID = a.ROW__ID AND b.id > 2)": "SELECT 3",
    "SELECT id FROM t WHERE ROW__ID IN (SELECT max(ROW__ID) FROM t)": "SELECT 3",
    "SELECT id FROM t GROUP BY id ORDER BY max(ROW__ID.rowid) DESC LIMIT 1": "SELECT 3",
    "SELECT x.id FROM t TABLESAMPLE (100 PERCENT) x WHERE x.ROW__ID.rowid = 1": "SELECT 2",
    "SELECT * FROM t, LATERAL (SELECT u.v AS w FROM t u WHERE u.ROW__ID = t.ROW__ID) WHERE id = 1": "SELECT 1, 30, 30",
}
PIPES = {
    "FROM t |> WHERE ROW__ID.rowid >= 0 |> EXTEND v AS z |> ORDER BY 3 |> LIMIT 1": "SELECT 3, 10, 10",
    "FROM dup |> WHERE ROW__ID.rowid >= 0 |> EXCEPT (FROM dup |> WHERE ROW__ID.rowid = 0)": "SELECT 2, 'b'",
    "FROM dup |> WHERE ROW__ID.rowid >= 0 |> UNION (FROM dup |> WHERE ROW__ID.rowid = 0)": "VALUES (1, 'a'), (2, 'b')",
    "FROM dup |> WHERE ROW__ID.rowid = 1 |> INTERSECT (FROM dup |> WHERE ROW__ID.rowid = 0)": "SELECT 1, 'a'",
    "FROM t |> EXTEND ROW__ID.rowid AS r |> DROP v |> WHERE r = 0": "SELECT 1, 0L",
}


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def tables(native: NativeSession) -> NativeSession:
    for statement in (
        f"CREATE TABLE t (id INT, v INT) {ACID}",
        "INSERT INTO t VALUES (1, 30), (2, 20), (3, 10)",
        f"CREATE TABLE dup (id INT, v STRING) {ACID}",
        "INSERT INTO dup VALUES (1, 'a'), (1, 'a'), (2, 'b')",
    ):
        native.sql(statement)
    return native


def test_what_stands_for_all_columns_does_not_see_them(tables: NativeSession) -> None:
    queries = SAME | (PIPES if tables.acid.context.env.version >= (4, 0) else {})
    differences = [
        (query, found)
        for query, same in queries.items()
        if (found := rows(tables.sql(query))) != rows(tables.sql(same))
    ]
    assert differences == []
    # the parser inside Spark makes the same plans
    plain = SparkSession(tables.sparkContext, tables._jsparkSession)
    query = next(iter(SAME))
    assert rows(plain.sql(query)) == [(3, 10, 10)]
    assert rows(tables.table("t").where("id IN (SELECT id FROM t WHERE ROW__ID.rowid = 1)")) == [(2, 20)]


def test_their_names_stay_in_what_is_made_of_a_query(tables: NativeSession) -> None:
    sql = tables.sql
    frame = sql("SELECT ROW__ID, id FROM t")
    assert rows(frame.where("ROW__ID.rowid = 1").select("*").selectExpr("id")) == [(2,)]
    sql("CREATE TEMPORARY VIEW seen AS SELECT ROW__ID, * FROM t")
    sql("CREATE VIEW kept AS SELECT *, ROW__ID.rowid AS r FROM t")
    sql(f"CREATE TABLE top1 {ACID} AS SELECT *, -id AS z FROM t WHERE ROW__ID.rowid >= 0 ORDER BY 3 LIMIT 1")
    assert rows(sql("SELECT ROW__ID.rowid, id, v FROM seen")) == [(0, 1, 30), (1, 2, 20), (2, 3, 10)]
    assert rows(sql("SELECT * FROM kept")) == [(1, 30, 0), (2, 20, 1), (3, 10, 2)]
    assert rows(sql("SELECT * FROM top1")) == [(3, 10, -3)]


def test_a_name_that_is_not_there_is_an_error(tables: NativeSession) -> None:
    queries = [
        "SELECT * FROM (SELECT * FROM t) q WHERE q.ROW__ID.rowid = 0",
    ]
    if tables.acid.context.env.version >= (4, 0):
        queries += ["SELECT * EXCEPT (ROW__ID) FROM t", "FROM t |> EXTEND ROW__ID.rowid AS r |> DROP ROW__ID"]
    for query in queries:
        with pytest.raises(NoSuchColumnError, match="ROW__ID"):
            tables.sql(query)


def test_subqueries_of_changes_have_them_hidden(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)")
    for condition, kept in (
        ("id IN (SELECT id FROM (SELECT * FROM t WHERE ROW__ID.rowid = 0))", [(2, 3)]),
        (
            "EXISTS (SELECT 1 FROM t a NATURAL JOIN t b WHERE a.ROW__ID != b.ROW__ID)",
            [(1, 1), (1, 2), (2, 3)],
        ),
        ("(id, v) IN (TABLE t) AND v IN (SELECT ROW__ID.rowid FROM t)", [(2, 3)]),
        ("ROW__ID NOT IN (SELECT max(ROW__ID) FROM t GROUP BY id)", [(1, 2), (2, 3)]),
    ):
        acid.sql("START TRANSACTION")
        acid.sql(f"DELETE FROM t WHERE {condition}")
        assert rows(acid.sql("SELECT * FROM t")) == kept, condition
        acid.sql("ROLLBACK")

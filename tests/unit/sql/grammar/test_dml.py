from __future__ import annotations

import pytest

from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import ParseError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Literal, PartitionItem, Slice, Statement, TableRef
from hiveacid.sql.statements.dml import (
    Assignment,
    Delete,
    ExportTable,
    ImportTable,
    Insert,
    InsertDirectory,
    LoadData,
    Merge,
    MergeAction,
    MergeClause,
    MergeMatch,
    MultiInsert,
    Query,
    Restore,
    Update,
)

T = TableRef(None, "t")
DT = TableRef("d", "t")
P = PartitionItem("p", Slice("'x'"), Literal("x", "string"))
S = Slice


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select * from a join b using (c) -- end",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "WITH RECURSIVE q (n) AS (SELECT 1), r AS (SELECT ')' FROM q) SELECT * FROM r",
        "WITH q (SELECT 1) FROM q SELECT *",
        "WITH RECURSIVE q (n) MAX RECURSION LEVEL 200 AS (SELECT 1) SELECT * FROM q",
        "WITH q MAX RECURSION LEVEL 2 AS (SELECT 1), r AS (SELECT 2) SELECT * FROM q",
        "FROM t SELECT a WHERE b",
        "VALUES (1, 'insert')",
        "TABLE d.t",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "MAP a USING 'cat' FROM t",
        "SELECT CASE WHEN a THEN b END FROM t",
    ],
)
def test_queries_are_kept_as_written(text: str) -> None:
    assert parse(f"  {text}") == Query(S(text.removesuffix(" -- end")))


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("INSERT INTO t VALUES (1, 'a;b')", Insert(T, S("VALUES (1, 'a;b')"))),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1", InsertDirectory("/x", S("SELECT 1"))),
        (
            "WITH q AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' STORED AS ORC FROM q SELECT *",
            InsertDirectory("/x", S("FROM q SELECT *"), ORC, S("WITH q AS (SELECT 1)")),
        ),
        ("EXPORT TABLE d.t TO '/x'", ExportTable(DT, "/x")),
        ("EXPORT TABLE t PARTITION (p='x') TO '/x'", ExportTable(T, "/x", (P,))),
        ("IMPORT FROM '/x'", ImportTable("/x")),
        ("IMPORT TABLE t PARTITION (p='x') FROM '/x'", ImportTable("/x", T, (P,))),
        ("IMPORT EXTERNAL TABLE d.t FROM '/x' LOCATION '/y'", ImportTable("/x", DT, (), True, "/y")),
        ("INSERT INTO TABLE d.t SELECT * FROM s", Insert(DT, S("SELECT * FROM s"))),
        ("INSERT OVERWRITE t TABLE s", Insert(T, S("TABLE s"), overwrite=True)),
        ("INSERT INTO t (b, `a c`) SELECT 1, 2", Insert(T, S("SELECT 1, 2"), columns=("b", "a c"))),
        ("INSERT INTO t (map, values) SELECT 1, 2", Insert(T, S("SELECT 1, 2"), columns=("map", "values"))),
        ("INSERT INTO t (SELECT 1)", Insert(T, S("(SELECT 1)"))),
        ("INSERT INTO t ((SELECT 1) UNION SELECT 2)", Insert(T, S("((SELECT 1) UNION SELECT 2)"))),
        ("INSERT INTO t BY NAME SELECT 1 AS a", Insert(T, S("SELECT 1 AS a"), by_name=True)),
        (
            "INSERT OVERWRITE TABLE t PARTITION (p='x') BY NAME (SELECT 1 AS a)",
            Insert(T, S("(SELECT 1 AS a)"), overwrite=True, partition=(P,), by_name=True),
        ),
        (
            "INSERT INTO t REPLACE WHERE a IS DISTINCT FROM b AND c = map(1, (SELECT 2)) VALUES (1)",
            Insert(T, S("VALUES (1)"), replaced=S("a IS DISTINCT FROM b AND c = map(1, (SELECT 2))")),
        ),
        ("INSERT INTO t FROM s SELECT a", Insert(T, S("FROM s SELECT a"))),
        (
            "INSERT OVERWRITE TABLE t PARTITION (p='x', q) IF NOT EXISTS SELECT a, q FROM s",
            Insert(
                T,
                S("SELECT a, q FROM s"),
                overwrite=True,
                partition=(P, PartitionItem("q")),
                if_not_exists=True,
            ),
        ),
        (
            "INSERT INTO t PARTITION (p='x') (a) VALUES (1)",
            Insert(T, S("VALUES (1)"), partition=(P,), columns=("a",)),
        ),
        (
            "INSERT INTO t (a) PARTITION (p='x') VALUES (1)",
            Insert(T, S("VALUES (1)"), partition=(P,), columns=("a",)),
        ),
        (
            "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
            Insert(T, S("WITH q AS (SELECT 1) SELECT * FROM q")),
        ),
        (
            "WITH q AS (SELECT 1), r AS (SELECT 2) INSERT INTO t SELECT * FROM q",
            Insert(T, S("SELECT * FROM q"), ctes=S("WITH q AS (SELECT 1), r AS (SELECT 2)")),
        ),
        (
            (
                "FROM s JOIN u ON s.a = u.a INSERT INTO TABLE t SELECT a WHERE a > 1"
                " INSERT OVERWRITE TABLE d.t PARTITION (p='x') SELECT b ORDER BY b"
            ),
            MultiInsert(
                S("s JOIN u ON s.a = u.a"),
                (
                    Insert(T, S("SELECT a WHERE a > 1")),
                    Insert(DT, S("SELECT b ORDER BY b"), overwrite=True, partition=(P,)),
                ),
            ),
        ),
        (
            "WITH q AS (SELECT 1 a) FROM (SELECT * FROM q) s INSERT INTO t SELECT a",
            MultiInsert(
                S("(SELECT * FROM q) s"), (Insert(T, S("SELECT a")),), ctes=S("WITH q AS (SELECT 1 a)")
            ),
        ),
        ("UPDATE t SET a = a + 1", Update(T, (Assignment("a", S("a + 1")),))),
        (
            (
                "UPDATE d.t AS x SET x.a = CASE WHEN b THEN f(1, 2) END, `b c` = (SELECT max(z) FROM u WHERE y)"
                " WHERE x.id IN (SELECT id FROM s)"
            ),
            Update(
                DT,
                (
                    Assignment("a", S("CASE WHEN b THEN f(1, 2) END")),
                    Assignment("b c", S("(SELECT max(z) FROM u WHERE y)")),
                ),
                S("x.id IN (SELECT id FROM s)"),
                "x",
            ),
        ),
        (
            "UPDATE t SET a = b IS NOT DISTINCT FROM c, d = 1",
            Update(T, (Assignment("a", S("b IS NOT DISTINCT FROM c")), Assignment("d", S("1")))),
        ),
        ("UPDATE t x SET a = DEFAULT", Update(T, (Assignment("a", S("DEFAULT")),), alias="x")),
        ("UPDATE d.t SET d.t.a = m['k, WHERE'][0]", Update(DT, (Assignment("a", S("m['k, WHERE'][0]")),))),
        ("DELETE FROM t", Delete(T)),
        ("DELETE FROM d.t WHERE a = ';' AND s.`where` > 1", Delete(DT, S("a = ';' AND s.`where` > 1"))),
        ("DELETE FROM t AS x WHERE EXISTS (SELECT 1 FROM s)", Delete(T, S("EXISTS (SELECT 1 FROM s)"), "x")),
        ("LOAD DATA INPATH '/x' INTO TABLE d.t", LoadData("/x", DT)),
        ("RESTORE TABLE d.t TO VERSION AS OF 7", Restore(DT, version=7)),
        ("RESTORE t VERSION AS OF 0", Restore(T, version=0)),
        (
            "RESTORE TABLE t TO TIMESTAMP AS OF now() - INTERVAL 1 HOUR",
            Restore(T, moment=Slice("now() - INTERVAL 1 HOUR")),
        ),
        (
            "LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t PARTITION (p='x')",
            LoadData("/x", T, (P,), local=True, overwrite=True),
        ),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert parse(text) == statement
    assert parse(text + "\n;") == statement


def test_slices_know_their_place() -> None:
    text = "UPDATE t\nSET a = 1,\n  b = x\n  + 2 -- two\nWHERE c"
    found = parse(text)
    assert isinstance(found, Update)
    assert found.where is not None
    second = found.assignments[1]
    assert (second.line, second.at_column) == (3, 3)
    assert (second.expression.text, second.expression.line, second.expression.column) == ("x\n  + 2", 3, 7)
    assert text[second.expression.start :].startswith("x\n")
    assert (found.where.line, found.where.column) == (5, 7)


def test_the_queries_of_legs_and_ctes_are_put_together() -> None:
    legs = parse("WITH q AS (SELECT 1 a) FROM q INSERT INTO t SELECT a INSERT INTO u SELECT a + 1")
    assert isinstance(legs, MultiInsert)
    assert [legs.leg_query(leg).text for leg in legs.legs] == [  # each word stays in its column
        "WITH q AS (SELECT 1 a) FROM q               SELECT a",
        "WITH q AS (SELECT 1 a) FROM q                                      SELECT a + 1",
    ]
    insert = parse("WITH q AS (SELECT 1 a) INSERT INTO t SELECT a FROM q")
    assert isinstance(insert, Insert)
    assert insert.full_query.text == "WITH q AS (SELECT 1 a)               SELECT a FROM q"


MATCHED, MISSING, ORPHAN = MergeMatch.MATCHED, MergeMatch.NOT_MATCHED, MergeMatch.NOT_MATCHED_BY_SOURCE
UPDATE, DELETE, INSERT = MergeAction.UPDATE, MergeAction.DELETE, MergeAction.INSERT


def test_merge_with_all_clauses() -> None:
    assert parse(
        """MERGE /*+ semi(T, id, S, 100) */ INTO d.t AS T USING (SELECT * FROM s WHERE x) AS S
        ON T.id = S.id AND CASE WHEN S.a THEN true END
        WHEN MATCHED AND S.op = 'd' THEN DELETE
        WHEN MATCHED AND CASE WHEN S.b THEN true END THEN UPDATE SET t.a = S.a, b = CASE WHEN 1 THEN 2 END
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND S.c THEN INSERT (id, a) VALUES (S.id, f(S.a, 1))
        WHEN NOT MATCHED BY TARGET THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND T.old THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = NULL;"""
    ) == Merge(
        table=DT,
        source=S("(SELECT * FROM s WHERE x)"),
        condition=S("T.id = S.id AND CASE WHEN S.a THEN true END"),
        alias="t",
        source_alias="s",
        clauses=(
            MergeClause(MATCHED, DELETE, S("S.op = 'd'")),
            MergeClause(
                MATCHED,
                UPDATE,
                S("CASE WHEN S.b THEN true END"),
                (Assignment("a", S("S.a")), Assignment("b", S("CASE WHEN 1 THEN 2 END"))),
            ),
            MergeClause(MATCHED, UPDATE, star=True),
            MergeClause(MISSING, INSERT, S("S.c"), columns=("id", "a"), values=(S("S.id"), S("f(S.a, 1)"))),
            MergeClause(MISSING, INSERT, star=True),
            MergeClause(ORPHAN, DELETE, S("T.old")),
            MergeClause(ORPHAN, UPDATE, assignments=(Assignment("a", S("NULL")),)),
        ),
    )


@pytest.mark.parametrize(
    ("source", "text", "alias", "columns"),
    [
        ("s", "s", None, ()),
        ("d.`s t` x", "d.`s t`", "x", ()),
        ("(VALUES (1)) AS v (id)", "(VALUES (1))", "v", ("id",)),
        ("range(10) r", "range(10)", "r", ()),
    ],
)
def test_merge_sources(source: str, text: str, alias: str | None, columns: tuple[str, ...]) -> None:
    found = parse(f"MERGE INTO t USING {source} ON true WHEN NOT MATCHED THEN INSERT VALUES (1)")
    assert isinstance(found, Merge)
    assert (found.source.text, found.source_alias, found.source_columns) == (text, alias, columns)
    assert found.clauses == (MergeClause(MISSING, INSERT, values=(S("1"),)),)


@pytest.mark.parametrize(
    ("target", "columns"),
    [("t", "t.a, b"), ("d.t", "d.t.a, t.b"), ("d.t AS x", "x.a, x.b"), ("t", "A, `b`")],
)
def test_columns_of_an_insert_may_be_those_of_the_target(target: str, columns: str) -> None:
    found = parse(
        f"MERGE INTO {target} USING s ON true WHEN NOT MATCHED THEN INSERT ({columns}) VALUES (1, 2)"
    )
    assert isinstance(found, Merge)
    assert found.clauses[0].columns == ("a", "b")


def test_merge_clauses_in_any_order() -> None:
    found = parse(
        "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT VALUES (1) WHEN MATCHED THEN DELETE"
    )
    assert isinstance(found, Merge)
    assert [clause.match for clause in found.clauses] == [MISSING, MATCHED]


MERGE = "MERGE INTO t USING s ON a "


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("INSERT t SELECT 1", "t SELECT", "INTO or OVERWRITE"),
        ("INSERT INTO t", "", "SELECT, VALUES"),
        ("INSERT INTO t DROP", "DROP", "SELECT, VALUES"),
        ("INSERT INTO t (a, a) SELECT 1", "a) SEL", "is given twice"),
        ("INSERT INTO t (a,) SELECT 1", ") SEL", "a column name"),
        ("INSERT INTO a.b.c SELECT 1", "a.b", "two parts"),
        ("INSERT INTO spark_catalog.a.b.c SELECT 1", "spark_catalog", "two parts"),
        ("INSERT INTO t PARTITION (p>'x') SELECT 1", ">", "'='"),
        ("FROM s INSERT OVERWRITE DIRECTORY '/x' SELECT 1", "DIRECTORY", "statement of its own"),
        ("INSERT OVERWRITE DIRECTORY '/x' LOCATION '/y' SELECT 1", "LOCATION", "ROW FORMAT"),
        ("INSERT INTO DIRECTORY '/x' SELECT 1", "'/x'", "SELECT"),
        ("EXPORT TABLE t PARTITION (p) TO '/x'", ")", "'='"),
        ("IMPORT EXTERNAL FROM '/x'", "FROM", "TABLE"),
        ("INSERT INTO t SELECT (1", "", "'\\)'"),
        ("INSERT INTO t SELECT 1)", ")", "the end of the statement"),
        ("INSERT INTO t SELECT f(a]", "]", "parenthesis"),
        ("WITH q AS (SELECT 1)", "", "SELECT or INSERT"),
        ("WITH q AS SELECT 1", "SELECT", "'\\('"),
        ("WITH q AS (SELECT 1) DELETE FROM t", "DELETE", "SELECT or INSERT"),
        ("FROM INSERT INTO t SELECT 1", "INSERT", "a table or query"),
        ("FROM s INSERT INTO t VALUES (1)", "VALUES", "SELECT"),
        ("FROM s INSERT INTO t SELECT a) INSERT", ")", "the end"),
        ("UPDATE t", "", "SET"),
        ("UPDATE SET a = 1", "SET", "a table name"),
        ("UPDATE t SET", "", "a column name"),
        ("UPDATE t SET a", "", "'='"),
        ("UPDATE t SET a =", "", "an expression"),
        ("UPDATE t SET a = 1,", "", "a column name"),
        ("UPDATE t SET a = 1, a = 2", "a = 2", "set twice"),
        ("UPDATE t SET a = 1 WHERE", "", "a condition"),
        ("UPDATE t SET a = 1) + (2", ")", "the end"),
        ("UPDATE t SET a = (1", "", "'\\)'"),
        ("UPDATE t SET u.a = 1", "u.a", "only columns of t"),
        ("UPDATE t x SET t.a = 1", "t.a", "only columns of x"),
        ("UPDATE t SET 1 = 1", "1 = 1", "a column name"),
        ("DELETE t", "t", "FROM"),
        ("DELETE FROM t WHERE a = 1; DROP TABLE t", ";", "one statement"),
        ("DELETE FROM t LIMIT 5", "LIMIT", "WHERE"),
        ("DELETE FROM t LIMIT", "LIMIT", "WHERE"),
        ("UPDATE t VERSION SET a = 1", "VERSION", "SET"),
        ("MERGE INTO t USING s TABLESAMPLE ON a", "TABLESAMPLE", "ON"),
        ("LOAD DATA INPATH x INTO TABLE t", "x INTO", "a path"),
        ("RESTORE TABLE t", "", "VERSION or TIMESTAMP"),
        ("RESTORE TABLE t TO VERSION AS OF x", "x", "a write id"),
        ("RESTORE TABLE t TO VERSION AS OF -1", "-1", "a write id"),
        ("RESTORE TABLE t TO VERSION AS OF 1 WHERE a", "WHERE", "the end"),
        ("RESTORE TABLE t TO TIMESTAMP AS OF", "", "a timestamp"),
        ("LOAD DATA INPATH 'x' INTO TABLE t FORMAT 'y'", "FORMAT", "the end"),
        ("MERGE INTO t USING s ON a", "", "WHEN MATCHED"),
        ("MERGE INTO t USING s WHEN", "WHEN", "ON"),
        ("MERGE INTO t USING (SELECT 1) ON a", "ON", "an alias for the source"),
        ("MERGE INTO t USING d.t ON a", "ON", "both called t"),
        ("MERGE INTO t x USING s x ON a", "ON", "both called x"),
        ("MERGE INTO t USING s ON WHEN MATCHED", "WHEN", "a condition"),
        (MERGE + "WHEN THEN DELETE", "THEN", "MATCHED"),
        (MERGE + "WHEN MATCHED AND THEN DELETE", "THEN", "a condition"),
        (MERGE + "WHEN MATCHED DELETE", "DELETE", "THEN"),
        (MERGE + "WHEN MATCHED THEN INSERT VALUES (1)", "INSERT", "UPDATE or DELETE"),
        (MERGE + "WHEN NOT MATCHED THEN DELETE", "DELETE", "INSERT"),
        (MERGE + "WHEN NOT MATCHED BY x THEN DELETE", "x THEN", "TARGET or SOURCE"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN INSERT *", "INSERT", "UPDATE or DELETE"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "*", "needs a source row"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "(1)", "2 columns, but 1 values"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a)", "", "VALUES"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT VALUES ()", ")", "a value"),
        (
            MERGE + "WHEN MATCHED THEN DELETE WHEN MATCHED AND b THEN DELETE",
            "WHEN MATCHED AND b",
            "never apply",
        ),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (s.a) VALUES (1)", "s.a", "only columns of t"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (t.a, a) VALUES (1, 2)", "a) V", "is given twice"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET s.a = 1", "s.a", "only columns of t"),
        (MERGE + "WHEN MATCHED THEN DELETE x", "x", "the end"),
    ],
)
def test_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse(text)
    at = text.rindex(place) if place else len(text)
    assert (caught.value.line, caught.value.column) == (1, at + 1)


def test_a_word_that_begins_a_clause_is_an_alias_behind_as_or_in_quotes() -> None:
    assert (
        parse("DELETE FROM t AS limit")
        == parse("DELETE FROM t `limit`")
        == Delete(TableRef(None, "t"), None, "limit")
    )

from __future__ import annotations

import pytest

from hiveacid.errors import ParseError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Slice, Statement, TableRef
from hiveacid.sql.statements.administration import ShowViews
from hiveacid.sql.statements.definitions import (
    AlterView,
    CreateTemporaryView,
    CreateView,
    RenameView,
    SetViewProperties,
    UnsetViewProperties,
    ViewColumn,
)

V = TableRef(None, "v")
QUERY = Slice("SELECT a FROM t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW v AS SELECT a FROM t", CreateView(V, QUERY)),
        ("create or replace view D.V as SELECT a FROM t;", CreateView(TableRef("d", "v"), QUERY, replace=True)),
        (
            "CREATE VIEW IF NOT EXISTS v (x COMMENT 'its', `Y z`) TBLPROPERTIES ('b'='2', 'a'=1) COMMENT 'c' AS SELECT a FROM t",
            CreateView(
                V, QUERY, (ViewColumn("x", "its"), ViewColumn("y z")), "c", (("a", "1"), ("b", "2")), if_not_exists=True
            ),
        ),
        ("CREATE VIEW v AS (SELECT 1)", CreateView(V, Slice("(SELECT 1)"))),
        ("CREATE VIEW v AS WITH c AS (SELECT 1) TABLE c -- end", CreateView(V, Slice("WITH c AS (SELECT 1) TABLE c"))),
        ("CREATE OR REPLACE TEMP VIEW v (x) AS SELECT a FROM t", CreateTemporaryView(V, QUERY, ("x",), replace=True)),
        ("ALTER VIEW v AS SELECT a FROM t", AlterView(V, QUERY)),
        ("ALTER VIEW v SELECT a FROM t", AlterView(V, QUERY)),
        ("ALTER VIEW d.v RENAME TO w", RenameView(TableRef("d", "v"), TableRef(None, "w"))),
        ("ALTER VIEW v SET TBLPROPERTIES ('a'='b')", SetViewProperties(V, (("a", "b"),))),
        ("ALTER VIEW v UNSET TBLPROPERTIES IF EXISTS ('a')", UnsetViewProperties(V, ("a",), if_exists=True)),
        ("SHOW VIEWS", ShowViews()),
        ("SHOW VIEWS IN d LIKE 'x*'", ShowViews("d", "x*")),
    ],
)  # fmt: skip
def test_statements(text: str, expected: Statement) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("CREATE VIEW v", "", "COMMENT, TBLPROPERTIES or AS"),
        ("CREATE VIEW v AS", "", "a query"),
        ("CREATE VIEW v AS DELETE FROM t", "DELETE", "a query"),
        ("CREATE VIEW v (a, A) AS SELECT 1, 2", "A) AS", "is given twice"),
        ("CREATE VIEW v (a INT) AS SELECT 1", "INT", "','"),
        ("CREATE VIEW v () AS SELECT 1", ")", "a column name"),
        ("CREATE VIEW v COMMENT 'a' COMMENT 'b' AS SELECT 1", "COMMENT 'b'", "is given twice"),
        ("CREATE VIEW v DIVIDED ON (a) AS SELECT 1 AS a", "DIVIDED", "COMMENT, TBLPROPERTIES or AS"),
        ("CREATE VIEW a.b.c AS SELECT 1", "a.b.c", "two parts"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "IF", "either replaced"),
        ("CREATE GLOBAL VIEW v AS SELECT 1", "VIEW", "TEMPORARY"),
        ("CREATE VIEW v AS SELECT (1", "", "'\\)'"),
        ("ALTER VIEW v", "", "AS, RENAME TO"),
        ("ALTER VIEW v ADD COLUMNS (a INT)", "ADD", "AS, RENAME TO"),
        ("SHOW VIEWS LIKE", "", "a pattern"),
    ],
)
def test_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse(text)
    at = text.index(place) if place else len(text)
    assert (caught.value.line, caught.value.column) == (1, at + 1)

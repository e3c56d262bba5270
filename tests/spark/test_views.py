"""Views in the catalog from Python, beside Spark's own views, and where they are misused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hiveacid.core.model import TableName
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    ParseError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.sql.native.session import NativeSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_views_of_ours_beside_sparks(native: NativeSession, tmp_path: Path) -> None:
    """A view that reads no table of ours is Spark's, as ever; one that reads both is ours."""
    sql = native.sql
    sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sql(f"CREATE TABLE own USING json LOCATION '{tmp_path / 'own'}' AS SELECT 2 AS id, 'own' AS w")
    sql("CREATE VIEW sparks AS SELECT id, w FROM own")
    sql("CREATE VIEW mixed AS SELECT t.id, t.v, s.w FROM t LEFT JOIN sparks s ON t.id = s.id")
    assert native.acid.context.catalog.list_views("default") == ("mixed",)
    assert rows(native.table("mixed")) == rows(sql("SELECT * FROM default.mixed")) == [
        (1, "a", None), (2, "b", "own"),
    ]  # fmt: skip
    assert rows(native.table("sparks")) == [(2, "own")]
    assert native.catalog.tableExists("mixed")
    assert {("default", "mixed", False), ("default", "sparks", False)} <= {
        *map(tuple, sql("SHOW VIEWS").collect())
    }
    assert {("default", "mixed", False), ("default", "t", False)} <= {
        *map(tuple, sql("SHOW TABLES").collect())
    }
    with pytest.raises(UnsupportedFeatureError, match="a view in Spark's own catalog"):
        sql("ALTER VIEW sparks AS SELECT * FROM t")
    with pytest.raises(AlreadyExistsError, match="Spark's own catalog"):
        sql("CREATE OR REPLACE VIEW sparks AS SELECT * FROM t")
    sql("ALTER VIEW sparks AS SELECT id + 0 AS id, upper(w) AS w FROM own")
    assert ("OWN",) in rows(sql("SELECT w FROM mixed"))
    with pytest.raises(ParseError):
        sql("CREATE VIEW v WITH SCHEMA EVOLUTION AS SELECT * FROM t")
    # parameters become part of the text; the session's own views and databases do not
    sql("CREATE VIEW some AS SELECT v FROM t WHERE id > :least", args={"least": 1})
    assert rows(native.newSession().sql("SELECT * FROM some")) == [("b",)]
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    assert rows(plain.sql("SELECT s.v, m.w FROM some s JOIN mixed m ON s.v = m.v")) == [("b", "OWN")]
    plain.sql("CREATE VIEW from_java AS SELECT * FROM mixed")
    assert rows(native.table("from_java")) == rows(native.table("mixed"))
    for name in ("mixed", "some", "from_java"):
        sql(f"DROP VIEW {name}")
    assert not native.catalog.tableExists("mixed")
    with pytest.raises(AnalysisException):
        sql("DROP VIEW mixed")


@pytest.mark.exhaustive("the script views.test stays")
def test_in_python(acid: AcidSession) -> None:
    """Rows by ``acid.table``; snapshots and transactions as for tables; nothing else."""
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1), (2)")
    acid.sql("CREATE VIEW twice AS SELECT id * 2 AS d FROM t")
    view = acid.table("twice")
    assert rows(view.to_df()) == [(2,), (4,)]
    held = view.to_df()
    with acid.transaction() as txn:
        txn.table("t").insert(acid.sql("SELECT 3 AS id"))
        assert rows(txn.sql("SELECT * FROM twice")) == rows(txn.table("twice").to_df()) == [(2,), (4,), (6,)]
        assert rows(acid.sql("SELECT * FROM twice")) == [(2,), (4,)]
        for statement in (
            "CREATE VIEW w AS SELECT * FROM t",
            "DROP VIEW twice",
            "ALTER VIEW twice AS SELECT 1",
        ):
            with pytest.raises(TransactionStateError):
                txn.sql(statement)
    with acid.snapshot() as seen:
        acid.sql("SELECT 1").collect()
        frame = seen.sql("SELECT v.d, t.id FROM twice v JOIN t ON v.d = 2 * t.id")
        with pytest.raises(TransactionStateError):
            seen.sql("DROP VIEW IF EXISTS twice")
    acid.sql("DELETE FROM t WHERE id = 1")
    acid.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    acid.clean()
    assert rows(held) == [(2,), (4,)]
    assert rows(frame) == [(2, 1), (4, 2), (6, 3)]
    assert rows(view.to_df()) == [(4,), (6,)]
    for use in (
        lambda: view.insert(held),
        lambda: view.delete("d = 4"),
        lambda: view.compact("major"),
        lambda: view.inspect.files().collect(),
        lambda: view.definition,
    ):
        with pytest.raises(CatalogError, match="is a view"):
            use()
    acid.sql("DROP TABLE t")
    with pytest.raises(CatalogError, match=r"view default\.twice: table default\.t does not exist"):
        view.to_df()
    acid.sql("CREATE VIEW constant (a) AS VALUES (1), (2)")
    assert rows(acid.table("constant").to_df()) == [(1,), (2,)]
    # a chain of many, each on the one before
    for number in range(6):
        below = "constant" if number == 0 else f"chain{number - 1}"
        acid.sql(f"CREATE VIEW chain{number} AS SELECT a + 1 AS a FROM {below}")
    assert rows(acid.sql("SELECT * FROM chain5")) == [(7,), (8,)]
    with pytest.raises(UnsupportedFeatureError, match=r"default\.chain3 would read itself"):
        acid.sql("CREATE OR REPLACE VIEW chain3 AS SELECT a FROM chain5")
    assert rows(acid.sql("SELECT * FROM chain3")) == [(5,), (6,)]


def test_another_client_makes_or_drops_the_view_first(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the statement waits for its lock: with IF [NOT] EXISTS that is no error."""
    catalog, lock, name = acid.context.catalog, acid.context.store.lock, TableName("default", "w")
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("CREATE VIEW w AS SELECT id FROM t")
    view = catalog.get_view(name)
    assert view is not None

    def run(statement: str, meanwhile: Callable[[], None]) -> None:
        def waiting(*arguments: Any, **options: Any) -> Any:
            monkeypatch.undo()
            meanwhile()
            return lock(*arguments, **options)

        monkeypatch.setattr(acid.context.store, "lock", waiting)
        acid.sql(statement)

    run("DROP VIEW IF EXISTS w", lambda: catalog.drop_view(name))
    assert catalog.get_view(name) is None
    run("CREATE VIEW IF NOT EXISTS w AS SELECT id + 1 AS id FROM t", lambda: catalog.create_view(view))
    assert catalog.get_view(name) == view
    catalog.drop_view(name)
    with pytest.raises(AlreadyExistsError):
        run("CREATE VIEW w AS SELECT id FROM t", lambda: catalog.create_view(view))


def test_a_view_keeps_collations_and_a_table_refuses_them(native: NativeSession) -> None:
    """A column of a table has none, so that equal texts of the query would be different ones in the table."""
    if native.acid.context.env.version < (4, 0):
        return  # collations came with Spark 4
    texts = "SELECT 'Ab' COLLATE UTF8_LCASE AS c, array('Ab' COLLATE UTF8_LCASE) AS l"
    native.sql(f"CREATE TABLE plain {ACID} AS SELECT CAST(c AS STRING) AS c FROM ({texts})")
    native.sql("CREATE VIEW without_case AS SELECT c COLLATE UTF8_LCASE AS c FROM plain")
    assert rows(native.sql("SELECT * FROM without_case WHERE c = 'aB'")) == [("Ab",)]
    for column in ("c", "l"):
        with pytest.raises(UnsupportedFeatureError, match=f"column {column}: a table keeps no collation"):
            native.sql(f"CREATE TABLE collated {ACID} AS SELECT {column} FROM ({texts})")
    with pytest.raises(UnsupportedFeatureError, match="column c: a table keeps no collation"):
        native.sql(texts).writeTo("collated").tableProperty("transactional", "true").create()
    native.sql("INSERT INTO plain SELECT 'aB' COLLATE UTF8_LCASE")
    assert rows(native.sql("SELECT * FROM plain WHERE c = 'aB'")) == [("aB",)]


def test_a_view_means_the_same_in_every_session(native: NativeSession) -> None:
    """As Spark's own views: functions of the view's database, the creator's settings, nothing of the session's own."""
    sql, other = native.sql, native.newSession()
    for statement in (
        "CREATE DATABASE f1",
        "CREATE DATABASE f2",
        "USE f1",
        f"CREATE TABLE b (id INT) {ACID}",
    ):
        sql(statement)
    sql("INSERT INTO b VALUES (1)")
    native.udf.register("plus", lambda x: x + 1, "int")
    with pytest.raises(UnsupportedFeatureError, match="plus"):
        sql("CREATE VIEW uses_python AS SELECT plus(id) AS x FROM b")
    ansi = str(native.conf.get("spark.sql.ansi.enabled"))
    for value in ("true", "false"):
        native.conf.set("spark.sql.ansi.enabled", value)
        sql(f"CREATE VIEW ansi_{value} AS SELECT CAST('x' || id AS INT) AS c FROM b")
    native.conf.set("spark.sql.ansi.enabled", ansi)
    for value in ("true", "false"):
        other.conf.set("spark.sql.ansi.enabled", value)
        assert rows(other.sql("SELECT * FROM f1.ansi_false")) == [(None,)]
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            other.sql("SELECT * FROM f1.ansi_true").collect()
    if native.acid.context.env.version < (4, 0):
        return  # functions of SQL and variables came with Spark 4
    for database, factor in (("f1", 10), ("f2", 1000)):
        sql(f"CREATE FUNCTION {database}.scale(x INT) RETURNS INT RETURN x * {factor}")
    sql("CREATE VIEW scaled AS SELECT scale(id) AS x FROM b")
    for database in ("f1", "f2", "default"):
        other.sql(f"USE {database}")
        assert rows(other.sql("SELECT * FROM f1.scaled")) == rows(other.table("f1.scaled")) == [(10,)]
    sql("CREATE VIEW over_a_view AS SELECT x, scale(CAST(x AS INT)) AS y FROM scaled")
    assert rows(other.sql("SELECT * FROM f1.over_a_view")) == [(10, 100)]
    sql("DECLARE lim INT DEFAULT 1")
    sql("CREATE TEMPORARY FUNCTION passing(x INT) RETURNS INT RETURN x + 100")
    for query in ("SELECT * FROM b WHERE id = lim", "SELECT passing(id) AS x FROM b"):
        with pytest.raises(UnsupportedFeatureError, match="would not be the same in other sessions"):
            sql(f"CREATE VIEW bad AS {query}")
    # what was a column when the view was made is no variable later
    other.sql("DECLARE x INT DEFAULT 5")
    assert rows(other.sql("SELECT x FROM f1.scaled")) == [(10,)]


def test_conditions_of_a_view_keep_their_meaning(native: NativeSession) -> None:
    """What they skip is decided by the creator's settings and functions; TIMESTAMP columns have the reader's zone."""
    sql, other = native.sql, native.newSession()
    zone, escapes = "spark.sql.session.timeZone", "spark.sql.parser.escapedStringLiterals"
    sql("USE default")
    sql(f"CREATE TABLE t (at TIMESTAMP) PARTITIONED BY (p STRING) {ACID}")
    sql("INSERT INTO t VALUES (TIMESTAMP'2024-01-01 06:00:00', 'A'), (TIMESTAMP'2024-01-01 12:00:00', 'b')")
    native.conf.set(zone, "UTC")
    sql("CREATE VIEW six AS SELECT p FROM t WHERE at < TIMESTAMP'2024-01-01 07:00:00' AND hour(at) = 6")
    native.conf.unset(zone)
    sql(r"CREATE VIEW escaped AS SELECT p FROM t WHERE p = '\u0041'")
    sql("CREATE VIEW raised AS SELECT p FROM t WHERE upper(p) = 'B'")
    sql("CREATE VIEW all_of_them AS SELECT e.p AS e, r.p AS r, six.p AS six FROM escaped e, raised r, six")
    other.conf.set(zone, "Asia/Tokyo")
    other.conf.set(escapes, "true")
    other.udf.register("upper", lambda text: text + "!", "string")
    assert rows(other.sql("SELECT * FROM six")) == [("A",)]
    assert rows(other.sql("SELECT * FROM escaped")) == [("A",)]
    assert rows(other.sql("SELECT * FROM raised")) == [("b",)]
    assert rows(other.sql("SELECT * FROM all_of_them")) == [("A", "b", "A")]
    native.conf.set("spark.sql.legacy.ctePrecedencePolicy", "LEGACY")  # each reference is a copy of the query
    sql("CREATE VIEW pairs AS WITH q AS (SELECT p FROM t) SELECT q.p FROM q JOIN q r ON q.p = r.p")
    native.conf.unset("spark.sql.legacy.ctePrecedencePolicy")
    assert rows(other.sql("SELECT * FROM pairs")) == [("A",), ("b",)]

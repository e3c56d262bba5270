"""PARTITION (...) of writes: statements that say something else than they would do are refused, or do what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid import errors as e
from support.corpus.untouched import nothing_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return a session with tables that no refused statement may change."""
    import hiveacid  # noqa: PLC0415

    session = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("specs") / "wh"))
    stored = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    session.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (a STRING, b STRING) {stored}")
    session.sql("INSERT INTO t VALUES (1, 'x', 'y'), (2, 'x', 'z')")
    session.sql(f"CREATE TABLE flat (id INT) {stored}")
    session.sql("INSERT INTO flat VALUES (1)")
    yield session
    session.close()


REFUSED = {
    "INSERT OVERWRITE TABLE t PARTITION (a, b) IF NOT EXISTS SELECT 9, 'x', 'y'": (e.ConfigError, "none for a, b.*line 1, column 24"),
    "INSERT OVERWRITE TABLE t PARTITION (a = 'x', b) IF NOT EXISTS SELECT 9, 'y'": (e.ConfigError, "none for b"),
    "FROM flat INSERT OVERWRITE TABLE t PARTITION (a, b) IF NOT EXISTS SELECT 9, 'x', 'y'": (e.ConfigError, "IF NOT EXISTS"),
    "INSERT OVERWRITE TABLE flat IF NOT EXISTS SELECT 9": (e.ConfigError, "not partitioned"),
    # In Spark's SELECT the last word would be an alias, and more clauses could follow.
    "ALTER TABLE t DROP PARTITION (a = 'x' AND)": (e.ParseError, "line 1, column 42"),
    "ALTER TABLE t DROP PARTITION (a = 'x' || '' other)": (e.ParseError, "line 1, column"),
    "TRUNCATE TABLE t PARTITION (a = 'x', b = 'y' FROM flat)": (e.ParseError, "line 1, column"),
    "INSERT OVERWRITE t PARTITION (a = 'x' OR, b) SELECT 9, 'y'": (e.ParseError, "line 1, column"),
    "INSERT INTO t PARTITION (b, a) SELECT 9, 'y' AS b, 'x' AS a": (e.ConfigError, r"write PARTITION \(a, b\)"),
    "INSERT INTO t PARTITION (a = 'x', b) (id) SELECT 9": (e.ConfigError, r"partition column b: write \(id, b\)"),
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_a_misleading_statement_is_refused(home: AcidSession, sql: str) -> None:
    error, words = REFUSED[sql]
    with nothing_written(home, "t"), nothing_written(home, "flat"), pytest.raises(error, match=words):
        home.sql(sql)


def test_named_columns_may_have_any_order(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE o (id INT) PARTITIONED BY (a STRING, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO o PARTITION (b, a) (b, a, id) SELECT 'y', 'x', 1")
    frame = acid.context.env.spark.sql("SELECT 'y' AS b, 2 AS id, 'x' AS a")
    acid.table("o").insert(frame, partition={"b": ..., "a": ...})
    assert sorted(map(tuple, acid.sql("SELECT * FROM o").collect())) == [(1, "x", "y"), (2, "x", "y")]


def test_a_multi_insert_locks_the_partition_that_it_writes(home: AcidSession) -> None:
    with home.transaction() as txn:
        txn.sql("FROM flat INSERT INTO t PARTITION (a = 'm', b = uuid()) SELECT id")
        locked = {lock.partition for lock in home.context.store.show_locks() if lock.table == "t"}
    written = home.sql("SELECT concat('a=m/b=', b) FROM t WHERE a = 'm'").first()
    assert written is not None
    assert locked == {written[0]}


ESCAPED = [r"'\U0001F600'", r"'c\td'", r"'it\'s'", "'it''s'", r"'50\%'"]


@pytest.mark.parametrize(
    ("literal", "keeps_backslashes"),
    [*((literal, "false") for literal in ESCAPED), (r"'c\td'", "true")],
)
def test_an_escape_means_the_same_in_partition_and_where(
    home: AcidSession, literal: str, keeps_backslashes: str
) -> None:
    conf = home.context.env.spark.conf
    conf.set("spark.sql.parser.escapedStringLiterals", keeps_backslashes)
    try:
        home.sql(f"INSERT INTO t PARTITION (a = {literal}, b = 'escaped') SELECT 5")
        row = home.sql(f"SELECT count(*) FROM t WHERE a = {literal} AND b = 'escaped'").first()
        home.sql("ALTER TABLE t DROP PARTITION (b = 'escaped')")
    finally:
        conf.unset("spark.sql.parser.escapedStringLiterals")
    assert row is not None
    assert row[0] == 1

"""NOT NULL constraints in the plans that write; ``tests/interop/test_hive_constraints.py`` has those of real metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import Constraint, ConstraintKind
from hiveacid.errors import ConstraintViolationError, HiveAcidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.model import TableDefinition

NAME = "it's \\'a' \"name\" of ${env:HOME}"
CONSTRAINTS = (
    Constraint(ConstraintKind.NOT_NULL, NAME, "s"),
    Constraint(ConstraintKind.NOT_NULL, "nn_p", "p"),
)


@pytest.fixture
def constrained(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> AcidSession:
    """Return a session whose catalog has constraints for every table, as a metastore may."""
    acid.sql(
        "CREATE TABLE t (a INT, s STRUCT<x: INT>) PARTITIONED BY (p STRING) TBLPROPERTIES ('transactional'='true')"
    )

    def constraints(table: TableDefinition, **_: bool) -> tuple[Constraint, ...]:
        return CONSTRAINTS if table.name.name == "t" else ()

    monkeypatch.setattr(acid.context.catalog, "constraints", constraints)
    return acid


def rows(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted((row.a, row.s.x, row.p) for row in acid.sql("SELECT * FROM t").collect())


@pytest.mark.parametrize("escaped", ["false", "true"])
def test_names_nested_types_and_partitions(
    constrained: AcidSession, spark: SparkSession, request: pytest.FixtureRequest, escaped: str
) -> None:
    """A message with quotes, backslashes and variables arrives whole; NULL inside a struct is none of the column."""
    key = "spark.sql.parser.escapedStringLiterals"
    request.addfinalizer(lambda: spark.conf.unset(key))
    spark.conf.set(key, escaped)
    constrained.sql(
        "INSERT INTO t PARTITION (p='x') VALUES (1, named_struct('x', NULL)), (2, named_struct('x', 2))"
    )
    with pytest.raises(ConstraintViolationError) as found:
        constrained.sql("INSERT INTO t PARTITION (p='x') SELECT 3, NULL")
    assert f"constraint {NAME} (NOT NULL)" in str(found.value)
    for statement in (
        "INSERT INTO t PARTITION (p=NULL) SELECT 3, named_struct('x', 3)",
        "INSERT INTO t PARTITION (p) SELECT 3, named_struct('x', 3), NULL",
    ):
        with pytest.raises(ConstraintViolationError, match="nn_p"):
            constrained.sql(statement)
    assert [row[0] for row in constrained.sql("SELECT a FROM t ORDER BY a").collect()] == [1, 2]


@pytest.mark.exhaustive("the SQL scripts have the statements")
def test_rows_that_are_not_written_are_not_checked(constrained: AcidSession) -> None:
    """Source rows that no clause inserts, target rows that no clause changes, and deleted ones may hold NULL."""
    constrained.sql(
        "INSERT INTO t PARTITION (p='x') VALUES (1, named_struct('x', 1)), (2, named_struct('x', 2))"
    )
    constrained.sql(
        "MERGE INTO t USING (SELECT 1 AS k, named_struct('x', 5) AS v UNION ALL SELECT 2, NULL UNION ALL SELECT 3, NULL "
        "UNION ALL SELECT 4, named_struct('x', 4)) s ON t.a = s.k WHEN MATCHED AND s.v IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET s = s.v WHEN NOT MATCHED AND s.v IS NOT NULL THEN INSERT VALUES (s.k, s.v, 'y')"
    )
    assert rows(constrained) == [(1, 5, "x"), (4, 4, "y")]
    with pytest.raises(ConstraintViolationError):
        constrained.sql("UPDATE t SET s = NULL WHERE a = 4")
    assert rows(constrained) == [(1, 5, "x"), (4, 4, "y")]


def test_the_word_default_never_becomes_a_null_that_nobody_asked_for(
    acid: AcidSession,
) -> None:
    """The word is the column's default, also in REPLACE WHERE; inside an expression it is none."""
    acid.sql("CREATE TABLE t (a INT, b INT) TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t VALUES (1, DEFAULT), (2, 2)")
    for nested in ("coalesce(DEFAULT, 5)", "abs(DEFAULT)", "(DEFAULT)"):
        with pytest.raises(HiveAcidError, match=r"(?i)default"):
            acid.sql(f"INSERT INTO t VALUES (3, {nested})")
    acid.sql("ALTER TABLE t CHANGE b b INT CONSTRAINT d DEFAULT 7")
    acid.sql("INSERT INTO t REPLACE WHERE a = 2 VALUES (2, DEFAULT), (DEFAULT, 4)")
    found = [tuple(row) for row in acid.sql("SELECT * FROM t").collect()]
    assert sorted(found, key=str) == [(1, None), (2, 7), (None, 4)]
    acid.sql("INSERT OVERWRITE t VALUES (3, DEFAULT)")
    assert [tuple(row) for row in acid.sql("SELECT * FROM t").collect()] == [(3, 7)]


def test_a_column_whose_name_has_a_point_beside_a_static_partition(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE t (a STRUCT<b: INT>, `a.b` INT NOT NULL) PARTITIONED BY (p INT) TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO t PARTITION (p = 1) SELECT named_struct('b', 5), 6")
    assert [(row[0].b, row[1], row[2]) for row in acid.sql("SELECT * FROM t").collect()] == [(5, 6, 1)]

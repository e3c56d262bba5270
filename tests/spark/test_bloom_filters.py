"""Bloom filters of new ORC files, by table property: queries of single values read fewer row groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.config import setting_definitions
from hiveacid.errors import ConfigError

if TYPE_CHECKING:
    from hiveacid import AcidSession

ROWS = 20_000
STRIDE = 1000
CREATE = "CREATE TABLE {} (k STRING, n INT, `a.b` INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'{})"
BLOOM = ", 'orc.bloom.filter.columns'='n, K, a.b, gone'"  # another engine may have dropped the column gone
INSERT_ONLY = ", 'transactional_properties'='insert_only'"
# without an order of the keys, so that the lowest and highest key of a row group exclude nothing
INSERT = (
    f"INSERT INTO {{}} SELECT sha2(CAST(id AS STRING), 256), CAST(id AS INT), 1 FROM range(0, {ROWS}, 1, 1)"
)
QUERY = "SELECT n FROM {} WHERE k = sha2('{}', 256)"


@pytest.fixture(autouse=True)
def settings(acid: AcidSession) -> None:
    acid.set(setting_definitions.ORC_ROW_INDEX_STRIDE.name, str(STRIDE))
    acid.set(setting_definitions.SMALL_CHANGES.name, "0")


def rows_read(acid: AcidSession, query: str) -> tuple[list[int], int]:
    """Run a query of one column; return its values, and how many rows Spark's scans read for it."""
    frame = acid.sql(query)
    values = [row[0] for row in frame.collect()]
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()  # type: ignore[operator]
    scans = [leaves.apply(index).metrics() for index in range(leaves.size())]
    return values, sum(scan.apply("numOutputRows").value() for scan in scans)


@pytest.mark.parametrize("kind", ["", INSERT_ONLY], ids=["full ACID", "insert-only"])
def test_a_query_of_one_value_reads_its_row_group(acid: AcidSession, kind: str) -> None:
    acid.sql(CREATE.format("plain", kind))
    acid.sql(CREATE.format("filtered", kind + BLOOM))
    for table in ("plain", "filtered"):
        acid.sql(INSERT.format(table))
    assert rows_read(acid, QUERY.format("plain", 777)) == ([777], ROWS)
    values, rows = rows_read(acid, QUERY.format("filtered", 777))
    assert values == [777]
    assert STRIDE <= rows <= 3 * STRIDE  # its own row group, and few that the filter does not exclude
    assert rows_read(acid, QUERY.format("filtered", "nowhere"))[1] <= 3 * STRIDE


def test_changed_and_compacted_files_have_filters(acid: AcidSession) -> None:
    acid.sql(CREATE.format("t", BLOOM))
    acid.sql(INSERT.format("t"))
    acid.sql("UPDATE t SET n = n + 1000000 WHERE n % 2 = 0")
    acid.sql("MERGE INTO t USING (SELECT 5 AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE")
    values, rows = rows_read(acid, QUERY.format("t", 778))
    assert (values, rows <= 5 * STRIDE) == ([1_000_778], True)
    acid.table("t").compact("major")
    values, rows = rows_read(acid, QUERY.format("t", 778))
    assert (values, rows <= 3 * STRIDE) == ([1_000_778], True)
    assert rows_read(acid, QUERY.format("t", 5))[0] == []


def test_a_bad_share_is_refused(acid: AcidSession) -> None:
    for share in ("0", "1", "-0.1", "few", "0.0_1", "\N{ARABIC-INDIC DIGIT ZERO}.5"):
        with pytest.raises(ConfigError, match=r"expected a number"):
            acid.sql(CREATE.format("t", f"{BLOOM}, 'orc.bloom.filter.fpp'='{share}'"))
    acid.sql(CREATE.format("t", BLOOM + ", 'orc.bloom.filter.fpp'='0.05'"))
    made = acid.table("t").definition  # another engine may have set it
    acid.context.catalog.alter_table(made.name, made.with_properties({"orc.bloom.filter.fpp": "2"}))
    with pytest.raises(ConfigError, match=r"default.t: orc.bloom.filter.fpp: expected a number above 0"):
        acid.sql(INSERT.format("t"))


@pytest.mark.parametrize("kind", ["", INSERT_ONLY], ids=["full ACID", "insert-only"])
def test_days_of_the_old_calendar_and_zeros_are_found(acid: AcidSession, kind: str) -> None:
    """Spark asks a bloom filter for another day than the file has, and for one of two zeros: rows would be lost."""
    bloom = ", 'orc.bloom.filter.columns'='d,x,y'"
    acid.sql(
        f"CREATE TABLE t (n INT, d DATE, x DOUBLE, y FLOAT) STORED AS ORC TBLPROPERTIES ('transactional'='true'{kind}{bloom})"
    )
    acid.sql(
        "INSERT INTO t SELECT CAST(id AS INT), if(id = 700, DATE'1000-02-28', date_add(DATE'1900-01-01', CAST(id AS INT))), "
        "if(id = 700, -0.0D, id - 200.5D), if(id = 700, float('-0.0'), float(id - 200.5D)) FROM range(0, 1000, 1, 1)"
    )
    for condition in (
        "d = DATE'1000-02-28'",
        "d IN (DATE'1000-02-28')",
        "x = 0.0D",
        "y = float(0)",
        "x <=> 0.0D",
    ):
        assert [row.n for row in acid.sql(f"SELECT n FROM t WHERE {condition}").collect()] == [700], condition

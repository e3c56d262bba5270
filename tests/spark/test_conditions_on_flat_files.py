"""Conditions on flat files, of insert-only and plain tables and of tables before their conversion: Spark's own push-down would lose rows.

ORC and Parquet compare some values otherwise than Spark does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hiveacid import AcidSession

INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
_ZEROS = (
    "CAST('-0.0' AS DOUBLE) AS x, CAST('-0.0' AS FLOAT) AS f, named_struct('y', CAST('-0.0' AS DOUBLE)) AS n"
)
# To Java U+FFEE is above the emoji, which it takes for two characters from U+D800 on.
_ROWS = f"""
    SELECT /*+ COALESCE(1) */ id, {_ZEROS}, element_at(array('\uff5e', '\uffee', '😀'), id) AS s,
    CAST(element_at(array('\uff5e', '\uffee', '😀'), id) AS VARCHAR(5)) AS v,
    element_at(array(TIMESTAMP'1400-03-01 00:00:00', TIMESTAMP'1500-03-01 00:00:00', TIMESTAMP'1582-10-04 00:00:00'), id) AS ts
    FROM VALUES (1), (2), (3) AS t (id)
"""
_CONDITIONS = {
    "x = 0.0D": {1, 2, 3},
    "x >= 0 AND f = 0": {1, 2, 3},
    "x IN (0.0D, 5) AND id < 3": {1, 2},
    "f > 0": set(),
    "n.y = 0.0D": {1, 2, 3},
    "s >= '\uffee'": {2, 3},
    "s > '\uff5e' AND s IS NOT NULL": {2, 3},
    "v > '\uff5e'": {2, 3},
    "v = '\uffee'": {2},
    "ts >= TIMESTAMP'1582-10-04 00:00:00'": {3},
}


@pytest.mark.parametrize("storage", ["ORC", "PARQUET", "plain ORC", "converted"])
def test_no_row_is_lost(acid: AcidSession, storage: str) -> None:
    columns = "id INT, x DOUBLE, f FLOAT, n STRUCT<y:DOUBLE>, s STRING, v VARCHAR(5), ts TIMESTAMP"
    properties = INSERT_ONLY if storage in ("ORC", "PARQUET") else ""
    acid.sql(
        f"CREATE TABLE t ({columns}) STORED AS {'PARQUET' if storage == 'PARQUET' else 'ORC'} {properties}"
    )
    acid.sql(f"INSERT INTO t {_ROWS}")
    if storage == "converted":
        acid.sql("ALTER TABLE t SET TBLPROPERTIES ('transactional'='true')")
    rows = acid.table("t").to_df()
    for where, wanted in _CONDITIONS.items():
        for found in (acid.sql(f"SELECT id FROM t WHERE {where}"), rows.where(where).select("id")):
            assert {row.id for row in found.collect()} == wanted, (storage, where)


def test_row_groups_of_texts_are_skipped_by_the_condition_of_a_query(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, s STRING) STORED AS ORC {INSERT_ONLY}")
    acid.sql("INSERT INTO t SELECT id, lpad(id, 6, '0') FROM range(0, 30000, 1, 1)")
    frame = acid.sql("SELECT id FROM t WHERE s = '000005'")
    assert frame.collect() == [(5,)]
    node = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert int(node.metrics().apply("numOutputRows").value()) == 10_000

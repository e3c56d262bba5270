"""Writes of more tasks than there are buckets (4,096): every row arrives, and no row id occurs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import AcidSession

TASKS = 5000


def require_rows(acid: AcidSession, expected: int) -> None:
    found = acid.sql("SELECT count(*), count(DISTINCT id), count(DISTINCT ROW__ID) FROM large").collect()
    assert [tuple(row) for row in found] == [(expected, expected, expected)]


def test_an_insert_of_very_many_input_partitions_arrives(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE large (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    rows = acid.context.facts.spark.range(0, 40, 1, TASKS)
    acid.table("large").insert(rows)
    require_rows(acid, 40)

"""Writes of more tasks than there are buckets (4,096): every row arrives, and no row id occurs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiveacid import AcidSession

pytestmark = pytest.mark.exhaustive("INSERTs of fewer tasks stay; thousands of tasks take a minute")


TASKS = 5000


@pytest.fixture
def many_tasks(acid: AcidSession) -> Iterator[AcidSession]:
    """Yield a session whose shuffles may have more tasks than there are buckets."""
    conf = acid.context.env.spark.conf
    before = str(conf.get("spark.sql.shuffle.partitions"))
    conf.set("spark.sql.shuffle.partitions", str(TASKS))
    yield acid
    conf.set("spark.sql.shuffle.partitions", before)


def require_rows(acid: AcidSession, expected: int) -> None:
    found = acid.sql("SELECT count(*), count(DISTINCT id), count(DISTINCT ROW__ID) FROM large").collect()
    assert [tuple(row) for row in found] == [(expected, expected, expected)]


def test_an_insert_of_very_many_input_partitions_arrives(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE large (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    rows = acid.context.env.spark.range(0, TASKS, 1, TASKS)
    report = acid.table("large").insert(rows)
    require_rows(acid, TASKS)
    assert report.files <= 64  # the rows are few, so the tasks are


def test_a_merge_of_possibly_many_tasks_arrives(many_tasks: AcidSession) -> None:
    acid = many_tasks
    acid.sql("CREATE TABLE large (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    rows = acid.context.env.spark.range(0, 40, 1, 1)
    acid.table("large").merge(rows, "t.id = s.id").when_not_matched_insert().execute()
    require_rows(acid, 40)

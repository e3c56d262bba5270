"""Generated code stays the same from one statement to the next: else Java compiles the loop over all rows anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import WriteId
from hiveacid.spark.write.sort_and_stage import _write_id_outside_code
from support.generated_code import generated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


@pytest.mark.exhaustive("speed only; that write ids are not in the code stays")
def test_more_delete_events_are_no_other_code(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE t (id INT) PARTITIONED BY (d INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    for first in (0, 100):
        acid.sql(
            f"INSERT INTO t PARTITION (d) SELECT CAST(id + {first} AS INT), CAST(id % 2 AS INT) FROM range(100)"
        )
    codes = []
    for id_ in (7, 8, 99, 101, 150):
        acid.sql(f"DELETE FROM t WHERE id = {id_}")
        codes.append(generated(acid.sql("SELECT id FROM t WHERE d = 1")))
    assert codes[0]
    assert codes[0] == codes[-1]
    whole = generated(acid.table("t").to_df())
    acid.sql("DELETE FROM t WHERE id > 190")
    assert generated(acid.table("t").to_df()) == whole
    gone = {7, 8, 99, 101, 150, *range(191, 200)}
    assert acid.sql("SELECT sum(id) FROM t").collect() == [(sum(set(range(200)) - gone),)]


def test_write_ids_are_not_in_the_code(spark: SparkSession) -> None:
    one, two = (
        spark.range(3).selectExpr(f"{_write_id_outside_code(WriteId(nth))} AS w")
        for nth in (5, 70_000_000_000)
    )
    assert generated(one) == generated(two)
    assert [row.w for row in two.collect()] == [70_000_000_000] * 3

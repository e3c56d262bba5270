"""Tables of Hive and Trino read without Spark: the same rows and row ids as by Spark, and as the engine read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hiveacid
from support.corpus.engine_rows import assert_as_the_engine_read, rows_of, same
from support.corpus.golden_tables import REPEATED_TABLES, Golden, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid.sql.session import AcidSession
    from hiveacid.table.acid_table import AcidTable


@pytest.mark.exhaustive("tables of the same engine with the same kinds of files stay", cases=REPEATED_TABLES)
@pytest.mark.parametrize("which", sorted({(g.engine, g.scenario) for g in scenarios()}), ids="/".join)
def test_tables_read_without_spark_as_with_it(
    which: tuple[str, str], adopt_golden: Callable[[Golden], AcidTable], golden_session: AcidSession
) -> None:
    spark = golden_session.context.env.spark
    with hiveacid.open(golden_session.context.warehouse) as warehouse:
        for golden in scenarios(engine=which[0], scenario=which[1]):
            table = adopt_golden(golden)
            row_ids = golden.transactional == "full"
            frame = table.scan(row_ids=row_ids).to_df()
            read = warehouse.table(table.name).to_arrow(row_ids=row_ids)
            rows = rows_of(spark.createDataFrame(read)) if read.num_rows else []
            assert same(rows) == same(rows_of(frame)), golden
            assert_as_the_engine_read(golden, rows, frame.schema)
            assert warehouse.table(table.name).count() == len(rows)

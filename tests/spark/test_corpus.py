"""Tables of Hive and Trino, taken over as they lie on disk, read exactly as the engine read them.

All states of a scenario are read by one query: the same statement on each would take most of the time.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from engine_rows import IDENTITY, Row, hive_rows, positional, rows_of, same, trino_rows, without_ids
from golden_tables import Golden, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from hiveacid.table.acid_table import AcidTable

_STATE = "__state"
HIVE = sorted({(g.engine, g.scenario) for g in scenarios() if g.engine.startswith("hive")})


def read_together(frames: dict[str, DataFrame]) -> dict[str, list[Row]]:
    """Collect frames by name, those of one schema in one job."""
    found: dict[str, list[Row]] = {name: [] for name in frames}
    by_schema = sorted(frames.items(), key=lambda pair: str(pair[1].schema))
    for _, group in groupby(by_schema, key=lambda pair: str(pair[1].schema)):
        tagged = [frame.withColumn(_STATE, F.lit(name)) for name, frame in group]
        for row in rows_of(reduce(lambda left, right: left.unionByName(right), tagged)):
            found[row.pop(_STATE)].append(row)
    return found


@pytest.mark.parametrize("which", HIVE, ids="/".join)
def test_hive_tables_read_as_hive_reads_them(
    which: tuple[str, str], adopt_golden: Callable[[Golden], AcidTable]
) -> None:
    goldens = {golden.snapshot: golden for golden in scenarios(engine=which[0], scenario=which[1])}
    full = {name for name, golden in goldens.items() if golden.transactional == "full"}
    frames = {
        name: adopt_golden(golden).scan(row_ids=name in full).to_df() for name, golden in goldens.items()
    }
    read = read_together(frames)
    for name, golden in goldens.items():
        expected = hive_rows(golden, frames[name].schema)
        assert same(read[name]) == same(expected if name in full else without_ids(expected)), name


@pytest.mark.parametrize("golden", scenarios(engine="trino-476"), ids=str)
def test_trino_tables_read_as_trino_reads_them(
    golden: Golden, adopt_golden: Callable[[Golden], AcidTable]
) -> None:
    table = adopt_golden(golden)
    frame = table.scan(row_ids=True).to_df()
    rows = positional(rows_of(frame), frame.schema)
    assert same(without_ids(rows)) == same(trino_rows(golden, frame.schema))
    keys = [{"key": (partition_of(table, row), row[IDENTITY])} for row in rows]
    assert same(keys) == same({"key": (m["partition"] or "", m["row_id"])} for m in golden.merged)


def partition_of(table: AcidTable, row: Row) -> str:
    """Return the directory of a row's partition; Trino's tables here need no escaping."""
    return "/".join(f"{c.name}={row[c.name]}" for c in table.definition.partition_columns)

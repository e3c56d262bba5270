"""Tables of Hive and Trino, taken over as they lie on disk, read exactly as the engine read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_rows import IDENTITY, Row, hive_rows, positional, rows_of, same, trino_rows, without_ids
from golden_tables import Golden, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid.table.acid_table import AcidTable


@pytest.mark.parametrize("golden", [g for g in scenarios() if g.engine.startswith("hive")], ids=str)
def test_hive_tables_read_as_hive_reads_them(
    golden: Golden, adopt_golden: Callable[[Golden], AcidTable]
) -> None:
    table = adopt_golden(golden)
    with_ids = golden.transactional == "full"
    frame = table.scan(row_ids=with_ids).to_df()
    expected = hive_rows(golden, frame.schema)
    assert same(rows_of(frame)) == same(expected if with_ids else without_ids(expected))


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

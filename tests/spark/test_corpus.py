"""Tables of Hive and Trino: taken over as they lie on disk, read exactly, then changed and compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine_rows import IDENTITY, Row, hive_rows, positional, rows_of, same, trino_rows, without_ids
from golden_tables import Golden, RowId, scenarios, unpack
from sort_merge_reader import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

_BY_POSITION = {
    ("schema_evo", snapshot): "columns are matched by name; by position comes with issue 5"
    for snapshot in ("4_renamed_col", "5_minor_uncleaned", "6_major_uncleaned", "z_after_clean")
}


def cases(goldens: tuple[Golden, ...]) -> list[Any]:
    return [
        pytest.param(
            golden,
            id=str(golden),
            marks=[pytest.mark.xfail(strict=True, reason=_BY_POSITION[golden.scenario, golden.snapshot])]
            if (golden.scenario, golden.snapshot) in _BY_POSITION
            else [],
        )
        for golden in goldens
    ]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return one connection for all tables of this file: each gets a name of its own."""
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("corpus")))
    connection.sql("CREATE DATABASE acid")
    yield connection
    connection.close()


@pytest.fixture
def adopt(warehouse: AcidSession, tmp_path: Path) -> Iterator[Callable[[Golden], AcidTable]]:
    adopted: list[AcidTable] = []

    def take_over(golden: Golden) -> AcidTable:
        location = unpack(golden, tmp_path / "t")
        table = warehouse.adopt(
            golden.show_create_table, location=str(location), valid_write_ids=golden.valid_write_ids or None
        )
        adopted.append(table)
        return table

    yield take_over
    for table in adopted:
        warehouse.sql(f"DROP TABLE {table.name}")


@pytest.mark.parametrize("golden", cases(tuple(g for g in scenarios() if g.engine.startswith("hive"))))
def test_hive_tables_read_as_hive_reads_them(golden: Golden, adopt: Callable[[Golden], AcidTable]) -> None:
    table = adopt(golden)
    with_ids = golden.transactional == "full"
    frame = table.scan(row_ids=with_ids).to_df()
    expected = hive_rows(golden, frame.schema)
    assert same(rows_of(frame)) == same(expected if with_ids else without_ids(expected))


@pytest.mark.parametrize("golden", scenarios(engine="trino-476"), ids=str)
def test_trino_tables_read_as_trino_reads_them(golden: Golden, adopt: Callable[[Golden], AcidTable]) -> None:
    table = adopt(golden)
    frame = table.scan(row_ids=True).to_df()
    rows = positional(rows_of(frame), frame.schema)
    assert same(without_ids(rows)) == same(trino_rows(golden, frame.schema))
    keys = [(partition_of(table, row), row[IDENTITY]) for row in rows]
    assert same({"key": key} for key in keys) == same(
        {"key": (merged["partition"] or "", merged["row_id"])} for merged in golden.merged
    )


def partition_of(table: AcidTable, row: Row) -> str:
    """Return the directory of a row's partition; no value in these tables needs escaping but the NULL."""
    return "/".join(
        f"{column.name}={'__HIVE_DEFAULT_PARTITION__' if row[column.name] is None else row[column.name]}"
        for column in table.definition.partition_columns
    )

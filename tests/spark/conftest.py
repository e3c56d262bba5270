"""Golden tables, taken over by a connection of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden_tables import Golden, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable


@pytest.fixture(scope="module")
def golden_session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return one connection for all golden tables of a module; they come and go one by one."""
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("golden")))
    connection.sql("CREATE DATABASE acid")
    yield connection
    connection.close()


@pytest.fixture
def adopt_golden(golden_session: AcidSession, tmp_path: Path) -> Iterator[Callable[[Golden], AcidTable]]:
    """Return what unpacks a golden table and takes it over with the write ids that its engine saw."""
    adopted: list[AcidTable] = []

    def adopt(golden: Golden) -> AcidTable:
        number = len(adopted)
        location = unpack(golden, tmp_path / f"t{number}")
        # a name of its own: states of one table can then be there at once
        create = re.sub(
            r"^(CREATE (?:EXTERNAL )?TABLE\s+[\w.`]+?)(`?\s*\()", rf"\1_{number}\2", golden.show_create_table
        )
        table = golden_session.adopt(
            create,
            location=str(location),
            valid_write_ids=golden.valid_write_ids or None,
        )
        adopted.append(table)
        return table

    yield adopt
    for table in adopted:
        golden_session.sql(f"DROP TABLE {table.name}")

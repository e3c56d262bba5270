"""Conversion from insert-only to full ACID: states whose files full ACID would not read end there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import hiveacid
from hiveacid.catalog.ddl import create_table, set_properties
from hiveacid.config.property_definitions import CONVERSION
from hiveacid.core.model import Column, TableDefinition, TableName, WriteId
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import NotEnoughHistoryError, UnsupportedFeatureError
from hiveacid.streaming.connection import Connection
from hiveacid.table.context import Context
from hiveacid.table.tags import create_tag, drop_tag
from support.contexts import open_context

T = TableName("default", "t")
ONLY = (("transactional", "true"), ("transactional_properties", "insert_only"))


def write(context: Context, number: int, *, overwrite: bool = False) -> None:
    with (
        Connection(str(T), warehouse=context.warehouse, overwrite=overwrite) as stream,
        stream.transaction(),
    ):
        stream.write(pa.table({"id": pa.array([number], pa.int32())}))


def rows(context: Context, write_id: int | None = None) -> list[int]:
    with hiveacid.open(context.warehouse) as warehouse:
        return sorted(warehouse.table("t").to_arrow(as_of=write_id)["id"].to_pylist())


@pytest.mark.parametrize("name", ["part-00000.orc", "000000_0"])
def test_states_of_files_with_other_names_end(tmp_path: Path, name: str) -> None:
    """LOAD DATA keeps the names of files, and a converted plain table has its own; such states lost their rows silently."""
    context = open_context(tmp_path)
    create_table(context, TableDefinition(T, (Column("id", "int"),), ORC, "", properties=ONLY))
    write(context, 1)
    written = Path(context.require(T).location, "delta_0000001_0000001_0000", "000000_0")
    written.rename(written.parent / name)
    write(context, 2, overwrite=True)
    write(context, 3)
    create_tag(context, T, "one", WriteId(1))
    to_full = {"transactional_properties": "default"}
    if name == "000000_0":
        set_properties(context, T, to_full)
        assert (rows(context, 1), rows(context)) == ([1], [2, 3])
        return
    with pytest.raises(UnsupportedFeatureError, match="has the tag 'one'"):
        set_properties(context, T, to_full)
    assert rows(context, 1) == [1]
    drop_tag(context, T, "one")
    set_properties(context, T, to_full)
    with pytest.raises(NotEnoughHistoryError, match="write id 2"):
        rows(context, 1)
    assert (rows(context, 2), rows(context)) == ([2], [2, 3])
    context.close()


def test_a_conversion_to_full_acid_goes_on_after_one_to_insert_only_that_died(tmp_path: Path) -> None:
    """It took the directory that the other one had filled for a data file, and the table could become insert-only alone."""
    context = open_context(tmp_path)
    create_table(context, TableDefinition(T, (Column("id", "int"),), ORC, ""))
    table = context.require(T)
    place = Path(table.location)
    orc.write_table(pa.table({"id": pa.array([1], pa.int32())}), place / "000000_0")
    context.catalog.alter_table(T, table.with_properties({CONVERSION.name: "1"}))
    filled = place / "delta_0000001_0000001_0000"
    filled.mkdir()
    (filled / "000000_0").hardlink_to(place / "000000_0")
    assert rows(context) == [1]
    set_properties(context, T, {"transactional": "true"})
    assert (rows(context), filled.exists()) == ([1], False)
    write(context, 2)
    assert rows(context) == [1, 2]
    context.close()

"""A dump that is not complete, or not of plain files, is refused before a row is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import InvalidPathError, MissingDirectoryError
from hiveacid.sql.execute.export_and_import import location_in_dump, read_dump
from hiveacid.stores.hms.definitions import format_dump
from support.contexts import open_context

TABLE = TableDefinition(TableName("d", "t"), (Column("id", "int"),), ORC, "/elsewhere")
PARTITIONED = replace(TABLE, partition_columns=(Column("p", "string"),))


def test_the_files_of_a_dump(tmp_path: Path) -> None:
    context, dump = open_context(tmp_path / "wh"), tmp_path / "dump"
    with pytest.raises(InvalidPathError, match="has not finished"):
        read_dump(context, str(dump))
    dump.mkdir()
    (dump / "_metadata").write_bytes(format_dump(TABLE, (), 0))
    table, partitions = read_dump(context, str(dump))
    assert (table.location, partitions) == (f"{dump}/data", ())
    with pytest.raises(InvalidPathError, match="not complete") as caught:
        location_in_dump(context, table, None)
    assert isinstance(caught.value.__cause__, MissingDirectoryError)
    # Hive calls the directories of an insert-only table so, and its files in each the same
    names = ["export_old_delta_0000001_0000001_0000/000000_0", "export_old_base_0000002/000000_0", "000000_0"]
    for name in (*names, "_SUCCESS", ".000000_0.crc", "_tmp/000000_0"):
        (dump / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (dump / "data" / name).write_text("x")
    (dump / "data" / "000001_0").touch()
    files = location_in_dump(context, table, None).state.originals
    assert {file.path for file in files} == set(names)
    for name in ("delta_0000001_0000001_0000/bucket_00000", "base_0000002/000000_0", "_files"):
        (dump / "data" / name).parent.mkdir(exist_ok=True)
        (dump / "data" / name).write_text("x")
        with pytest.raises(InvalidPathError, match=r"plain files: acid.adopt\(...\)"):
            location_in_dump(context, table, None)
        (dump / "data" / name).unlink()
    context.close()


def test_partitions_lie_below_the_dump_whatever_their_values_are(tmp_path: Path) -> None:
    context, dump = open_context(tmp_path / "wh"), tmp_path / "dump"
    dump.mkdir()
    partitions = [Partition((value,), "/etc") for value in ("../../x", "..", None)]
    (dump / "_metadata").write_bytes(format_dump(PARTITIONED, partitions, 0))
    table, found = read_dump(context, str(dump))
    assert table.location == str(dump)
    names = ("p=..%2F..%2Fx", "p=..", "p=__HIVE_DEFAULT_PARTITION__")
    assert [one.location for one in found] == [f"{dump}/{name}" for name in names]
    context.close()

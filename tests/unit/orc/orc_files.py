"""What the tests of ORC files share: the table behind Spark's flat files, and ways to read and change files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyorc

from hiveacid.core.model import Column
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.storage.local_file_system import LocalFileSystem

DATA = Path(__file__).parent / "data"
FLAT = (
    "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:boolean"
)
Key = tuple[int, int, int]

SPARK_COLUMNS = (
    Column("flag", "boolean"),
    Column("tiny", "tinyint"),
    Column("small", "smallint"),
    Column("n", "int"),
    Column("big", "bigint"),
    Column("f", "float"),
    Column("d", "double"),
    Column("money", "decimal(10,2)"),
    Column("wide", "decimal(38,18)"),
    Column("ein name", "char(6)"),
    Column("bin", "binary"),
    Column("ts", "timestamp"),
    Column("day", "date"),
    Column("list", "array<varchar(8)>"),
    Column("m", "map<char(3),timestamp with local time zone>"),
    Column("row", "struct<bucket:int,y:array<struct<operation:varchar(9)>>>"),
)
"""The table behind the columns c0 … c15 of Spark's files, true lengths and instants included."""


def tail_of(path: Path) -> OrcTail:
    """Read a file's tail from the local disk."""
    return read_tail(LocalFileSystem(durable=False), str(path), path.stat().st_size)


def rows_of(path: Path) -> list[Any]:
    """Read all rows with pyorc; timestamps stay numbers, structs tuples."""
    with path.open("rb") as file:
        return list(pyorc.Reader(file))


def rewrite(path: Path, change: tuple[int, bytes]) -> None:
    """Replace a file's tail by what `nest_row_columns` or `set_true_types` returned."""
    LocalFileSystem(durable=False).replace_tail(str(path), *change)

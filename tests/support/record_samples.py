"""A record with a value of each type, and the columns of its table."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from hiveacid.core.model import Column

COLUMNS = (
    Column("n", "int"),
    Column("s", "varchar(20)"),
    Column("d", "date"),
    Column("t", "timestamp"),
    Column("m", "decimal(10,2)"),
    Column("b", "binary"),
    Column("ok", "boolean"),
)
TIME = datetime(2024, 1, 2, 3, 4, 5, 600_000)  # noqa: DTZ001 - Hive's timestamps have no zone
ROW = {
    "n": 1,
    "s": "x",
    "d": date(2024, 2, 29),
    "t": TIME,
    "m": Decimal("1.50"),
    "b": b"\xc3\xa9",
    "ok": True,
}
NULLS = dict.fromkeys(ROW)

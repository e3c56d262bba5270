"""Instants become what a clock on the wall shows, at any depth, where the table has a TIMESTAMP; nothing else changes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa

from hiveacid.core.model import Column
from hiveacid.datasource.stream_sink import wall_clock

TOKYO = ZoneInfo("Asia/Tokyo")
NOON, OLD = datetime(2024, 7, 1, 12, tzinfo=TOKYO), datetime(1899, 12, 31, 23, 59, 58, 999999, tzinfo=TOKYO)
INSTANT = pa.timestamp("us", "Asia/Tokyo")


def columns(instant: str) -> tuple[Column, ...]:
    types = {
        "at": instant,
        "ntz": "timestamp",
        "many": f"array<{instant}>",
        "deep": f"map<string,array<struct<n:int,at:{instant}>>>",
        "plain": "array<string>",
    }
    return tuple(Column(name, kind) for name, kind in types.items())


def test_instants_at_any_depth() -> None:
    inner = pa.struct([("at", INSTANT), ("n", pa.int32())])
    schema = pa.schema(
        [
            ("at", INSTANT),
            ("ntz", pa.timestamp("us")),
            ("many", pa.list_(INSTANT)),
            ("deep", pa.map_(pa.string(), pa.list_(inner))),
            ("plain", pa.list_(pa.string())),
        ]
    )
    plain = [one.replace(tzinfo=None) for one in (NOON, OLD)]
    rows = [
        {"at": NOON, "ntz": plain[0], "many": [OLD, None], "deep": [("k", [{"at": NOON, "n": 1}, None])], "plain": ["x"]},
        {"at": None, "ntz": None, "many": None, "deep": None, "plain": None},
        {"at": OLD, "ntz": plain[1], "many": [], "deep": [], "plain": []},
    ]  # fmt: skip
    whole = pa.RecordBatch.from_pylist([rows[1], *rows, rows[0]], schema=schema)
    found = wall_clock(whole.slice(1, 3), columns("timestamp"))
    assert found.to_pylist() == [
        {
            **rows[0],
            "at": plain[0],
            "many": [plain[1], None],
            "deep": [("k", [{"at": plain[0], "n": 1}, None])],
        },
        rows[1],
        {**rows[2], "at": plain[1]},
    ]
    assert found.schema.names == schema.names
    assert str(found.schema.field("deep").type).count("tz=") == 0
    assert wall_clock(whole.slice(1, 3), columns("timestamp with local time zone")).equals(whole.slice(1, 3))

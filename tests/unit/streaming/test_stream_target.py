"""The static partition of a stream: values become the texts of partition names, or are refused."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.config import Settings
from hiveacid.errors import SchemaMismatchError
from hiveacid.streaming.stream_target import StreamTarget

NOON = datetime(2024, 1, 2, 12)  # noqa: DTZ001 - Hive's timestamps have no zone


@pytest.mark.parametrize(
    ("hive", "good", "text", "bad"),
    [
        ("INT", ["01", 1.0, Decimal(1)], "1", [1.5, Decimal("1.5"), "1.5", float("inf"), 1 << 40, 1 << 70]),
        ("DATE", ["2024-01-02", date(2024, 1, 2)], "2024-01-02", [NOON, 5]),
        ("STRING", ["x"], "x", [5]),
        ("DOUBLE", ["0.50", 0.5], "0.5", ["1e400"]),
    ],
)
def test_static_partition_values_lose_nothing(
    wh: Warehouse, hive: str, good: Any, text: str, bad: Any
) -> None:
    table = wh.create(f"CREATE TABLE t (id INT) PARTITIONED BY (p {hive}) {ACID}")
    for value in good:
        assert StreamTarget.of(table, {"p": value}, Settings()).static == (text,)
    for value in bad:
        with pytest.raises(SchemaMismatchError, match="partition column p"):
            StreamTarget.of(table, {"p": value}, Settings())

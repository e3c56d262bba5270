"""Values of files that the tasks of ``format("hiveacid")`` read, and values that they refuse."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.datasource.change_feed_task import read_file_changes
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.clock import SystemClock
from support.directories.shelves import definition

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def create(home: Path, columns: str) -> None:
    store, _ = open_store(str(home), None, Settings(), SystemClock())
    (home / "t").mkdir()
    store.create_table(definition(f"CREATE TABLE t ({columns}) {ACID}", str(home / "t")))
    store.close()


def read(home: Path) -> list[dict[str, Any]]:
    source = ChangeSource(ChangeOptions("t", str(home), None, starting="snapshot"))
    try:
        return [
            row
            for file in source.files(source.start_offset(), source.next_end_offset(None))
            for batch in read_file_changes(file)
            for row in batch.to_pylist()
        ]
    finally:
        source.close()


def test_values_that_arrows_own_reader_returns_differently(tmp_path: Path) -> None:
    create(tmp_path, "d DATE, t TIMESTAMP, n DECIMAL(38,1), s STRUCT<d: DATE, c: CHAR(3)>")
    row = {
        "d": dt.date(1500, 1, 1),
        "t": dt.datetime(1969, 12, 31, 23, 59, 57, 250_000),  # noqa: DTZ001 - a wall clock
        "n": Decimal("9999999999999999999999999999999999999.9"),
        "s": {"d": dt.date(1400, 2, 28), "c": "a  "},
    }
    with open_warehouse(str(tmp_path)) as warehouse:
        table = warehouse.table("t")
        table.append(pa.Table.from_pylist([row], table.schema))
        assert read(tmp_path) == table.to_arrow().to_pylist() == [row]


def test_times_inside_of_other_types_are_refused_with_the_column(tmp_path: Path) -> None:
    create(tmp_path, "id INT, s ARRAY<TIMESTAMP>")
    with pytest.raises(UnsupportedFeatureError, match=f"{TableName('default', 't')}: column s"):
        read(tmp_path)


def test_a_second_plan_of_files_begins_its_read_before_the_first_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path, "id INT")
    source = ChangeSource(ChangeOptions("t", str(tmp_path), None, starting="snapshot"))
    start, end = source.start_offset(), source.next_end_offset(None)
    source.files(start, end)
    (first,) = source._held
    open_at_release: list[int] = []
    release = source.release_before

    def noted(*args: Any) -> None:
        open_at_release.append(len(source.store.valid_txns().open))
        release(*args)

    monkeypatch.setattr(source, "release_before", noted)
    source.files(start, end)
    assert open_at_release == [2]
    assert first.txn.ended
    source.close()

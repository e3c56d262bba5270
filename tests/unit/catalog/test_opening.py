"""Opening of a warehouse: what is told about one that is about to be created."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hiveacid.catalog.opening import log_new_warehouse, open_store
from hiveacid.config import Settings
from hiveacid.ports.clock import SystemClock


def test_connecting_warns_about_a_new_warehouse_whose_path_may_be_misspelt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`connect` creates one, as documented: without a word for the first one, as no path of it is suspicious."""

    def told(path: Path, store: str | None = None) -> list[tuple[int, str]]:
        caplog.clear()
        log_new_warehouse(str(path), store)
        return [(record.levelno, record.getMessage()) for record in caplog.records]

    caplog.set_level(logging.INFO)
    place, typo, deep = tmp_path / "warehouse", tmp_path / "warehuose", tmp_path / "dta" / "warehouse"
    assert told(place) == [(logging.INFO, f"creating a new warehouse at {place}")]
    open_store(str(place), None, Settings(), SystemClock())[0].close()
    assert told(place) == []
    assert told(typo) == [(logging.WARNING, f"creating a new warehouse at {typo}; did you mean warehouse?")]
    assert told(deep) == [
        (logging.WARNING, f"creating a new warehouse at {deep}, and the directory {deep.parent}")
    ]
    assert told(typo, "thrift://metastore:9083") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse"]

"""Options of format("hiveacid"): what is missing or odd is said, with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hiveacid.datasource.options import (
    READ,
    WRITE,
    TableAddress,
    checkpoint_of,
    flag_of,
    query_of,
    require_known,
    require_warehouse,
)
from hiveacid.errors import ConfigError


def test_a_place() -> None:
    assert TableAddress.of({"table": " db.t ", "warehouse": "/wh"}) == TableAddress("db.t", "/wh", None)
    assert TableAddress.of({"table": "t", "store": "postgresql+psycopg://h/d", "warehouse": "file:/wh"}).store
    for options, message in (
        ({"warehouse": "/wh"}, "table"),
        ({"table": "t"}, "warehouse"),
        ({"table": "t", "warehouse": "wh"}, "whole path"),
    ):
        with pytest.raises(ConfigError, match=message):
            TableAddress.of(options)
    for place in ("s3a://lake/wh", "hdfs:/wh"):
        assert TableAddress.of({"table": "t", "warehouse": place}).warehouse == place


def test_what_is_unknown_is_not_ignored() -> None:
    require_known({"table": "t", "as_of": "1"}, READ)
    for name, known in (("asof", READ), ("versionasof", READ), ("path", READ), ("as_of", WRITE)):
        with pytest.raises(ConfigError, match=f"does not know the option {name} here"):
            require_known({"table": "t", name: "1"}, known)


def test_no_warehouse_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no warehouse is there"):
        require_warehouse({"table": "t", "warehouse": f"file:{tmp_path}/typo"})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "wh" / ".hiveacid").mkdir(parents=True)
    require_warehouse({"table": "t", "warehouse": f"{tmp_path}/wh"})
    require_warehouse({"table": "t", "warehouse": f"{tmp_path}/new", "store": "sqlite:///s.db"})


def test_a_name_and_flags() -> None:
    assert query_of({"queryname": "q"}) == "q"
    assert query_of({"queryname": "q", "query_name": "r"}) == "r"
    with pytest.raises(ConfigError, match="query_name"):
        query_of({"query_name": " "})
    assert [flag_of({"restart": text}, "restart") for text in ("TRUE", "false", "")] == [True, False, False]
    assert not flag_of({}, "restart")
    with pytest.raises(ConfigError, match="restart=perhaps"):
        flag_of({"restart": "perhaps"}, "restart")


def test_the_id_of_a_checkpoint(tmp_path: Path) -> None:
    for place in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        with pytest.raises(ConfigError, match="can't be read"):
            checkpoint_of({"checkpointlocation": place})
    (tmp_path / "metadata").write_text(json.dumps({"id": "one"}))
    for place in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert checkpoint_of({"checkpointlocation": place}) == "one"
    (tmp_path / "metadata").write_text("{")
    with pytest.raises(ConfigError, match="can't be read"):
        checkpoint_of({"checkpointlocation": str(tmp_path)})
    with pytest.raises(ConfigError, match="checkpointLocation"):
        checkpoint_of({})
    with pytest.raises(ConfigError, match="ftp://b/c/metadata"):
        checkpoint_of({"checkpointlocation": "ftp://b/c"})

"""The packed tables arrive whole: every engine, empty directories, rows and write ids as text and values."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from support.corpus.golden_tables import ENGINES, Golden, RowId, find, scenarios, unpack

HIVE = [golden for golden in scenarios() if golden.engine.startswith("hive")]


def test_every_engine_and_state_is_there() -> None:
    assert Counter(golden.engine for golden in scenarios()) == {
        "hive-3.1.3": 73,
        "hive-4.0.1": 57,
        "trino-476": 7,
    }
    assert {golden.engine for golden in scenarios()} == set(ENGINES)
    assert len({str(golden) for golden in scenarios()}) == 137


@pytest.mark.parametrize("golden", HIVE, ids=str)
def test_the_directory_is_what_hive_left(golden: Golden, tmp_path: Path) -> None:
    location = unpack(golden, tmp_path / "t")
    files = {f"{p.relative_to(location)} {p.stat().st_size}" for p in location.rglob("*") if p.is_file()}
    assert files == set(golden.meta["files"])
    assert all((location / empty).is_dir() for empty in golden.meta["empty_dirs"])
    assert golden.read_error or len(golden.rows) == golden.meta["rows"]
    assert len(golden.row_keys) == (len(golden.rows) if "row__id" in golden.meta["query"] else 0)


def test_an_empty_table_directory_survives(tmp_path: Path) -> None:
    unpack(find("hive-3.1.3", "iow", "6_truncate"), tmp_path / "t")
    assert list((tmp_path / "t").iterdir()) == []


def test_hive_rows_are_typed_and_carry_their_row_id() -> None:
    golden = find("hive-3.1.3", "part_bucketed", "2_crud")
    assert golden.table == "default.c_part_bucketed"
    assert golden.valid_write_ids == "default.c_part_bucketed:4:9223372036854775807::"
    assert golden.valid_txns == "148:9223372036854775807::"
    assert golden.show_create_table.startswith("CREATE TABLE `c_part_bucketed`(")
    assert golden.transactional == "full"
    assert golden.row_keys[0] == RowId(1, 536870912, 0)
    assert golden.rows[0] == {
        "row__id": {"writeid": 1, "bucketid": 536870912, "rowid": 0},
        "input__file__name": "p=x/q=1/delta_0000001_0000001_0000/bucket_00000",
        "id": 9, "v": "i", "p": "x", "q": 1,
    }  # fmt: skip


def test_trino_rows_are_texts_and_its_write_id_list_is_hives(tmp_path: Path) -> None:
    golden = find("trino-476", "crud")
    assert golden.valid_write_ids == "acid.c01_crud:7:9223372036854775807::"
    assert golden.rows[2] == {
        "id": "5",
        "s": None,
        "d": "5.50",
        "$path": "delta_0000001_0000001_0000/bucket_00000",
    }
    assert golden.merged[0] == {
        "partition": None,
        "row_id": RowId(1, 536870912, 4),
        "values": [5, None, "5.50"],
    }
    assert find("trino-476", "part_ctas").merged[0]["partition"] == "regionkey=0"
    assert (unpack(golden, tmp_path / "t") / "delta_0000001_0000001_0000" / "bucket_00000").is_file()
    assert "DELETE" in golden.script


def test_what_hive_could_not_read_has_the_right_rows() -> None:
    failed = [golden for golden in HIVE if golden.read_error]
    assert len(failed) == 3
    before = find("hive-3.1.3", "aborted", "2_minor_uncleaned")
    assert [golden.rows for golden in failed] == [before.rows] * 3
    assert json.dumps(before.rows).count("row__id") == 3


def test_kinds_of_tables() -> None:
    assert Counter(golden.transactional for golden in scenarios()) == {
        "full": 115,
        "insert_only": 20,
        "none": 2,
    }


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        find("hive-3.1.3", "crud", "nothing")

"""The second reader gives exactly the rows and row ids that Hive and Trino read from their own tables."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.corpus.golden_tables import Golden, RowId, find, scenarios, unpack
from support.corpus.sort_merge_reader import read_location, read_table
from support.directories.files import write_location
from support.directories.maker import make_location
from support.directories.model import make_ids

FULL = [golden for golden in scenarios() if golden.transactional == "full"]
HIVE = [golden for golden in FULL if golden.engine.startswith("hive")]
TRINO = [golden for golden in FULL if golden.engine.startswith("trino")]
COMPLEX = ("c_arr", "c_map", "c_st", "c_nest")


def partition_columns(golden: Golden) -> list[str]:
    text = re.search(r"PARTITIONED BY \((.*?)\)", golden.show_create_table, re.DOTALL)
    return re.findall(r"`(\w+)`", text.group()) if text else []


def columns_of(golden: Golden) -> list[str]:
    text = (
        golden.show_create_table.partition("(")[2].partition("ROW FORMAT")[0].partition("PARTITIONED BY")[0]
    )
    return re.findall(r"^ *`(\w+)`", text, re.MULTILINE)


def plain(value: Any) -> Any:
    """Say a value as the golden rows do."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S") + (
            f".{value.microsecond:06d}" if value.microsecond else ""
        )
    if isinstance(value, dt.date):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return value


@pytest.mark.parametrize("golden", HIVE, ids=str)
def test_row_ids_and_values_are_hives(golden: Golden, tmp_path: Path) -> None:
    keys = partition_columns(golden)
    names = columns_of(golden)
    found = read_table(unpack(golden, tmp_path / "t"), golden.valid_write_ids, len(keys))
    rows = [
        (RowId(*row[:3]), dict(zip(names, map(plain, row[3]), strict=False)), partition)
        for partition, inside in found.items()
        for row in inside
    ]
    assert sorted(map(str, (row[0] for row in rows))) == sorted(map(str, golden.row_keys))
    if golden.scenario in ("all_types", "schema_evo"):  # below; renamed columns are not the reader's business
        return
    expected = [
        (id_of(row), {name: row[name] for name in names}, "/".join(f"{key}={row[key]}" for key in keys))
        for row in golden.rows
    ]
    read = [(row_id, values, unescaped(partition)) for row_id, values, partition in rows]
    assert sorted(read, key=str) == sorted(expected, key=str)


def id_of(row: dict[str, Any]) -> RowId:
    return RowId(*(row["row__id"][part] for part in ("writeid", "bucketid", "rowid")))


def unescaped(partition: str) -> str:
    return re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), partition)


@pytest.mark.parametrize("golden", scenarios(scenario="all_types", snapshot="2_crud"), ids=str)
def test_values_of_every_type_are_hives(golden: Golden, tmp_path: Path) -> None:
    names = columns_of(golden)
    found = read_location(unpack(golden, tmp_path / "t"), golden.valid_write_ids)
    for row, expected in zip(found, golden.rows, strict=True):
        values = dict(zip(names, row[3], strict=True))
        assert json.loads(expected["c_arr"] or "null") == values["c_arr"]
        assert json.loads(expected["c_map"] or "null") == values["c_map"]
        assert tuple(json.loads(expected["c_st"]).values()) == values["c_st"]
        for name in set(names) - set(COMPLEX) - {"c_ts", "c_date", "c_dec38"}:
            if name in ("c_float", "c_double"):
                assert str(values[name]).lower() == str(expected[name]).lower().replace("infinity", "inf")
            else:
                assert plain(values[name]) == expected[name], name
        assert values["c_dec38"] == Decimal(expected["c_dec38"])
        if not expected["c_ts"].startswith("15"):  # Python's and Hive's calendars part in 1582
            assert (plain(values["c_ts"]), plain(values["c_date"])) == (expected["c_ts"], expected["c_date"])


@pytest.mark.parametrize("golden", TRINO, ids=str)
def test_row_ids_are_those_of_an_independent_merge_of_trinos_tables(golden: Golden, tmp_path: Path) -> None:
    found = read_table(unpack(golden, tmp_path / "t"), golden.valid_write_ids, len(partition_columns(golden)))
    read = [
        (partition or None, RowId(*row[:3]), row[3]) for partition, inside in found.items() for row in inside
    ]
    assert sorted(str(row[:2]) for row in read) == sorted(
        str((m["partition"], m["row_id"])) for m in golden.merged
    )
    if golden.scenario in ("types", "crud"):  # decimals and dates are texts there
        return
    assert sorted(str((*row[:2], list(row[2]))) for row in read) == sorted(
        str((m["partition"], m["row_id"], m["values"])) for m in golden.merged
    )


def test_other_write_id_lists_show_other_snapshots(tmp_path: Path) -> None:
    """What the list says decides, not what lies on disk."""
    location = unpack(find("hive-4.0.1", "crud", "2_crud"), tmp_path / "t")
    early = find("hive-4.0.1", "crud", "1_insert")
    first = read_location(location, "default.c_crud:1:9223372036854775807::")
    assert [RowId(*row[:3]) for row in first] == list(early.row_keys)
    assert read_location(location, "default.c_crud:4:1:1-4:") == []
    aborted = read_location(location, "default.c_crud:4:9223372036854775807::2-4")
    assert aborted == first


@pytest.mark.parametrize("seed", range(40))
def test_random_legal_directories_hold_what_was_committed(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    if location.too_new:  # the reader knows no readers that began before a compaction
        location = make_location(Random(0), replace(ids, states=ids.final))
        ids = replace(ids, states=ids.final)
    root = write_location(tmp_path / "t", location, random)
    found = read_location(root, f"db.t:{ids.write_ids.to_string().partition(':')[2]}")
    assert {row[:3]: row[3][0] for row in found} == location.rows

"""``hiveacid ingest`` writes lines of files and pipes without Spark, and says what it could not take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.ports.clock import SystemClock
from support.corpus.sort_merge_reader import read_table
from support.directories.shelves import definition

CREATE = "CREATE TABLE t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    root = tmp_path / "wh"
    (root / "t").mkdir(parents=True)
    store, _ = open_store(str(root), None, Settings(), SystemClock())
    store.create_table(definition(CREATE, str(root / "t")))
    store.close()
    return root


def run(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["ingest", "t", "-w", str(warehouse), *arguments], env={"HIVEACID_WAREHOUSE": None}
    )


def rows(warehouse: Path) -> list[tuple[Any, ...]]:
    store, _ = open_store(str(warehouse), None, Settings(), SystemClock())
    name = TableName("default", "t")
    valid = store.valid_write_ids(store.valid_txns(), [name])[name].to_string()
    store.close()
    found = read_table(warehouse / "t", valid, 1)
    return sorted((partition, *event[3]) for partition, events in found.items() for event in events)


def test_files_of_every_format(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id":1,"name":"a","p":1}\n\n{"id":2,"p":2}', encoding="utf-8")
    (tmp_path / "b.csv").write_text('id;name\n3;"x;y"\n4;\\N\n', encoding="utf-8")
    result = run(warehouse, str(tmp_path / "a.json"), "-o", "json", "--batch-rows", "1")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert {key: told[key] for key in ("table", "rows", "transactions")} == {
        "table": "t", "rows": 2, "transactions": 3,
    }  # fmt: skip
    result = run(
        warehouse,
        "--format",
        "csv",
        "--delimiter",
        ";",
        "--header",
        "--partition",
        "p=1",
        str(tmp_path / "b.csv"),
    )
    assert result.exit_code == 0, result.output
    assert "2 rows in 1 transaction, " in result.stdout
    assert rows(warehouse) == [
        ("p=1", 1, "a"), ("p=1", 3, "x;y"), ("p=1", 4, None), ("p=2", 2, None),
    ]  # fmt: skip


def test_a_bad_record_ends_it(warehouse: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text('{"id":1,"p":1}\n{"id":2,"p":1}\n{"id":"x","p":1}\n{"id":4,"p":1}\n', encoding="utf-8")
    result = run(warehouse, str(source), "--batch-rows", "2")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "2 rows were committed before" in result.stderr
    assert "error RECORD: record 3" in result.stderr
    assert [row[1] for row in rows(warehouse)] == [1, 2]


def test_wrong_calls(warehouse: Path, tmp_path: Path) -> None:
    assert run(warehouse, "--format", "regex").exit_code == 2
    assert run(warehouse, str(tmp_path / "none.json")).exit_code == 1
    assert rows(warehouse) == []


def test_a_slow_pipe_is_committed_while_it_is_open(warehouse: Path) -> None:
    """The rows of a pipe are there within a moment, not at its end; no Spark is imported."""
    code = "import sys; from hiveacid.cli import main; sys.stdin; main(standalone_mode=False); "
    code += "assert not [name for name in sys.modules if name.startswith('pyspark')]"
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "ingest",
            "t",
            "-w",
            str(warehouse),
            "--batch-seconds",
            "0.1",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        for number in (1, 2):
            process.stdin.write(f'{{"id":{number},"p":1}}\n')
            process.stdin.flush()
            while len(rows(warehouse)) < number:
                assert process.poll() is None
        told, _ = process.communicate('{"id":3,"p":2}', timeout=60)
    assert process.returncode == 0
    assert told.startswith("t: 3 rows in 3 transactions")
    assert [row[1] for row in rows(warehouse)] == [1, 2, 3]


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("batch_rows", ["1", "1000"])
def test_a_byte_order_mark_is_dropped_at_the_start_of_a_file_only(
    warehouse: Path, tmp_path: Path, batch_rows: str, end: str
) -> None:
    (tmp_path / "a").write_text("\ufeff1,a", encoding="utf-8")
    (tmp_path / "b").write_text(f"\ufeff1,b\n2,\ufeffc\n\ufeff3,d{end}", encoding="utf-8")
    options = ("--format", "csv", "--partition", "p=1", "--batch-rows", batch_rows)
    result = run(warehouse, *options, *(str(tmp_path / name) for name in ("a", "b")))
    assert result.exit_code == 1
    assert "record 4 does not fit" in result.output
    assert rows(warehouse) == (
        [("p=1", 1, "a"), ("p=1", 1, "b"), ("p=1", 2, "\ufeffc")] if batch_rows == "1" else []
    )


def test_a_table_is_created_for_the_lines_of_a_file(tmp_path: Path) -> None:
    """In a new warehouse, too; a table that is there keeps its columns."""
    new, csv_file, json_file = str(tmp_path / "new"), tmp_path / "a.csv", tmp_path / "a.json"
    csv_file.write_text("id,Day,zip\n1,2026-01-01,007\n", encoding="utf-8")
    json_file.write_text('{"id": 1.5}\n', encoding="utf-8")
    arguments = ["--create", "--format", "csv", "--header", "-w", new]

    def ingest(name: str, *more: str) -> Result:
        return CliRunner().invoke(main, ["ingest", name, *more], env={"HIVEACID_WAREHOUSE": None})

    made = ingest("sales", str(csv_file), *arguments)
    assert made.exit_code == 0, made.output
    assert (
        "CREATE TABLE default.sales (`id` BIGINT, `day` DATE, `zip` STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        in made.stderr
    )
    again = ingest("sales", str(csv_file), *arguments)
    assert (again.exit_code, again.stderr) == (0, "")
    assert ingest("events", str(json_file), "--create", "-w", new).exit_code == 0
    store, _ = open_store(new, None, Settings(), SystemClock())
    table, events = (store.get_table(TableName("default", name)) for name in ("sales", "events"))
    store.close()
    assert table is not None
    assert events is not None
    assert [column.type for column in (*table.columns, *events.columns)] == [
        *("bigint", "date", "string", "double")
    ]
    valid = "default.sales:2:9223372036854775807::"
    assert sum(len(found) for found in read_table(tmp_path / "new" / "sales", valid, 0).values()) == 2
    for wrong in (["-", *arguments], [str(csv_file), "--create", "--format", "csv", "-w", new]):
        assert ingest("other", *wrong).exit_code == 2
    source, sink = os.pipe()
    os.write(sink, b"id\n1\n")
    os.close(sink)
    piped = ingest("other", f"/dev/fd/{source}", *arguments)  # of the shell's <(…): it can be read once
    os.close(source)
    assert (piped.exit_code, "is a pipe" in piped.output) == (2, True)
    (tmp_path / "c.csv").write_text(",id\n0,1\n", encoding="utf-8")  # as pandas writes an index
    unnamed = ingest("other", str(tmp_path / "c.csv"), *arguments)
    assert (unnamed.exit_code, "column 1 has no name" in unnamed.stderr) == (1, True)
    (tmp_path / "b.csv").write_text("zip,id,day\nx,1,2026-01-01\n", encoding="utf-8")
    swapped = ingest("sales", str(tmp_path / "b.csv"), *arguments)
    assert "the header names the columns in another order" in swapped.stderr
    assert swapped.exit_code == 1

"""``table files``, ``table deltas`` and ``check --quick`` answer without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.core.model import WriteId
from hiveacid.ports.clock import SystemClock
from support.corpus.acid_files import acid_bytes, bucket_property, deletes, inserts, put
from support.directories.shelves import definition

COLUMNS = "id:int,name:string"
FILES = {
    "delta_0000001_0000001_0000/bucket_00000": acid_bytes(inserts(1, [(1, "a"), (2, "b")]), COLUMNS),
    "delta_0000001_0000001_0000/_orc_acid_version": b"2",
    "delete_delta_0000002_0000002_0000/bucket_00000": acid_bytes(
        deletes(2, [(1, bucket_property(0), 0)]), COLUMNS
    ),
    "delete_delta_0000002_0000002_0000/_orc_acid_version": b"2",
    "delta_0000003_0000003_0000/bucket_00000": b"torn",
    "notes.d/x": b"x",
}
CREATE = "CREATE TABLE t (id INT, name STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """Return a warehouse with a table whose write id 3 was aborted."""
    root = tmp_path / "wh"
    table = definition(CREATE, str(put(root / "t", FILES)))
    store, _ = open_store(str(root), None, Settings(), SystemClock())
    store.create_table(table)
    store.seed_write_ids(table.name, WriteId(3), (WriteId(3),))
    store.close()
    return str(root)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"HIVEACID_WAREHOUSE": None})


def test_directories_are_told_with_their_states_and_reasons(warehouse: str) -> None:
    result = run("table", "deltas", "t", "-w", warehouse, "-o", "json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["directory"]: (row["kind"], row["state"], row["reason"]) for row in rows} == {
        "delete_delta_0000002_0000002_0000": ("delete_delta", "used", "write id 2 is committed"),
        "delta_0000001_0000001_0000": ("delta", "used", "write id 1 is committed"),
        "delta_0000003_0000003_0000": ("delta", "aborted", "write id 3 is aborted"),
        "notes.d": ("other", "foreign", "not of the layout: no reader looks at it"),
    }
    first = next(row for row in rows if row["directory"] == "delta_0000001_0000001_0000")
    assert (first["min_write_id"], first["statement_id"], first["visibility_txn_id"]) == (1, 0, None)
    assert (first["files"], first["partition"]) == (2, None)


def test_files_are_told_with_their_states(warehouse: str) -> None:
    result = run("table", "files", "default.t", "-w", warehouse, "-o", "tsv")
    assert result.exit_code == 0, result.output
    header, *lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert header == ["partition", "directory", "file", "kind", "bytes", "state", "reason"]
    states = {Path(line[2]).relative_to(f"{warehouse}/t").as_posix(): line[5] for line in lines}
    assert states["delta_0000001_0000001_0000/bucket_00000"] == "used"
    assert states["delta_0000001_0000001_0000/_orc_acid_version"] == "side file"
    assert states["delta_0000003_0000003_0000/bucket_00000"] == "aborted"
    assert "| state" in run("table", "files", "t", "-w", warehouse).stdout
    missing = run("table", "files", "nosuch", "-w", warehouse)
    assert (missing.exit_code, missing.stderr[:13]) == (1, "error 10001: ")


def test_a_quick_check_has_the_exit_code_of_what_it_finds(warehouse: str) -> None:
    good = run("check", "t", "--quick", "-w", warehouse, "-o", "json")
    assert good.exit_code == 0
    found = [json.loads(line) for line in good.stdout.splitlines()]
    assert [(one["severity"], one["code"]) for one in found] == [
        ("warning", "foreign-file"),
        ("note", "aborted"),
    ]
    put(Path(warehouse) / "t", {"delta_0000001_0000001_0000/bucket_00000": b"torn"})
    bad = run("check", "t", "--quick", "-w", warehouse)
    assert bad.exit_code == 1
    assert "damage unreadable-file: " in bad.stdout
    assert bad.stdout.endswith("t: 1 damage, 1 warning, 1 note\n")
    assert run("check", "t", "--quick").exit_code == 2
    assert run("check", "--quick", "-w", warehouse).exit_code == 2


def test_none_of_it_imports_pyspark(warehouse: str) -> None:
    code = (
        "import sys; from hiveacid.cli import main\n"
        f"for line in (['check', 't', '--quick'], ['table', 'files', 't'], ['table', 'deltas', 't']):\n"
        f"    main([*line, '-w', {warehouse!r}], standalone_mode=False)\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_long_list_has_kind_rows_bytes_and_the_last_commit(warehouse: str) -> None:
    """Rows of the deleted events are left out; those of a text table cannot be counted without Spark."""
    store, _ = open_store(warehouse, None, Settings(), SystemClock())
    plain = "CREATE TABLE words (word STRING)"
    store.create_table(definition(plain, f"{warehouse}/words"))
    store.close()
    result = run("table", "list", "-l", "-w", warehouse, "-o", "json")
    assert result.exit_code == 0, result.output
    words_of, rows_of = [json.loads(line) for line in reversed(result.stdout.splitlines())]
    assert (words_of["table"], words_of["kind"], words_of["rows"]) == ("words", "plain", None)
    used = ("delta_0000001_0000001_0000/bucket_00000", "delete_delta_0000002_0000002_0000/bucket_00000")
    assert (rows_of["table"], rows_of["kind"], rows_of["rows"]) == ("t", "full acid", 1)
    assert rows_of["bytes"] == sum(len(FILES[name]) for name in used)
    assert rows_of["last_commit"].endswith("+00:00")


def test_a_history_for_people_has_the_columns_that_they_ask_for_first(warehouse: str) -> None:
    short = run("table", "history", "t", "-w", warehouse).stdout.splitlines()[1]
    assert [name.strip() for name in short.strip("|").split("|")] == [
        *("write_id", "committed_at", "operation", "inserted", "updated", "deleted", "statement")
    ]
    assert "agent" in run("table", "history", "t", "--all", "-w", warehouse).stdout
    assert "agent" in run("table", "history", "t", "-o", "json", "-w", warehouse).stdout

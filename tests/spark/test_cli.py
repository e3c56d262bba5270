"""The command line: what goes where, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import hiveacid
from hiveacid.cli import main
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE t (id INT, item STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a warehouse with one table; the commands find the running Spark session."""
    place = str(tmp_path_factory.mktemp("cli") / "warehouse")
    with hiveacid.connect(spark, warehouse=place) as acid:
        acid.sql(TABLE)
        acid.sql("INSERT INTO t VALUES (1, 'tea', 1), (2, NULL, 2)")
        acid.sql("INSERT INTO t VALUES (3, 'a\tb\n\"c\"', 1)")
    return place


def run(*arguments: str, text: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, input=text, env={"HIVEACID_WAREHOUSE": None, **environment})


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_is_one_object_a_row_and_nothing_else(warehouse: str) -> None:
    query = "SELECT id, item, map('k', 1.50) AS m, array(DATE '2026-01-02') a, X'00FF' y, 1 AS id FROM t ORDER BY t.id"
    found = lines(run("sql", "-w", warehouse, "-o", "json", "-e", query))
    assert found[0] == {"id": 1, "item": "tea", "m": {"k": 1.5}, "a": ["2026-01-02"], "y": "AP8=", "id_2": 1}
    assert found[1]["item"] is None
    assert found[2]["item"] == 'a\tb\n"c"'


def test_json_has_keys_of_any_characters(warehouse: str) -> None:
    query = "SELECT 1 AS `\U0001f600 'a' \\\\ é`"
    assert lines(run("sql", "-w", warehouse, "-o", "json", "-e", query)) == [{"\U0001f600 'a' \\\\ é": 1}]


def test_several_statements_run_one_after_the_other(warehouse: str) -> None:
    script = "USE default; -- first\nSELECT 'a;b' AS x;\n\nSHOW TABLES;"
    result = run("sql", "-o", "json", text=script, HIVEACID_WAREHOUSE=warehouse)
    assert lines(result) == [{"x": "a;b"}, {"tab_name": "t"}]
    options = ["-o", "json", "-e", "SELECT 1 AS x; SELECT 2 AS x", "-e", "SELECT 3 AS x"]
    assert lines(run("sql", "-w", warehouse, *options)) == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_a_file_may_begin_with_a_byte_order_mark(warehouse: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT 1 AS x", encoding="utf-8-sig")
    assert lines(run("sql", "-w", warehouse, "-o", "json", "-f", str(script))) == [{"x": 1}]


def test_a_transaction_that_nobody_commits_is_told_of(tmp_path: Path) -> None:
    place = str(tmp_path / "warehouse")
    script = f"{TABLE.replace('TABLE t', 'TABLE IF NOT EXISTS t')}; START TRANSACTION; INSERT INTO t VALUES (1, 'tea', 1);"
    for command in ("sql", "shell"):
        result = run(command, "-w", place, text=script)
        assert (result.exit_code, "not followed by COMMIT" in result.stderr) == (0, True)
    result = run("sql", "-w", place, "-o", "tsv", "-e", f"{script} COMMIT; SELECT count(*) AS n FROM t")
    assert (result.stdout.splitlines()[-1], "COMMIT" in result.stderr) == ("1", False)


def test_a_failed_statement_rolls_its_transaction_back(tmp_path: Path) -> None:
    """COMMIT refuses, naming the statement; one that fails when its rows are read counts, too (issue 20, 6)."""
    place = str(tmp_path / "warehouse")
    setup = TABLE.replace("TABLE t", "TABLE IF NOT EXISTS t")
    for command, failing in (("sql", "SELECT * FROM missing"), ("shell", "SELECT raise_error('late')")):
        script = (
            f"{setup}; START TRANSACTION; INSERT INTO t VALUES (1, 'tea', 1); {failing}; COMMIT; ROLLBACK;"
        )
        result = run(command, "-k", "-w", place, "-o", "tsv", text=f"{script} SELECT count(*) AS n FROM t;")
        assert result.exit_code == 1
        assert f"because a statement in it failed: {failing}" in result.stderr
        assert "error TXN_FAILED" in result.stderr
        assert result.stdout.split()[-2:] == ["n", "0"]


def test_the_first_error_ends_the_run_with_its_code_and_place(warehouse: str) -> None:
    result = run(
        "sql", "-w", warehouse, "-o", "csv", "-", text="SELECT 1 AS a;\nSELECT *\n FROM nosuch; SELECT 2 AS b"
    )
    assert result.exit_code == 1
    assert result.stdout == "a\n1\n"
    assert result.stderr.startswith("error 10001: table nosuch does not exist")
    assert "(line 3, column 7)" in result.stderr


def test_keep_going_runs_the_rest_and_still_fails(warehouse: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELEC 1; SELECT 1 / 0 AS a; SELECT 2 AS b;", encoding="utf-8")
    result = run("sql", "-w", warehouse, "-k", "-o", "tsv", "-f", str(script))
    assert result.exit_code == 1
    assert result.stdout.endswith("b\n2\n")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["error 40000", "error DATA"]


def test_a_script_of_beeline_runs_as_it_is(warehouse: str, tmp_path: Path) -> None:
    """Variables by option and SET, comments, semicolons in texts, another script in the middle."""
    other, script = tmp_path / "the other.hql", tmp_path / "script.hql"
    other.write_text(
        "-- of the other\nSELECT '${hivevar:who}' AS b;\nSET hivevar:who=it;\n", encoding="utf-8"
    )
    script.write_text(
        f"""-- it's; a comment
        SELECT '${{hivevar:who}} ${{who}} ${{hiveconf:run.day}};' AS a; -- and; 'another
        SET hivevar:who=${{who}}2;
        /* ; */ source {other};
        SET day=2026-01-02;
        SET hiveconf:hive.txn.timeout=20min;
        SET hive.txn.timeout;
        SELECT '${{who}} ${{hiveconf:day}}' AS c, count(*) AS n FROM ${{t}};
        -- the end""",
        encoding="utf-8",
    )
    given = ["--hivevar", "who=x y", "--hivevar", "t=t", "--hiveconf", "run.day=2026=1"]
    given += ["--hiveconf", "hive.lock.numretries=3"]
    result = run("sql", "-w", warehouse, "-o", "json", *given, "-f", str(script))
    assert lines(result) == [
        {"a": "x y x y 2026=1;"},
        {"b": "x y2"},
        {"set": "hive.txn.timeout=20min"},
        {"c": "it 2026-01-02", "n": 3},
    ]


def test_a_script_runs_no_commands_and_says_which_file_failed(warehouse: str, tmp_path: Path) -> None:
    made, script = tmp_path / "made", tmp_path / "circle.hql"
    for text in (f"!sh touch {made}", f"SELECT 1;\n ! touch {made};", "!connect jdbc:hive2://x"):
        result = run("sql", "-w", warehouse, "-e", text)
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert "which a script does not run" in result.stderr
        assert f"(line {text.count(chr(10)) + 1}, column " in result.stderr
    assert not made.exists()
    for text in ("${nosuch}", "${hivevar:nosuch}", "${hiveconf:no.such}"):
        result = run("sql", "-w", warehouse, "-e", f"SELECT '{text}'")
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert "has no value: give --hive" in result.stderr
    script.write_text(f"SELECT 1 AS a;\nsource {script};", encoding="utf-8")
    result = run("sql", "-w", warehouse, "-o", "csv", "-f", str(script))
    assert (result.exit_code, result.stdout.count("a")) == (1, 21)
    assert "perhaps in a circle" in result.stderr
    script.write_text("SELECT 1 AS a;\nSELECT * FROM nosuch;\nSELECT 2 AS a", encoding="utf-8")
    result = run(
        "sql", "-w", warehouse, "-k", "-o", "csv", "-e", f"source '{script}'; source {made}; SELECT 3 AS a"
    )
    assert (result.exit_code, result.stdout) == (1, "a\n1\na\n2\na\n3\n")
    assert f"source {made}: " in result.stderr
    result = run("sql", "-w", warehouse, "-o", "csv", "-e", f"source {script}; SELECT 3 AS a")
    assert (result.exit_code, result.stdout) == (1, "a\n1\n")
    assert f"in {script}:" in result.stderr
    assert "(line 2, column 15)" in result.stderr


def test_csv_and_tsv_keep_odd_texts(warehouse: str) -> None:
    query = "SELECT item, id FROM t ORDER BY id"
    rows = list(csv.reader(io.StringIO(run("sql", "-w", warehouse, "-o", "csv", "-e", query).stdout)))
    assert rows == [["item", "id"], ["tea", "1"], ["", "2"], ['a\tb\n"c"', "3"]]
    tsv = run("sql", "-w", warehouse, "-o", "tsv", "-e", query).stdout
    assert tsv == 'item\tid\ntea\t1\nNULL\t2\na\\tb\\n"c"\t3\n'


def test_a_table_for_people(warehouse: str) -> None:
    shown = run(
        "sql", "-w", warehouse, "-e", "SELECT id, item, X'0A' AS y FROM t WHERE id < 3 ORDER BY id"
    ).stdout
    assert shown.splitlines()[1:6:2] == ["| id | item | y  |", "|  1 | tea  | 0A |", "+----+------+----+"]
    assert "|  2 | NULL | 0A |" in shown


def test_a_person_at_a_terminal_reads_what_a_statement_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the shell; a pipe gets the row of counts (test_a_process_of_its_own_prints_rows_and_nothing_else)."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    for shown_on_a_real_terminal in ("hiveacid.cli.options.spark_starts", "hiveacid.cli.sql.at_work"):
        monkeypatch.setattr(shown_on_a_real_terminal, lambda *_: nullcontext())
    settings = ("--set", "hive.create.as.acid=true")
    script = (
        "CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE id = 2; SELECT id FROM t"
    )
    result = run("sql", "-w", str(tmp_path / "wh"), *settings, "-e", script)
    assert result.exit_code == 0, result.output
    told = [line.rpartition(" in ")[0] for line in result.stderr.splitlines()]
    assert told == ["done", "2 rows inserted, write id 1", "1 row deleted, write id 2", "1 row"]
    assert "num_affected_rows" not in result.stdout


def test_wrong_calls_end_with_2(warehouse: str) -> None:
    for arguments in (
        ["sql", "-e", "SELECT 1"],
        ["sql", "-w", "", "-e", "SELECT 1"],
        ["sql", "-w", warehouse, "-e", "SELECT 1", "-"],
        ["sql", "-w", warehouse, "somewhere"],
        ["sql", "-w", warehouse, "-o", "xml", "-e", "SELECT 1"],
        ["sql", "-w", warehouse, "--hivevar", "nonsense", "-e", "SELECT 1"],
        ["sql", "-w", warehouse, "--hiveconf", "=1", "-e", "SELECT 1"],
        ["sql", "-w", warehouse, "--conf", "nonsense", "-e", "SELECT 1"],
        ["compact", "t", "-w", warehouse, "--partition", "nonsense"],
        ["txn", "abort", "-w", warehouse, "many"],
        ["nosuch"],
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert "Usage:" in result.stderr


def test_who_only_looks_makes_no_warehouse(tmp_path: Path) -> None:
    script = "/* CREATE */ SHOW TABLES; SELECT 'CREATE'"
    reads = ["sql", "-e", script]
    for arguments in (["table", "list"], ["locks"], ["table", "describe", "t"], ["check", "t"], reads):
        result = run(*arguments, "-w", str(tmp_path / "typo"))
        assert (result.exit_code, result.stdout) == (1, ""), arguments
        assert "there is no warehouse at" in result.stderr
    assert not (tmp_path / "typo").exists()
    result = run(
        "sql", "-w", str(tmp_path / "new"), "-e", "SET x=1; -- first\n create DATABASE d; SHOW DATABASES"
    )
    assert (result.exit_code, result.stdout.count("default")) == (0, 1), result.stderr


def test_a_new_warehouse_is_announced_and_needs_the_directory_above_it(tmp_path: Path) -> None:
    for arguments in (["shell"], ["sql", "-e", "CREATE DATABASE d"], ["serve"]):
        result = run(*arguments, "-w", str(tmp_path / "typo/wh"))
        assert (result.exit_code, result.stdout) == (1, ""), arguments
        assert f"no directory {tmp_path / 'typo'} for a new one" in result.stderr
    assert not (tmp_path / "typo").exists()
    place = str(tmp_path / "warehouse")
    assert f"creating a new warehouse at {place}\n" in run("shell", "-w", place, text="SHOW TABLES;").stderr
    assert "creating" not in run("shell", "-w", place, text="SHOW TABLES;").stderr
    near = run("shell", "-w", f"{place}s", text="SHOW TABLES;").stderr
    assert f"creating a new warehouse at {place}s; did you mean warehouse?\n" in near


def test_tables_are_listed_described_and_looked_into(warehouse: str) -> None:
    assert lines(run("table", "list", "-w", warehouse, "-o", "json")) == [{"tab_name": "t"}]
    assert {"col_name": "item", "data_type": "string", "comment": ""} in lines(
        run("table", "describe", "default.t", "-w", warehouse, "-o", "json")
    )
    assert {row["partition"] for row in lines(run("table", "files", "t", "-w", warehouse, "-o", "json"))} == {
        "p=1",
        "p=2",
    }
    states = lines(run("table", "deltas", "t", "-w", warehouse, "-o", "json"))
    assert {row["state"] for row in states} == {"used"}
    missing = run("table", "describe", "nosuch", "-w", warehouse)
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error 10001: ")


def test_transactions_and_locks_are_shown_and_ended(warehouse: str, spark: SparkSession) -> None:
    with hiveacid.connect(spark, warehouse=warehouse) as other:
        other.sql("BEGIN")
        other.sql("INSERT INTO t PARTITION (p=1) VALUES (9, 'never')")
        (lock,) = lines(run("locks", "-w", warehouse, "-o", "json"))
        assert (lock["lock_type"], lock["lock_state"]) == ("SHARED_WRITE", "ACQUIRED")
        txn_id = str(lock["transaction_id"])
        opened = lines(run("txn", "list", "-w", warehouse, "-o", "json"))
        assert {"txnid": txn_id, "state": "OPEN"}.items() <= next(
            r for r in opened if r["txnid"] == txn_id
        ).items()
        assert run("txn", "abort", "99999", txn_id, "-w", warehouse).exit_code == 1
        assert run("txn", "abort", txn_id, "-w", warehouse).exit_code == 0
        assert lines(run("locks", "-w", warehouse, "-o", "json")) == []


def test_a_partition_is_compacted_and_then_has_nothing_to_do(warehouse: str) -> None:
    (done,) = lines(run("compact", "t", "--minor", "--partition", "p=1", "-w", warehouse, "-o", "json"))
    assert (done["kind"], done["partition"]) == ("minor", "p=1")
    again = run("compact", "t", "--minor", "--partition", "p=1", "-w", warehouse)
    assert again.exit_code == 1
    assert again.stderr.startswith("error 10432: ")
    query = "SELECT count(*) AS n FROM t"
    assert lines(run("sql", "-w", warehouse, "-o", "json", "-e", query)) == [{"n": 3}]


def test_the_doctor_finds_this_machine_in_order(warehouse: str) -> None:
    checks = lines(run("doctor", "-w", warehouse, "-o", "json"))
    assert {check["check"] for check in checks} >= {
        "python",
        "java",
        "pyspark",
        "warehouse",
        "clock",
        "disk",
        "store",
    }
    tried = {check["check"]: check for check in lines(run("doctor", "--start", "-o", "json"))}
    assert "was created, changed and read" in str(tried["trial"]["found"])
    assert {"memory", "extras"} <= tried.keys()


def test_the_doctor_looks_at_a_store_without_a_warehouse() -> None:
    result = run("doctor", "--store", "thrift://127.0.0.1:1", "-o", "json")
    assert result.exit_code == 1
    checks = {line["check"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert not checks["store"]["ok"]
    assert "warehouse" not in checks


def test_one_turn_of_the_services_fails_with_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "warehouse"
    script = f"{TABLE}; INSERT INTO t VALUES (1, 'tea', 1); INSERT INTO t VALUES (2, 'tea', 1)"
    assert run("sql", "-w", str(place), "-e", script).exit_code == 0
    arguments = ("services", "-w", str(place), "--once", "--workers", "1")
    assert run(*arguments).exit_code == 0
    next(place.glob("t/p=1/delta_0000002*/bucket*")).write_bytes(b"no ORC file")
    odd = place / "t" / "p=1" / "delta_0000003_0000003_0000\x1b[2J"
    odd.mkdir()
    with hiveacid.connect(spark, warehouse=str(place)) as acid:
        request = CompactionRequest(TableName("default", "t"), "p=1", "major")
        acid.context.store.enqueue_compaction(request, "test")
    result = run(*arguments)
    assert result.exit_code == 1
    assert '"state": "failed"' in result.stdout
    assert "\x1b" not in result.output
    found = run("check", "t", "-w", str(place))
    assert "\x1b" not in found.output
    assert "\\x1b[2J" in found.output


def test_the_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    result = run(
        "doctor", "-o", "json", JAVA_HOME=str(tmp_path / "nowhere"), PYSPARK_PYTHON=str(tmp_path / "nothing")
    )
    assert result.exit_code == 1
    wrong = [check for check in map(json.loads, result.stdout.splitlines()) if not check["ok"]]
    assert [check["check"] for check in wrong] == ["java", "PYSPARK_PYTHON"]
    assert all(check["advice"] for check in wrong)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "sql",
        "shell",
        "completion",
        "table",
        "table files",
        "txn abort",
        "locks",
        "check",
        "compact",
        "doctor",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hiveacid", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "HIVEACID_WAREHOUSE"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)


def test_help_needs_no_spark() -> None:
    code = "import sys; from hiveacid.cli import main; main(['sql', '--help'], standalone_mode=False); print(sorted({'pyspark', 'sqlalchemy', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_only_asks_the_store_starts_no_spark(warehouse: str) -> None:
    calls = (["table", "list"], ["txn", "list"], ["locks"], ["txn", "abort", "999"])
    for call, expected in zip(calls, (0, 0, 0, 1), strict=True):
        code = (
            "import sys; from hiveacid.cli import main\n"
            f"code = main({[*call, '-w', warehouse]!r}, standalone_mode=False) or 0\n"
            "print(code, sorted({'pyspark', 'py4j'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == f"{expected} []", (call, done.stderr)
    tables = run("table", "list", "-w", warehouse, "-o", "table").stdout.splitlines()
    assert [line.strip("| ") for line in tables[1:4:2]] == ["tab_name", "t"]
    assert run("table", "list", "-w", warehouse, "-o", "csv").stdout == "tab_name\nt\n"
    assert run("table", "list", "-w", warehouse, "-o", "tsv").stdout == "tab_name\nt\n"


def test_a_process_of_its_own_prints_rows_and_nothing_else(tmp_path: Path) -> None:
    script = f"{TABLE}; INSERT INTO t VALUES (1, 'ü', 1); SELECT * FROM t; SELECT nope FROM t"
    done = process("sql", "-w", str(tmp_path / "wh"), "-o", "json", "-e", script)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "num_affected_rows": 1,
            "num_inserted_rows": 1,
            "num_updated_rows": 0,
            "num_deleted_rows": 0,
            "write_id": 1,
            "num_retries": 0,
        },
        {"id": 1, "item": "ü", "p": 1},
    ]
    assert done.stderr == (
        "error 10002: column nope does not exist; did you mean one of: p, id, item (line 1, column 173)\n"
    )
    assert done.returncode == 1

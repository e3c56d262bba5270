r"""The parts of the shell that need no terminal: what is complete, completion, history, errors."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from hiveacid.cli import main
from hiveacid.cli.options import print_error
from hiveacid.cli.output_formats import Rows, changed_rows
from hiveacid.cli.progress_line import progress_text, spark_starts
from hiveacid.cli.shell import (
    completion_words,
    error_position,
    history_path,
    is_complete,
    open_history,
)
from hiveacid.core.model import Column, DatabaseDefinition, StorageFormat, TableDefinition, TableName
from hiveacid.errors import ConfigError, NoSuchTableError, ParseError, StatementCancelledError
from hiveacid.ports.clock import SystemClock
from hiveacid.spark.session.running_jobs_and_plans import Progress
from hiveacid.sql.cancellation import CancellableClock
from hiveacid.sql.session import AcidSession
from support.memory_store.store import MemoryStore


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("-- only a remark", True),
        ("SELECT 1", False),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT 1; SELECT", False),
        ("\\dt", True),
        ("quit", True),
        ("Exit ;", True),
    ],
)
def test_enter_runs_what_is_complete(text: str, *, whole: bool) -> None:
    assert is_complete(text) is whole


@pytest.fixture
def session() -> AcidSession:
    """Return what completion needs of a session."""
    store = MemoryStore(clock=SystemClock())
    orc = StorageFormat("serde", "in", "out")
    store.create_database(DatabaseDefinition("default", "/default"))
    store.create_database(DatabaseDefinition("shop", "/shop"))
    for table, columns in {
        TableName("default", "sales"): ("id", "item"),
        TableName("shop", "stock"): ("sku", "qty"),
    }.items():
        made = tuple(Column(name, "string") for name in columns)
        store.create_table(TableDefinition(table, made, orc, f"/{table}", (Column("p", "int"),)))
    context = SimpleNamespace(catalog=store, database="default")
    return cast("Any", SimpleNamespace(context=context))


def test_completion_knows_keywords_and_names_of_the_current_database(session: AcidSession) -> None:
    words = completion_words(session)
    assert {"SELECT", "shop", "sales", "id", "p"} <= {*words()}
    assert "stock" not in words()
    cast("Any", session).context.database = "shop"
    assert {"stock", "sku"} <= {*words()}


def test_counts_are_a_sentence() -> None:
    names = ("num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows", "write_id")
    rows = Rows(names, (True,) * 5, (("2000001", "2000000", "1", "0", "7"),))
    assert changed_rows(rows) == "2,000,000 rows inserted, 1 row updated, write id 7"
    assert (
        changed_rows(Rows(names, (True,) * 5, (("0", "0", "0", "0", None),)))
        == "no rows changed, write id none"
    )
    assert changed_rows(Rows(("id",), (True,), (("1",),))) is None


def test_history_is_private_and_keeps_no_passwords(tmp_path: Path) -> None:
    path = history_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert path == tmp_path / "state" / "hiveacid" / "history"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o644)
    history = open_history(path)
    for text in ("SELECT 1;", "SET x.password=a;", "SET javax.url=jdbc:mysql://me:pw@host/db;"):
        history.append_string(text)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").splitlines()[-1] == "+SELECT 1;"
    assert "pass" not in path.read_text(encoding="utf-8")
    assert "me:pw" not in path.read_text(encoding="utf-8")
    assert history_path({"XDG_STATE_HOME": "relative"}).is_absolute()


def test_history_that_cannot_be_kept_is_said_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    history = open_history(tmp_path / "file" / "history")
    assert "no history is kept" in capsys.readouterr().err
    history.append_string("SELECT 1;")


def test_places_of_errors_are_found() -> None:
    assert error_position(ParseError("no", line=2, column=5)) == (2, 5)
    assert error_position(NoSuchTableError("table t does not exist", line=3, column=7)) == (3, 7)
    assert error_position(NoSuchTableError("table t does not exist")) is None


def test_only_the_statement_is_woken() -> None:
    """A compaction in the background sleeps with the same clock."""
    clock = CancellableClock()
    clock.cancelled.set()
    clock.sleep(0.01)
    clock.thread = threading.get_ident()
    with pytest.raises(StatementCancelledError):
        clock.sleep(60)


def test_error_texts_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ConfigError("no \x1b[2Jtable\n  here \x9b1m"))
    print_error(ValueError("Spark says \x1b]0;title\x07\nmore"))
    shown = capsys.readouterr().err
    assert shown == (
        "error CONFIG: no \\x1b[2Jtable\n  here \\x9b1m\nerror SPARK: Spark says \\x1b]0;title\\x07\n"
    )


def test_a_command_says_that_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line goes to the terminal, although the block turns standard error into a file, as the start of Spark does."""
    mine, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        seen = b""
        with spark_starts(), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), stderr.fileno())
            while b"starting Spark, 1 s" not in seen:
                seen += os.read(mine, 1000)
        assert b"\r\x1b[K" in os.read(mine, 1000)
    os.close(mine)


def test_progress_is_a_line_of_text() -> None:
    assert progress_text(Progress(), 3.2, "; Ctrl-C cancels") == "working, 3 s; Ctrl-C cancels"
    assert progress_text(Progress(2, 5, 10), 3.2, "; Ctrl-C cancels") == (
        "[##########..........] 5 of 10 tasks, 2 stages, 3 s; Ctrl-C cancels"
    )


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_scripts_for_tab_are_printed(kind: str) -> None:
    done = CliRunner().invoke(main, ["completion", kind])
    assert done.exit_code == 0, done.stderr
    assert "_HIVEACID_COMPLETE" in done.stdout


def test_tab_completes_commands() -> None:
    words = {"_HIVEACID_COMPLETE": "bash_complete", "COMP_WORDS": "hiveacid sh", "COMP_CWORD": "1"}
    done = CliRunner().invoke(main, env=words, prog_name="hiveacid", complete_var="_HIVEACID_COMPLETE")
    assert done.stdout == "plain,shell\n"


def test_the_shell_says_how_to_get_its_editor(tmp_path: Path) -> None:
    """Run in a terminal, without prompt_toolkit."""
    command = (
        "import importlib.util as u, sys; found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'prompt_toolkit' else found(name, *more)\n"
        "from hiveacid.cli import main\n"
        f"main(['shell', '-w', {str(tmp_path)!r}])\n"
    )
    leader, follower = pty.openpty()
    streams = {"stdin": follower, "stdout": follower, "stderr": subprocess.PIPE}
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", command], **streams, env=environment, check=False)
    os.close(leader)
    os.close(follower)
    assert done.returncode == 1
    assert b"the shell edits lines with prompt_toolkit: pip install 'hiveacid[shell]'" in done.stderr

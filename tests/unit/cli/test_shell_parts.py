r"""The parts of the shell that need no terminal: cutting, completing, \-commands, history, showing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from hiveacid.cli.main import main
from hiveacid.cli.options import print_error
from hiveacid.cli.shell.backslash_commands import COMMANDS, HELP, DisplayOptions, evaluate_command
from hiveacid.cli.shell.cancel import progress_text
from hiveacid.cli.shell.completion import CatalogNames, candidates
from hiveacid.cli.shell.editor import history_path, is_secret, open_history
from hiveacid.cli.shell.entries import Entries, Entry, is_complete
from hiveacid.cli.shell.screen import (
    StatementResult,
    error_position,
    is_crowded,
    plain_table,
    print_boxed,
    uncut_width,
    vertical,
)
from hiveacid.core.model import Column, DatabaseDefinition, StorageFormat, TableDefinition, TableName
from hiveacid.errors import (
    ConfigError,
    NoSuchTableError,
    ParseError,
    StatementCancelledError,
)
from hiveacid.spark.session.jobs import Progress
from hiveacid.sql.cancellation import CancellableClock
from hiveacid.stores.clock import SystemClock
from support.memory_store.store import MemoryStore


def entries_of(script: str) -> list[Entry]:
    entries = Entries()
    found = [one for line in script.splitlines() for one in entries.feed(line)]
    return [*found, *entries.finish()]


def test_a_statement_ends_with_a_semicolon_outside_of_quotes_and_comments() -> None:
    script = "SELECT ';', \"a;b\", `c;d` -- ; no\n/* ; */ FROM t;  SELECT 2;\n\n\\dt\nSELECT\n 3"
    assert entries_of(script) == [
        Entry("SELECT ';', \"a;b\", `c;d` -- ; no\n/* ; */ FROM t", 1),
        Entry(" " * 17 + "SELECT 2", 2),
        Entry("\\dt", 4),
        Entry("SELECT\n 3", 5),
    ]


def test_a_backslash_inside_of_a_statement_is_no_command() -> None:
    assert entries_of("SELECT 'a\n\\q';\n\\q") == [Entry("SELECT 'a\n\\q'", 1), Entry("\\q", 3)]


def test_what_was_handed_out_is_gone_even_if_nobody_ran_it() -> None:
    entries = Entries()
    assert [one.text for one in entries.feed("DROP TABLE a; DROP TABLE b;")][:1] == ["DROP TABLE a"]
    assert [one.text for one in entries.feed("SELECT 1;")] == ["SELECT 1"]


def test_a_quote_without_end_is_an_error_only_at_the_end() -> None:
    entries = Entries()
    assert list(entries.feed("SELECT 'a;")) == []
    assert entries.begun
    with pytest.raises(ParseError):
        list(entries.finish())
    entries.drop()
    assert not entries.begun
    assert list(entries.feed("SELECT 1;")) == [Entry("SELECT 1", 1)]


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
def names() -> CatalogNames:
    store = MemoryStore(clock=SystemClock())
    orc = StorageFormat("serde", "in", "out")
    store.create_database(DatabaseDefinition("default", "/default"))
    store.create_database(DatabaseDefinition("shop", "/shop"))
    for table, columns in {
        TableName("default", "sales"): ("id", "item", "odd name"),
        TableName("shop", "stock"): ("sku", "qty"),
        TableName("shop", "odd `name"): ("id",),
    }.items():
        made = tuple(Column(name, "string") for name in columns)
        store.create_table(TableDefinition(table, made, orc, f"/{table}", (Column("p", "int"),)))
    return CatalogNames(store)


def texts(names: CatalogNames, text: str) -> list[str]:
    before, _, behind = text.partition("|")
    return [one.text for one in candidates(before + behind, len(before), names, COMMANDS)]


def test_what_completion_knows(names: CatalogNames) -> None:
    assert texts(names, "sel|") == ["select"]
    assert texts(names, "SEL|") == ["SELECT"]
    assert texts(names, "SELECT * FROM s|") == ["sales", "shop"]
    assert texts(names, "SELECT * FROM shop.|") == ["`odd ``name`", "stock"]
    assert texts(names, "SELECT i| FROM sales")[:2] == ["id", "item"]
    assert texts(names, "SELECT a.| FROM sales a") == ["id", "item", "`odd name`", "p"]
    assert texts(names, "SELECT * FROM sales WHERE it|") == ["item"]
    assert texts(names, "UPDATE shop.stock SET q|") == ["qty"]
    assert texts(names, "USE s|") == ["shop"]
    assert texts(names, "DROP VIEW sa|")[0] == "sales"
    assert texts(names, "SELECT * FROM shop.o|") == ["`odd ``name`"]
    assert texts(names, "\\d shop.o|") == ["`odd ``name`"]
    assert texts(names, "\\d|") == ["\\databases", "\\describe"]
    assert texts(names, "\\describe sa|") == ["sales"]


def test_nothing_is_completed_inside_of_strings_and_comments(names: CatalogNames) -> None:
    assert texts(names, "SELECT 'sa|") == []
    assert texts(names, "SELECT 1 -- sel|") == []
    assert texts(names, "SELECT /* sel|") == []


def test_commands_are_few_and_explained() -> None:
    display = DisplayOptions(timing=True, limit=10)
    assert evaluate_command("\\dt shop", display).statement == "SHOW TABLES IN shop"
    assert evaluate_command("\\d sales;", display).statement == "DESCRIBE FORMATTED sales"
    assert (
        evaluate_command("\\d shop.`odd ``name`;", display).statement
        == "DESCRIBE FORMATTED shop.`odd ``name`"
    )
    assert evaluate_command("\\timing", display).display == DisplayOptions(timing=False, limit=10)
    assert evaluate_command("\\limit 0", display).display == DisplayOptions(timing=True, limit=None)
    assert evaluate_command("\\x on", display).display == DisplayOptions(timing=True, limit=10, vertical=True)
    assert evaluate_command(
        "\\x auto", DisplayOptions(timing=True, limit=1, vertical=True)
    ).display == DisplayOptions(timing=True, limit=1)
    assert evaluate_command("\\q", display).ends
    assert all(name in HELP for name in COMMANDS)
    for wrong in ("\\nosuch", "\\d", "\\limit many", "\\timing maybe", "\\q now", "\\dt a b", "\\d `a b"):
        with pytest.raises(ConfigError):
            evaluate_command(wrong, display)


def test_history_is_private_and_keeps_no_passwords(tmp_path: Path) -> None:
    path = history_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert path == tmp_path / "state" / "hiveacid" / "history"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o644)
    history, trouble = open_history(path)
    assert trouble == ""
    for text in ("SELECT 1;", "SET x.password=a;", "SET javax.url=jdbc:mysql://me:pw@host/db;"):
        history.append_string(text)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").splitlines()[-1] == "+SELECT 1;"
    assert "pass" not in path.read_text(encoding="utf-8")
    assert "me:pw" not in path.read_text(encoding="utf-8")
    assert history_path({"XDG_STATE_HOME": "relative"}).is_absolute()


def test_history_that_cannot_be_kept_is_said_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history, trouble = open_history(tmp_path / "file" / "history")
    assert "no history is kept" in trouble
    history.append_string("SELECT 1;")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("SET fs.s3a.secret.key=1", True),
        ("CREATE USER a IDENTIFIED BY 'b'", True),
        ("SELECT * FROM t WHERE id = 1", False),
    ],
)
def test_secrets_are_recognised(text: str, *, secret: bool) -> None:
    assert is_secret(text) is secret


SMALL = StatementResult(("n", "text"), (True, False), (("1", "tea"), ("22", None), ("3", "a\nb\x1b[31m")))


def test_plain_rows_are_aligned_and_cannot_steer_the_terminal() -> None:
    assert list(plain_table(SMALL)) == [" n  text", " 1  tea", "22  NULL", " 3  a\\nb\\x1b[31m"]
    assert list(vertical(SMALL))[:3] == ["row 1", "  n: 1", "  text: tea"]


def test_wide_values_are_cut_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = StatementResult(("a", "b"), (False, False), (("x" * 200, "end"),))
    console = Console(width=40)
    print_boxed(console, result.columns, result)
    shown = capsys.readouterr().out
    assert "…" in shown
    assert max(map(len, shown.splitlines())) <= 40
    assert uncut_width(result) == 210
    assert is_crowded(20, 80)
    assert not is_crowded(5, 80)


def test_places_of_errors_are_found() -> None:
    assert error_position(ParseError("no", line=2, column=5)) == (2, 5)
    assert error_position(NoSuchTableError("table t does not exist (line 3, column 7)")) == (3, 7)
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


def test_progress_is_a_line_of_text() -> None:
    assert progress_text(Progress(), 3.2) == "working, 3 s; Ctrl-C cancels"
    assert progress_text(Progress(2, 5, 10), 3.2) == (
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
        "from hiveacid.cli.main import main\n"
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

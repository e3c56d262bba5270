"""``hiveacid services`` refuses what makes no sense before it starts Spark."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hiveacid.cli import main
from hiveacid.cli.processes import log_to


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], "nothing to do"),
        (["--workers", "-1"], "--workers"),
        (["--once", "--port", "0"], "leave out --once"),
        (["--port", "65536"], "--port"),
        (["--operator", "ann"], "give --web, too"),
        (["--user-header", "X-User", "--proxy", "10.0.0.1"], "give --web, too"),
        (["--web", "0", "--token-file", __file__], "--token-file is for the answers of --port"),
        (["--grace", "-1"], "--grace"),
        (["--grace", "nan"], "nan is not a number of seconds"),
        (["--grace", "inf"], "inf is not a number of seconds"),
        (["--pool", ""], "the name of the worker pool is empty"),
        (["--pool", "x" * 500], "has 500 characters"),
        (["--set", "hive.txn.timeout"], "expected NAME=VALUE"),
        (["--set", "hive.txn.timeout=soon"], "hive.txn.timeout"),
        (["--log", "xml"], "--log"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["services", "-w", str(tmp_path), *arguments])
    assert done.exit_code in (1, 2), done.output
    assert said in done.output
    assert "Traceback" not in done.output
    assert not any(tmp_path.iterdir())


def test_without_pyspark_a_command_that_needs_it_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(main, ["shell", "-w", str(tmp_path)])
    assert done.exit_code == 1
    assert (
        done.stderr.splitlines()[-1]
        == "error CONFIG: PySpark is not installed: pip install 'hiveacid[spark]'"
    )


def test_a_text_of_a_client_cannot_begin_a_record_of_the_log() -> None:
    stream = io.StringIO()
    handler = log_to(stream, "text", "info")
    try:
        logging.getLogger("hiveacid.serve").warning("failed: %s", "no\n2026-01-01 INFO event=login\x1b")
    finally:
        logging.getLogger("hiveacid").removeHandler(handler)
    assert stream.getvalue().split("WARNING", 1)[1] == " failed: no\n    2026-01-01 INFO event=login\\x1b\n"

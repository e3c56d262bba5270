"""``hiveacid web`` as a process: from its address in the log to a stop by SIGTERM; refusals before it listens."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.ports.clock import SystemClock


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    store, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    store.close()
    return tmp_path


def test_pages_are_served_until_a_signal_comes(warehouse: Path) -> None:
    command = [sys.executable, "-m", "hiveacid", "web", "-w", str(warehouse), "--port", "0", "--log", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = json.loads(process.stderr.readline())
            address = re.match(r"http://127\.0\.0\.1:\d+", line["message"])
            assert address
            assert line["message"].endswith("where nobody (--operator) may act")
            with urlopen(f"{address[0]}/tables.json", timeout=30) as answer:  # noqa: S310 - our own
                assert json.load(answer)["title"] == "Tables"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert "stopped" in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--host", "0.0.0.0"], "needs authentication"),  # noqa: S104
        (["--proxy", "127.0.0.1", "--user-header", "X-User"], "give --proxy-token-file"),
        (["--set", "hive.txn.timeout=soon"], "hive.txn.timeout"),
        (["-w", "/nowhere/at/all"], "there is no warehouse"),
    ],
)
def test_it_does_not_start_without_what_it_needs(warehouse: Path, options: list[str], text: str) -> None:
    done = CliRunner().invoke(main, ["web", "-w", str(warehouse), "--port", "0", *options])
    assert done.exit_code != 0
    assert text in done.output


def test_the_extra_is_named_if_it_is_missing(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiveacid.cli.web.find_spec", lambda _: None)
    done = CliRunner().invoke(main, ["web", "-w", str(warehouse)])
    assert "pip install 'hiveacid[web]'" in done.output
    assert done.exit_code == 1

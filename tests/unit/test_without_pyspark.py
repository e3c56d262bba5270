"""The package in an environment without PySpark."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
from importlib.machinery import PathFinder
class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ("pyspark", "py4j") else super().find_spec(name, path, target)
sys.meta_path[:] = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_connect_names_the_package_that_is_missing() -> None:
    last = run("import hiveacid; hiveacid.connect").splitlines()[-1]
    assert last == "ModuleNotFoundError: hiveacid.connect needs PySpark: pip install 'hiveacid[spark]'"


@pytest.mark.parametrize("command", ["serve", "shell", "services"])
def test_commands_say_so_in_a_line(command: str) -> None:
    shown = run(f"sys.argv = ['hiveacid', '{command}', '-w', '/tmp']; from hiveacid.cli import main; main()")
    assert "Traceback" not in shown
    assert "PySpark is not installed: pip install 'hiveacid[spark]'" in shown


def test_the_pages_need_no_pyspark() -> None:
    shown = run("import hiveacid.web.server, hiveacid.web.actions; sys.exit('the pages are there')")
    assert shown.splitlines() == ["the pages are there"]

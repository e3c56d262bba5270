"""A chosen part of the suite on a Spark Connect server (``make test-connect``: all of it)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.exhaustive import ALL, ONCE

TESTS = Path(__file__).parents[1]
CONNECT = "connect/test_connect.py"
ESSENTIALS = [
    f"{CONNECT}::test_it_is_connect",
    f"{CONNECT}::test_all_verbs",
    f"{CONNECT}::test_several_statements_in_one_transaction",
]
MORE = [
    CONNECT,
    "spark/test_data_source.py::test_append_overwrite_and_read",
    "sql/test_scripts.py::test_script[change]",
]
ALL_OF_THE_PART = [
    *MORE,
    "hostile/test_parameter_values.py::test_parameter_values_are_data_in_acid_sql[false]",
    "sql/test_scripts.py::test_script[merge]",
    "sql/test_scripts.py::test_script[query]",
]


def test_a_chosen_part_on_a_connect_server(tmp_path: Path) -> None:
    """The essentials in `make test`, other interfaces, too, in CI, and more scripts in `make test-all`."""
    tests = MORE if ONCE else ALL_OF_THE_PART if ALL else ESSENTIALS
    chosen = [str(TESTS / test) for test in tests]
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--basetemp={tmp_path / 'run'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen],
        cwd=TESTS.parent,
        env={**os.environ, "HIVEACID_TEST_CONNECT": "1", "HIVEACID_TEST_ALL": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

"""The list of tests that only ``make test-all`` runs names tests that exist."""

from __future__ import annotations

import os
import subprocess
import sys

from sources import ROOT

from support.exhaustive import EXHAUSTIVE, SAMPLED


def test_every_prefix_matches_a_test() -> None:
    files = sorted({name.partition("::")[0] for name in (*EXHAUSTIVE, *SAMPLED)})
    assert [file for file in files if not (ROOT / "tests" / file).is_file()] == []
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        + [f"tests/{file}" for file in files],
        cwd=ROOT,
        env={**os.environ, "HIVEACID_TEST_ALL": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:]
    tests = [line.removeprefix("tests/") for line in listed.stdout.splitlines() if "::" in line]
    assert [
        prefix for prefix in (*EXHAUSTIVE, *SAMPLED) if not any(test.startswith(prefix) for test in tests)
    ] == []

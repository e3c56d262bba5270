"""A session with Hive support: Spark's own catalog gets at no transactional table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hiveacid


def test_sparks_own_catalog_spoils_no_transactional_table(tmp_path: Path) -> None:
    """In a process of its own: an application has one catalog, and the other tests' is in memory."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(tests / "support" / "hive_support.py"), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(hiveacid.__file__).parents[1]}{os.pathsep}{tests}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]

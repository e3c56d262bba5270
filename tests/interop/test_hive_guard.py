"""A native session whose Spark has Hive support on the very metastore that is our store: its tables stay whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hive_server import HiveServers


def test_no_statement_of_spark_gets_at_a_transactional_table(hive: HiveServers, tmp_path: Path) -> None:
    """In a process of its own: an application has one catalog.

    Spark's own client, of Hive 2.3, cannot ask a metastore of Hive 4 for a table; there only ours is at work.
    """
    program = Path(__file__).parent / "hive_guard.py"
    done = subprocess.run(
        [sys.executable, str(program), hive.url, str(tmp_path), "3" if hive.is_hive3 else "4"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    assert done.stdout.strip().endswith("ok")

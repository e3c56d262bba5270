"""The builder of native sessions where no JVM starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import hiveacid
from pyspark.sql import SparkSession
hiveacid.configure(SparkSession.builder, native=True, warehouse=sys.argv[1]).getOrCreate()
"""


def test_missing_java_is_told_with_the_command_that_explains_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "wh")],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "no-java")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last.endswith("ConfigError: Spark does not start, because Java does not: see hiveacid doctor")
    assert not (tmp_path / "wh").exists()

"""``hiveacid serve`` in a process of its own, and the jars of beeline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[int]:
    """Run the command on tables of ``directory``; yield its port."""
    command = [sys.executable, "-m", "hiveacid", "serve", "-w", str(directory), "--port", "0", *options]
    with subprocess.Popen(
        [*command, "--conf", "spark.driver.memory=1g"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving on" in line)
        try:
            yield int(line.split(":")[-1].split()[0])
        finally:
            process.terminate()

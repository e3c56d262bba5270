"""Drivers and services of cluster tests, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiveacid
from support import cluster_driver
from support.servers.spark_cluster import ZONE, environment

PATIENCE = 900.0  # seconds
_SERVICES = {
    "hive.compactor.worker.sleep.time": "200ms",
    "hive.compactor.cleaner.run.interval": "500ms",
    "hive.compactor.check.interval": "1s",
    "hive.compactor.delta.num.threshold": "2",
}


def driver_command(master: str, scenario: str, warehouse: str, store: str | None = None) -> list[str]:
    """Return the command line of a driver."""
    command = [sys.executable, cluster_driver.__file__, scenario, master, warehouse]
    return [*command, store] if store else command


def driver_environment(conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a driver; ``conf``: more settings of Spark."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(hiveacid.__file__).parents[1])])
    return environment() | {"PYTHONPATH": path, "HIVEACID_CLUSTER_CONF": json.dumps(dict(conf or {}))}


def run_driver(
    master: str,
    scenario: str,
    warehouse: str,
    store: str | None = None,
    conf: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a scenario of `cluster_driver` to its end; return what it found. ``more``: environment variables."""
    done = subprocess.run(
        driver_command(master, scenario, warehouse, store),
        env=driver_environment(conf) | dict(more or {}), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def services(warehouse: str, store: str, log: Path, conf: Mapping[str, str]) -> Iterator[None]:
    """Run ``hiveacid services`` beside the drivers; it must end in order."""
    words = [sys.executable, "-m", "hiveacid", "services", "--log", "json", "--port", "0", "-w", warehouse]
    own = {
        "spark.master": "local[1]",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-Duser.timezone={ZONE}",
    }
    for option, pairs in (("--set", _SERVICES), ("--conf", own | dict(conf))):
        words += [part for key, value in pairs.items() for part in (option, f"{key}={value}")]
    with log.open("wb") as out:
        child = subprocess.Popen(
            words,
            env={**os.environ, "HIVEACID_STORE": store},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            yield
            child.terminate()
            assert child.wait(PATIENCE) == 0, log.read_text(errors="replace")[-4000:]
        finally:
            child.kill()
            child.wait()

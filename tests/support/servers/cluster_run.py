"""Drivers of cluster tests, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import cluster_driver
from support.servers.spark_cluster import environment

PATIENCE = 400.0  # seconds


def driver_command(master: str, scenario: str, warehouse: str, store: str | None = None) -> list[str]:
    """Return the command line of a driver."""
    command = [sys.executable, cluster_driver.__file__, scenario, master, warehouse]
    return [*command, store] if store else command


def driver_environment(conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a driver; ``conf``: more settings of Spark."""
    tests = str(Path(__file__).parents[2])
    return environment() | {"PYTHONPATH": tests, "HIVEACID_CLUSTER_CONF": json.dumps(dict(conf or {}))}


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

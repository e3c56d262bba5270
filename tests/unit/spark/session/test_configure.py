"""The interpreter of Python workers, and relative warehouses, by the master and deploy mode (issue 22)."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import hiveacid
from hiveacid.errors import ConfigError
from hiveacid.spark.session.environment import SparkEnvironment


class Builder:
    """Takes settings as Spark's builder does."""

    def __init__(self, **options: str) -> None:
        self._options = {key.replace("_", "."): value for key, value in options.items()}

    def config(self, key: str, value: str) -> Builder:
        self._options[key] = value
        return self


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "MASTER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize("options", [{}, {"spark_master": "local[2]"}, {"spark_master": "local"}])
def test_local_workers_run_this_interpreter(options: dict[str, str]) -> None:
    hiveacid.configure(Builder(**options))
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "localhost"])
def test_other_machines_choose_their_interpreter(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hiveacid.configure(Builder(spark_master=master))
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {master} pyspark-shell")
    hiveacid.configure(Builder())
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize(
    ("mode", "warehouse", "refused"),
    [
        ("cluster", "wh", True),
        ("cluster", "file:wh", True),
        ("cluster", "/shared/wh", False),
        ("cluster", "file:/shared/wh", False),
        ("cluster", "hdfs:///wh", False),
        ("client", "wh", False),
    ],
)
def test_relative_warehouses_are_refused_in_cluster_mode(mode: str, warehouse: str, *, refused: bool) -> None:
    conf = SimpleNamespace(get=lambda name, default: mode if name == "spark.submit.deployMode" else default)
    session: Any = SimpleNamespace(conf=conf)
    if not refused:
        SparkEnvironment(session).require_absolute_warehouse(warehouse)
        return
    with pytest.raises(ConfigError, match="whole path"):
        SparkEnvironment(session).require_absolute_warehouse(warehouse)

"""Statements on a standalone cluster of two workers, whose Python knows no hiveacid (issue 20)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from support.servers.cluster_run import run_driver
from support.servers.spark_cluster import ZONE, can_mount, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.exhaustive(
    "smoke/test_smoke.py loses staged rows without a cluster; crash/test_kill.py kills drivers"
)


@dataclass(frozen=True)
class Nodes:
    """A running cluster: its master, and a directory that its executors do not share with the driver (or None)."""

    address: str
    private: Path | None

    def run(self, scenario: str, directory: Path) -> dict[str, Any]:
        """Run a scenario in a driver of its own."""
        return run_driver(self.address, scenario, str(directory))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Run the cluster once for all tests of the module."""
    scratch = tmp_path_factory.mktemp("cluster")
    private = scratch / "private"
    private.mkdir()
    mounted = private if can_mount() else None
    with cluster(scratch, mounted) as running:
        yield Nodes(running.address, mounted)


def test_output_that_the_driver_cannot_see_is_not_committed(nodes: Nodes) -> None:
    if nodes.private is None:
        pytest.skip("only root may give the workers a file system of their own")
    found = nodes.run("unshared", nodes.private)
    for statement in ("insert", "partitions", "overwrite", "merge", "plain"):
        assert found[statement].startswith("StorageError"), found[statement]
        assert str(nodes.private) in found[statement]
        assert "share" in found[statement]
    assert found["rows"] == [0, 0, 0]


@pytest.mark.parametrize("scenario", ["killed", "killed in merge"])
def test_an_executor_that_dies_costs_no_row_and_adds_none(
    nodes: Nodes, tmp_path: Path, scenario: str
) -> None:
    found = nodes.run(scenario, tmp_path)
    assert found.get("insert", scenario != "killed"), "the executor died too late"
    assert found["after insert"] == [[20_000, 20_000, sum(range(20_000))]]
    assert found["merge"], "the executor died too late"
    odd = range(10_001, 20_000, 2)
    after = [
        ["a", 10_000, 10_000, sum(range(10_000))],
        ["b", len(odd), len(odd), sum(odd)],
        ["c", 10_000, 10_000, sum(range(20_000, 30_000))],
    ]
    assert found["after merge"] == after
    assert found.get("compact", scenario != "killed"), "the executor died too late"
    assert found["after compact"] == after


def test_times_are_right_whatever_the_time_zones_of_driver_and_executors(
    nodes: Nodes, tmp_path: Path, spark: SparkSession
) -> None:
    found = nodes.run("zones", tmp_path)
    assert found["zone of executors"] == ZONE
    noon = "2026-01-15 12:00:00"
    expected = [
        [0, noon, noon, noon],
        [1, "2026-01-15 13:00:00", noon, noon],
        [3, noon, noon, noon],
        [5, noon, noon, noon],
    ]
    assert found["before"] == expected
    assert found["after"] == expected
    assert found["after by the driver"] == expected
    assert found["jobs after"]
    assert found["jobs after by the driver"] == 0
    assert found["noon"] == [[3]]
    assert found["insert only"] == sorted(expected * 2)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        elsewhere = hiveacid.connect(spark, str(tmp_path))
        text = "SELECT id, CAST(t AS STRING), CAST(l AS STRING), CAST(a[0] AS STRING) FROM {} ORDER BY id"
        for name, wanted in (("z", expected), ("i", sorted(expected * 2))):
            assert [list(row) for row in elsewhere.sql(text.format(name)).collect()] == wanted
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))

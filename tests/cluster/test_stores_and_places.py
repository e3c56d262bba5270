"""All verbs on a cluster with a store on PostgreSQL, on HDFS and S3, beside services (issue 22)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.servers.absent import skip_without
from support.servers.cluster_run import (
    PATIENCE,
    driver_command,
    driver_environment,
    run_driver,
    services,
)
from support.servers.hadoop_jars import s3a_jars
from support.servers.hdfs import WHY_NOT as NO_HDFS
from support.servers.hdfs import hdfs_server
from support.servers.object_store import s3_server, why_no_s3a
from support.servers.spark_cluster import Cluster, cluster

if TYPE_CHECKING:
    from support.servers.databases import Server

pytestmark = pytest.mark.cluster("cluster/test_cluster.py kills an executor in MERGE")


SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "0ms",
}
# Without Spark's shuffle service: executors leave when no statement needs their shuffle files.
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}


@dataclass(frozen=True)
class Place:
    """A warehouse, and the settings of Spark with which to reach it."""

    warehouse: str
    conf: dict[str, str] = field(default_factory=dict)


@contextmanager
def place_of(kind: str, scratch: Path) -> Iterator[Place]:
    """Make an empty warehouse of a kind."""
    if kind == "file":
        yield Place(str(scratch / "warehouse"), SPECULATIVE | DYNAMIC)
    elif kind == "hdfs":
        skip_without(NO_HDFS)
        with hdfs_server(scratch / "hdfs") as hdfs:
            yield Place(f"{hdfs.uri}/warehouse", SPECULATIVE)
    else:
        skip_without(why_no_s3a())
        jars = os.pathsep.join(map(str, s3a_jars()))
        with s3_server() as server:
            conf = {f"spark.hadoop.{name}": value for name, value in server.settings.items()}
            conf |= {f"spark.{side}.extraClassPath": jars for side in ("driver", "executor")}
            yield Place(f"{server.make_bucket('lake')}/warehouse", conf | SPECULATIVE)


@pytest.mark.parametrize("kind", ["file", "hdfs", "s3"])
def test_every_verb_has_exact_rows(
    kind: str, shared_cluster: Cluster, postgres_server: Server, tmp_path: Path
) -> None:
    """Both SQL interfaces and ``foreachBatch`` (on ``file:`` with executors that come and go), while services compact and clean the same tables."""
    store = postgres_server.make_database(tmp_path.name)
    with place_of(kind, tmp_path) as place:
        own = {key: value for key, value in place.conf.items() if "executor" not in key}
        log = tmp_path / "services.log"
        with services(place.warehouse, store, log, own):
            found = run_driver(shared_cluster.address, "everything", place.warehouse, store, place.conf)
        said = log.read_text(errors="replace")
        assert '"level": "error"' not in said.lower(), said[-4000:]
    assert found == {
        "by acid.sql": {"a_full": found["by acid.sql"]["a_full"], "a_only": 50},
        "by spark.sql": {"n_full": found["by acid.sql"]["a_full"], "n_only": 50},
        "by foreachBatch": {"s": 200},
    }


@pytest.mark.parametrize("killed", ["driver", "worker"])
def test_a_killed_process_loses_and_adds_no_row(killed: str, postgres_server: Server, tmp_path: Path) -> None:
    """A driver killed in UPDATE leaves nothing visible; without one of two workers the UPDATE ends on the other."""
    store = postgres_server.make_database(tmp_path.name)
    warehouse = str(tmp_path / "warehouse")
    with cluster(tmp_path) as nodes:
        conf = SPECULATIVE | {"spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "100ms"}
        with subprocess.Popen(
            driver_command(nodes.address, "dying", warehouse, store),
            env=driver_environment(conf), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as driver:  # fmt: skip
            assert driver.stdout is not None
            assert "slow" in iter(driver.stdout.readline, "").__next__()
            time.sleep(4)  # of the ten seconds or more that each of both tasks takes
            if killed == "driver":
                driver.kill()
                driver.wait()
            else:
                nodes.kill_worker(0)
                assert driver.wait(PATIENCE) == 0
        found = run_driver(nodes.address, "survived", warehouse, store)
    kept, changed = ([n for n in range(1000) if (n % 5 == 0) is which] for which in (False, True))
    before = [("a", kept), ("b", changed)] if killed == "worker" else [("a", range(1000))]
    assert found["before"] == [[v, len(ids), len(ids), sum(ids)] for v, ids in before]
    after = [("a", kept), ("c", changed)]
    assert found["after"] == [[v, len(ids), len(ids), sum(ids)] for v, ids in after]
    assert (found["locks"], found["check"]) == ([], [])

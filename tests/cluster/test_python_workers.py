"""``format("hiveacid")`` on a cluster: the ways in which its Python workers get hiveacid (issue 22)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from support.servers.cluster_run import driver_environment, run_driver
from support.servers.spark_cluster import Cluster

ALL_ROWS = {"by format": [[1000, sum(range(1000))]], "by sql": [[1000, sum(range(1000))]]}

_SUBMIT = """
import sys
from hiveacid import configure, connect
from pyspark.sql import SparkSession
spark = configure(SparkSession.builder).getOrCreate()
acid = connect(spark, sys.argv[1], sys.argv[2])
acid.sql("CREATE TABLE g (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
options = {"table": "g", "warehouse": sys.argv[1], "store": sys.argv[2]}
spark.range(100).write.format("hiveacid").options(**options).mode("append").save()
print("found", acid.sql("SELECT sum(id) FROM g").first()[0])
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with all packages of this one except hiveacid."""
    home = tmp_path_factory.mktemp("python")
    packages = home / "packages"
    packages.mkdir()
    for entry in Path(pa.__file__).parents[1].iterdir():
        if "hiveacid" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    venv.create(home / "environment", symlinks=True)
    _site(home / "environment").joinpath("packages.pth").write_text(f"{packages}\n")
    return home / "environment"


def _site(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def _zip(scratch: Path) -> str:
    source = Path(hiveacid.__file__).parent
    return shutil.make_archive(str(scratch / "hiveacid"), "zip", source.parent, source.name)


def _formats(shared_cluster: Cluster, scratch: Path, python: Path | str, **conf: str) -> dict[str, Any]:
    given = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
    store = f"sqlite:///{scratch}/store.db"
    more = {"PYSPARK_PYTHON": str(python)}
    return run_driver(shared_cluster.address, "formats", str(scratch / "warehouse"), store, given, more)


@pytest.mark.exhaustive("unit/spark/session/test_worker_pickling.py lacks a package without a cluster")
def test_a_worker_without_hiveacid_says_so_in_a_sentence(
    shared_cluster: Cluster, without: Path, tmp_path: Path
) -> None:
    error = _formats(shared_cluster, tmp_path, without / "bin" / "python")["error"]
    sentence = 'format("hiveacid") needs the package hiveacid, which '
    assert sentence in error
    assert "send it with --py-files or --archives (docs/cluster.md)" in error
    assert "No module named" not in error


@pytest.mark.cluster("spark/test_data_source.py runs the format without a cluster")
def test_a_zip_file_brings_hiveacid(shared_cluster: Cluster, without: Path, tmp_path: Path) -> None:
    """What --py-files does; the other packages are installed."""
    found = _formats(shared_cluster, tmp_path, without / "bin" / "python", submit_pyFiles=_zip(tmp_path))
    assert found == ALL_ROWS


WAYS = ["", "raises", "worker dies", "executor dies", "always raises"]


def _changes(shared_cluster: Cluster, scratch: Path, python: Path | str) -> dict[str, Any]:
    store = f"sqlite:///{scratch}/store.db"
    more = {"PYSPARK_PYTHON": str(python)}
    found = run_driver(shared_cluster.address, "changes", str(scratch / "warehouse"), store, {}, more)
    assert all(found.pop(way) for way in WAYS)
    return found


@pytest.mark.exhaustive("spark/test_small_changes.py runs the tasks without a cluster")
def test_tasks_that_die_or_fail_change_rows_as_jobs_do(
    shared_cluster: Cluster, without: Path, tmp_path: Path
) -> None:
    """Workers lack hiveacid, and get it from the driver."""
    found = _changes(shared_cluster, tmp_path, without / "bin" / "python")
    assert found == {"equal": True, "check": [], "usable": True, "done": sorted(WAYS[:-1])}


@pytest.mark.exhaustive("spark/test_small_changes.py has executors that cannot run tasks")
def test_executors_without_pyarrow_change_rows_by_jobs(shared_cluster: Cluster, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    found = _changes(shared_cluster, tmp_path, bare / "bin" / "python")
    assert found == {"equal": True, "check": [], "usable": False, "done": []}


@pytest.mark.cluster("the sentence about a missing package stays")
def test_an_archive_brings_the_environment(
    shared_cluster: Cluster, without: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What --archives env.tar.gz#environment does; the driver's directory has it unpacked, too."""
    environment = tmp_path / "environment"
    shutil.copytree(without, environment, symlinks=True)
    shutil.copytree(Path(hiveacid.__file__).parent, _site(environment) / "hiveacid")
    archive = tmp_path / "env.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for entry in environment.iterdir():
            packed.add(entry, entry.name)
    monkeypatch.chdir(tmp_path)
    found = _formats(shared_cluster, tmp_path, "./environment/bin/python", archives=f"{archive}#environment")
    assert found == ALL_ROWS


@pytest.mark.cluster("the driver is another process in the other tests, too")
def test_spark_submit_runs_a_program_in_client_mode(
    shared_cluster: Cluster, without: Path, tmp_path: Path
) -> None:
    """`configure` keeps its own interpreter from the executors, and cluster mode is Spark's to refuse here."""
    program = tmp_path / "program.py"
    program.write_text(_SUBMIT, encoding="utf-8")
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", shared_cluster.address]
    submit += ["--driver-memory", "600m", "--executor-memory", "500m", "--py-files", _zip(tmp_path)]
    environment = driver_environment() | {
        "PYSPARK_PYTHON": str(without / "bin" / "python"),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    words = [str(program), str(tmp_path / "warehouse"), f"sqlite:///{tmp_path}/store.db"]
    done = subprocess.run([*submit, *words], env=environment, capture_output=True, text=True, check=False)
    assert f"found {sum(range(100))}" in done.stdout, done.stderr[-4000:]
    command = [*submit, "--deploy-mode", "cluster", *words]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Cluster deploy mode is currently not supported for python applications" in refused.stderr

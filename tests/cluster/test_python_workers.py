"""``format("hiveacid")`` on a cluster: the ways in which its Python workers get hiveacid (issue 22)."""

from __future__ import annotations

import shutil
import tarfile
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from support.servers.cluster_run import run_driver
from support.servers.spark_cluster import Cluster

ALL_ROWS = {"by format": [[1000, sum(range(1000))]], "by sql": [[1000, sum(range(1000))]]}


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


def test_a_worker_without_hiveacid_says_so_in_a_sentence(
    shared_cluster: Cluster, without: Path, tmp_path: Path
) -> None:
    error = _formats(shared_cluster, tmp_path, without / "bin" / "python")["error"]
    sentence = 'format("hiveacid") needs the package hiveacid, which '
    assert sentence in error
    assert "send it with --py-files or --archives (docs/cluster.md)" in error
    assert "No module named" not in error


def test_a_zip_file_brings_hiveacid(shared_cluster: Cluster, without: Path, tmp_path: Path) -> None:
    """What --py-files does; the other packages are installed."""
    found = _formats(shared_cluster, tmp_path, without / "bin" / "python", submit_pyFiles=_zip(tmp_path))
    assert found == ALL_ROWS


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

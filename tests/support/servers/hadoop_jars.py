"""Fetch the jars of hadoop_jars.txt from Maven Central, by the Ivy that PySpark brings: python tests/support/servers/hadoop_jars.py.

They go to a cache outside the tree (70 MB) and are checked against their sums. Safe to repeat.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

_LIST = Path(__file__).parent / "hadoop_jars.txt"
_PATIENCE = 150  # seconds
_MINI = "hadoop-client-minicluster"
_IVY = """<ivy-module version="2.0"><info organisation="hiveacid" module="tests"/>
<configurations><conf name="default"/></configurations><dependencies>{}</dependencies></ivy-module>
"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" transitive="false" conf="default->master"/>'


def home() -> Path:
    """Return where the jars are, or go."""
    root = os.environ.get("HIVEACID_JARS_HOME") or Path.home() / ".cache" / "hiveacid-jars"
    return Path(root).expanduser()


def _listed() -> list[tuple[str, str]]:
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return [(name, digest) for name, digest in (line.split() for line in lines if not line.startswith("#"))]


def _path(name: str) -> Path:
    _, artifact, version = name.split(":")
    return home() / f"{artifact}-{version}.jar"


def s3a_jars() -> list[Path]:
    """Return the jars that make ``s3a://`` work; none where they were not fetched, or this Spark has another Hadoop."""
    return _there([name for name, _ in _listed() if _MINI not in name])


def hdfs_jars() -> list[Path]:
    """Return the jar of a small HDFS; none as above."""
    return _there([name for name, _ in _listed() if _MINI in name])


def _spark_jars() -> Path | None:
    """Return where PySpark keeps its jars, if its Hadoop is the one that ours are for."""
    found = find_spec("pyspark")
    jars = Path(found.origin).parent / "jars" if found and found.origin else None
    ours = next(name.rpartition(":")[2] for name, _ in _listed() if _MINI in name)
    return jars if jars and (jars / f"hadoop-client-api-{ours}.jar").exists() else None


def _there(names: list[str]) -> list[Path]:
    paths = [_path(name) for name in names]
    return paths if _spark_jars() and all(path.exists() for path in paths) else []


def fetch() -> None:
    """Fetch what is missing, all or nothing."""
    wanted = [(name, digest) for name, digest in _listed() if not _path(name).exists()]
    jars = _spark_jars()
    if not wanted or jars is None:
        return
    ivy = next(jars.glob("ivy-*.jar"))
    home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        there = Path(scratch)
        module = there / "ivy.xml"
        dependencies = "".join(_DEPENDENCY.format(*name.split(":")) for name, _ in wanted)
        module.write_text(_IVY.format(dependencies), encoding="utf-8")
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if os.environ.get("JAVA_HOME") else "java"
        command = [str(java), "-jar", str(ivy), "-ivy", str(module), "-cache", str(there / "cache")]
        command += ["-confs", "default", "-retrieve", str(there / "[artifact]-[revision].[ext]"), "-warn"]
        try:
            done = subprocess.run(
                command, cwd=there, capture_output=True, text=True, check=False, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise SystemExit(f"Ivy took longer than {_PATIENCE} seconds") from None
        for name, digest in wanted:
            jar = there / _path(name).name
            if not jar.exists():
                raise SystemExit(f"Ivy did not bring {name}:\n{(done.stdout + done.stderr)[-2000:]}")
            if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
                raise SystemExit(f"{name} is not the file that hadoop_jars.txt names")
        for name, _ in wanted:
            shutil.move(there / _path(name).name, _path(name))


if __name__ == "__main__":
    try:
        fetch()
    except SystemExit as error:
        # tests that need the jars say so and are skipped: a machine without network can run all others
        sys.stderr.write(f"== no jars for object stores and HDFS: {error}\n")

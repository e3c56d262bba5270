"""Objects sent to Python workers that lack a package (issue 22)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark import cloudpickle

from hiveacid.datasource.data_source import BatchWriter
from hiveacid.datasource.stream_sink import Sink

WRITER = BatchWriter(Sink({"table": "t"}, "run", "/home", "rows"), overwrite=True)
# What a worker does with what it gets, where the packages named by the second argument are missing.
_WORKER = """
import pickle, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[2]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
made = pickle.load(open(sys.argv[1], "rb"))
print(type(made).__name__, made.overwrite, made.sink.home)
"""


def _worker(scratch: Path, missing: str) -> subprocess.CompletedProcess[str]:
    file = scratch / "sent"
    file.write_bytes(cloudpickle.dumps(WRITER))  # type: ignore[no-untyped-call]
    path = os.pathsep.join([str(Path(pyspark.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-c", _WORKER, str(file), missing],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_object_is_the_same() -> None:
    made = cloudpickle.loads(cloudpickle.dumps(WRITER))  # type: ignore[no-untyped-call]
    assert made == WRITER


def test_a_worker_with_all_packages_makes_it(tmp_path: Path) -> None:
    done = _worker(tmp_path, "nothing")
    assert (done.stdout, done.stderr) == ("BatchWriter True /home\n", "")


@pytest.mark.parametrize("package", ["hiveacid", "pyarrow"])
def test_the_error_names_package_and_interpreter_in_one_sentence(package: str, tmp_path: Path) -> None:
    done = _worker(tmp_path, package)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        f'ImportError: format("hiveacid") needs the package {package}, which {sys.executable} on '
    )
    assert "No module named" not in done.stderr

"""Python workers of a session's executors: tasks of hiveacid's own in them, and objects that are pickled to them.

Tasks need pyarrow. hiveacid is sent to workers that lack it, or have another version.

An object for workers is pickled together with a function that imports nothing. On a worker without hiveacid, or without a package
that hiveacid needs, the function raises an error that names the package and the machine.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import get_data
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import SparkContext, cloudpickle

from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_failed_job

logger = logging.getLogger(__name__)

T = TypeVar("T")
_HOME = Path(__file__).parents[3]  # a directory, or a zip file of --py-files
_VERSION = r'__version__ = "(.+)"'
_Versions = tuple[str | None, str | None]  # of pyarrow and hiveacid; None: it is not there


def run_in_workers(env: SparkEnvironment, tasks: Sequence[Callable[[], T]]) -> list[T] | None:
    """Return the results of tasks, in their order; None if the executors cannot run them.

    Tasks and results are pickled. An attempt may be repeated, and two may run side by side; only one result is returned.
    Raises Spark's errors: of tasks that failed, and of jobs that were cancelled.
    """
    context, state = env.spark.sparkContext, env.executor_python
    with state.lock:
        if state.usable is None:
            state.usable = _can_run(context)
    if not state.usable:
        return None
    restore, version = unpickler(), _own_version()

    # Nested, so that cloudpickle sends it by value: the worker may have no hiveacid, or another one.
    def run_task(pickled: bytes) -> tuple[T] | str:
        from importlib import import_module  # noqa: PLC0415 - names of this function are the worker's

        try:
            found = import_module("hiveacid").__version__
            if found != version:
                return f"it has hiveacid {found}"
            task: Callable[[], T] = restore(pickled)
        except ImportError as error:
            return str(error)
        return (task(),)

    pickled = [pickle_for_workers(task) for task in tasks]
    answers = context.parallelize(pickled, max(1, len(pickled))).map(run_task).collect()
    results = [answer[0] for answer in answers if isinstance(answer, tuple)]
    if len(results) < len(answers):
        problem = next(answer for answer in answers if isinstance(answer, str))
        logger.info("executors have lost what tasks in Python need: %s", problem)
        state.usable = False
        return None
    return results


def _can_run(context: SparkContext) -> bool:
    """Ask the executors for their packages, and send them hiveacid if they need it."""
    version = _own_version()
    try:
        found = _ask(context)
        if any(_major(arrow) != _major(pa.__version__) for arrow, _ in found):
            logger.info("tasks in Python need pyarrow %s; executors have: %s", pa.__version__, found)
            return False
        if any(own != version for _, own in found):
            context.addPyFile(str(_package(context, version)))
            found = _ask(context)
    except Exception as error:
        if not is_failed_job(error):  # then nothing is known of the executors
            raise
        logger.info("executors cannot run tasks in Python: %s", str(error)[:500])
        return False
    return all(own == version for _, own in found)


def _own_version() -> str:
    source = get_data("hiveacid", "__init__.py") or b""
    (version,) = re.findall(_VERSION, source.decode())
    return str(version)


def _major(version: str | None) -> str:
    return (version or "").partition(".")[0]


def _ask(context: SparkContext) -> list[_Versions]:
    pattern = _VERSION

    def versions(_: int) -> _Versions:  # nested as `run_task`
        import re  # noqa: PLC0415 - names of this function are the worker's
        from importlib.util import find_spec  # noqa: PLC0415

        try:
            import numpy  # noqa: F401, ICN001, PLC0415
            import pyarrow  # noqa: ICN001, PLC0415
        except ImportError:
            return None, None
        # read, not imported: a worker that has imported one version never takes another
        spec = find_spec("hiveacid")
        source = "" if spec is None else spec.loader.get_source("hiveacid")  # type: ignore[union-attr]
        version = re.search(pattern, source)
        return pyarrow.__version__, version and version[1]

    tasks = max(1, context.defaultParallelism)
    found: list[_Versions] = context.parallelize(range(tasks), tasks).map(versions).collect()
    return found


def _package(context: SparkContext, version: str) -> Path:
    """Return this process's hiveacid as a zip file, which lives as long as the application."""
    if _HOME.is_file():
        return _HOME
    path = Path(context._temp_dir) / f"hiveacid-{version}.zip"  # noqa: SLF001
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for source in sorted((_HOME / "hiveacid").rglob("*.py")):
            package.write(source, source.relative_to(_HOME))
    return path


class SentToWorkers:
    """Base class of objects that are pickled to workers."""

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        """Return the function that restores the object on a worker, and the object's default pickle."""
        # `__getstate__` would not do: the pickle would begin with the class, which a worker without hiveacid cannot import
        return unpickler(), (pickle_for_workers(_DefaultPickle(self)),)


@dataclass(frozen=True)
class _DefaultPickle:
    """An object as it would be pickled without the ``__reduce__`` of `SentToWorkers`."""

    value: object

    def __reduce__(self) -> tuple[Callable[[type], object], tuple[type], dict[str, object]]:
        return object.__new__, (type(self.value),), self.value.__dict__


def pickle_for_workers(value: object) -> bytes:
    """Pickle by cloudpickle, which sends by value the functions that no worker can import."""
    pickler: Any = cloudpickle
    pickled: bytes = pickler.dumps(value)
    return pickled


def unpickler() -> Callable[[bytes], Any]:
    """Return a function that unpickles on a worker, or raises ImportError with one sentence about what is missing."""

    # Nested, so that cloudpickle sends it by value: the worker that runs it needs no module of ours.
    def unpickle(pickled: bytes) -> Any:
        import pickle  # noqa: PLC0415 - names of this function are the worker's
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415

        try:
            return pickle.loads(pickled)  # noqa: S301 - part of Spark's own message
        except ImportError as error:
            package = (error.name or "hiveacid").partition(".")[0]
            message = (
                f'format("hiveacid") needs the package {package}, which {sys.executable} on {socket.gethostname()} does not '
                "have: install it there, or send it with --py-files or --archives (docs/cluster.md)"
            )
            raise ImportError(message) from None

    return unpickle

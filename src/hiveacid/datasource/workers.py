"""Objects that Spark pickles to Python workers, which may lack the packages that the objects need.

Such an object is pickled together with a function that imports nothing. On a worker without hiveacid, or without a
package that hiveacid needs, the function raises an error that names the package and the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle


class SentToWorkers:
    """Base class of objects that are pickled to workers."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """Return a function that makes the object again, and the object as it is pickled without this method."""
        return unpickler(), (pickle_for_workers(_AsUsual(self)),)


@dataclass(frozen=True)
class _AsUsual:
    held: object

    def __reduce__(self) -> Any:
        return _make, (type(self.held),), self.held.__dict__


def _make(of: type) -> object:
    return object.__new__(of)


def pickle_for_workers(held: object) -> bytes:
    """Pickle by cloudpickle, which sends what no worker can import by value."""
    pickler: Any = cloudpickle
    pickled: bytes = pickler.dumps(held)
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

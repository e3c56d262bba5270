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

"""What a call costs: limits that hold on a slow machine beside other work.

A limit in a test tells the linear from the quadratic: what these tests guard against took minutes or gigabytes. How
fast something is belongs into `make bench`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

SECONDS, BYTES = 5.0, 200 << 20
_TRIES = 3


def cpu_seconds(act: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes in this thread."""
    start = time.thread_time()
    act()
    return time.thread_time() - start


def assert_quick(act: Callable[[], object], seconds: float = SECONDS) -> None:
    """Require that one of three tries of a call takes less than some CPU seconds."""
    taken: list[float] = []
    while len(taken) < _TRIES and (not taken or taken[-1] >= seconds):
        taken.append(cpu_seconds(act))
    assert min(taken) < seconds, taken


def assert_small(act: Callable[[], object], most: int = BYTES) -> None:
    """Require that a call never holds more than some bytes of memory of Python's objects."""
    tracemalloc.start()
    try:
        act()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()

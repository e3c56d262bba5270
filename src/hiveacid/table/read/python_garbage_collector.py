"""Rarer runs of Python's cyclic garbage collector while a plan makes very many objects that stay.

The collector runs whenever 700 objects were added, and every older generation follows. For a table of 100,000 files it
went through the same listings again and again, which took half of the CPU time of the listing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_OBJECTS = 100_000
"""Objects between two runs meanwhile, of the youngest generation only. Cycles of other threads wait no longer than that."""


@dataclass
class _Thresholds:
    """Number of those who asked for rare runs, and the process's own thresholds, to be put back after the last one."""

    users: int = 0
    own: tuple[int, int, int] = (0, 0, 0)
    lock: threading.Lock = field(default_factory=threading.Lock)


_THRESHOLDS = _Thresholds()  # like the collector itself, one of the process


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector run rarely; a program that has turned it off, or set higher thresholds, keeps its settings."""
    with _THRESHOLDS.lock:
        _THRESHOLDS.users += 1
        if _THRESHOLDS.users == 1:
            _THRESHOLDS.own = gc.get_threshold()
            if 0 < _THRESHOLDS.own[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, _OBJECTS, _OBJECTS)
    try:
        yield
    finally:
        with _THRESHOLDS.lock:
            _THRESHOLDS.users -= 1
            # unless the program has set others meanwhile
            if not _THRESHOLDS.users and gc.get_threshold()[0] == _OBJECTS:
                gc.set_threshold(*_THRESHOLDS.own)

"""What was read last, kept for whoever asks next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Kept(Generic[T]):
    """Values used last: as many as have some size together, and no more than some number."""

    size: int
    number: int
    _used: int = 0
    _known: OrderedDict[Hashable, tuple[T, int]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> tuple[T] | None:
        """Return a value, in a tuple; None: not kept."""
        with self._lock:
            if key not in self._known:
                return None
            self._known.move_to_end(key)
            return (self._known[key][0],)

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Keep a value, and let go of others; not one that is larger than all may be."""
        with self._lock:
            self._used -= self._known.pop(key, (None, 0))[1]
            if size > self.size:
                return
            self._used += size
            self._known[key] = value, size
            while self._used > self.size or len(self._known) > self.number:
                self._used -= self._known.popitem(last=False)[1][1]

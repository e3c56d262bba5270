"""LRU cache limited by the total size and the number of its values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class LruCache(Generic[T]):
    """Most recently used values: at most ``max_values``, with a total size of at most ``max_size``. Thread-safe."""

    max_size: int
    max_values: int
    _used: int = 0
    _values: OrderedDict[Hashable, tuple[T, int]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> tuple[T] | None:
        """Return a value in a tuple of one; None if the key is absent, so that a value may be None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return (self._values[key][0],)

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Add a value and evict the least recently used ones; a value larger than ``max_size`` is not added."""
        with self._lock:
            self._used -= self._values.pop(key, (None, 0))[1]
            if size > self.max_size:
                return
            self._used += size
            self._values[key] = value, size
            while self._used > self.max_size or len(self._values) > self.max_values:
                self._used -= self._values.popitem(last=False)[1][1]

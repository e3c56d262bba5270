"""Histories: lists of (kind of statement, seed), drawn by a seed that is printed, and the shortest one that fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

History = list[tuple[str, int]]


def drawn(name: str, weights: Mapping[str, float], count: int) -> History:
    """Return that many steps after an INSERT. ``name``: seed of the choice."""
    random = Random(name)
    kinds = random.choices(list(weights), list(weights.values()), k=count)
    return [(kind, random.randrange(10**9)) for kind in ["insert", *kinds]]


def shrunk(statements: History, fails: Callable[[History], bool], seconds: float = 3600) -> History:
    """Leave out as long stretches as possible; end after so many seconds with what there is."""
    end = time.monotonic() + seconds
    length = len(statements) // 2
    while length:
        at = 0
        while at < len(statements) and time.monotonic() < end:
            shorter = statements[:at] + statements[at + length :]
            if fails(shorter):
                statements = shorter
            else:
                at += length
        length //= 2
    return statements

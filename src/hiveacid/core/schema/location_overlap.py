"""Comparison of locations: one inside another, overlapping, the same."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"file:/+")


def lies_in(inner: str, outer: str) -> bool:
    """Tell whether a location is, or lies in, another one; both are absolute paths or URIs."""
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")


def overlap(one: str, other: str) -> bool:
    """Tell whether two locations are the same, or one lies in the other; both as in `lies_in`."""
    return lies_in(one, other) or lies_in(other, one)


def is_same_location(one: str, other: str) -> bool:
    """Tell whether two locations are the same; ``file:/x``, ``file:///x/`` and ``/x`` are."""
    return _normalized(one) == _normalized(other)


def _normalized(location: str) -> str:
    return _LOCAL.sub("/", location, count=1).rstrip("/")

"""Where tables lie."""

from __future__ import annotations


def touch(one: str, other: str) -> bool:
    """Tell whether two locations are the same, or one lies in the other; both are absolute paths or URIs."""
    first, second = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)

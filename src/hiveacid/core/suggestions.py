"""Suggestions for misspelt names, at the end of error messages.

Those for unknown columns of a query come from Spark (``spark.session.error_translation``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

_MAX_NAMES, _LONGEST_NAME = 2000, 128


def did_you_mean(name: str, names: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return the end of an error message that suggests one of ``names``; empty if none is similar.

    ``similarity``: from 0 to 1, as `difflib` measures it. Long names are not compared, and only the first 2,000 names are.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    spellings = {other.lower(): other for other in islice(names, _MAX_NAMES) if len(other) <= _LONGEST_NAME}
    matches = get_close_matches(name.lower(), spellings, n=1, cutoff=similarity)
    return f"; did you mean {spellings[matches[0]]}?" if matches else ""


def did_you_mean_any(unknown: Iterable[str], missing: Sequence[str]) -> str:
    """Return the suggestion of `did_you_mean` for the first unknown name that has one."""
    return next(filter(None, (did_you_mean(name, missing) for name in unknown)), "")

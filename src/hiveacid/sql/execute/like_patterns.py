"""The patterns of SHOW ... LIKE."""

from __future__ import annotations

import re
from collections.abc import Iterable


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern of Hive's matches; all without one.

    ``*`` stands for any text, ``|`` between alternatives; Hive 4 also takes SQL's ``%`` (any text) and ``_``
    (one letter): a ``_`` stays a letter here, because names are full of them (``UDFLike`` against
    ``SearchUtils`` in Hive; its SHOW TABLES of 3.1 knew ``*`` and ``|`` only). Case does not matter.
    """
    if pattern is None:
        return list(names)
    found = re.compile("|".join(_expression(part) for part in pattern.split("|")), re.IGNORECASE)
    return [name for name in names if found.fullmatch(name)]


def _expression(part: str) -> str:
    return ".*".join(re.escape(piece) for piece in re.split(r"[*%]", part.strip()))

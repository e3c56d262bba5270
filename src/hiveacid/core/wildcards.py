"""Patterns with wildcards, matched in a time that is bounded by the product of both lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_PATTERN = 4096
"""Characters of a pattern that a client may send."""


def compile_wildcards(pieces: Sequence[str], any_letter: str = ".", flags: int = 0) -> re.Pattern[str]:
    """Return the expression, for ``fullmatch``, of a text that consists of pieces with any text between them.

    ``pieces``: regular expressions of a fixed length, at least one. ``any_letter``: the letters that may lie between them.
    Each piece between two wildcards is matched at its first occurrence (an atomic group), so that nothing is tried again.
    A plain ``.*`` for each wildcard would take a time that is exponential in their number.
    """
    first, *rest = pieces
    middle = "".join(f"(?>{any_letter}*?{piece})" for piece in rest[:-1])
    end = f"{any_letter}*{rest[-1]}" if rest else ""
    return re.compile(f"{first}{middle}{end}", flags | re.DOTALL)

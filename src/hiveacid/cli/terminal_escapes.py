"""Escape terminal control sequences."""

from __future__ import annotations

from itertools import chain

_ESCAPES = {number: f"\\x{number:02x}" for number in chain(range(32), range(0x7F, 0xA0))}
_VISIBLE = _ESCAPES | {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


def escape_controls(text: str) -> str:
    r"""Replace control characters by visible escapes such as ``\x1b``."""
    return text.translate(_VISIBLE)


def escape_controls_of_lines(text: str) -> str:
    """Replace control characters in each line, as `escape_controls` does, and keep the line breaks."""
    return "\n".join(map(escape_controls, text.split("\n")))

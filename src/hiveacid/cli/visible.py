"""Texts for a terminal that nothing in them can steer."""

from __future__ import annotations

from itertools import chain

_ESCAPES = {number: f"\\x{number:02x}" for number in chain(range(32), range(0x7F, 0xA0))}
_VISIBLE = _ESCAPES | {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


def visible(text: str) -> str:
    """Return a text without characters that would steer a terminal: they are written as escapes."""
    return text.translate(_VISIBLE)


def visible_lines(text: str) -> str:
    """Return a text of several lines, each `visible`."""
    return "\n".join(map(visible, text.split("\n")))

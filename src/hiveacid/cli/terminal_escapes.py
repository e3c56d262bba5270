"""Escape terminal control sequences."""

from __future__ import annotations

from itertools import chain

_ESCAPES = {number: f"\\x{number:02x}" for number in chain(range(32), range(0x7F, 0xA0))}
_VISIBLE = _ESCAPES | {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


def escape_controls(text: str) -> str:
    r"""Return a text whose control characters are written as escapes such as ``\x1b``."""
    return text.translate(_VISIBLE)


def escape_controls_of_lines(text: str) -> str:
    """Return a text of several lines, each as `escape_controls` returns it."""
    return "\n".join(map(escape_controls, text.split("\n")))

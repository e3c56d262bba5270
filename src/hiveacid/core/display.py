"""Short texts of objects for shells and notebooks, and suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from html import escape
from itertools import islice
from typing import Any

from hiveacid.core.model import TableName

_PLAIN = (str, int, float, TableName)
_MOST_NAMES, _LONGEST_NAME, _MOST_TEXT = 2000, 128, 200


class Displayed:
    """A dataclass that shows its plain public fields, if they differ from their defaults.

    Its connection, with the store's address and all settings, is not shown.
    """

    def shown(self) -> Mapping[str, object]:
        """Return the facts for ``repr``, without access to the store."""
        named: dict[str, object] = {}
        one: Any = self
        for field in fields(one):
            value = getattr(self, field.name)
            default = None if field.default is MISSING else field.default
            if not field.name.startswith("_") and isinstance(value, _PLAIN) and value != default:
                named[field.name] = value
        return named

    def described(self) -> Mapping[str, object]:
        """Return the facts for notebooks."""
        return self.shown()

    def __repr__(self) -> str:
        """Return the facts in one line."""
        return f"{type(self).__name__}({', '.join(f'{name}={_cut(value)}' for name, value in self.shown().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_cut(value))}</td></tr>"
            for name, value in self.described().items()
        )
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests a known name; empty if none is similar.

    Long names are not compared, and of many known names only the first.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    spelt = {one.lower(): one for one in islice(known, _MOST_NAMES) if len(one) <= _LONGEST_NAME}
    found = get_close_matches(name.lower(), spelt, n=1)
    return f"; did you mean {spelt[found[0]]}?" if found else ""

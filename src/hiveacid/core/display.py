"""Short texts of objects for shells and notebooks, and suggestions for misspelt names at the end of error messages.

Suggestions for unknown columns of a query come from Spark (``spark.session.error_translation``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from html import escape
from itertools import islice
from typing import Any

from hiveacid.core.model import TableName


def first_few(texts: Collection[str], shown: int = 5) -> str:
    """Return the first texts of a list, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(texts) - shown} more" if len(texts) > shown else ""
    return ", ".join(islice(texts, shown)) + more


class ShownAsText:
    """A value that `Displayed` shows by its ``str``."""


_PLAIN = (str, int, float, TableName, ShownAsText)
_MAX_TEXT = 200


class Displayed:
    """A dataclass that shows its plain public fields, if they differ from their defaults.

    Its connection, with the store's address and all settings, is not shown.
    """

    def shown(self) -> Mapping[str, object]:
        """Return the facts for ``repr``, without access to the store."""
        facts: dict[str, object] = {}
        instance: Any = self
        for field in fields(instance):
            value = getattr(self, field.name)
            default = None if field.default is MISSING else field.default
            if not field.name.startswith("_") and isinstance(value, _PLAIN) and value != default:
                facts[field.name] = value
        return facts

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
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


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

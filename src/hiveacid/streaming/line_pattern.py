"""Regular expressions with a group per column of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ConfigError

# One of: an escaped character, a class of characters, the beginning of a capturing group, any other character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(?P<open>\((?!\?))|.", re.DOTALL)


@dataclass(frozen=True)
class LinePattern:
    """An expression in RE2 syntax. ``groups``: the names of its groups. ``names``: the column of each group.

    ``columns``: all columns of the result; those without a group are NULL.
    """

    text: str
    groups: tuple[str, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, pattern: str, columns: Sequence[str]) -> LinePattern:
        """Parse an expression and name its groups. Raises ConfigError if it is invalid or its groups are not the columns."""
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"not a regular expression ({error}): {pattern}") from error
        names = tuple(sorted(expression.groupindex, key=expression.groupindex.__getitem__))
        if not names:
            if expression.groups != len(columns):
                raise ConfigError(
                    f"the expression has {expression.groups} groups, but the table has {len(columns)} columns: "
                    f"{', '.join(columns)}"
                )
            pattern, names = _numbered(pattern), tuple(columns)
            groups = tuple(f"g{index}" for index in range(len(columns)))
        else:
            groups = names
            names = tuple(name.lower() for name in names)
            wrong = [name for name in names if name not in columns]
            if wrong or expression.groups != len(names) or len(set(names)) != len(names):
                raise ConfigError(
                    f"each group must have the name of a different column ({', '.join(columns)})"
                    + (f"; {wrong[0]} is none" if wrong else "")
                )
        parser = cls(rf"\A(?:{pattern})\z", groups, names, tuple(columns))
        try:
            parser.extract("")
        except pa.ArrowInvalid as error:
            raise ConfigError(f"not an expression of RE2 ({error}): {pattern}") from error
        return parser

    def extract(self, text: str) -> Any:
        """Match every non-blank line; return text columns. Raises ValueError if a line does not match."""
        lines = pc.utf8_rtrim(pc.split_pattern(pa.array([text]), "\n").values, "\r")
        lines = lines.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), ""))
        groups = pc.extract_regex(lines, self.text)
        if groups.null_count:
            raise ValueError("it does not match the regular expression")
        by_name = dict(zip(self.names, self.groups, strict=True))
        nothing = pa.nulls(len(lines), pa.string())
        arrays = [groups.field(by_name[column]) if column in by_name else nothing for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _numbered(pattern: str) -> str:
    """Give every capturing group a name, ``g0`` and so on."""
    out: list[str] = []
    count = 0
    for token in _TOKEN.finditer(pattern):
        out.append(token.group() if token["open"] is None else f"(?P<g{count}>")
        count += token["open"] is not None
    return "".join(out)

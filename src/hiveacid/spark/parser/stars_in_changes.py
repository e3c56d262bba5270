"""Stars in the expressions of UPDATE, DELETE and MERGE (``hash(*)``, ``struct(t.*)``), replaced by column names.

Spark itself would expand a star to all columns of the scan, which has ``ROW__ID`` and other columns besides those of
the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from hiveacid.core.schema.types import quote_name
from hiveacid.errors import StatementError
from hiveacid.spark.formats.expressions import Expression, text_of, with_text
from hiveacid.spark.parser.lexer import Token, tokenize

_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})


def expand_stars(expression: Expression, relations: Mapping[str, Sequence[str]]) -> Expression:
    """Return the expression with column names in place of stars. Stars in subqueries stay.

    ``relations``: column names by alias; the alias '' is that of a relation without one. Raises StatementError for a star
    with EXCEPT.
    """
    text = text_of(expression)
    if text is None or "*" not in text:
        return expression
    columns = {
        alias.lower(): [
            f"{quote_name(alias)}.{quote_name(name)}" if alias else quote_name(name) for name in names
        ]
        for alias, names in relations.items()
    }
    parts, end = [], 0
    tokens = tokenize(text)
    for index in _stars(tokens):
        star, start, names = tokens[index], tokens[index].start, [*chain(*columns.values())]
        if index and tokens[index - 1].keyword == ".":
            qualifier = tokens[index - 2]
            if (index > 2 and tokens[index - 3].keyword == ".") or qualifier.name.lower() not in columns:  # noqa: PLR2004
                continue  # all fields of a struct, or a table of another name
            start, names = qualifier.start, columns[qualifier.name.lower()]
        if tokens[index + 1].keyword == "EXCEPT":
            raise StatementError("name the columns instead of * EXCEPT", line=star.line, column=star.column)
        parts += [text[end:start], ", ".join(names)]
        end = star.end
    return with_text(expression, "".join((*parts, text[end:])))


def _stars(tokens: Sequence[Token]) -> list[int]:
    """Return the positions of asterisks that are stars (not multiplication signs), outside subqueries."""
    positions, in_query = [], [False]
    for index, token in enumerate(tokens):
        match token.keyword:
            case "(":
                in_query.append(in_query[-1] or tokens[index + 1].keyword in _QUERY)
            case ")" if len(in_query) > 1:
                in_query.pop()
            case "*" if not in_query[-1] and (not index or tokens[index - 1].keyword in ("(", ",", ".")):
                positions.append(index)
    return positions

"""The word DEFAULT in the VALUES of an INSERT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hiveacid.core.model import TableName
from hiveacid.core.schema.constraints import surrogate_keys
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.statements import Slice
from hiveacid.table.write.constraints import default_values
from hiveacid.table.write.surrogate_keys import KeyMaker, no_key


def is_values(text: Slice) -> bool:
    """Tell whether the rows of an INSERT are listed."""
    return text.tokens[0].keyword == "VALUES"


def with_default_values(
    execution: ExecutionContext,
    name: TableName,
    text: Slice,
    columns: Sequence[str],
    keys: KeyMaker = no_key,
) -> tuple[Slice, Mapping[str, str] | None]:
    """Return VALUES with the default of its column for each value DEFAULT, and all defaults; other texts as they are, and None.

    NULL, the default of most columns, is as long as the word, so that positions in errors stay. ``columns``: those of the values.
    ``keys``: called for each value that is a surrogate key.
    Inside another expression the word stays, and Spark refuses it.
    """
    if not is_values(text):
        return text, None
    tokens, words, depth, place = text.tokens, [], 0, 0
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        depth += (before.keyword == "(") - (before.keyword == ")")
        if depth == 0 or (depth == 1 and before.keyword == "("):
            place = 0
        elif depth == 1 and before.keyword == ",":
            place += 1
        alone = before.keyword in {"(", ","} and after.keyword in {")", ","}
        if token.keyword == "DEFAULT" and alone and depth <= 1:
            words.append((token, columns[place] if place < len(columns) else ""))
    if not words:
        return text, None
    table = execution.context.require(name)
    defaults = default_values(execution.context, table, table.column_names)
    with_keys = surrogate_keys(execution.context.catalog.constraints(table))
    values = [
        keys(column, with_keys[column][0])
        if column in with_keys
        else f"({defaults[column]})"
        if column in defaults
        else "NULL   "
        for _, column in words
    ]
    whole = text.text
    for (token, _), value in reversed([*zip(words, values, strict=True)]):
        whole = f"{whole[: token.start]}{value}{whole[token.end :]}"
    return replace(text, text=whole), defaults

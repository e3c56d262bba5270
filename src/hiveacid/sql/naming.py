"""What may stand behind a table's name in a query: ``SELECT * FROM db.t.history`` shows ``t.inspect.history()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.core.model import TableName
from hiveacid.spark.views import spark_knows
from hiveacid.sql.values import SPARK_CATALOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiveacid.table.context import Context

ABOUT = frozenset({"history", "snapshots", "files", "deltas", "partitions"})
"""What is known about a table."""
_LONGEST = 3  # database, table, what about it


@dataclass(frozen=True)
class Named:
    """A table of ours; ``about``: one of `ABOUT` instead of its rows."""

    table: TableName
    about: str | None = None


def about_table(context: Context, parts: Sequence[str]) -> Named | None:
    """Return what a name says about a table of ours; None for other names, and where Spark has such a table.

    Tables of ours that are called so come first: the caller looks for them before.
    """
    if len(parts) > _LONGEST and parts[0] == SPARK_CATALOG:
        parts = parts[1:]
    *owner, about = parts
    if about not in ABOUT or len(owner) not in (1, 2):
        return None
    name = TableName(owner[0] if len(owner) > 1 else context.database, owner[-1])
    if context.catalog.get_table(name) is None or spark_knows(context.facts, parts):
        return None
    return Named(name, about)

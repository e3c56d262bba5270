"""Metadata tables: ``SELECT * FROM db.t.history`` shows ``t.inspect.history()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.core.model import TableName
from hiveacid.spark.session.temporary_views import exists_in_spark
from hiveacid.sql.statements.values import SPARK_CATALOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiveacid.table.context import Context

METADATA_TABLES = frozenset({"history", "snapshots", "files", "deltas", "partitions"})
"""The tables of metadata that each table has."""
_MOST_PARTS = 3  # database, table, metadata table


@dataclass(frozen=True)
class TableSource:
    """A table of the catalog; ``metadata``: one of `METADATA_TABLES` instead of its rows."""

    table: TableName
    metadata: str | None = None


def find_metadata_table(context: Context, parts: Sequence[str]) -> TableSource | None:
    """Return the metadata table that a name means; None for other names, and where Spark has such a table.

    The caller looks first for a table of the catalog that has this name itself.
    """
    if len(parts) > _MOST_PARTS and parts[0] == SPARK_CATALOG:
        parts = parts[1:]
    *owner, metadata = parts
    if metadata not in METADATA_TABLES or len(owner) not in (1, 2):
        return None
    name = TableName(owner[0] if len(owner) > 1 else context.database, owner[-1])
    if context.catalog.get_table(name) is None or exists_in_spark(context.facts, parts):
        return None
    return TableSource(name, metadata)

"""Metadata tables of a table: ``SELECT * FROM t.history`` shows the rows of ``t.inspect.history()``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from hiveacid.core.model import TableName
from hiveacid.spark.session.temporary_views import exists_in_spark
from hiveacid.sql.statements.values import SPARK_CATALOG
from hiveacid.table.context import Context
from hiveacid.table.inspect import Inspect
from hiveacid.table.read.history_and_time_travel import PointInTime
from hiveacid.transactions.transaction import Transaction

METADATA_TABLES = frozenset({"history", "snapshots", "files", "deltas", "partitions"})
"""The metadata tables that each table has."""
_MAX_PARTS = 3  # database, table, metadata table


@dataclass(frozen=True)
class Predicate:
    """A condition for push-down, as text, and the name that may qualify its columns.

    ``view``: the view in whose text it stands, with the functions and settings of its creator.
    """

    condition: str
    alias: str
    view: TableName | None = None


@dataclass(frozen=True)
class TableSource:
    """Table, or metadata table of a table, whose rows stand for a name in a query.

    ``metadata``: one of `METADATA_TABLES`; None: the table itself. ``virtual_columns``: include these columns. ``as_of``: the point of time travel. ``predicate``: the query needs only
    rows that fulfil it. ``counted``: the query needs only the number of rows. ``subqueries`` as in `Scan`.
    """

    table: TableName
    metadata: str | None = None
    virtual_columns: bool = False
    as_of: PointInTime | None = None
    predicate: Predicate | None = None
    counted: bool = False
    subqueries: bool = False


def find_metadata_table(context: Context, parts: Sequence[str]) -> TableSource | None:
    """Return the metadata table that a name refers to; None for other names, and if Spark has a table of that name.

    The caller first looks for a table of the hiveacid catalog with this name.
    """
    if len(parts) > _MAX_PARTS and parts[0] == SPARK_CATALOG:
        parts = parts[1:]
    *owner, metadata = parts
    if metadata not in METADATA_TABLES or len(owner) not in (1, 2):
        return None
    name = TableName(owner[0] if len(owner) > 1 else context.database, owner[-1])
    if context.catalog.get_table(name) is None or exists_in_spark(context.env, parts):
        return None
    return TableSource(name, metadata)


def metadata_frame(context: Context, source: TableSource, txn: Transaction | None) -> DataFrame:
    """Return the rows of a metadata table."""
    frame: DataFrame = getattr(Inspect(context, source.table, txn), str(source.metadata))()
    return frame

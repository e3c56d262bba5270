"""RESTORE: one commit that makes the rows of a table those of a point in its past."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from hiveacid.core.model import TableKind, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import NotTransactionalError
from hiveacid.table.context import HOW_TO_MAKE_TRANSACTIONAL, Context
from hiveacid.table.read.history_and_time_travel import Instant, PointInTime, write_ids_at
from hiveacid.table.read.table_snapshot import list_snapshot
from hiveacid.table.write.insert import RESTORE, InsertOptions, insert
from hiveacid.table.write.publish import WriteReport
from hiveacid.transactions.transaction import Transaction


def restore(context: Context, name: TableName, past: PointInTime, joined: Transaction | None) -> WriteReport:
    """Replace the rows of a table by those that it held at a point in the past.

    It is an INSERT OVERWRITE of all partitions, with its locks and conflicts. Columns stay those of the present definition.
    Raises NotTransactionalError, ConfigError for a write id that the table has not committed, and NotEnoughHistoryError where the
    cleaner has removed that state; UnsupportedFeatureError for a moment if the store keeps no commit times.
    """
    table = context.require(name)
    if table.kind is TableKind.PLAIN:
        raise NotTransactionalError(
            f"RESTORE of {name}: the table is not transactional: {HOW_TO_MAKE_TRANSACTIONAL}"
        )
    if joined is None:  # a refusal then takes no write id
        with context.read_leases.acquire(context.settings) as reader:
            write_ids_at(context, table, reader, past)

    # wall clocks are only copied: the session's zone may skip some
    context = replace(context, env=context.env.with_settings({"spark.sql.session.timeZone": "UTC"}))

    def rows(txn: Transaction) -> DataFrame:
        table = context.require(name)
        if not isinstance(past, Instant):
            txn.committed_write_ids(name).at(past)  # which the transaction's own write id is not
        snapshot = list_snapshot(context, table, txn, as_of=past)
        return snapshot.scan().select(*map(quote_name, table.column_names))

    options = InsertOptions(overwrite=True, whole=True, history_verb=RESTORE)
    return insert(context, name, rows, options, joined)

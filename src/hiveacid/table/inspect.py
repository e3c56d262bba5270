"""Inspection of a table: its files, deltas, partitions, history and findings, mostly as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from hiveacid.core.display import Displayed
from hiveacid.core.model import TableName
from hiveacid.core.snapshot.check_findings import Finding
from hiveacid.core.snapshot.classify_entries import ItemState
from hiveacid.table.check import check_table
from hiveacid.table.check_files import check_quick, inventory_of_partitions
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of, static_values
from hiveacid.table.read import inventory
from hiveacid.table.read.history_and_time_travel import (
    HISTORY,
    SNAPSHOTS,
    HistoryRow,
    history_rows,
    snapshot_rows,
)
from hiveacid.transactions.transaction import Transaction

_PARTITIONS = "partition string, location string, files int, bytes bigint"


@dataclass(frozen=True, repr=False)
class Inspect(Displayed):
    """Views of a table's directories, history and findings, at the current snapshot."""

    context: Context
    name: TableName
    joined: Transaction | None = None

    def files(self) -> DataFrame:
        """Return every file with its state (used, obsolete, aborted, open, foreign …) and the reason."""
        return self._frame(inventory.file_rows(self._inventory()), inventory.FILES)

    def deltas(self) -> DataFrame:
        """Return every directory with its state (used, obsolete, aborted, open, staging, foreign …) and the reason.

        ``files`` and ``bytes`` count everything below the directory.
        """
        return self._frame(inventory.delta_rows(self._inventory()), inventory.DELTAS)

    def partitions(self) -> DataFrame:
        """Return the partitions with number and size of the files that the snapshot reads."""
        rows: list[inventory.Row] = []
        for location in self._inventory().locations:
            sizes = [file.bytes for file in location.files if file.state is ItemState.USED]
            rows.append((location.name, location.root, len(sizes), sum(sizes)))
        return self._frame(rows, _PARTITIONS)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the commits of the table, newest first: user, time, statement, write id, rows (docs/history.md).

        ``limit``: only this number of newest rows.

        Compactions are included, without a write id. Facts that were not recorded are NULL; a Hive Metastore records
        few of them. The result reflects the present state of the store.
        """
        table = self.context.require(self.name)
        rows = history_rows(self.context, table, partitions_of(self.context, table))
        return self._frame(rows[:limit], HISTORY)

    def snapshots(self) -> DataFrame:
        """Return the points in time for `AcidTable.as_of`, newest first, each with whether it can still be read.

        Raises UnsupportedFeatureError on a Hive Metastore, which does not keep the time of commits.
        """
        return self._frame(snapshot_rows(self.context, self.context.require(self.name)), SNAPSHOTS)

    def check(
        self, partition: Mapping[str, object] | None = None, *, quick: bool = False
    ) -> tuple[Finding, ...]:
        """Check the table's invariants; return the findings, worst first (docs/check.md).

        ``partition``: check only one partition (or those of a partial spec). ``quick``: check only names, side files
        and footers, not rows. The check uses the present state of the store. Raises NoSuchPartitionError.
        """
        context = self.context
        table = context.require(self.name)
        partitions, values = partitions_of(context, table), static_values(context, table, partition)
        if quick:
            return check_quick(context, table, partitions, values)
        with context.read_leases.acquire(context.settings) as reader:
            return check_table(context, inventory_of_partitions(context, table, partitions, values), reader)

    def _frame(self, rows: Iterable[inventory.Row | HistoryRow], schema: str) -> DataFrame:
        return self.context.env.spark.createDataFrame(list(rows), schema)

    def _inventory(self) -> inventory.TableInventory:
        context, txn = self.context, self.joined
        table = context.require(self.name)
        snapshot = inventory.current_snapshot(context, table)
        if txn is not None:
            snapshot = replace(snapshot, txns=txn.snapshot(), write_ids=txn.valid_write_ids(table.name))
        return inventory.inventory_of(context, table, partitions_of(context, table, txn), snapshot)

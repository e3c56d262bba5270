"""Figures over time of the reference store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiveacid.core.compaction.advice import FigureRecord, superseded_records
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.stores import refusals
from support.memory_store.state import MemoryBase, synchronized


class MemoryFigures(MemoryBase):
    """Methods of :class:`hiveacid.ports.store.MaintenancePort` that record figures, and tell them."""

    @synchronized
    def claim_figures(self, interval: float, retention: float) -> bool:
        """See :class:`hiveacid.ports.store.MaintenancePort`."""
        state, now = self._state, self._clock.now()
        if abs(now - state.figures_claimed) < interval * 1000:
            return False
        state.figures_claimed = now
        state.figures = [record for record in state.figures if record.time >= now - retention * 1000]
        return True

    @synchronized
    def record_figures(self, records: Sequence[FigureRecord]) -> None:
        """See :class:`hiveacid.ports.store.MaintenancePort`."""
        for record in records:
            times = [one.time for one in self._state.figures if one.table == record.table]
            gone = superseded_records(times, record.time)
            self._state.figures = [
                one for one in self._state.figures if one.table != record.table or one.time not in gone
            ]
            self._state.figures.append(record)

    @synchronized
    def recorded_figures(self, table: TableDefinition | None) -> tuple[FigureRecord, ...]:
        """See :class:`hiveacid.ports.store.MaintenancePort`."""
        wanted = (None, "") if table is None else (table.name, table.incarnation)
        found = [one for one in self._state.figures if (one.table, one.incarnation) == wanted]
        return tuple(sorted(found, key=lambda record: record.time))

    @synchronized
    def latest_figures(self) -> Mapping[TableName, FigureRecord]:
        """See :class:`hiveacid.ports.store.MaintenancePort`."""
        now = self._clock.now()
        ordered = sorted((one for one in self._state.figures if one.time <= now), key=lambda one: one.time)
        return {record.table: record for record in ordered if record.table is not None}

    @synchronized
    def count_transactions(self) -> tuple[int, int]:
        """See :class:`hiveacid.ports.store.MaintenancePort`."""
        refused = sum(txn.code == refusals.CONFLICT for txn in self._state.txns.values())
        return self._state.last_txn, self._state.refused + refused

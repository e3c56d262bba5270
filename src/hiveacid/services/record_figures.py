"""Recording of the figures of tables over time, a part of the housekeeper's turn."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import islice

from hiveacid.config import setting_definitions
from hiveacid.core.compaction.advice import sum_figures
from hiveacid.core.compaction.figure_history import FigureRecord, tables_to_record
from hiveacid.core.model import TableKind, TableName
from hiveacid.errors import HiveAcidError, StoreError
from hiveacid.ports.store import OwnStore, own_store
from hiveacid.table.compaction.measure import MOST_PARTITIONS, Measurer
from hiveacid.table.compaction.need import load_table
from hiveacid.table.context import Context, table_names

logger = logging.getLogger(__name__)

_LONGEST_TURN = 5_000  # ms, after which the next turn goes on
_AT_ONCE = 50  # records in one transaction of the database
_MOST_REMEMBERED = 100_000  # numbers of rows of files
_SUMS = ("bytes", "deltas", "delete_deltas", "files", "small_files")


@dataclass
class FigureRecorder:
    """Records tables that changed, once per ``hiveacid.figures.interval`` in one process of all, and then the whole store."""

    context: Context
    _measurer: Measurer = field(init=False)
    _waiting: deque[TableName] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        """Remember nothing yet."""
        self._measurer = Measurer(self.context, _MOST_REMEMBERED)

    def step(self) -> int:
        """Record for some seconds; return the number of tables."""
        settings, store = self.context.settings, own_store(self.context.store)
        interval = settings.get(setting_definitions.FIGURES_INTERVAL)
        if not self._waiting:
            retention = settings.get(setting_definitions.FIGURES_RETENTION)
            if not interval or not store.claim_figures(interval, retention):
                return 0
            self._waiting += tables_to_record(
                table_names(self.context.catalog),
                store.latest_figures(),
                store.changed_partitions(),
                store.show_compactions(),
            )
        clock, recorded = self.context.clock, 0
        end = clock.now() + _LONGEST_TURN
        while self._waiting and clock.now() < end:
            records: list[FigureRecord] = []
            while self._waiting and len(records) < _AT_ONCE and clock.now() < end:
                record = self._measure(self._waiting.popleft(), store)
                records += [] if record is None else [record]
            store.record_figures(records)
            recorded += len(records)
        if not self._waiting:
            self._record_store(store)
        return recorded

    def _measure(self, name: TableName, store: OwnStore) -> FigureRecord | None:
        """Return the figures of a table; None if it is gone, plain, or cannot be looked at."""
        try:
            table = load_table(self.context.catalog, self.context.settings, name)
            if table is None or table.definition.kind is TableKind.PLAIN:
                return None
            now, places = store.now(), islice(table.partitions, MOST_PARTITIONS)
            figures = sum_figures(self._measurer.figures_of(table, partition) for partition in places)
        except StoreError:
            raise
        except HiveAcidError as error:
            logger.warning("the figures of %s cannot be recorded now: %s", name, error)
            return None
        return FigureRecord(name, now, asdict(figures), table.definition.incarnation)

    def _record_store(self, store: OwnStore) -> None:
        names = set(table_names(self.context.catalog))  # one may have been dropped while it was measured
        tables = [record.figures for name, record in store.latest_figures().items() if name in names]
        begun, conflicts = store.count_transactions()
        sums = {name: sum(one[name] or 0 for one in tables) for name in _SUMS}
        figures = {**sums, "tables": len(tables), "begun": begun, "conflicts": conflicts}
        store.record_figures([FigureRecord(None, store.now(), figures)])

"""The end of a run: everything is read once more, the store is asked, and the history is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from hiveacid.ports.store import WarehouseStore
from support.history.anomalies import Anomaly
from support.history.check import anomalies
from support.history.client import HistoryClient, Workload
from support.history.records import History, Outcome, Record
from support.history.tables import Tables

_AT_ONCE = 10
"""So many tables are read by one transaction in the end."""
_ASKED = 2000
"""Of so many transactions the store is asked for the state, besides those in doubt."""


def history_of(
    store: WarehouseStore,
    tables: Tables,
    records: Sequence[Record],
    workload: Workload,
    reaped: Iterable[int],
) -> History:
    """Read all tables once everybody has ended, ask the store for states, and return the whole history."""
    lines: list[str] = []
    reader = HistoryClient("last", store, tables, lines.append, Random(0), 3600.0, workload)
    touched = sorted({one.key.table for record in records for one in record.operations})
    last = [reader.read_all(touched[at : at + _AT_ONCE]) for at in range(0, len(touched), _AT_ONCE)]
    reader.heartbeats.close()
    return History(
        (*records, *last),
        _states(store, records),
        frozenset(reaped),
        frozenset(one.txn_id for one in last),
    )


def _states(store: WarehouseStore, records: Sequence[Record]) -> dict[int, str]:
    states = {int(one.txn_id): one.state.lower() for one in store.show_transactions()}
    doubtful = [one for one in records if one.outcome is Outcome.UNKNOWN]
    others = Random(0).sample(records, min(_ASKED, len(records)))
    for record in (*doubtful, *others):
        txn_id = record.txn_id
        if txn_id not in states:
            states[txn_id] = store.txn_state(txn_id)  # type: ignore[arg-type]
    return states


@dataclass(frozen=True)
class Verdict:
    """What came out of a run."""

    transactions: int
    outcomes: Counter[str]
    anomalies: tuple[Anomaly, ...]

    def __str__(self) -> str:
        """Return one line."""
        parts = [f"{count} {what}" for what, count in sorted(self.outcomes.items())]
        kinds = Counter(one.kind.value for one in self.anomalies)
        found = [f"{count} x {kind}" for kind, count in kinds.most_common()]
        return f"{self.transactions} transactions ({', '.join(parts)}): {', '.join(found) or 'no anomaly'}"

    def examples(self, most: int = 3) -> list[str]:
        """Return the first anomalies of each kind, a line each."""
        kinds = dict.fromkeys(one.kind for one in self.anomalies)
        by_kind = ([str(one) for one in self.anomalies if one.kind is kind] for kind in kinds)
        return [text for texts in by_kind for text in texts[:most]]


def judge(history: History) -> Verdict:
    """Judge a history."""
    records = [one for one in history.records if one.txn_id not in history.last]
    outcomes = Counter("conflicts" if one.conflict else one.outcome.value for one in records)
    return Verdict(len(records), outcomes, anomalies(history))

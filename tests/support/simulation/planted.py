"""Bugs planted in front of the store of some processes, to show that the simulation catches them. For tests only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.ports.transactions import Remains
from support.history.planted import ConflictCheckOff, GapCommitted, MomentLate, SnapshotLate, Wrapper
from support.simulation.profiles import PARTED, WHOLE
from support.simulation.removed_fixes import FIXES


class BlindCleaner(Wrapper):
    """Whoever asks is told that no transaction is open."""

    def min_open_txn_id(self) -> TxnId:
        """Return the next id to be given."""
        return TxnId(self._store.valid_txns().high_watermark + 1)


class GreedyCompactor(Wrapper):
    """Open write ids are not told: a compaction reaches above the lowest of them."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Leave out what is open."""
        return _without_open(self._store.valid_write_ids(txns, tables))


def _without_open(lists: Mapping[TableName, ValidWriteIdList]) -> dict[TableName, ValidWriteIdList]:
    return {table: replace(one, open=(), min_open=None) for table, one in lists.items()}


class ForgetfulStore(Wrapper):
    """Aborted write ids are forgotten at once, while their files are still there."""

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """Abort and forget."""
        return self._forget(self._store.abort_txns(txn_ids, reason, remains))

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort and forget."""
        return self._forget(self._store.abort_timed_out())

    def _forget(self, txn_ids: tuple[TxnId, ...]) -> tuple[TxnId, ...]:
        if txn_ids:
            for table in (WHOLE, PARTED):
                self._store.forget_aborted(table, None, WriteId(1 << 40))
        return txn_ids


@dataclass(frozen=True)
class Bug:
    """A bug: which roles have it, and how their store is wrapped.

    ``hasty``: writers commit before their files.
    ``patches``: what is put in the place of functions of the product; ``profile``: of runs that are about it.
    """

    roles: frozenset[str] = frozenset({"writer", "reader", "compactor", "cleaner", "reaper"})
    wrapper: Callable[[Any], Any] | None = None
    hasty: bool = False
    patches: tuple[tuple[str, object], ...] = ()
    profile: str = ""

    def wrap(self, role: str, store: Any) -> Any:
        """Return the store as a process of a role gets it."""
        return self.wrapper(store) if self.wrapper is not None and role in self.roles else store


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "": Bug(),
        "cleaner ignores open readers": Bug(frozenset({"cleaner"}), BlindCleaner),
        "compactor goes above the lowest open write id": Bug(frozenset({"compactor"}), GreedyCompactor),
        "abort forgotten too early": Bug(wrapper=ForgetfulStore),
        "commit before files": Bug(hasty=True),
        "conflict check off": Bug(frozenset({"writer"}), ConflictCheckOff, profile="changes"),
        "snapshot taken late": Bug(frozenset({"writer", "reader"}), SnapshotLate),
        "conflicts counted late": Bug(frozenset({"writer"}), MomentLate, profile="changes"),
        "gap treated as committed": Bug(frozenset({"writer", "reader"}), GapCommitted),
        **{name: Bug(patches=tuple(patches), profile=about) for name, (about, patches) in FIXES.items()},
    }
)

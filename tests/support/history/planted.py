"""Stores with a bug planted in front of them, to show that the checker catches it. For tests only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, TableOperation
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Begun, Client, Operation, Start, TxnKind, Written
from support.verbs import begin_by_verbs


class Wrapper:
    """Passes every verb on."""

    def __init__(self, store: WarehouseStore) -> None:
        self._store: Any = store

    def __getattr__(self, verb: str) -> Any:
        """Return the store's own verb."""
        return getattr(self._store, verb)

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Go through the single verbs, in each of which the bug may be."""
        return begin_by_verbs(cast("WarehouseStore", self), client, start, kind)

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """Do the same for what was written."""
        if written:
            cast("WarehouseStore", self).add_written(txn_id, written)
        self._store.commit_txn(txn_id, changes, batch=batch, operations=operations)


class ConflictCheckOff(Wrapper):
    """Everything counts as an insert, and inserts never conflict."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Record what was written as inserts."""
        self._store.add_written(txn_id, _harmless(written))


def _harmless(written: Sequence[Written]) -> tuple[Written, ...]:
    return tuple(replace(one, operation=Operation.INSERT) for one in written)


class SnapshotLate(Wrapper):
    """A table's valid write ids are those of the moment when it is first read."""

    def valid_write_ids(
        self,
        txns: ValidTxnList,  # noqa: ARG002 - that is the bug
        tables: Sequence[TableName],
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Take no notice of the snapshot."""
        found: Mapping[TableName, ValidWriteIdList]
        found = self._store.valid_write_ids(self._store.valid_txns(), tables)
        return found


class MomentLate(Wrapper):
    """Conflicts count from the first write on, not from the snapshot."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Take the snapshot again first: the store notes the moment."""
        self._store.take_snapshot(txn_id)
        self._store.add_written(txn_id, written)


class GapCommitted(Wrapper):
    """The newest open id is taken for one that ended long ago, as if its row had not been seen yet."""

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Leave the newest open transaction but one's own out."""
        return self._without_newest(txn_id, self._store.take_snapshot(txn_id))

    @staticmethod
    def _without_newest(txn_id: TxnId, seen: ValidTxnList) -> ValidTxnList:
        newest = max((one for one in seen.open if one != txn_id), default=None)
        return replace(seen, open=tuple(one for one in seen.open if one != newest))


BUGS: Mapping[str, Callable[[WarehouseStore], object]] = MappingProxyType(
    {
        "conflict check off": ConflictCheckOff,
        "snapshot taken late": SnapshotLate,
        "conflicts counted late": MomentLate,
        "gap treated as committed": GapCommitted,
    }
)


def with_bug(bug: str, store: WarehouseStore) -> WarehouseStore:
    """Return a store with a bug of :data:`BUGS` (the empty text: as it is)."""
    return cast("WarehouseStore", BUGS[bug](store)) if bug else store

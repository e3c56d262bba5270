"""Port for the write ids of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId


class SnapshotSource(Protocol):
    """A store that gives the current snapshot and translates it into write-id lists."""

    def valid_txns(self) -> ValidTxnList:
        """Return the current snapshot (``ports.transactions``)."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See `WriteIdPort`."""


def current_write_ids_of(store: SnapshotSource, table: TableName) -> ValidWriteIdList:
    """Return the valid write-id list of a table at this moment."""
    return store.valid_write_ids(store.valid_txns(), [table])[table]


class WriteIdPort(Protocol):
    """Write ids of tables: allocation, valid write-id lists, ids of aborted transactions."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Translate a snapshot into one write-id list a table (``get_valid_write_ids``)."""

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Record the lists that an open transaction reads, for stores whose cleaner waits for them (Hive 4.1)."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """Allocate each open transaction its write id for the table: gapless and ascending; a repeated call returns the same."""

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """Make ``high_watermark + 1`` the next write id of an adopted table without write ids; mark ``aborted`` ones as such."""

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """Restart write ids at 1 before a table of this name is created, for stores where DROP TABLE keeps the old ids.

        On a Hive 4 metastore the adapter creates and drops a stand-in table (`is_stand_in`). ``mark`` is a property of the
        stand-in, by which a later call recognises an interrupted one.
        """

    def ended_up_to(self, table: TableName) -> WriteId:
        """Return the write id up to which every writer has ended.

        Partitions that are recorded after the call have a higher `Partition.min_write_id`; those before it are listed.
        """

    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """Return the table's write ids of aborted transactions whose files are not cleaned yet.

        ``may_come``: only those whose writer may still publish files, because it has not stopped as far as the store knows.
        """


STAND_IN_PREFIX = ".hiveacid-"
"""Directory name prefix of the stand-in tables of :meth:`WriteIdPort.restart_write_ids`."""


def is_stand_in(table: TableDefinition) -> bool:
    """Tell whether a table is a stand-in that an interrupted :meth:`WriteIdPort.restart_write_ids` left."""
    return table.location.rpartition("/")[2].startswith(STAND_IN_PREFIX)

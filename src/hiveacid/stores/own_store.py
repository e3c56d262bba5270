"""Methods that are the same in the memory store and the SQL store, which belong to hiveacid alone."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, TxnId
from hiveacid.core.schema.constraints import Constraint
from hiveacid.stores.limits_and_retries import Limits


class OwnStore:
    """Base of the memory store and the SQL store."""

    _limits: Limits

    def apply_settings(self, settings: Settings) -> None:
        """Apply the limits of ``settings`` from now on."""
        self._limits = Limits.of(settings)

    def layout_level(self) -> str | None:
        """Return None: the settings choose the layout level."""
        return None

    def txn_timeout(self) -> float | None:
        """Return None: each transaction has the timeout of its client."""
        return None

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner waits for open transactions, not for write ids."""

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """Do nothing: DROP TABLE has deleted the table's write ids."""

    def require_claimable_jobs(self) -> None:
        """Do nothing: every worker may claim jobs."""

    def maintained_by_hiveacid(self) -> bool:
        """Return True: hiveacid's initiator, workers and cleaner maintain the tables."""
        return True

    def enabled_constraints(self, name: TableName) -> tuple[Constraint, ...]:  # noqa: ARG002 - the same for all
        """Return none: CREATE TABLE refuses them."""
        return ()

"""The commits of each table in the reference store."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.core.commits import Commit, Deed, Told, in_order
from hiveacid.core.model import TableName
from hiveacid.stores import checks
from hiveacid.stores.memory_state import MemoryPart, Transaction, alone


class MemoryCommits(MemoryPart):
    """Implements the part of :class:`hiveacid.ports.TransactionStore` that is about tables' pasts."""

    @alone
    def commits(self, table: TableName, after: int | None = None) -> tuple[Commit, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        known = in_order(self._state.commits.get(checks.table_name(table), ()))
        return known if after is None else (*known[:1], *(one for one in known[1:] if one.committed > after))

    def _note_commit(self, txn: Transaction, told: Sequence[Told]) -> None:
        deeds = {one.table: one.deed for one in checks.told(told)}
        for table, given in self._state.write_ids.items():
            for write_id, txn_id in given.items():
                if txn_id == txn.id:
                    deed = deeds.get(table, Deed())
                    client = txn.client
                    made = Commit(
                        write_id, self._clock.now(), txn.id, client.user, client.host, client.agent, deed
                    )
                    self._state.commits.setdefault(table, []).append(made)

    def _prune_commits(self) -> None:
        oldest = self._clock.now() - int(self._limits.commits_retention * 1000)
        for table, known in self._state.commits.items():
            last = max((one.committed for one in known if one.committed <= oldest), default=0)
            self._state.commits[table] = [one for one in known if one.committed >= last]

"""A simulated writer: inserts, updates, deletes, overwrites, and transactions of several statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.model import Partition, TableDefinition, TableName, WriteId
from hiveacid.ports.catalog import NewPartition
from hiveacid.ports.transactions import Operation, Written
from hiveacid.table.partitions import partition_name, partitions_of
from hiveacid.table.write.conflict_checks import require_not_overtaken
from hiveacid.table.write.conflict_retry import run_with_retry
from hiveacid.table.write.insert import insert_lock
from hiveacid.table.write.report import WriteReport
from hiveacid.transactions.transaction import Transaction
from support.simulation.rows import Event, Row, RowId
from support.simulation.session import Session
from support.simulation.world import PARTED, WHOLE

_DAYS = ("0", "0", "0", "1", "1", "2", "3", "4")


@dataclass
class Writer:
    """Runs one statement after the other. ``hasty``: a planted bug, commits before its files are there."""

    session: Session
    hasty: bool = False
    _late: list[Callable[[], None]] = field(default_factory=list)

    def work(self) -> None:
        """Write until the process dies."""
        while True:
            statement = self.session.random.choices(
                (self.insert, self.update, self.delete, self.overwrite, self.several), (6, 5, 3, 1, 2)
            )[0]
            with self.session.forgiving():
                statement()
            self.session.context.clock.sleep(self.session.random.random() * 2)

    # --- statements -------------------------------------------------------------------------------

    def insert(self, joined: Transaction | None = None) -> None:
        """INSERT INTO a table or a partition, perhaps a new one."""
        name = self._table()
        table = self.session.context.require(name)
        static = {"day": self.session.random.choice(_DAYS)} if table.partition_columns else {}
        with self.session.context.transactions.scope(self.session.context.settings, joined) as txn:
            txn.lock([insert_lock(self.session.context, table, static, overwrite=False)])
            txn.require_not_overwritten(name)
            self._write(table, tuple(static.values()), txn, Operation.INSERT)
        self._after_commit()

    def overwrite(self) -> None:
        """INSERT OVERWRITE a table or a partition."""
        name = self._table()
        table = self.session.context.require(name)
        static = {"day": self.session.random.choice(_DAYS)} if table.partition_columns else {}
        with self.session.context.transactions.scope(self.session.context.settings) as txn:
            txn.lock([insert_lock(self.session.context, table, static, overwrite=True)])
            self._write(table, tuple(static.values()), txn, Operation.UPDATE, overwrite=True)
        self._after_commit()

    def update(self, joined: Transaction | None = None) -> None:
        """UPDATE some rows."""
        run_with_retry(self.session.context, self._table(), "UPDATE", joined, self._update)
        self._after_commit()

    def delete(self, joined: Transaction | None = None) -> None:
        """DELETE some rows."""
        run_with_retry(self.session.context, self._table(), "DELETE", joined, self._delete)
        self._after_commit()

    def several(self) -> None:
        """Run a transaction of several statements on several tables."""
        context = self.session.context
        txn = context.transactions.begin(context.settings, explicit=True)
        try:
            txn.snapshot()
            for _ in range(self.session.random.randint(1, 3)):
                self.session.random.choice((self.insert, self.update, self.delete))(txn)
            txn.commit()
        except BaseException as error:
            txn.abort(str(error)[:50])
            raise
        self._after_commit()

    # --- their work ---------------------------------------------------------------------------------

    def _update(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        return self._change(table, txn, keeps=True)

    def _delete(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        return self._change(table, txn, keeps=False)

    def _change(self, table: TableDefinition, txn: Transaction, *, keeps: bool) -> WriteReport:
        """Find rows in the snapshot, write delete events and new versions."""
        found = [
            (one.location, sorted(self.session.read(txn, one)))
            for one in self.session.list_visible(table.name, txn)
        ]
        write_id = txn.write_id(table.name)
        first, second = txn.next_statements(2)
        for location, rows in found:
            chosen = [row for row in rows if self.session.random.random() < 0.4]
            if not chosen:
                continue
            values = () if location.partition is None else location.partition.values
            events = [Event(write_id, row.id, None) for row in chosen]
            name = DeltaName(True, write_id, write_id, first).format()
            self._place(table, txn, location.root, name, events)
            if keeps:
                self._place(table, txn, location.root, *_versions(write_id, second, chosen))
            operation = Operation.UPDATE if keeps else Operation.DELETE
            txn.add_written([Written(table.name, partition_name(table, values), operation)])
        return WriteReport(write_id=write_id)

    def _write(
        self,
        table: TableDefinition,
        values: tuple[str | None, ...],
        txn: Transaction,
        operation: Operation,
        *,
        overwrite: bool = False,
    ) -> None:
        write_id = txn.write_id(table.name)
        (statement,) = txn.next_statements(1)
        partition = partition_name(table, values)
        root = f"{table.location}/{partition}" if partition else table.location
        known = partitions_of(self.session.context, table, txn) or ()
        self.session.world.ledger.tables.setdefault(root, table.name)
        if overwrite:
            self.session.world.ledger.work[txn.txn_id].emptied.add(root)
        keys = self.session.world.new_keys(self.session.random.randint(1, 3))
        rows = [Row(RowId(write_id, statement, number), key, 0) for number, key in enumerate(keys)]
        name = BaseName(write_id) if overwrite else DeltaName(False, write_id, write_id, statement)
        events = [Event(write_id, row.id, row) for row in rows]
        self._place(table, txn, root, name.format(), events)
        require_not_overtaken(self.session.context, table, txn, write_id, [root])
        is_new = partition is not None and values not in {one.values for one in known}
        new = [NewPartition(table.name, Partition(values, root))] if is_new else []
        txn.add_written([Written(table.name, partition, operation, replaced=overwrite)], new)

    def _place(
        self,
        table: TableDefinition,
        txn: Transaction,
        root: str,
        name: str,
        events: Sequence[Event],
    ) -> None:
        """Note what is decided, then publish a directory; a hasty writer does that after the commit."""
        work = self.session.world.ledger.work[txn.txn_id]
        for event in events:
            if event.row is None:
                work.deleted[root].append(event.id)
            else:
                work.inserted[root].append(event.row)
        directory = f"{root}/{name}"

        def publish() -> None:
            with self.session.staging(table, txn) as staging:
                self.session.publish(staging, directory, events)

        txn.on_abort(lambda: self.session.context.fs.delete_tree(directory))
        if self.hasty:
            self._late.append(publish)
        else:
            publish()

    def _after_commit(self) -> None:
        while self._late:
            self._late.pop(0)()

    def _table(self) -> TableName:
        return self.session.random.choice((WHOLE, PARTED))


def _versions(write_id: WriteId, statement: int, rows: Sequence[Row]) -> tuple[str, list[Event]]:
    """Return the directory and the events of updated rows."""
    name = DeltaName(False, write_id, write_id, statement).format()
    changed = [
        Row(RowId(write_id, statement, number), row.key, row.updates + 1) for number, row in enumerate(rows)
    ]
    return name, [Event(write_id, row.id, row) for row in changed]

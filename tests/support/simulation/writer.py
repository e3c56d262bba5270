"""A simulated writer: inserts, updates, deletes, overwrites, and transactions of several statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hiveacid.core.model import TableDefinition, TableName, WriteId
from hiveacid.core.snapshot.file_records import RecordedFile
from hiveacid.errors import WriteConflictError
from hiveacid.ports.transactions import Operation, Start, Written
from hiveacid.spark.write.staged_files import StagedKind
from hiveacid.storage.staging import FinalNames
from hiveacid.table.partitions import partition_name, partitions_of
from hiveacid.table.write import insert, output_directories
from hiveacid.table.write.publish import PublishedFiles, WriteReport
from hiveacid.table.write.write_conflicts import run_with_retry
from hiveacid.transactions.transaction import Transaction
from support.simulation.ledger import Place
from support.simulation.profiles import PARTED
from support.simulation.rows import Event, Row, RowId, to_bytes
from support.simulation.session import Session


@dataclass
class Writer:
    """Runs one statement after the other. ``hasty``: a planted bug, commits before its files are there."""

    session: Session
    hasty: bool = False
    _late: list[Callable[[], None]] = field(default_factory=list)

    def work(self) -> None:
        """Write until the process dies."""
        while True:
            weights = self.session.world.profile.statements
            (name,) = self.session.random.choices([*weights], [*weights.values()])
            statement: Callable[[], None] = getattr(self, name)
            with self.session.forgiving():
                statement()
            self.session.context.clock.sleep(self.session.random.random() * 2)

    # --- statements -------------------------------------------------------------------------------

    def insert(self, joined: Transaction | None = None) -> None:
        """INSERT INTO a table or a partition, perhaps a new one."""
        name, static = self._target()
        try:
            with self._inserting(name, static, joined, overwrite=False) as (table, txn):
                txn.require_not_overwritten(name)
                self._write(table, tuple(static.values()), txn, Operation.INSERT)
        except WriteConflictError as error:
            if joined is None:
                raise self.session.world.scheduler.broken(f"an INSERT lost a conflict: {error}") from error
            raise
        self._after_commit()

    def overwrite(self) -> None:
        """INSERT OVERWRITE a table or a partition."""
        name, static = self._target()
        with self._inserting(name, static, None, overwrite=True) as (table, txn):
            self._write(table, tuple(static.values()), txn, Operation.UPDATE, overwrite=True)
        self._after_commit()

    def truncate(self) -> None:
        """TRUNCATE a table or a partition; the rows of each place are replaced by none."""
        name, static = self._target()
        if self.session.random.random() < 0.5:
            static = {}
        with self._inserting(name, static, None, overwrite=True) as (table, txn):
            partitions = partitions_of(self.session.context, table, txn)
            known = [()] if partitions is None else [one.values for one in partitions]
            for values in known:
                if not static or values == tuple(static.values()):
                    self._write(table, values, txn, Operation.UPDATE, overwrite=True, count=0)
        self._after_commit()

    def update(self, joined: Transaction | None = None) -> None:
        """UPDATE some rows."""
        run_with_retry(self.session.context, self._name(), "UPDATE", joined, self._update)
        self._after_commit()

    def delete(self, joined: Transaction | None = None) -> None:
        """DELETE some rows."""
        run_with_retry(self.session.context, self._name(), "DELETE", joined, self._delete)
        self._after_commit()

    def several(self) -> None:
        """Run a transaction of several statements on several tables."""
        context = self.session.context
        txn = context.read_leases.begin_explicit(context.settings)
        try:
            for _ in range(self.session.random.randint(1, 3)):
                self.session.random.choice((self.insert, self.update, self.delete))(txn)
            txn.commit()
        except BaseException as error:
            txn.abort(str(error)[:50])
            raise
        finally:
            context.read_leases.sweep()
        self._after_commit()

    # --- their work ---------------------------------------------------------------------------------

    @contextmanager
    def _inserting(
        self, name: TableName, static: dict[str, str | None], joined: Transaction | None, *, overwrite: bool
    ) -> Iterator[tuple[TableDefinition, Transaction]]:
        """Lock and begin as ``table.write.insert`` does; the table is read again under the lock."""
        context = self.session.context
        lock = insert.insert_lock(context, context.require(name), static, overwrite=overwrite)
        with context.transactions.scope(context.settings, joined, Start((lock,), (name,), (name,))) as txn:
            table = context.require(name)
            insert.require_writable(context, table, insert.InsertOptions(overwrite=overwrite), txn)
            yield table, txn

    def _update(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        return self._change(table, txn, keeps=True)

    def _delete(self, table: TableDefinition, txn: Transaction) -> WriteReport:
        return self._change(table, txn, keeps=False)

    def _change(self, table: TableDefinition, txn: Transaction, *, keeps: bool) -> WriteReport:
        """Find rows in the snapshot, write delete events and new versions."""
        context = self.session.context
        found = [
            (one.location, sorted(self.session.read(txn, one)))
            for one in self.session.list_visible(table.name, txn)
        ]
        write_id = txn.write_id(table.name, publishing=False)
        deletes, inserts = txn.next_statements(2)
        known = output_directories.known_partitions(context, table, txn)
        statements = {StagedKind.DELETE: deletes, StagedKind.INSERTED: inserts}
        outputs = output_directories.OutputDirectories(context, table, txn, known, write_id, statements)
        txn.pending.on_abort.append(outputs.remove)
        files: list[_File] = []
        for location, rows in found:
            chosen = [row for row in rows if self.session.random.random() < 0.4]
            if not chosen:
                continue
            values = () if location.partition is None else location.partition.values
            files.append(_File(StagedKind.DELETE, values, [Event(write_id, row.id, None) for row in chosen]))
            if keeps:
                files.append(_File(StagedKind.INSERTED, values, _versions(write_id, inserts, chosen)))
            operation = Operation.UPDATE if keeps else Operation.DELETE
            txn.pending.add_written([Written(table.name, partition_name(table, values), operation)])
        self._place(outputs, files)
        outputs.require_not_overtaken()
        return WriteReport(write_id=write_id)

    def _write(
        self,
        table: TableDefinition,
        values: tuple[str | None, ...],
        txn: Transaction,
        operation: Operation,
        *,
        overwrite: bool = False,
        count: int | None = None,
    ) -> None:
        context, world = self.session.context, self.session.world
        known = output_directories.known_partitions(context, table, txn)
        outputs = output_directories.new_output_directories(context, table, txn, known, overwrite=overwrite)
        write_id, statement = outputs.write_id, outputs.statement_ids[StagedKind.INSERTED]
        if overwrite:
            world.ledger.work[txn.txn_id].emptied.add(Place(table.incarnation, outputs.location(values)))
        keys = world.new_keys(self.session.random.randint(1, 3) if count is None else count)
        rows = [Row(RowId(write_id, statement, number), key, 0) for number, key in enumerate(keys)]
        self._place(
            outputs, [_File(StagedKind.INSERTED, values, [Event(write_id, row.id, row) for row in rows])]
        )
        outputs.require_not_overtaken()
        txn.pending.add_written(
            [Written(table.name, partition_name(table, values), operation, replaced=overwrite)],
            outputs.new_partitions(),
        )
        if overwrite:
            txn.pending.add_overwritten(table.name, [values])

    def _place(self, outputs: output_directories.OutputDirectories, files: Sequence[_File]) -> None:
        """Note what is decided, then stage and publish it as ``table.write.publish`` does; a hasty writer after the commit."""
        table, txn, ledger = outputs.table, outputs.txn, self.session.world.ledger
        for file in files:
            place = Place(table.incarnation, outputs.location(file.values))
            for event in file.events:
                if event.row is None:
                    ledger.work[txn.txn_id].deleted[place].append(event.id)
                else:
                    ledger.work[txn.txn_id].inserted[place].append(event.row)

        def publish() -> None:
            fs = self.session.context.fs
            with output_directories.staging(self.session.context, table, txn) as staging:
                for number, file in enumerate(files):
                    fs.write_bytes(f"{staging}/{number}", to_bytes(file.events))
                check = outputs.begin_publishing(staging)
                check()
                final, made = FinalNames(fs), {}
                for number, file in enumerate(files):
                    check()
                    directory = outputs.directory(file.kind, file.values)
                    size = len(to_bytes(file.events))
                    final.finish(f"{staging}/{number}", f"{directory}/bucket_00000", size, b"")
                    made[directory] = (RecordedFile("bucket_00000", size),)
            outputs.record_files(PublishedFiles({}, tuple(made), recorded=made))

        if self.hasty:
            self._late.append(publish)
        else:
            publish()

    def _after_commit(self) -> None:
        while self._late:
            self._late.pop(0)()

    def _name(self) -> TableName:
        return self.session.world.name()

    def _target(self) -> tuple[TableName, dict[str, str | None]]:
        """Return a table, and a partition of it if it has any."""
        name = self._name()
        return name, {
            "day": self.session.random.choice(self.session.world.profile.days)
        } if name == PARTED else {}


@dataclass(frozen=True)
class _File:
    """A file to be written."""

    kind: StagedKind
    values: tuple[str | None, ...]
    events: list[Event]


def _versions(write_id: WriteId, statement: int, rows: Sequence[Row]) -> list[Event]:
    """Return the events of updated rows."""
    changed = [
        Row(RowId(write_id, statement, number), row.key, row.updates + 1) for number, row in enumerate(rows)
    ]
    return [Event(write_id, row.id, row) for row in changed]

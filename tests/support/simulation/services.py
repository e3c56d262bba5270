"""The simulated services: compactor, cleaner, reaper. Plans and clean-up are the real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.snapshot.file_records import RecordedFile
from hiveacid.errors import CompactionError, NoSuchPartitionError
from hiveacid.storage.snapshot_locations import Location
from hiveacid.storage.staging import FinalNames
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
from hiveacid.table.compaction.request_compaction import CompactionOptions, _enqueue, _report_of, _request
from hiveacid.table.compaction.run_compaction import CompactionReport, run_job
from hiveacid.table.compaction.write_compacted_files import CompactionJob, CompactionWriter
from hiveacid.table.context import Context, table_names
from hiveacid.table.partitions import partitions_of
from hiveacid.table.write.output_directories import staging
from hiveacid.table.write.publish import PublishedFiles
from support.simulation.ledger import Place
from support.simulation.rows import Event, Row, files_of, to_bytes
from support.simulation.session import Session


def compact_here(
    context: Context,
    table: TableDefinition,
    partition: Partition | None,
    kind: CompactionKind,
    writer: CompactionWriter,
) -> CompactionReport:
    """Queue one job, claim it and run it here; the client's name is unique, so that a run can be repeated exactly."""
    job = _enqueue(context, _request(context, table, partition, kind, CompactionOptions()))
    worker = f"{context.transactions.client.host}-{context.transactions.client.agent}"
    claimed = context.store.claim_compaction(worker, job.id)
    return _report_of(job) if claimed is None else run_job(context, claimed, worker, writer=writer)


@dataclass
class Compactor:
    """Compacts at random: any place, minor or major."""

    session: Session
    counts = False  # its files are no ORC files

    def work(self) -> None:
        """Compact until the process dies."""
        random, context = self.session.random, self.session.context
        while True:
            kind = random.choice((CompactionKind.MINOR, CompactionKind.MAJOR))
            with self.session.forgiving():
                table = context.require(self.session.world.name())
                places: Sequence[Partition | None] = partitions_of(context, table) or (None,)
                try:
                    compact_here(context, table, random.choice(places), kind, self)
                except (CompactionError, NoSuchPartitionError) as refused:
                    self.session.world.scheduler.note(str(refused))
            context.clock.sleep(random.random() * 10)

    def compact_everything(self) -> None:
        """Run a major compaction of every place."""
        context = self.session.context
        for name in table_names(context.catalog):
            table = context.require(name)
            for place in partitions_of(context, table) or (None,):
                compact_here(context, table, place, CompactionKind.MAJOR, self)

    def rows(self, job: CompactionJob, output: str) -> PublishedFiles:
        """Write the rows, instead of Spark."""
        plan = job.plan
        location, reading = job.location, self.session.reading(job.location, plan.write_ids)
        self._need(job, location)
        directories = (*((plan.base,) if plan.base else ()), *plan.deltas)
        deleted = set()
        if plan.kind is CompactionKind.MAJOR:
            deleted = {event.id for event in reading.events(plan.delete_deltas)}
        events = [event for event in reading.events(directories) if event.id not in deleted]
        return self._publish(job, output, sorted(events, key=_order))

    def events(self, job: CompactionJob, output: str) -> PublishedFiles:
        """Write the delete events, instead of Spark."""
        self._need(job, job.location)
        reading = self.session.reading(job.location, job.plan.write_ids)
        return self._publish(job, output, sorted(reading.events(job.plan.delete_deltas), key=_order))

    def _publish(self, job: CompactionJob, output: str, events: Sequence[Event]) -> PublishedFiles:
        check = job.txn.open_check()
        with staging(self.session.context, job.table, job.txn) as directory:
            data, fs = to_bytes(events), self.session.context.fs
            fs.write_bytes(f"{directory}/0", data)
            check()
            FinalNames(fs).finish(f"{directory}/0", f"{output}/bucket_00000", len(data), b"")
        made = {output: (RecordedFile("bucket_00000", len(data)),)}
        return PublishedFiles({}, (output,), recorded=made)

    def _need(self, job: CompactionJob, location: Location) -> None:
        holding = self.session.world.ledger.holdings.get(job.txn.txn_id)
        place = Place(job.table.incarnation, location.root)
        if holding is not None and place.table in self.session.world.ledger.tables:
            holding.needs.update({f"{location.root}/{file.path}": place for file in files_of(location.state)})


def _order(event: Event) -> tuple[tuple[int, int, int], int, Row | None]:
    return event.id, event.write_id, None


@dataclass
class Cleaner:
    """Cleans what nobody reads any more."""

    session: Session

    def work(self) -> None:
        """Clean until the process dies; what was overwritten is watched from turn to turn."""
        watch = OverwrittenCleaner(self.session.context)
        while True:
            with self.session.forgiving():
                clean(self.session.context)
            with self.session.forgiving():
                watch.step(_attempt)
            self.session.context.clock.sleep(self.session.random.random() * 10)


def _attempt(table: object, work: Callable[[], object]) -> None:
    del table
    work()


@dataclass
class Reaper:
    """Ends what gives no sign of life."""

    session: Session

    def work(self) -> None:
        """Reap until the process dies."""
        while True:
            with self.session.forgiving():
                self.session.context.store.abort_timed_out()
            self.session.context.clock.sleep(self.session.random.random() * 10)

"""Random histories of one location: what selection and Hive itself read must be what was committed.

A history plays writers, streaming batches, compactions, a cleaner that dies half way, and readers that stay.
Directories hold synthetic events. The model knows nothing of directories: it replays the write ids of a
snapshot one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.compaction.cleaning_plan import plan_cleaning
from hiveacid.core.compaction.plan import CompactionKind, CompactionPlan, plan_compaction
from hiveacid.core.format.names import BaseName, DeltaName, LayoutLevel
from hiveacid.core.format.write_id_lists import RangeShare, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry, metadata_paths
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, select
from hiveacid.errors import NotEnoughHistoryError
from support.exhaustive import examples
from support.hive_reader import select_as_hive

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
ENDS = (*[COMMITTED] * 6, ABORTED, OPEN)
VERBS = (*["insert"] * 5, *["delete"] * 4, *["overwrite"] * 2)
# how often each thing happens; names are methods of History
STEPS = {
    "transaction": 10,
    "continue_transaction": 2,
    "end_transaction": 4,
    "open_batch": 3,
    "stream": 3,
    "begin_reading": 3,
    "end_reading": 3,
    "compaction": 6,
    "end_compaction": 4,
    "clean": 5,
    "travel_in_time": 1,
}
Key = tuple[int, int, int]  # write id, statement, number


@dataclass(frozen=True)
class Event:
    """An inserted row, or the delete event of one, with the write id that made it."""

    key: Key
    write_id: int
    is_delete: bool = False


@dataclass
class Directory:
    """Contents of a directory of the location, and its side file."""

    events: list[Event] = field(default_factory=list)
    metadata: str | None = None


@dataclass(frozen=True)
class Reader:
    """An open transaction with its snapshot, and the rows that were committed when it began."""

    txn_id: int
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    rows: frozenset[Key]


@dataclass
class Writer:
    """An open transaction that writes: a statement after the other, all under one write id."""

    txn_id: int
    visible: frozenset[Key]
    write_id: int | None = None
    statement: int = 0
    own: set[Key] = field(default_factory=set)


@dataclass
class Batch:
    """A streaming batch: transactions and write ids taken at once, rows in one growing directory."""

    txn_ids: list[int]
    write_ids: list[int]
    path: str


@dataclass(frozen=True)
class Job:
    """A compaction under way or committed."""

    txn_id: int
    high_watermark: WriteId
    next_txn_id: int = 0


class Location:
    """The store and the directories: what the project's own store and file system do, in a few lines."""

    def __init__(self) -> None:
        self.states: dict[int, str] = {}  # by transaction id
        self.owners: dict[int, int] = {}  # write id -> transaction id
        self.forgotten: set[int] = set()  # aborted write ids that the cleaner reported as gone
        self.events: dict[int, list[Event]] = {}  # by write id
        self.overwrites: set[int] = set()
        self.directories: dict[str, Directory] = {}

    def open_txn(self) -> int:
        txn_id = len(self.states) + 1
        self.states[txn_id] = OPEN
        return txn_id

    def allocate(self, txn_id: int) -> int:
        write_id = len(self.owners) + 1
        self.owners[write_id] = txn_id
        self.events[write_id] = []
        return write_id

    def valid_txns(self) -> ValidTxnList:
        with_state = {
            state: tuple(TxnId(one) for one, found in self.states.items() if found == state)
            for state in (OPEN, ABORTED)
        }
        return ValidTxnList(TxnId(len(self.states)), with_state[OPEN], with_state[ABORTED])

    def valid_write_ids(self, txns: ValidTxnList) -> ValidWriteIdList:
        top = max((one for one, owner in self.owners.items() if owner <= txns.high_watermark), default=0)
        hidden = [one for one in range(1, top + 1) if not txns.is_valid(self.owners[one])]
        aborted = [one for one in hidden if txns.is_aborted(self.owners[one])]
        still_open = [WriteId(one) for one in hidden if one not in aborted]
        remembered = [WriteId(one) for one in aborted if one not in self.forgotten]
        return ValidWriteIdList(None, WriteId(top), tuple(still_open), tuple(remembered))

    def write(self, write_id: int, path: str, events: list[Event]) -> None:
        self.events[write_id] += events
        self.directories.setdefault(path, Directory()).events.extend(events)

    def rows_of(self, write_ids: Collection[int]) -> frozenset[Key]:
        """Replay the given write ids in order: the model."""
        rows: set[Key] = set()
        for write_id in sorted(write_ids):
            if write_id in self.overwrites:
                rows.clear()
            rows |= {event.key for event in self.events[write_id] if not event.is_delete}
            rows -= {event.key for event in self.events[write_id] if event.is_delete}
        return frozenset(rows)

    def committed(self, up_to: int | None = None) -> list[int]:
        return [
            one
            for one, owner in self.owners.items()
            if self.states[owner] == COMMITTED and (up_to is None or one <= up_to)
        ]

    def entries(self) -> Iterator[FileEntry]:
        for path, directory in self.directories.items():
            yield FileEntry(path, is_dir=True)
            if directory.events:
                yield FileEntry(f"{path}/bucket_00000", is_dir=False, size=1)
            if directory.metadata is not None:
                yield FileEntry(f"{path}/_metadata_acid", is_dir=False, size=1)

    def metadata(self) -> dict[str, str]:
        paths = [path.rpartition("/")[0] for path in metadata_paths(self.entries())]
        return {path: self.directories[path].metadata or "" for path in paths}

    def select(self, write_ids: ValidWriteIdList, txns: ValidTxnList | None) -> AcidState:
        return select(self.entries(), write_ids, txns, self.metadata())

    def events_of(
        self, directories: Collection[AcidDirectory], believed: Callable[[int], bool]
    ) -> Iterator[Event]:
        for directory in directories:
            for event in self.directories[directory.path].events:
                if directory.validity is RangeShare.ALL or believed(event.write_id):
                    yield event

    def read(self, state: AcidState, believed: Callable[[int], bool]) -> Counter[Key]:
        """Read what was selected; a row that comes twice is counted twice."""
        bases = () if state.base is None else (state.base,)
        deleted = {event.key for event in self.events_of(state.delete_deltas, believed)}
        rows = Counter(event.key for event in self.events_of((*bases, *state.deltas), believed))
        return Counter({key: count for key, count in rows.items() if key not in deleted})

    def read_as_hive(self, reader: Reader, level: LayoutLevel) -> Counter[Key] | None:
        """Read with a model of Hive's own reader; None if it says that it lacks history."""
        metadata = {path: found.metadata or "" for path, found in self.directories.items()}
        selection = select_as_hive(metadata, reader.write_ids, reader.txns, level)
        if selection is None:
            return None
        rows: Counter[Key] = Counter()
        for path, deletes in selection.splits():
            events = [event for one in (path, *deletes) for event in self.directories[one].events]
            events = [event for event in events if reader.write_ids.is_valid(event.write_id)]
            deleted = {event.key for event in events if event.is_delete}
            rows.update(event.key for event in events if not event.is_delete and event.key not in deleted)
        return rows


class History:
    """One location and who works on it. Each step takes its decisions from a random generator.

    A result of Hive's own compactions may end inside a streamed delta, whose rows Hive then leaves out and this project reads.
    """

    def __init__(self, level: LayoutLevel, *, hive_compacts: bool) -> None:
        self.level = level
        self.hive_compacts = hive_compacts
        self.location = Location()
        self.writers: list[Writer] = []
        self.batch: Batch | None = None
        self.readers: list[Reader] = []
        self.running: Job | None = None
        self.to_clean: list[Job] = []
        self.history_from = 0

    # writers -------------------------------------------------------------------------------------

    def transaction(self, random: Random) -> None:
        """Run a transaction of one statement or more; now and then it stays open."""
        visible = self.location.rows_of(self.location.committed())
        writer = Writer(self.location.open_txn(), visible)
        self.writers.append(writer)
        self.statement(writer, random.choice(VERBS), random)
        for _ in range(random.choice((0, 0, 1, 2))):
            self.further_statement(writer, random)
        end = random.choice(ENDS) if len(self.writers) < 3 else COMMITTED
        if end != OPEN:
            self.end_writer(writer, end)

    def continue_transaction(self, random: Random) -> None:
        if self.writers:
            self.further_statement(random.choice(self.writers), random)

    def further_statement(self, writer: Writer, random: Random) -> None:
        if writer.write_id not in self.location.overwrites:
            self.statement(writer, random.choice(("insert", "delete")), random)

    def end_transaction(self, random: Random) -> None:
        if self.writers:
            self.end_writer(random.choice(self.writers), random.choice((COMMITTED, COMMITTED, ABORTED)))

    def end_writer(self, writer: Writer, end: str) -> None:
        self.writers.remove(writer)
        self.location.states[writer.txn_id] = end

    def statement(self, writer: Writer, verb: str, random: Random) -> None:
        candidates = sorted(
            writer.own if writer.own and random.random() < 0.5 else writer.visible | writer.own
        )
        if verb == "delete" and not candidates:
            return
        if writer.write_id is None:
            writer.write_id = self.location.allocate(writer.txn_id)
        write_id, count = WriteId(writer.write_id), random.randrange(1, 4)
        keys = {(write_id, writer.statement, number) for number in range(count)}
        if verb == "delete":
            keys = set(random.choices(candidates, k=count))
        name = DeltaName(verb == "delete", write_id, write_id, writer.statement).format()
        if verb == "overwrite":
            name = BaseName(write_id).format()
            self.location.overwrites.add(write_id)
            keys = set() if random.random() < 0.3 else keys
        writer.own = writer.own - keys if verb == "delete" else writer.own | keys
        events = [Event(key, write_id, verb == "delete") for key in sorted(keys)]
        self.location.write(write_id, name, events)
        writer.statement += 1

    def open_batch(self, random: Random) -> None:
        if self.batch is None:
            txn_ids = [self.location.open_txn() for _ in range(random.randrange(2, 5))]
            write_ids = [self.location.allocate(txn_id) for txn_id in txn_ids]
            first, last = WriteId(write_ids[0]), WriteId(write_ids[-1])
            path = DeltaName(False, first, last, None).format()
            self.batch = Batch(txn_ids, write_ids, path)

    def stream(self, random: Random) -> None:
        """Write and end the next transactions of the batch: one, or all that are left."""
        batch = self.batch
        if batch is None:
            return
        for _ in range(random.choice((1, 1, 1, len(batch.txn_ids)))):
            write_id, txn_id = batch.write_ids.pop(0), batch.txn_ids.pop(0)
            events = [Event((write_id, 0, number), write_id) for number in range(random.randrange(3))]
            self.location.write(write_id, batch.path, events)
            self.location.states[txn_id] = random.choice((COMMITTED, COMMITTED, ABORTED))
        if not batch.txn_ids:
            self.batch = None

    # readers -------------------------------------------------------------------------------------

    def begin_reading(self, _random: Random) -> None:
        if len(self.readers) < 2:
            txn_id = self.location.open_txn()
            self.readers.append(self.fresh_reader(txn_id))

    def end_reading(self, _random: Random) -> None:
        if self.readers:
            self.location.states[self.readers.pop(0).txn_id] = COMMITTED

    def fresh_reader(self, txn_id: int = 0) -> Reader:
        txns = self.location.valid_txns()
        write_ids = self.location.valid_write_ids(txns)
        return Reader(txn_id, txns, write_ids, self.location.rows_of(self.location.committed()))

    # compaction ----------------------------------------------------------------------------------

    def compaction(self, random: Random) -> None:
        """Compact; now and then the job stays under way."""
        if self.running is not None:
            return
        txn_id = self.location.open_txn()
        txns = self.location.valid_txns()
        view = self.location.valid_write_ids(txns).compactor()
        state = self.location.select(view, txns)
        if self.hive_compacts:
            state = replace(state, pending=())
        plan = plan_compaction(
            state,
            view,
            random.choice((CompactionKind.MINOR, CompactionKind.MAJOR)),
            self.level,
            TxnId(txn_id),
        )
        if not isinstance(plan, CompactionPlan):
            self.location.states[txn_id] = ABORTED
            return
        self.write_compacted(state, plan)
        self.running = Job(txn_id, plan.high_watermark)
        end = COMMITTED if self.level is LayoutLevel.HIVE3 else random.choice(ENDS)
        if end != OPEN:  # at level HIVE3 the result counts at once
            self.end_job(self.running, end)

    def end_compaction(self, random: Random) -> None:
        if self.running is not None:
            self.end_job(self.running, random.choice((COMMITTED, ABORTED)))

    def end_job(self, job: Job, end: str) -> None:
        self.location.states[job.txn_id] = end
        self.running = None
        if end == COMMITTED:
            self.to_clean.append(replace(job, next_txn_id=len(self.location.states) + 1))

    def write_compacted(self, state: AcidState, plan: CompactionPlan) -> None:
        outputs: dict[str, list[Event]] = {}
        if plan.kind is CompactionKind.MAJOR:
            assert plan.output is not None
            rows = self.location.read(state, plan.write_ids.is_valid)
            assert not rows or max(rows.values()) == 1
            outputs[plan.output] = [Event(key, key[0]) for key in sorted(rows)]
        else:
            believed = plan.write_ids.is_valid
            deleted = {event.key for event in self.location.events_of(plan.applied_deletes, believed)}
            for path, directories in ((plan.output, plan.deltas), (plan.delete_output, plan.delete_deltas)):
                if path is not None:
                    events = self.location.events_of(directories, believed)
                    outputs[path] = [one for one in events if one.is_delete or one.key not in deleted]
        for path, events in outputs.items():
            assert path not in self.location.directories
            self.location.directories[path] = Directory(events, plan.metadata)

    # cleaner -------------------------------------------------------------------------------------

    def clean(self, random: Random) -> None:
        txns = self.location.valid_txns()
        min_open = txns.open[0] if txns.open else TxnId(len(self.location.states) + 1)
        ready = [job for job in self.to_clean if job.next_txn_id <= min_open]
        if not ready:
            return
        job = ready[0]
        dies_after = random.choice((None, None, 0, 1, 2, 3))
        write_ids = self.location.valid_write_ids(txns)
        plan = plan_cleaning(
            list(self.location.entries()),
            write_ids,
            txns,
            self.location.metadata(),
            high_watermark=job.high_watermark,
            min_open_txn_id=min_open,
            possibly_unseen_txns={TxnId(other.txn_id) for other in self.to_clean if other not in ready},
        )
        self.history_from = max(self.history_from, plan.history_from or 0)
        for deletion in plan.deletions[:dies_after]:
            del self.location.directories[deletion.path]
        if dies_after is None or dies_after >= len(plan.deletions):
            self.location.forgotten.update(
                one for one in write_ids.aborted if one <= plan.abort_records_removable_up_to
            )
            if not plan.postponed:
                self.to_clean.remove(job)

    # what must hold ------------------------------------------------------------------------------

    def check_all(self) -> None:
        self.check(self.fresh_reader())
        for reader in self.readers:
            self.check(reader)
        for writer in self.writers:
            if writer.write_id is not None:  # it sees its own rows
                reader = self.fresh_reader()
                write_ids = reader.write_ids.with_own(WriteId(writer.write_id))
                rows = self.location.rows_of([*self.location.committed(), writer.write_id])
                self.check(replace(reader, write_ids=write_ids, rows=rows))

    def check(self, reader: Reader) -> None:
        try:
            state = self.location.select(reader.write_ids, reader.txns)
        except NotEnoughHistoryError:
            # without visibility suffix an older reader cannot help seeing a newer base
            assert self.level is LayoutLevel.HIVE3
            return
        found = self.location.read(state, reader.write_ids.is_valid)
        assert found == Counter(reader.rows)
        assert self.hive_compacts or self.location.read_as_hive(reader, self.level) in (None, found)
        taken = [*state.obsolete, *state.aborted, *state.pending]
        taken += [one.path for one in (*state.deltas, *state.delete_deltas)]
        taken += [] if state.base is None else [state.base.path]
        assert sorted(taken) == sorted(self.location.directories)

    def travel_in_time(self, random: Random) -> None:
        now = self.fresh_reader()
        if self.history_from > now.write_ids.high_watermark:
            return
        write_id = random.randint(self.history_from, now.write_ids.high_watermark)
        past = now.write_ids.at(WriteId(write_id))
        try:
            state = self.location.select(past, now.txns)
        except NotEnoughHistoryError:
            return
        expected = self.location.rows_of(self.location.committed(write_id))
        assert self.location.read(state, past.is_valid) == Counter(expected)


VERB_LIST = [verb for verb, weight in STEPS.items() for _ in range(weight)]
PLAYS = st.lists(st.tuples(st.sampled_from(VERB_LIST), st.integers(0, 2**16)), min_size=40, max_size=60)


@pytest.mark.parametrize("level", list(LayoutLevel))
@settings(max_examples=examples(150))
@given(play=PLAYS, hive_compacts=st.booleans())
def test_selection_reads_what_was_committed(
    level: LayoutLevel, *, play: list[tuple[str, int]], hive_compacts: bool
) -> None:
    history = History(level, hive_compacts=hive_compacts)
    for verb, seed in play:
        getattr(history, verb)(Random(seed))
        history.check_all()

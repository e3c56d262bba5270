"""What the simulation found, each by itself: these things went wrong once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from hiveacid.catalog.adopt import adopt
from hiveacid.catalog.ddl import add_partitions, create_table, drop_partitions, drop_table, rename_table
from hiveacid.config import Settings
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableName, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.transactions.locks_and_conflicts import WAITS_FOR, LockComponent, LockType
from hiveacid.errors import (
    CatalogError,
    CompactionError,
    HiveAcidError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Operation, TxnKind
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean, clean_job
from hiveacid.table.compaction.write_compacted_files import CompactionJob
from hiveacid.table.context import Context
from hiveacid.table.write.insert import insert_lock
from hiveacid.table.write.publish import PublishedFiles
from hiveacid.table.write.write_conflicts import run_with_retry
from hiveacid.transactions.transaction import Transaction
from support.simulation.planted import BUGS
from support.simulation.profiles import OTHER, PARTED, PROFILES, SPARE, WHOLE
from support.simulation.rows import Event, Row, RowId, to_bytes
from support.simulation.scheduler import Chances, Scheduler
from support.simulation.services import Compactor, compact_here
from support.simulation.session import Session
from support.simulation.stand_ins import replaced
from support.simulation.world import TIMEOUT, WAREHOUSE, World, definition
from support.simulation.writer import Writer


@pytest.fixture
def world() -> Iterator[World]:
    """Provide a world where nothing happens by chance."""
    scheduler = Scheduler(0, 0, TIMEOUT, Chances())
    scheduler.quiet = True
    with replaced():
        yield World(scheduler, replace(PROFILES["everything"], local=False))


def session(world: World, name: str) -> Session:
    return Session.make(world, name, "writer", BUGS[""].wrap)


def reap(world: World) -> None:
    world.scheduler.clock.advance(2 * TIMEOUT)
    world.store.abort_timed_out()


def insert(session: Session, name: TableName) -> None:
    """Insert some rows, into day=0 where there are days."""
    context = session.context
    table = context.require(name)
    static = ("0",) if table.partition_columns else ()
    with context.transactions.scope(context.settings) as txn:
        Writer(session)._write(table, static, txn, Operation.INSERT)


def test_whoever_is_reaped_while_it_waits_for_a_lock_is_told_so(world: World) -> None:
    """And not that its lock request is not there."""
    holder, waiter = session(world, "a"), session(world, "b")
    mine = holder.context.transactions.begin(world.settings)
    everything = [LockComponent(LockType.EXCLUSIVE, "shop")]
    mine.lock(everything)

    def wait(seconds: float) -> None:
        world.scheduler.clock.advance(seconds)
        holder.context.transactions.heartbeats.beat()

    waiting = waiter.context.transactions.begin(world.settings)
    waiting.clock.sleep = wait  # type: ignore[method-assign]  # its own heart does not beat
    with pytest.raises(TransactionAbortedError, match="aborted while it waited for a lock"):
        waiting.lock(everything)
    assert [row.txn_id for row in world.store.show_locks()] == [mine.txn_id]


def test_a_reader_that_was_reaped_reads_nothing_wrong(world: World) -> None:
    """Its snapshot's directories may be gone: listing them late is an error, not fewer rows."""
    one = session(world, "a")
    insert(one, WHOLE)
    insert(one, WHOLE)
    reader = session(world, "b")
    with reader.context.read_leases.acquire(world.settings) as txn:
        txn.valid_write_ids(WHOLE)
        reap(world)
        compact(one)
        clean(one.context)
        with pytest.raises(TransactionAbortedError, match="may be gone"):
            reader.list_visible(WHOLE, txn)


def compact(session: Session, kind: CompactionKind = CompactionKind.MAJOR) -> str:
    return compact_here(session.context, session.context.require(WHOLE), None, kind, Compactor(session)).state


def test_a_reader_that_was_reaped_does_not_spoil_later_ones(world: World) -> None:
    """A DataFrame that is still there held a transaction that is not; every later read was refused, too."""
    reader = session(world, "a")
    insert(reader, WHOLE)
    snapshots = reader.context.read_leases
    with snapshots.acquire(world.settings) as old:
        snapshots.add_holder(old, Always().alive)
    reap(world)
    reader.context.transactions.heartbeats.beat()
    with snapshots.acquire(world.settings) as new:
        assert new.txn_id != old.txn_id
        assert reader.list_visible(WHOLE, new)


class Always:
    def alive(self) -> bool:
        return True


def test_a_snapshot_that_could_not_be_taken_holds_nothing(world: World) -> None:
    reader = session(world, "a")

    def fail(*_: object) -> None:
        raise StoreUnavailableError("not now")

    reader.context.store.__dict__ |= {"take_snapshot": fail, "begin_txn": fail}
    for _ in range(2):
        with pytest.raises(StoreUnavailableError), reader.context.read_leases.acquire(world.settings):
            pass
    reader.context.read_leases.sweep()
    assert world.store.valid_txns().open == ()


def test_two_cleaners_at_once(world: World) -> None:
    """The slower one finds the job ended; that is not an error."""
    one, other = session(world, "a"), session(world, "b")
    insert(one, WHOLE)
    insert(one, WHOLE)
    compact(one)
    files = one.context.fs
    listing = files.list_tree

    def list_late(root: str) -> object:
        found = listing(root)
        clean(other.context)
        return found

    files.__dict__["list_tree"] = list_late
    clean(one.context)
    assert {job.state for job in world.store.show_compactions()} == {"succeeded"}


@dataclass
class Disturbed(Compactor):
    """A compactor before and after whose writing of rows something happens."""

    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None

    def rows(self, job: CompactionJob, output: str) -> PublishedFiles:
        self.before()
        published = super().rows(job, output)
        self.after()
        return published


def test_a_compaction_that_commits_beside_the_cleaner_is_not_settled(world: World) -> None:
    """A reader that began before its commit reads what it replaced, though its id is the higher one."""
    one, cleaner = session(world, "a"), session(world, "b")
    for _ in range(3):
        insert(one, WHOLE)
        run_with_retry(one.context, WHOLE, "DELETE", None, Writer(one)._delete)
    compact(one, CompactionKind.MINOR)  # a job that is ready; the next one covers the same write ids
    reader = session(world, "c").context.transactions
    store = cleaner.context.store

    asked = store.show_compactions

    def show_late() -> object:
        """Commit the second job just after the cleaner has looked at the queue for the last time."""
        found = asked()
        if len(calls) == 1:
            compact_here(
                one.context,
                one.context.require(WHOLE),
                None,
                CompactionKind.MAJOR,
                Disturbed(one, after=lambda: reader.begin(world.settings).snapshot()),
            )
        calls.append(1)
        return found

    calls: list[int] = []
    store.__dict__["show_compactions"] = show_late
    clean(cleaner.context)
    world.check_held()


def test_a_worker_whose_job_was_given_up_is_told_so(world: World) -> None:
    one = session(world, "a")
    insert(one, WHOLE)
    insert(one, WHOLE)
    get_table = one.context.catalog.get_table

    def look_late(name: TableName) -> object:
        for job in world.store.show_compactions():
            if job.state == "working":
                world.store.end_compaction(job.id, "failed")
        return get_table(name)

    one.context.catalog.__dict__["get_table"] = look_late
    with pytest.raises(CompactionError, match="was given up"):
        compact(one)


def swap(session: Session) -> None:
    """Give the name of a table to another one, as where a table is made anew beside the old one."""
    rename_table(session.context, WHOLE, OTHER)
    rename_table(session.context, SPARE, WHOLE)


def test_a_worker_does_not_compact_the_next_table_of_a_name(world: World) -> None:
    """Its job had moved with the renamed table, so that the other one's records lacked the result, and later its rows."""
    one, other = session(world, "a"), session(world, "b")
    create_table(other.context, definition(SPARE, f"{WAREHOUSE}/shop.db/spare"))
    for name in (WHOLE, WHOLE, SPARE, SPARE):
        insert(one, name)
    get_table, asked = one.context.catalog.get_table, []

    def look_late(name: TableName) -> object:
        if [job.state for job in world.store.show_compactions()] == ["working"] and not asked:
            asked.append(name)
            swap(other)
        return get_table(name)

    one.context.catalog.__dict__["get_table"] = look_late
    with pytest.raises(CompactionError, match="the table has another name now"):
        compact(one)
    assert [(job.request.table, job.state, job.claims) for job in world.store.show_compactions()] == [
        (OTHER, "initiated", 0)
    ]
    insert(other, WHOLE)
    clean(other.context)
    world.check_now()


def test_a_cleaner_leaves_the_next_table_of_a_name_alone(world: World) -> None:
    """With the write ids of the renamed table it deleted what a reader needed."""
    one, reader, cleaner = session(world, "a"), session(world, "b"), session(world, "c")
    create_table(one.context, definition(SPARE, f"{WAREHOUSE}/shop.db/spare"))
    for name in (WHOLE, WHOLE, WHOLE, SPARE):
        insert(one, name)
    compact(one)
    with reader.context.read_leases.acquire(world.settings) as txn:
        txn.valid_write_ids(SPARE)
        with Writer(one)._inserting(SPARE, {}, None, overwrite=True) as (table, overwriting):
            Writer(one)._write(table, (), overwriting, Operation.UPDATE, overwrite=True)
        store, asked = cleaner.context.store, []
        show_compactions = store.show_compactions

        def show_and_swap() -> object:
            found = show_compactions()
            if not asked:
                asked.append(found)
                swap(one)
            return found

        store.__dict__["show_compactions"] = show_and_swap
        assert clean_job(cleaner.context, 1) == []
        world.check_held()


def test_a_compaction_that_another_client_has_ended_does_not_commit(world: World) -> None:
    """Beside a minor compaction that had begun meanwhile, it gave each row twice."""
    one, other = session(world, "a"), session(world, "b")
    for _ in range(3):
        insert(one, WHOLE)

    def give_up_and_compact() -> None:
        (job,) = world.store.show_compactions()
        world.store.end_compaction(job.id, "failed", "its worker has not been heard of any more")
        insert(other, WHOLE)
        compact(other, CompactionKind.MINOR)

    late = Disturbed(one, before=give_up_and_compact)
    with pytest.raises(TransactionAbortedError, match="another one may have replaced the same directories"):
        compact_here(one.context, one.context.require(WHOLE), None, CompactionKind.MAJOR, late)
    world.check_now()
    assert not [path for path in world.files.files if "base" in path]


def test_a_refused_compaction_that_leaves_work_to_the_cleaner_ends(world: World) -> None:
    """It had no one to wait for, and waited for ever."""
    one = session(world, "a")
    insert(one, WHOLE)
    insert(one, WHOLE)
    reader = session(world, "b").context.transactions.begin(world.settings)
    reader.snapshot()
    assert compact(one) == "ready for cleaning"
    world.store.end_compaction(1, "succeeded")  # as if the cleaner had been there, and stopped half way
    assert compact(one) == "ready for cleaning"  # nothing to compact, much to clean
    clean(one.context)
    assert [job.state for job in world.store.show_compactions()] == ["succeeded", "ready for cleaning"]
    reader.commit()
    clean(one.context)
    assert {job.state for job in world.store.show_compactions()} == {"succeeded"}


def test_dead_workers_of_either_kind_are_in_nobodys_way(world: World) -> None:
    """One died after it had aborted its transaction; one had only queued a job of the smaller kind."""
    one = session(world, "a")
    insert(one, WHOLE)
    insert(one, WHOLE)
    job = world.store.enqueue_compaction(CompactionRequest(WHOLE, None, "minor"), "dead")
    world.store.claim_compaction("dead", job.id)
    (txn_id,) = world.store.open_txns(one.context.transactions.client, 1, TxnKind.COMPACTION)
    world.store.start_compaction(
        job.id, txn_id, world.store.valid_write_ids(world.store.valid_txns(), [WHOLE])[WHOLE].high_watermark
    )
    world.store.abort_txns([txn_id], "it failed")
    world.scheduler.clock.advance(2 * TIMEOUT)
    assert compact(one) == "ready for cleaning"
    insert(one, WHOLE)
    world.store.enqueue_compaction(CompactionRequest(WHOLE, None, "minor"), "dead")
    world.scheduler.clock.advance(2 * TIMEOUT)
    assert compact(one) == "ready for cleaning"
    states = [one.state for one in world.store.show_compactions()]
    assert states == ["failed", "succeeded", "did not initiate", "ready for cleaning"]


def test_a_worker_that_was_reaped_says_so_and_leaves_the_job_alone(world: World) -> None:
    """Its job was queued again with the end of its transaction; to end it is an error that would hide the first."""
    one = session(world, "a")
    insert(one, WHOLE)
    insert(one, WHOLE)
    late = Disturbed(one, before=lambda: reap(world))
    with pytest.raises(TransactionAbortedError, match="timed out"):
        compact_here(one.context, one.context.require(WHOLE), None, CompactionKind.MAJOR, late)
    assert [job.state for job in world.store.show_compactions()] == ["initiated"]
    assert not [path for path in world.files.files if "base" in path]


def test_a_statement_that_lost_its_staged_files_says_why(world: World) -> None:
    """Also inside a transaction of several statements."""
    one = session(world, "a")
    txn = one.context.transactions.begin(world.settings, explicit=True)
    for joined in (txn, None):
        with pytest.raises(TransactionAbortedError, match="aborted while its statement ran"):
            fail_after_its_time(world, one, joined)


def fail_after_its_time(world: World, one: Session, joined: Transaction | None) -> None:
    with one.context.transactions.scope(world.settings, joined):
        reap(world)
        raise StorageError("no such file")


def test_rows_are_never_written_below_a_base_that_came_meanwhile(world: World) -> None:
    """A transaction of several statements has its write id from the first; an overwrite got a higher one."""
    one, other = session(world, "a"), session(world, "b")
    writer = Writer(one)
    table = one.context.require(PARTED)
    txn = one.context.transactions.begin(world.settings, explicit=True)
    writer._write(table, ("1",), txn, Operation.INSERT)
    with other.context.transactions.scope(world.settings) as overwriting:
        Writer(other)._write(table, ("0",), overwriting, Operation.UPDATE, overwrite=True)
    with pytest.raises(WriteConflictError, match=r"another transaction overwrote .*day=0"):
        writer._write(table, ("0",), txn, Operation.INSERT)
    txn.abort("lost")
    world.check_now()


@pytest.mark.parametrize("metastore", [True, False])
def test_rows_are_not_lost_where_no_lock_has_held_an_overwrite_back(
    world: World, monkeypatch: pytest.MonkeyPatch, *, metastore: bool
) -> None:
    """The store refuses the commit. A metastore would not, so the writer looks for a base before."""
    one, other = session(world, "a"), session(world, "b")
    monkeypatch.setattr(one.context.store, "maintained_by_hiveacid", lambda: not metastore)
    table, writer = one.context.require(PARTED), Writer(one)
    txn = one.context.transactions.begin(world.settings)
    txn.write_id(table.name)
    with other.context.transactions.scope(world.settings) as overwriting:
        Writer(other)._write(table, ("0",), overwriting, Operation.UPDATE, overwrite=True)
    if metastore:
        with pytest.raises(WriteConflictError, match=r"another transaction overwrote .*day=0"):
            writer._write(table, ("0",), txn, Operation.INSERT)
    else:
        writer._write(table, ("0",), txn, Operation.INSERT)
        with pytest.raises(WriteConflictError, match=r"transaction \d+ overwrote .*day=0"):
            txn.commit()
    txn.abort("lost")
    world.check_now()


@pytest.mark.parametrize(
    ("write", "overwrite", "overwrites"),
    [
        ("false", "true", LockType.EXCL_WRITE),
        ("true", "true", LockType.EXCLUSIVE),
        ("true", "false", LockType.EXCL_WRITE),
    ],
)
def test_the_settings_only_make_the_lock_of_an_overwrite_stronger(
    world: World, write: str, overwrite: str, overwrites: LockType
) -> None:
    """No overwrite of any session passes an INSERT of any other one."""
    context = session(world, "a").context
    context.session.settings = Settings.of({"hive.txn.xlock.write": write, "hive.txn.xlock.iow": overwrite})
    table = context.require(WHOLE)
    inserts = insert_lock(context, table, {}, overwrite=False).type
    assert inserts is LockType.SHARED_WRITE
    assert inserts in WAITS_FOR[overwrites]
    assert insert_lock(context, table, {}, overwrite=True).type is overwrites


def test_a_cleaner_that_looks_at_a_table_while_it_is_renamed_finds_no_fault_with_it(world: World) -> None:
    """It holds no lock then, and took the write ids of the old name for those of the files: a base was too new for them."""
    one, other = session(world, "a"), session(world, "b")
    insert(one, WHOLE)
    insert(one, WHOLE)
    compact(one)
    clean(one.context)
    insert(one, WHOLE)
    valid_txns, renamed = one.context.store.valid_txns, []

    def ask_late() -> object:
        if not renamed:
            rename_table(other.context, WHOLE, SPARE)
            create_table(other.context, definition(WHOLE, f"{WAREHOUSE}/shop.db/next"))
            renamed.append(SPARE)
        return valid_txns()

    one.context.store.__dict__["valid_txns"] = ask_late
    OverwrittenCleaner(one.context).step(lambda _, work: work())
    assert renamed
    world.check_now()


def take_table(context: Context, place: str) -> None:
    create_table(context, definition(OTHER, place))


def take_by_adopt(context: Context, place: str) -> None:
    with suppress(HiveAcidError):  # nothing is left to adopt
        adopt(context, definition(OTHER, place), ValidWriteIdList(OTHER, WriteId(1)), None)


def take_partition(context: Context, place: str) -> None:
    with suppress(CatalogError):
        add_partitions(context, PARTED, [({"day": "7"}, place)])


@pytest.mark.parametrize("take", [take_table, take_by_adopt, take_partition])
@pytest.mark.parametrize("partition", [False, True])
def test_whoever_takes_a_place_waits_until_a_drop_has_deleted_its_files(
    world: World, take: Callable[[Context, str], None], *, partition: bool
) -> None:
    """The name is another one, and the catalog has forgotten the old table or partition; its directory was deleted with what was new in it."""
    one, other = session(world, "a"), session(world, "b")
    place = f"{WAREHOUSE}/shop.db/whole"
    if partition:
        drop_table(one.context, WHOLE)
        add_partitions(one.context, PARTED, [({"day": "5"}, place)])
    one.context.fs.make_directory(place)
    delete = one.context.fs.delete_listed
    tries = []

    def wait(_: float) -> None:
        raise InterruptedError

    other.context.clock.sleep = wait  # type: ignore[method-assign]

    def delete_late(root: str, entries: Sequence[FileEntry]) -> object:
        if not tries:
            tries.append(root)
            with pytest.raises(InterruptedError):
                take(other.context, place)
        return delete(root, entries)

    one.context.fs.__dict__["delete_listed"] = delete_late
    if partition:
        drop_partitions(
            one.context, PARTED, lambda known: [p for p in known if p.location == place], if_exists=False
        )
    else:
        drop_table(one.context, WHOLE)
    assert tries == [place]
    take(other.context, place)
    assert not world.store.show_locks()


@pytest.mark.parametrize("take", [take_table, take_partition])
def test_whoever_was_paused_for_long_takes_no_place(
    world: World, take: Callable[[Context, str], None]
) -> None:
    """Its locks are another one's by now: a DROP may be deleting what lies there."""
    one = session(world, "a")
    make = one.context.fs.make_directory
    before = world.store.places()

    def make_late(path: str) -> None:
        make(path)
        reap(world)

    one.context.fs.__dict__["make_directory"] = make_late
    with pytest.raises(TransactionAbortedError):
        take(one.context, f"{WAREHOUSE}/shop.db/place")
    assert world.store.places() == before


def test_adopt_that_was_paused_for_long_takes_no_table(world: World) -> None:
    one, place = session(world, "a"), f"{WAREHOUSE}/shop.db/place"
    row = Row(RowId(1, 0, 0), 1, 0)
    one.context.fs.write_bytes(
        f"{place}/delta_0000001_0000001_0000/bucket_00000", to_bytes([Event(1, row.id, row)])
    )
    listing = one.context.fs.list_tree

    def list_late(path: str) -> object:
        reap(world)
        return listing(path)

    one.context.fs.__dict__["list_tree"] = list_late
    with pytest.raises(TransactionAbortedError):
        adopt(one.context, definition(OTHER, place), ValidWriteIdList(OTHER, WriteId(1)), None)
    assert one.context.catalog.get_table(OTHER) is None

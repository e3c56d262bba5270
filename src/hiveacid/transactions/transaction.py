"""A transaction as its owner sees it: snapshot, locks, write ids, statements, commit or abort.

Files are written first and the store commits last: no reader sees the write id before that.
"""

from __future__ import annotations

import getpass
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from hiveacid import errors
from hiveacid.config import Settings, setting_definitions
from hiveacid.core.format.acid_columns import MAX_STATEMENT_ID
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Displayed, LockId, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, covers
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import Begun, Client, LockAnswer, Remains, Start, TxnKind
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.lineage import LineageSender, sender_of_process
from hiveacid.transactions.pending_commit import PendingCommit, ReportedCommit

__all__ = ["Heartbeats", "Transaction", "Transactions", "this_client"]

logger = logging.getLogger(__name__)

_ASK_AGAIN = 1000  # ms
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 15.0  # seconds between two checks of a waiting request (DbLockManager)
_WARNING_AFTER = 8  # checks: some seconds


def this_client(agent: str = "hiveacid") -> Client:
    """Return user, host and agent of this process, as SHOW TRANSACTIONS shows them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return Client(user, socket.gethostname(), agent)


@dataclass
class TablesRead:
    """Notes on the tables that a transaction has read.

    ``incarnations``: of each table at the first reading. ``partition_names``: at the last reading, beside a metastore.
    ``warned``: tables with a warning in the log. ``outdated``: a table was replaced, and no later read may share the snapshot.
    ``sources``: tables of the rows that it wrote, which other transactions have read; for lineage.
    """

    incarnations: dict[TableName, str] = field(default_factory=dict)
    partition_names: dict[TableName, frozenset[str]] = field(default_factory=dict)
    warned: set[TableName] = field(default_factory=set)
    outdated: bool = False
    sources: set[TableName] = field(default_factory=set)


@dataclass(repr=False)
class Transaction(Displayed):
    """Handle of an open transaction, made by `Transactions.begin`. Not thread-safe.

    ``pending``: collects what the commit will write. ``reads``: notes on the tables that were read. ``report``: is told
    of its commit. ``waited``: others held the locks that it began with, and may have committed before it got them.
    """

    store: TransactionStore
    heartbeats: Heartbeats
    settings: Settings
    clock: Clock
    txn_id: TxnId
    explicit: bool = False
    pending: PendingCommit = field(default_factory=PendingCommit)
    ended: bool = False
    failed: str | None = None
    waited: bool = False
    # an older one that waited for the locks and still holds them; ends with this one
    guard: Transaction | None = None
    # a read transaction that keeps files of this one's snapshot after its end
    lease: Transaction | None = None
    published: bool = False  # a directory of its own may have been made: set before it is
    reads: TablesRead = field(default_factory=TablesRead)
    alive_at: int = -(1 << 62)  # ms: up to then the store has surely had every heartbeat
    report: Callable[[Transaction, Mapping[TableName, WriteId]], None] | None = None
    _snapshot: ValidTxnList | None = None
    _write_ids: dict[TableName, WriteId] = field(default_factory=dict)
    _valid_write_ids: dict[TableName, ValidWriteIdList] = field(default_factory=dict)
    _tables_with_later_commits: set[TableName] = field(default_factory=set)
    _held: list[LockComponent] = field(default_factory=list)
    _next_statement: int = 0
    _with_keys: Counter[TableName] = field(default_factory=Counter)

    def lock(self, components: Sequence[LockComponent], *, zero_wait: bool = False) -> None:
        """Take locks; wait for them as long as ``hive.lock.*`` allow. ``zero_wait``: not at all. Raises LockTimeoutError.

        A failed call leaves no request in the queue. Locks that the transaction holds are not requested again: the second
        request would queue behind transactions that wait for the first.
        """
        self._require_open()
        uncovered = [
            component for component in components if not any(covers(held, component) for held in self._held)
        ]
        if not uncovered:
            return
        answer = self.store.lock(self.txn_id, uncovered, zero_wait=zero_wait)
        if answer.state is LockState.NOT_ACQUIRED:
            raise errors.LockTimeoutError(
                f"{_format_resources(uncovered)}: locked ({answer.blocked_by}), and this statement does not wait for locks"
            )
        self._write_ids.update(answer.allocated)
        self.wait_for(answer, uncovered)

    def wait_for(self, answer: LockAnswer, components: Sequence[LockComponent]) -> None:
        """Wait until a lock request is granted, as :meth:`lock` does.

        It is checked ``hive.lock.numretries`` times. The pause between two checks doubles, up to
        ``hive.lock.sleep.between.retries`` and 15 seconds. Deadlocks are not detected, as in Hive: each waiter gives up.
        """
        pause = _FIRST_WAIT
        try:
            for turn in range(self.settings.get(setting_definitions.LOCK_NUMRETRIES)):
                if answer.state is LockState.ACQUIRED:
                    break
                if turn == _WARNING_AFTER:
                    logger.warning(
                        "waiting for a lock on %s: %s", _format_resources(components), answer.blocked_by
                    )
                self.clock.sleep(min(pause, self.settings.get(setting_definitions.LOCK_SLEEP)))
                pause = min(pause * 2, _LONGEST_WAIT)
                answer = self._check_lock(answer.lock_id)
        except BaseException:
            # granted just now: the caller aborts, and hears of the first error
            with suppress(errors.HiveAcidError):
                self.store.unlock(answer.lock_id)
            raise
        if answer.state is LockState.ACQUIRED:
            self._held.extend(components)
            return
        self.store.unlock(answer.lock_id)
        blocked = f"; blocked by {answer.blocked_by}" if answer.blocked_by else ""
        raise errors.LockTimeoutError(
            f"no lock on {_format_resources(components)}{blocked}: try again, or see SHOW LOCKS"
        )

    def _check_lock(self, lock_id: LockId) -> LockAnswer:
        """Check a waiting request. If it disappeared with its transaction, report the abort, not the missing request."""
        self.heartbeats.check(self.txn_id)
        self.store.abort_timed_out()  # the lock may belong to a client that died
        try:
            return self.store.check_lock(lock_id)
        except errors.TransactionStateError:
            if self.store.txn_state(self.txn_id) == TransactionState.OPEN:
                raise
            raise errors.TransactionAbortedError(
                f"transaction {self.txn_id} was aborted while it waited for a lock; run it again"
            ) from None

    def snapshot(self) -> ValidTxnList:
        """Return the snapshot of this transaction, taken at the first call."""
        self._require_open()
        if self._snapshot is None:
            self._snapshot = self.store.take_snapshot(self.txn_id)
        return self._snapshot

    def require_open_in_store(self) -> None:
        """Raise TransactionAbortedError unless the store still counts the transaction as open, and does so for a while.

        Call it after listing a directory. The cleaner keeps the files of open transactions only, so a transaction that
        slept past its time-out could miss directories without noticing. If the last sign of life may be overdue,
        another client may abort the transaction just after the answer, so a heartbeat comes first then. It also checks
        `guard`, which holds the locks.
        """
        self._require_open()
        if self.guard is not None:
            self.guard.require_open_in_store()
        now = self.clock.now()
        if not 0 <= now - self.alive_at < 1000 * self.heartbeats.pause():
            self.store.heartbeat([self.txn_id])
            self.alive_at = now
        if self.store.txn_state(self.txn_id) != TransactionState.OPEN:
            raise errors.TransactionAbortedError(
                f"transaction {self.txn_id} was aborted (timed out, or by ABORT TRANSACTIONS); what its snapshot "
                "reads may be gone: run it again"
            )

    def open_check(self) -> Callable[[], None]:
        """Return `require_open_in_store` for the publishing of one statement; it asks at the first call, then once a second.

        Several threads may call it. A writer calls it once all its files are staged below the table, and before each one
        gets its final name. Once the transaction has ended, another client may own the directory. DROP TABLE and the cleaner
        delete staged files first; a writer that was paused after this check then finds none to move.
        """
        lock, asked_at = threading.Lock(), [-_ASK_AGAIN]

        def check() -> None:
            with lock:
                now = self.clock.now()
                if not 0 <= now - asked_at[0] < _ASK_AGAIN:
                    self.require_open_in_store()
                    asked_at[0] = now

        return check

    def valid_write_ids(self, table: TableName) -> ValidWriteIdList:
        """Return the write ids of a table that this transaction reads, its own included."""
        if table not in self._valid_write_ids:
            self._set_valid_write_ids(table, self.store.valid_write_ids(self.snapshot(), [table])[table])
            for txn in (self, self.lease):
                if txn is not None:
                    self.store.record_read_write_ids(txn.txn_id, [self._valid_write_ids[table]])
        own = self._write_ids.get(table)
        return self._valid_write_ids[table] if own is None else self._valid_write_ids[table].with_own(own)

    def committed_write_ids(self, table: TableName) -> ValidWriteIdList:
        """Return the write ids of a table that were committed at this transaction's snapshot, without its own."""
        if table not in self._valid_write_ids:
            self.valid_write_ids(table)
        return self._valid_write_ids[table]

    def record_begun(self, begun: Begun, locks: Sequence[LockComponent] = ()) -> None:
        """Adopt the locks, snapshot and write ids that the store granted when the transaction began."""
        self._held.extend(locks)
        self._snapshot = begun.snapshot
        if begun.lock is not None:
            self._write_ids.update(begun.lock.allocated)
        self._write_ids.update(begun.allocated)
        for table, write_ids in begun.write_ids.items():
            self._set_valid_write_ids(table, write_ids)

    def _set_valid_write_ids(self, table: TableName, write_ids: ValidWriteIdList) -> None:
        """Set the valid write ids of a table, without those above the transaction's own write id.

        A metastore allocates the own write id before it grants the lock. Another transaction may commit with a higher one
        meanwhile. Its rows could not be changed: a delete event or a base affects lower write ids only.
        """
        own = self._write_ids.get(table)
        if own is not None and write_ids.count_valid(own + 1, write_ids.high_watermark):
            self._tables_with_later_commits.add(table)
        self._valid_write_ids[table] = write_ids if own is None else write_ids.below(own)

    def has_lock_on(self, table: TableName) -> bool:
        """Tell whether it holds a lock on a table or a partition of it, for which DROP and RENAME wait."""
        return any((held.database, held.table) == (table.database, table.name) for held in self._held)

    def has_later_commits(self, table: TableName) -> bool:
        """Tell whether a higher write id had committed before this transaction took its snapshot."""
        return table in self._tables_with_later_commits

    def misses_commits_of(self, table: TableName, now: ValidWriteIdList) -> bool:
        """Tell whether ``now`` has a committed write id that this transaction's snapshot has not."""
        return has_new_commits(now, self.valid_write_ids(table))

    def write_id(self, table: TableName, *, publishing: bool = True) -> WriteId:
        """Return the transaction's write id for a table, allocated at the first call.

        ``publishing``: the caller names directories by it. False: the caller sets :attr:`published`
        itself before it makes a directory.
        """
        self._require_open()
        self.published = self.published or publishing
        if table not in self._valid_write_ids:
            self.valid_write_ids(table)  # before the allocation: the list must not contain the own id as open
        if table not in self._write_ids:
            self._write_ids[table] = self.store.allocate_write_ids([self.txn_id], table)[0]
        return self._write_ids[table]

    def next_statements(self, count: int) -> range:
        """Allocate ``count`` statement ids; a delete event affects rows of smaller statement ids only."""
        first = self._next_statement
        if first + count > MAX_STATEMENT_ID + 1:
            raise errors.UnsupportedFeatureError(
                f"transaction {self.txn_id}: more than {MAX_STATEMENT_ID + 1} statement ids; commit and begin another"
            )
        self._next_statement += count
        return range(first, first + count)

    def next_with_keys(self, table: TableName) -> int:
        """Return the number of a statement among those that make surrogate keys of a table; the first is 0."""
        self._with_keys[table] += 1
        return self._with_keys[table] - 1

    def require_not_overwritten(
        self, table: TableName, partitions: Iterable[tuple[str | None, ...]] | None = None
    ) -> None:
        """Refuse a second write to partitions (None: any) that this transaction has overwritten."""
        taken = self.pending.overwritten.get(table, set())
        if taken if partitions is None else taken.intersection(partitions):
            raise errors.UnsupportedFeatureError(
                f"{table} was overwritten (or truncated) earlier in this transaction: Hive's layout has no place "
                f"for a later write beside base_{self._write_ids.get(table)}; commit first"
            )

    def commit(self) -> None:
        """Commit: make all writes visible.

        It raises these errors. After each of them but the last, no write of the transaction is visible.

        - WriteConflictError: another transaction changed the same table or partition and committed first.
        - StreamReplayedError: the batch of the stream was committed before.
        - StreamFencedError: another copy of the streaming query registered later.
        - TransactionAbortedError: the transaction was aborted before, by a timeout or by ABORT TRANSACTIONS.
        - FailedTransactionError: a statement of the transaction had failed half-way.
        - CommitStateUnknownError: the answer was lost and the store cannot be asked; the files stay in place.
        """
        self._require_open()
        if self.failed:
            self.abort("a statement failed half-way")
            raise errors.FailedTransactionError(self.txn_id, self.failed)
        for check in self.pending.before_commit:
            check()
        try:
            self.heartbeats.check(self.txn_id)
            if self.guard is not None:
                self.heartbeats.check(self.guard.txn_id)
            pending = self.pending
            self.store.commit_txn(
                self.txn_id,
                replace(pending.catalog_changes(), records=pending.records(self._write_ids)),
                tuple(pending.written),
                pending.batch,
                pending.operations(),
            )
        except errors.TransactionAbortedError:
            self._end()
            self._run_actions(self.pending.on_abort)
            raise
        except errors.CommitStateUnknownError:
            self._end()
            raise
        self._end(wrote=bool(self._write_ids))
        written = ", ".join(f"{table} with write id {own}" for table, own in self._write_ids.items())
        level = logging.INFO if written else logging.DEBUG
        logger.log(level, "transaction %s committed: %s", self.txn_id, written or "no write id")
        if self.report is not None:
            self.report(self, self._write_ids)
        self._run_actions(self.pending.on_commit)

    def abort(self, reason: str) -> None:
        """Abort in the store and remove the published files. A second call does nothing.

        A store that cannot be reached is not an error: the thread of the heartbeats aborts later. The cleaner takes the files.
        """
        if self.ended:
            return
        self._end()
        try:
            remains = Remains.FILES if self.published else Remains.NOTHING
            aborted = self.txn_id in self.store.abort_txns([self.txn_id], reason, remains)
            # an interrupted commit may have succeeded: then the files belong to the table
            if aborted or self.store.txn_state(self.txn_id) == TransactionState.ABORTED:
                self._run_actions(self.pending.on_abort)
        except errors.StoreError as error:
            logger.warning("transaction %s is aborted later, or times out: %s", self.txn_id, error)
            self.heartbeats.enqueue_abort([self.txn_id], reason)

    def _run_actions(self, actions: Sequence[Callable[[], None]]) -> None:
        for action in actions:
            try:
                action()
            except errors.HiveAcidError as error:  # no reader sees these files
                logger.warning("transaction %s leaves files to the cleaner: %s", self.txn_id, error)

    def _end(self, *, wrote: bool = False) -> None:
        self.heartbeats.forget(self.txn_id, wrote=wrote)
        self.ended = True  # last: after Ctrl-C the caller ends it again
        if self.guard is not None:
            self.guard.abort("another transaction went on in its place")

    def _require_open(self) -> None:
        if self.ended:
            raise errors.TransactionStateError(f"transaction {self.txn_id} has ended: begin another one")
        self.heartbeats.check(self.txn_id)


def has_new_commits(now: ValidWriteIdList, before: ValidWriteIdList) -> bool:
    """Tell whether ``now`` has a committed write id that ``before`` has not."""
    new_ids = range(int(before.high_watermark) + 1, int(now.high_watermark) + 1)
    return any(now.is_valid(write_id) for write_id in (*before.open, *new_ids))


def _format_resources(components: Sequence[LockComponent]) -> str:
    return ", ".join(
        ".".join(part for part in (c.database, c.table, c.partition) if part) for c in components
    )


@dataclass(frozen=True)
class Transactions:
    """Begins transactions on one store with one session's settings."""

    store: TransactionStore
    heartbeats: Heartbeats
    clock: Clock
    client: Client
    lineage: LineageSender = field(default_factory=sender_of_process)

    def _handle(
        self, settings: Settings, txn_id: TxnId, *, explicit: bool = False, guard: Transaction | None = None
    ) -> Transaction:
        """Return the handle of an open transaction."""
        return Transaction(
            self.store,
            self.heartbeats,
            settings,
            self.clock,
            txn_id,
            explicit,
            guard=guard,
            report=self._report,
        )

    def _report(self, txn: Transaction, write_ids: Mapping[TableName, WriteId]) -> None:
        """Tell of a commit, if the settings of its session say to whom. Never raises."""
        target = txn.settings.text(setting_definitions.OPENLINEAGE_TO.name)
        operations = txn.pending.operations() if target != setting_definitions.OPENLINEAGE_TO.default else ()
        if operations:
            namespace = txn.settings.text(setting_definitions.OPENLINEAGE_NAMESPACE.name)
            writes = tuple((operation, write_ids.get(operation.table)) for operation in operations)
            reads, sources = frozenset(txn.reads.incarnations), frozenset(txn.reads.sources)
            commit = ReportedCommit(txn.txn_id, self.client, self.clock.now(), reads, sources, writes)
            self.lineage.report(target, namespace, commit)

    def begin(
        self,
        settings: Settings,
        kind: TxnKind = TxnKind.DEFAULT,
        *,
        explicit: bool = False,
        start: Start | None = None,
        opened: list[Transaction] | None = None,
    ) -> Transaction:
        """Open a transaction and start its heartbeat.

        ``start``: also take its locks (waiting as :meth:`Transaction.lock`) and then the snapshot. Without ``start`` the
        caller takes both, in this order. ``opened`` gets the transaction as soon as it is open, so that the caller can end it
        whenever Ctrl-C interrupts it. Raises LockTimeoutError; then the transaction is aborted.
        """
        asked_at = self.clock.now()
        if start is None:
            (txn_id,) = self.store.open_txns(self.client, 1, kind)
            begun = Begun(txn_id)
        else:
            begun = self.store.begin_txn(self.client, start, kind)
        opened = [] if opened is None else opened
        txn = self._handle(settings, begun.txn_id, explicit=explicit)
        txn.alive_at = asked_at
        try:
            opened.append(txn)
            self.heartbeats.track(begun.txn_id)
            if start is None:
                return txn
            if begun.snapshot is not None:
                txn.record_begun(begun, start.locks)
            elif begun.lock is not None:
                txn.record_begun(Begun(begun.txn_id, begun.lock))
                txn.wait_for(begun.lock, start.locks)
                waiting = txn
                if begun.before:
                    txn = self._replace_after_wait(txn, begun, start, kind)
                    opened.append(txn)
                txn.waited = not begun.before or txn is not waiting
        except BaseException as error:  # Ctrl-C may come anywhere
            txn.abort(str(error)[:200])
            raise
        return txn

    def _replace_after_wait(self, txn: Transaction, begun: Begun, start: Start, kind: TxnKind) -> Transaction:
        """Return the transaction to continue with after a wait: a new one if a conflicting transaction committed.

        The store would report a conflict with the transaction waited for, although a snapshot taken now contains its
        rows. The new transaction begins after that commit. The first one stays open and keeps its locks, so that no
        other waiter gets between them. (Hive opens another one as well, but requests the locks again: ``Driver``, HIVE-24211.)
        """
        now = self.store.valid_write_ids(self.store.valid_txns(), tuple(begun.before))
        if not any(has_new_commits(now[name], before) for name, before in begun.before.items()):
            return txn
        (txn_id,) = self.store.open_txns(self.client, 1, kind)
        newer = self._handle(txn.settings, txn_id, explicit=txn.explicit, guard=txn)
        try:
            self.heartbeats.track(txn_id)
            # declares the writes; the answer is not waited for, because the guard holds these locks until the end
            answer = self.store.lock(txn_id, start.locks)
        except BaseException as error:
            newer.abort(str(error)[:200])
            raise
        newer.record_begun(Begun(txn_id, answer), start.locks)
        return newer

    @contextmanager
    def scope(
        self,
        settings: Settings,
        joined: Transaction | None = None,
        start: Start | None = None,
        check: Callable[[], object] | None = None,
    ) -> Iterator[Transaction]:
        """Run one statement: in ``joined``, or in a transaction of its own that commits at the end.

        ``check`` runs before any lock is taken. An error aborts the statement's own transaction; a joined one is marked
        as failed and can only be rolled back.
        """
        if joined is not None:
            try:
                if check is not None:
                    check()
                if start is not None and start.locks:
                    joined.lock(start.locks)
                yield joined
            except BaseException as error:
                joined.failed = joined.failed or str(error) or type(error).__name__
                lost = self.abort_error(joined, error)
                if lost is not None:
                    raise lost from error
                raise
            return
        if check is not None:
            check()
        opened: list[Transaction] = []
        try:
            txn = self.begin(settings, start=start, opened=opened)
            yield txn
            if not txn.ended:
                txn.commit()
        except BaseException as error:
            try:
                lost = self.abort_error(opened[-1], error) if opened else None
            finally:  # whatever ends the question: a transaction that is not ended gets heartbeats until the process ends
                for txn in reversed(opened):
                    txn.abort(str(error)[:200])
            if lost is not None:
                raise lost from error
            raise

    def abort_error(self, txn: Transaction, error: BaseException) -> errors.TransactionAbortedError | None:
        """Return the error to raise if files are missing because the transaction was aborted and cleaned up.

        This happens to a process that slept past the time-out: the cleaner has removed its staged files or its
        snapshot. None also if the store cannot be asked now.
        """
        if not isinstance(error, (errors.StorageError, errors.FormatError)) or txn.ended:
            return None
        try:
            state = self.store.txn_state(txn.txn_id)
        except errors.StoreError as away:
            logger.warning("whether transaction %s was aborted is not known: %s", txn.txn_id, away)
            return None
        if state not in (TransactionState.ABORTED, TransactionState.UNKNOWN):
            return None
        return errors.TransactionAbortedError(
            f"transaction {txn.txn_id} was aborted while its statement ran; nothing of it is visible"
        )

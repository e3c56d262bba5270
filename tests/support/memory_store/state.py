"""State of the reference store: plain lists and dictionaries behind one lock."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from hiveacid.config import Settings
from hiveacid.core.compaction.advice import FigureRecord
from hiveacid.core.compaction.queue_records import Compaction, Service
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import (
    DatabaseDefinition,
    LockId,
    Partition,
    TableDefinition,
    TableName,
    TxnId,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.snapshot.file_records import RecordedDirectory
from hiveacid.core.transactions.commit_records import CommitRecord, StreamKey, StreamProgress
from hiveacid.core.transactions.locks_and_conflicts import (
    CONFLICTING_OPERATIONS,
    Change,
    CommittedChange,
    HeldLock,
    LockComponent,
    LockState,
)
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.ports.transactions import Client, TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.limits import LATEST_WRITER, Limits

_Args = ParamSpec("_Args")
_Answer = TypeVar("_Answer")

NOBODY = TxnId(0)
"""Owner of aborted write ids that another engine left."""


@dataclass
class TransactionRecord:
    """A transaction.

    ``moment``: commit sequence at its snapshot. ``min_open``: lowest open id when it began. ``timeout``: ms.
    """

    id: TxnId
    kind: TxnKind
    client: Client
    started: int
    heartbeat: int
    moment: int
    min_open: TxnId
    timeout: int
    state: str = TransactionState.OPEN
    ended: int | None = None
    reason: str | None = None
    code: str | None = None


@dataclass
class WrittenRow:
    """A table or partition that a transaction wrote. ``operation``: i, u, d, or c for a compaction up to ``write_id``.

    ``write_id`` of u: that of an overwrite.
    """

    txn_id: TxnId
    change: Change
    sequence: int | None = None
    write_id: WriteId | None = None

    @property
    def counts(self) -> bool:
        """Tell whether the row's operation can be part of a conflict."""
        return self.change.operation in CONFLICTING_OPERATIONS

    def committed(self) -> CommittedChange:
        """Convert the row for the conflict rule; only for rows with a commit sequence."""
        return CommittedChange(self.txn_id, self.sequence or 0, self.change)


@dataclass
class Request:
    """A lock request in the queue."""

    id: LockId
    txn_id: TxnId
    components: tuple[LockComponent, ...]
    state: LockState
    acquired_at: int | None
    blocked_by: str | None

    def held(self) -> list[HeldLock]:
        """Convert the components for the lock rule."""
        return [
            HeldLock(self.id, number, self.txn_id, component)
            for number, component in enumerate(self.components, 1)
        ]


@dataclass
class State:
    """The complete state of a store."""

    txns: dict[TxnId, TransactionRecord] = field(default_factory=dict)
    last_txn: int = 0
    sequence: int = 0
    write_ids: dict[TableName, dict[WriteId, TxnId]] = field(default_factory=dict)
    next_write_id: dict[TableName, int] = field(default_factory=dict)
    written: list[WrittenRow] = field(default_factory=list)
    requests: dict[LockId, Request] = field(default_factory=dict)
    last_lock: int = 0
    compactions: dict[int, Compaction] = field(default_factory=dict)
    last_compaction: int = 0
    commits: dict[TableName, list[CommitRecord]] = field(default_factory=dict)
    changed: dict[tuple[TableName, str | None], int] = field(default_factory=dict)  # last commit, ms
    services: dict[str, Service] = field(default_factory=dict)
    streams: dict[StreamKey, StreamProgress] = field(default_factory=dict)
    databases: dict[str, DatabaseDefinition] = field(default_factory=dict)
    tables: dict[TableName, TableDefinition] = field(default_factory=dict)
    partitions: dict[TableName, dict[tuple[str, ...], Partition]] = field(default_factory=dict)
    outside: set[str] = field(
        default_factory=set
    )  # of partitions: locations outside their table's when they were added
    views: dict[TableName, ViewDefinition] = field(default_factory=dict)
    # by partition and name, of the tables whose records are complete
    files: dict[TableName, dict[tuple[str, ...], dict[str, RecordedDirectory]]] = field(default_factory=dict)
    figures: list[FigureRecord] = field(default_factory=list)
    figures_claimed: int = 0
    refused: int = 0  # transactions whose rows are dropped

    def open_txns(self) -> list[TransactionRecord]:
        """Return the open transactions by id."""
        return [txn for _, txn in sorted(self.txns.items()) if txn.state == TransactionState.OPEN]

    def lowest_open_write_id(self, table: TableName) -> int:
        """Return the lowest write id whose transaction is open, or the next one."""
        open_txns = {txn.id for txn in self.open_txns()}
        given = self.write_ids.get(table, {})
        lowest = (write_id for write_id, txn_id in given.items() if txn_id in open_txns)
        return min(lowest, default=self.next_write_id.get(table, 1))

    def require_open(self, txn_id: TxnId) -> TransactionRecord:
        """Return an open transaction; raise the error that fits its state if it is not open."""
        txn = self.txns.get(txn_id)
        if txn is None:
            raise refusals.not_open(txn_id, TransactionState.UNKNOWN)
        if txn.state != TransactionState.OPEN:
            raise refusals.not_open(txn_id, txn.state, txn.reason, txn.code)
        return txn


class MemoryBase:
    """State, clock and limits that the parts of the reference store share."""

    def __init__(self, *, limits: Limits | None = None, clock: Clock | None = None) -> None:
        self._state = State()
        self._mutex = threading.RLock()
        self._limits = limits or Limits.of(Settings())
        self._clock = clock or SystemClock()

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

    def require_claimable_jobs(self) -> None:
        """Do nothing: every worker may claim jobs."""

    def maintained_by_hiveacid(self) -> bool:
        """Return True: hiveacid's initiator, workers and cleaner maintain the tables."""
        return True

    def _will_not_come(self, txn_id: TxnId) -> bool:
        ended = self._state.txns[txn_id].ended or 0
        return self._has_stopped(txn_id) or ended < self._clock.now() - LATEST_WRITER

    def _has_stopped(self, txn_id: TxnId) -> bool:
        return txn_id != NOBODY and self._state.txns[txn_id].code not in (None, refusals.TIME_OUT)


_Part = TypeVar("_Part", bound=MemoryBase)


def synchronized(
    verb: Callable[Concatenate[_Part, _Args], _Answer],
) -> Callable[Concatenate[_Part, _Args], _Answer]:
    """Run a method while no other thread runs one."""

    @functools.wraps(verb)
    def wrapped(self: _Part, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Answer:
        with self._mutex:
            return verb(self, *args, **kwargs)

    return wrapped

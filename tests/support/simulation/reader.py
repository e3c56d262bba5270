"""A simulated reader: takes a snapshot as a DataFrame does, lists at once, reads its files when it pleases."""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.core.model import TableName
from hiveacid.errors import StorageError, TransactionAbortedError
from hiveacid.transactions.transaction import Transaction
from support.simulation.session import Found, Session
from support.simulation.world import PARTED, WHOLE

_LET_GO = 0.6
"""Probability that a frame is forgotten after a turn; the others are used once more."""


@dataclass(eq=False)
class _Frame:
    """Stands for a DataFrame: what it reads, and whether anybody can still use it."""

    found: list[Found]
    txn: Transaction
    used: bool = True

    def alive(self) -> bool:
        return self.used


@dataclass
class Reader:
    """Reads one thing after the other; several frames may share a snapshot."""

    session: Session
    _frames: list[_Frame] = field(default_factory=list)

    def work(self) -> None:
        """Read until the process dies."""
        while True:
            with self.session.forgiving():
                self._turn()
            self.session.context.clock.sleep(self.session.random.random() * 3)

    def _turn(self) -> None:
        """Make frames, use them and older ones, let some go."""
        random = self.session.random
        for _ in range(random.randint(1, 2)):
            self._frames.append(self._scan(random.choice((WHOLE, PARTED))))
        try:
            for frame in list(self._frames):
                with self.session.forgiving():
                    self._run(frame)
        finally:
            for frame in [one for one in self._frames if random.random() < _LET_GO]:
                frame.used = False
                self._frames.remove(frame)
            self.session.context.read_leases.sweep()

    def _scan(self, name: TableName) -> _Frame:
        snapshots = self.session.context.read_leases
        with snapshots.acquire(self.session.context.settings) as txn:
            frame = _Frame(self.session.list_visible(name, txn), txn)
            snapshots.add_holder(txn, frame)
            return frame

    def _run(self, frame: _Frame) -> None:
        for one in frame.found:
            try:
                self.session.read(frame.txn, one)
            except StorageError as error:
                if self.session.world.store.txn_state(frame.txn.txn_id) == "open":
                    raise
                raise TransactionAbortedError("files of a reader that was reaped are gone") from error

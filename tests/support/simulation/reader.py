"""A simulated reader: takes a snapshot as a DataFrame does, lists at once, reads its files when it pleases."""

from __future__ import annotations

from dataclasses import dataclass, field

from hiveacid.core.model import TableName
from hiveacid.errors import StorageError, TransactionAbortedError
from hiveacid.transactions.transaction import Transaction
from support.simulation.session import Found, Session

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
        random, leases = self.session.random, self.session.context.read_leases
        try:
            if random.random() < 0.4:
                self._explicit()
            for _ in range(random.randint(1, 2)):
                with leases.acquire(self.session.context.settings) as txn:
                    self._frames.append(self._frame(self._name(), txn, txn))
            for frame in list(self._frames):
                with self.session.forgiving():
                    self._run(frame)
        finally:
            for frame in [one for one in self._frames if random.random() < _LET_GO]:
                frame.used = False
                self._frames.remove(frame)
            leases.sweep()

    def _explicit(self) -> None:
        """Read several times in a transaction of its own; its frames may be used after its end."""
        random, context = self.session.random, self.session.context
        txn = context.read_leases.begin_explicit(context.settings)
        names = [self._name(), self._name()]
        try:
            for _ in range(random.randint(2, 4)):
                frame = self._frame(random.choice(names), txn, txn.lease)
                if random.random() < 0.5:
                    self._run(frame)
                self._frames.append(frame)
                context.clock.sleep(random.random() * 8)
            txn.commit()
        except BaseException as error:
            txn.abort(str(error)[:50])
            raise

    def _name(self) -> TableName:
        return self.session.world.name()

    def _frame(self, name: TableName, txn: Transaction, lease: Transaction | None) -> _Frame:
        """List as a transaction sees it; the lease keeps the files (``table.read.table_snapshot.reading_transaction``)."""
        leases, ledger = self.session.context.read_leases, self.session.world.ledger
        found = self.session.list_visible(name, txn)
        if lease is None:  # only if a bug is planted
            with leases.acquire(self.session.context.settings) as late:
                return self._held(_Frame(found, late))
        if lease is not txn and lease.txn_id in ledger.holdings:
            ledger.holdings[lease.txn_id].needs.update(ledger.holdings[txn.txn_id].needs)
        return self._held(_Frame(found, lease))

    def _held(self, frame: _Frame) -> _Frame:
        self.session.context.read_leases.add_holder(frame.txn, frame.alive)
        return frame

    def _run(self, frame: _Frame) -> None:
        for one in frame.found:
            try:
                self.session.read(frame.txn, one)
            except StorageError as error:
                if self.session.world.store.txn_state(frame.txn.txn_id) == "open":
                    raise
                raise TransactionAbortedError("files of a reader that was reaped are gone") from error

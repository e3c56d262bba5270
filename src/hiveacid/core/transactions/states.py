"""Life cycles of transactions, lock requests and compactions as transition tables.

Only these tables decide whether a state may follow another: stores change states through :func:`fire`. The diagrams
in docs/states.md are drawn from the same tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.errors import TransactionStateError


class TransactionState(StrEnum):
    """State of a transaction; UNKNOWN for an id that the store never assigned or no longer keeps."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class CompactionState(StrEnum):
    """State of a compaction job; the texts are those of Hive's SHOW COMPACTIONS."""

    INITIATED = "initiated"
    WORKING = "working"
    READY_FOR_CLEANING = "ready for cleaning"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DID_NOT_INITIATE = "did not initiate"
    REFUSED = "refused"
    ABORTED = "aborted"


UNDER_WAY = (CompactionState.INITIATED, CompactionState.WORKING)
"""States of a job that waits for a worker or that a worker is carrying out."""
_RELEASED = "released"
"""Final state of a lock request: its row is deleted."""


@dataclass(frozen=True)
class Transition:
    """In state ``source``, ``event`` leads to ``target``."""

    source: str
    event: str
    target: str


@dataclass(frozen=True)
class Machine:
    """A life cycle: a noun for its subject, the initial state, and all transitions."""

    noun: str
    start: str
    transitions: tuple[Transition, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """Return all states, in the order in which the table names them."""
        states = [self.start]
        states += [
            state for transition in self.transitions for state in (transition.source, transition.target)
        ]
        return tuple(dict.fromkeys(states))

    @property
    def final_states(self) -> tuple[str, ...]:
        """Return the states without a transition to another state."""
        sources = {
            transition.source for transition in self.transitions if transition.source != transition.target
        }
        return tuple(state for state in self.states if state not in sources)


TRANSACTION = Machine(
    "transaction",
    TransactionState.OPEN,
    (
        Transition(TransactionState.OPEN, "commit", TransactionState.COMMITTED),
        Transition(TransactionState.OPEN, "conflict", TransactionState.ABORTED),
        Transition(TransactionState.OPEN, "abort", TransactionState.ABORTED),
        Transition(TransactionState.OPEN, "time out", TransactionState.ABORTED),
        # The answer to a client may be lost: repeating the request is not an error.
        Transition(TransactionState.COMMITTED, "commit", TransactionState.COMMITTED),
        Transition(TransactionState.ABORTED, "abort", TransactionState.ABORTED),
    ),
)

LOCK = Machine(
    "lock request",
    LockState.WAITING,
    (
        Transition(LockState.WAITING, "grant", LockState.ACQUIRED),
        Transition(LockState.WAITING, "deny", LockState.NOT_ACQUIRED),
        Transition(LockState.WAITING, "withdraw", _RELEASED),
        Transition(LockState.ACQUIRED, "withdraw", _RELEASED),
        Transition(LockState.ACQUIRED, "end of transaction", _RELEASED),
        Transition(LockState.WAITING, "end of transaction", _RELEASED),
    ),
)

COMPACTION = Machine(
    "compaction",
    CompactionState.INITIATED,
    (
        Transition(CompactionState.INITIATED, "claim", CompactionState.WORKING),
        Transition(CompactionState.INITIATED, "give up", CompactionState.DID_NOT_INITIATE),
        Transition(CompactionState.INITIATED, "abort", CompactionState.ABORTED),
        Transition(CompactionState.WORKING, "finish", CompactionState.READY_FOR_CLEANING),
        # The commit of the job's transaction finishes it; a worker may report the end once more.
        Transition(CompactionState.READY_FOR_CLEANING, "finish", CompactionState.READY_FOR_CLEANING),
        Transition(CompactionState.WORKING, "refuse", CompactionState.REFUSED),
        Transition(CompactionState.WORKING, "fail", CompactionState.FAILED),
        Transition(CompactionState.WORKING, "revoke", CompactionState.INITIATED),
        Transition(CompactionState.READY_FOR_CLEANING, "clean", CompactionState.SUCCEEDED),
        Transition(CompactionState.READY_FOR_CLEANING, "refuse", CompactionState.REFUSED),
        Transition(CompactionState.READY_FOR_CLEANING, "fail", CompactionState.FAILED),
    ),
)


def fire(machine: Machine, state: str, event: str) -> str:
    """Return the state that ``event`` leads to. Raises TransactionStateError if there is no such transition."""
    for transition in machine.transitions:
        if (transition.source, transition.event) == (state, event):
            return transition.target
    raise TransactionStateError(f"a {machine.noun} that is {state} does not allow {event!r}")


def end_compaction(state: str, target: str) -> str:
    """Return ``target`` if a compaction may move to it from ``state``. Raises TransactionStateError.

    Claims and returns to the queue are not allowed: they have calls of their own.
    """
    changes = COMPACTION.transitions
    event = next((one.event for one in changes if (one.source, one.target) == (state, target)), None)
    if event is None:
        raise TransactionStateError(f"a compaction that is {state} cannot become {target}")
    if event in ("claim", "revoke"):
        raise TransactionStateError(f"a compaction that is {state} does not end as {target}")
    return target

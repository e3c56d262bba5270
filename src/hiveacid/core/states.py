"""Life cycles of transactions, lock requests and compactions: tables of data, and one function that fires them.

Nothing else decides whether a state may follow another. The pictures in the docs are drawn from the same
tables (:func:`draw`).
"""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.errors import TransactionStateError


@dataclass(frozen=True)
class Transition:
    """In state ``source``, ``event`` leads to ``target``."""

    source: str
    event: str
    target: str


@dataclass(frozen=True)
class Machine:
    """A life cycle: what lives it, the state it begins in, and every transition there is."""

    noun: str
    start: str
    transitions: tuple[Transition, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """Return all states, in the order in which the table names them."""
        named = [self.start]
        named += [state for one in self.transitions for state in (one.source, one.target)]
        return tuple(dict.fromkeys(named))

    @property
    def final_states(self) -> tuple[str, ...]:
        """Return the states that nothing leads out of."""
        left = {one.source for one in self.transitions if one.source != one.target}
        return tuple(state for state in self.states if state not in left)


TRANSACTION = Machine(
    "transaction",
    "open",
    (
        Transition("open", "commit", "committed"),
        Transition("open", "conflict", "aborted"),
        Transition("open", "abort", "aborted"),
        Transition("open", "time out", "aborted"),
        # An answer may be lost on its way: asking for the same again is no error.
        Transition("committed", "commit", "committed"),
        Transition("aborted", "abort", "aborted"),
    ),
)

LOCK = Machine(
    "lock request",
    "WAITING",
    (
        Transition("WAITING", "grant", "ACQUIRED"),
        Transition("WAITING", "deny", "NOT_ACQUIRED"),
        Transition("WAITING", "withdraw", "released"),
        Transition("ACQUIRED", "withdraw", "released"),
        Transition("ACQUIRED", "end of transaction", "released"),
        Transition("WAITING", "end of transaction", "released"),
    ),
)

COMPACTION = Machine(
    "compaction",
    "initiated",
    (
        Transition("initiated", "claim", "working"),
        Transition("initiated", "give up", "did not initiate"),
        Transition("initiated", "abort", "aborted"),
        Transition("working", "finish", "ready for cleaning"),
        # The commit of the job's transaction finishes it; a worker that says so once more is right.
        Transition("ready for cleaning", "finish", "ready for cleaning"),
        Transition("working", "refuse", "refused"),
        Transition("working", "fail", "failed"),
        Transition("working", "revoke", "initiated"),
        Transition("ready for cleaning", "clean", "succeeded"),
        Transition("ready for cleaning", "refuse", "refused"),
        Transition("ready for cleaning", "fail", "failed"),
    ),
)


def fire(machine: Machine, state: str, event: str) -> str:
    """Return the state that ``event`` leads to. Raises TransactionStateError where the table has no such row."""
    for one in machine.transitions:
        if (one.source, one.event) == (state, event):
            return one.target
    msg = f"a {machine.noun} that is {state} knows no {event!r}"
    raise TransactionStateError(msg)


def event_between(machine: Machine, state: str, target: str) -> str:
    """Return the event that leads from one state to another. Raises TransactionStateError if none does."""
    for one in machine.transitions:
        if (one.source, one.target) == (state, target):
            return one.event
    msg = f"a {machine.noun} that is {state} cannot become {target}"
    raise TransactionStateError(msg)


def end_compaction(state: str, target: str) -> str:
    """Return ``target`` if a compaction may be ended so. Raises TransactionStateError.

    Being claimed and being queued again are no ends.
    """
    event = event_between(COMPACTION, state, target)
    if event in ("claim", "revoke"):
        msg = f"a compaction that is {state} does not end as {target}"
        raise TransactionStateError(msg)
    return fire(COMPACTION, state, event)


def draw(machine: Machine) -> str:
    """Return the machine as a Mermaid state diagram."""
    names = {state: f"s{number}" for number, state in enumerate(machine.states)}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {name}' for state, name in names.items()]
    lines.append(f"    [*] --> {names[machine.start]}")
    lines += [f"    {names[one.source]} --> {names[one.target]}: {one.event}" for one in machine.transitions]
    lines += [f"    {names[state]} --> [*]" for state in machine.final_states]
    return "\n".join(lines) + "\n"

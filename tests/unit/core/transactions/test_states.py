"""Life cycles are what their tables say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.core.transactions.states import (
    COMPACTION,
    LOCK,
    TRANSACTION,
    Machine,
    end_compaction,
    fire,
)
from hiveacid.errors import TransactionStateError

MACHINES = (TRANSACTION, LOCK, COMPACTION)


@given(st.sampled_from(MACHINES), st.data())
def test_walks_stay_inside_the_table_and_end_in_a_final_state(machine: Machine, data: st.DataObject) -> None:
    state = machine.start
    for _ in range(20):
        ways = [one for one in machine.transitions if one.source == state]
        if not ways:
            assert state in machine.final_states
            return
        chosen = data.draw(st.sampled_from(ways))
        assert fire(machine, state, chosen.event) == chosen.target
        state = chosen.target
    assert state in machine.states


@given(st.sampled_from(MACHINES), st.text(max_size=5), st.text(max_size=5))
def test_anything_else_is_refused(machine: Machine, state: str, event: str) -> None:
    with pytest.raises(TransactionStateError, match=machine.noun):
        fire(machine, state, event)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.noun)
def test_one_event_leads_to_one_state_and_all_states_are_reached(machine: Machine) -> None:
    pairs = [(one.source, one.event) for one in machine.transitions]
    assert len(pairs) == len(set(pairs))
    reached = {machine.start}
    for _ in machine.transitions:
        reached |= {one.target for one in machine.transitions if one.source in reached}
    assert reached == set(machine.states)


def test_ends() -> None:
    assert TRANSACTION.final_states == ("committed", "aborted")
    assert set(COMPACTION.final_states) == {"succeeded", "failed", "refused", "did not initiate", "aborted"}
    assert set(LOCK.states) - {"released"} == set(LockState)


def test_a_compaction_ends_only_in_a_state_that_a_transition_leads_to() -> None:
    for one in COMPACTION.transitions:
        if one.event in ("claim", "revoke"):
            with pytest.raises(TransactionStateError, match="does not end as"):
                end_compaction(one.source, one.target)
        else:
            assert end_compaction(one.source, one.target) == one.target
    with pytest.raises(TransactionStateError, match="cannot become nowhere"):
        end_compaction(COMPACTION.start, "nowhere")


def test_the_page_of_life_cycles_shows_every_transition() -> None:
    page = (Path(__file__).parents[4] / "docs" / "states.md").read_text(encoding="utf-8")
    picture = page.rpartition("```mermaid\n")[2].splitlines()
    assert picture[0] == "stateDiagram-v2"
    assert sum("-->" in line for line in picture) == len(COMPACTION.transitions) + 1 + len(
        COMPACTION.final_states
    )
    assert '    state "ready for cleaning" as s4' in picture
    assert "    [*] --> s0" in picture

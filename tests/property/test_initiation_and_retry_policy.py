"""Properties of the initiator's decisions, for all figures and histories."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.config import Settings
from hiveacid.core.compaction.initiation_and_retry_policy import (
    CompactionCandidate,
    LocationSizes,
    Thresholds,
    decide_by_aborts,
    decide_by_files,
    decide_not_to_initiate,
)
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.transactions.states import COMPACTION
from hiveacid.table.compaction.need import thresholds_of

BYTES = st.integers(0, 10**13)
TIMES = st.integers(0, 10**13)
FIGURES = st.builds(LocationSizes, BYTES, BYTES, st.integers(0, 600), st.booleans())
THRESHOLDS = st.builds(
    Thresholds,
    delta_num=st.integers(0, 50),
    delta_pct=st.floats(0, 10),
    aborted_txns=st.integers(0, 20),
    aborted_age=st.floats(-1, 10**6),
    failures=st.integers(1, 4),
    retry_after=st.floats(0, 10**6),
    insert_only=st.just(True),
)
DEFAULTS = thresholds_of(Settings())


def attempt(number: int, state: str, enqueued: int | None = None, started: int | None = None) -> Compaction:
    request = CompactionRequest(TableName("d", "t"), None, "major")
    return Compaction(number, request, state, enqueued=enqueued, started=started)


ATTEMPTS = st.lists(
    st.builds(
        attempt, st.integers(1, 99), st.sampled_from(COMPACTION.states), st.none() | TIMES, st.none() | TIMES
    ),
    max_size=6,
    unique_by=lambda one: one.id,
).map(tuple)
PLACES = st.builds(
    CompactionCandidate,
    st.sampled_from(TableKind),
    ATTEMPTS,
    st.lists(TIMES, max_size=30).map(tuple),
    st.sampled_from([None, "table", "database"]),
)


@given(FIGURES, THRESHOLDS)
def test_every_decision_has_a_reason_and_the_same_question_the_same_answer(
    figures: LocationSizes, thresholds: Thresholds
) -> None:
    decision = decide_by_files(figures, thresholds)
    assert decision.reason
    assert not decision.noted
    assert decision == decide_by_files(figures, thresholds)


@given(FIGURES, THRESHOLDS, BYTES, st.integers(0, 50))
def test_more_deltas_never_call_for_less(
    figures: LocationSizes, thresholds: Thresholds, size: int, more: int
) -> None:
    """Once something is to be done, more of the same does not stop it, nor make a major one minor."""
    rank = {None: 0, CompactionKind.MINOR: 1, CompactionKind.MAJOR: 2}
    if not figures.delta_bytes or not figures.base_bytes:
        return
    bigger = replace(figures, delta_bytes=figures.delta_bytes + size, deltas=figures.deltas + more)
    before, after = (decide_by_files(one, thresholds).kind for one in (figures, bigger))
    assert rank[after] >= rank[before]


@given(FIGURES, THRESHOLDS)
def test_what_a_major_compaction_leaves_calls_for_nothing(
    figures: LocationSizes, thresholds: Thresholds
) -> None:
    """A base and nothing else: the initiator does not go round in circles."""
    left = LocationSizes(figures.base_bytes + figures.delta_bytes, 0, 0)
    assert decide_by_files(left, thresholds).kind is None


@given(FIGURES, st.integers(2, 50).map(lambda count: replace(DEFAULTS, delta_num=count)))
def test_what_a_minor_compaction_leaves_calls_for_no_second_one(
    figures: LocationSizes, thresholds: Thresholds
) -> None:
    """At most a delta and a delete delta, of the same bytes or fewer."""
    if decide_by_files(figures, thresholds).kind is CompactionKind.MINOR:
        assert decide_by_files(replace(figures, deltas=2), thresholds).kind is None


@given(PLACES, THRESHOLDS, TIMES)
def test_nothing_is_queued_twice_nor_where_it_is_forbidden(
    place: CompactionCandidate, thresholds: Thresholds, now: int
) -> None:
    found = decide_not_to_initiate(place, thresholds, now)
    busy = any(one.state in ("initiated", "working") for one in place.attempts)
    if busy or place.disabled or place.kind is TableKind.PLAIN:
        assert found is not None
    if found is not None:
        assert found.kind is None
        assert found.reason
        assert not (found.noted and busy)


@given(PLACES, THRESHOLDS, TIMES)
def test_no_aborts_call_for_nothing_and_a_finished_job_has_seen_the_earlier_ones(
    place: CompactionCandidate, thresholds: Thresholds, now: int
) -> None:
    assert decide_by_aborts(replace(place, aborted=()), thresholds, now) is None
    done = attempt(100, "succeeded", now, max(place.aborted, default=0) + 1)
    seen = replace(place, attempts=(*place.attempts, done))
    assert decide_by_aborts(seen, thresholds, now) is None

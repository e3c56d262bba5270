"""When a table is compacted by itself, which kind, and the reason that is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.config import Settings
from hiveacid.core.compaction.initiation_and_retry_policy import (
    CompactionCandidate,
    Decision,
    LocationSizes,
    Thresholds,
    decide_by_aborts,
    decide_by_files,
    decide_not_to_initiate,
    measure_location,
)
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select
from hiveacid.table.compaction.need import thresholds_of

DEFAULTS = thresholds_of(Settings())
ACID = CompactionCandidate(TableKind.FULL_ACID)
DAY = 86_400_000
NOW = 100 * DAY


def attempt(number: int, state: str, enqueued: int | None = None, started: int | None = None) -> Compaction:
    request = CompactionRequest(TableName("d", "t"), None, "major")
    return Compaction(number, request, state, enqueued=enqueued, started=started)


def by_files(base: int, deltas: int, count: int, thresholds: Thresholds = DEFAULTS) -> Decision:
    return decide_by_files(LocationSizes(base, deltas, count), thresholds)


def test_eleven_deltas_call_for_a_minor_compaction_ten_do_not() -> None:
    """C10."""
    assert by_files(10_000, 100, 11).kind is CompactionKind.MINOR
    assert by_files(10_000, 100, 11).reason == "11 deltas, more than 10 (hive.compactor.delta.num.threshold)"
    quiet = by_files(10_000, 100, 10)
    assert quiet.kind is None
    assert quiet.reason.startswith("Not enough deltas to initiate compaction: 10, not more than 10")


def test_without_a_base_it_is_a_major_one() -> None:
    assert by_files(0, 100, 11).kind is CompactionKind.MAJOR
    assert by_files(0, 100, 10).kind is None


def test_deltas_of_more_than_a_tenth_of_the_base_call_for_a_major_compaction() -> None:
    assert by_files(1000, 101, 1).kind is CompactionKind.MAJOR
    assert by_files(1000, 100, 1).kind is None
    assert "0.101 times the size of the base, more than 0.1 (hive" in by_files(1000, 101, 1).reason


def test_nothing_but_bases_call_for_a_major_compaction_that_cleans() -> None:
    assert decide_by_files(LocationSizes(10, 0, 0, old_bases=True), DEFAULTS).kind is CompactionKind.MAJOR
    assert decide_by_files(LocationSizes(10, 0, 0), DEFAULTS).kind is None
    assert decide_by_files(LocationSizes(0, 0, 0, old_bases=True), DEFAULTS).kind is CompactionKind.MAJOR


def test_thresholds_of_a_table_count() -> None:
    """C10."""
    few = replace(DEFAULTS, delta_num=2, delta_pct=5.0)
    assert by_files(100, 90, 3, few).kind is CompactionKind.MINOR
    assert by_files(100, 90, 2, few).kind is None


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (replace(ACID, disabled="table"), "no_auto_compaction is set on the table"),
        (replace(ACID, disabled="database"), "no_auto_compaction is set on the database"),
        (replace(ACID, kind=TableKind.PLAIN), "the table is not transactional"),
        (replace(ACID, attempts=(attempt(7, "initiated"),)), "compaction 7 is initiated already"),
        (replace(ACID, attempts=(attempt(7, "working"),)), "compaction 7 is working already"),
    ],
)
def test_what_speaks_against_a_compaction(place: CompactionCandidate, reason: str) -> None:
    """C9, C12."""
    again = NOW if place.attempts else None  # then what is written meanwhile counts
    assert decide_not_to_initiate(place, DEFAULTS, NOW) == Decision(None, reason, again=again)


def test_insert_only_tables_may_be_left_out() -> None:
    place = CompactionCandidate(TableKind.INSERT_ONLY)
    assert decide_not_to_initiate(place, DEFAULTS, NOW) is None
    assert decide_not_to_initiate(place, replace(DEFAULTS, insert_only=False), NOW) is not None


def test_after_two_failures_it_gives_up_for_a_week() -> None:
    failed = (attempt(3, "failed", NOW - 2 * DAY), attempt(4, "failed", NOW - DAY))
    place = replace(ACID, attempts=(attempt(1, "succeeded", 5), *failed))
    found = decide_not_to_initiate(place, DEFAULTS, NOW)
    assert found is not None
    assert found.noted
    assert found.reason == "Compaction is not initiated since last 2 consecutive compaction attempts failed"
    assert decide_not_to_initiate(place, DEFAULTS, NOW + 7 * DAY) is None
    assert decide_not_to_initiate(place, replace(DEFAULTS, retry_after=0), NOW + 70 * DAY) is not None
    assert decide_not_to_initiate(place, replace(DEFAULTS, failures=3), NOW) is None


@pytest.mark.parametrize("state", ["ready for cleaning", "refused", "did not initiate", "aborted"])
def test_other_ends_are_no_failures_and_do_not_hide_them(state: str) -> None:
    failed = (attempt(1, "failed", NOW), attempt(2, "failed", NOW))
    assert decide_not_to_initiate(replace(ACID, attempts=(attempt(3, state, NOW),)), DEFAULTS, NOW) is None
    assert (
        decide_not_to_initiate(replace(ACID, attempts=(*failed, attempt(3, state, NOW))), DEFAULTS, NOW)
        is not None
    )


def test_a_success_after_a_failure_counts() -> None:
    attempts = (attempt(1, "failed", NOW), attempt(2, "succeeded", NOW), attempt(3, "failed", NOW))
    assert decide_not_to_initiate(replace(ACID, attempts=attempts), DEFAULTS, NOW) is None


def test_many_aborted_transactions_call_for_a_major_compaction() -> None:
    place = replace(ACID, aborted=tuple(range(NOW - 1001, NOW)))
    found = decide_by_aborts(place, DEFAULTS, NOW)
    assert found == Decision(
        CompactionKind.MAJOR,
        "1001 aborted transactions, more than 1000 (hive.compactor.abortedtxn.threshold)",
    )
    assert decide_by_aborts(replace(place, aborted=place.aborted[1:]), DEFAULTS, NOW) is None


def test_an_old_abort_calls_for_a_minor_compaction() -> None:
    old = replace(ACID, aborted=(NOW - 13 * 3_600_000, NOW))
    found = decide_by_aborts(old, DEFAULTS, NOW)
    assert found is not None
    assert found.kind is CompactionKind.MINOR
    assert found.reason.startswith("a transaction was aborted 13.0 hours ago, more than 12 (hive.compactor")
    assert decide_by_aborts(replace(ACID, aborted=(NOW - 12 * 3_600_000,)), DEFAULTS, NOW) is None
    assert decide_by_aborts(old, replace(DEFAULTS, aborted_age=-1.0), NOW) is None


@pytest.mark.parametrize(("state", "again"), [("succeeded", False), ("refused", False), ("failed", True)])
def test_aborts_that_a_compaction_has_seen_do_not_count_again(state: str, *, again: bool) -> None:
    seen = attempt(1, state, NOW - 2 * DAY, NOW - 2 * DAY)
    place = replace(ACID, aborted=(NOW - 3 * DAY,), attempts=(seen,))
    assert (decide_by_aborts(place, DEFAULTS, NOW) is not None) is again
    assert decide_by_aborts(replace(place, aborted=(NOW - DAY,)), DEFAULTS, NOW) is not None


def test_figures_of_a_location() -> None:
    sizes = {"base_3/bucket_00000": 100, "base_2/bucket_00000": 90, "delta_4_4_0/bucket_00000": 7}
    sizes |= {
        "delta_4_4_0/bucket_00001": 8,
        "delete_delta_5_5_0/bucket_00000": 5,
        "delta_9_9_0/bucket_00000": 1,
    }
    entries = [FileEntry(path, is_dir=False, size=size) for path, size in sizes.items()]
    view = parse_write_id_list("db.t:8:9223372036854775807::").compactor()
    entries += [FileEntry("delta_2_2_0/bucket_00000", is_dir=False, size=9)]
    seen = LocationSizes(100, 20, 2, old_bases=True, small_deltas=0, obsolete_deltas=1)
    assert measure_location(select(entries, view, None)) == seen
    entries += [FileEntry("delete_delta_6_6_0/bucket_00000", is_dir=False, size=0)]
    assert measure_location(select(entries, view, None)) == replace(seen, deltas=3, small_deltas=1)


def test_figures_of_original_files_are_those_of_a_base() -> None:
    entries = [FileEntry("000000_0", is_dir=False, size=40), FileEntry("delta_1_1_0/bucket_00000", False, 2)]
    view = parse_write_id_list("db.t:8:9223372036854775807::").compactor()
    assert measure_location(select(entries, view, None)) == LocationSizes(40, 2, 1)

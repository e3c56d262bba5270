"""The sentence of advice on a table, its order of urgency, and the size of a table in the past."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.compaction.advice import (
    SMALL_FILE,
    Advice,
    LocationFigures,
    LocationNeed,
    Need,
    SizeChange,
    advise,
    file_figures,
    size_history,
    sum_figures,
)
from hiveacid.core.compaction.initiation_and_retry_policy import Decision, LocationSizes, measure_location
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.core.model import TableKind
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select

FIGURES = LocationFigures(LocationSizes(1000, 100, 3), files=4, rows=100, deletes=5)
FINE = LocationNeed(None, FIGURES, Decision(None, "Not enough deltas to initiate compaction: 3"))
DUE = replace(FINE, decision=Decision(CompactionKind.MAJOR, "11 deltas, more than 10"))


def of(
    *needs: LocationNeed,
    kind: TableKind = TableKind.FULL_ACID,
    disabled: str | None = None,
    initiator: bool = True,
) -> Advice:
    return advise(kind, needs, disabled, initiator_runs=initiator)


@pytest.mark.parametrize(
    ("advice", "need", "text"),
    [
        (of(FINE), Need.FINE, "3 deltas, which readers merge without much cost."),
        (of(FINE, disabled="table"), Need.FINE, "Automatic compaction is off (on the table)."),
        (of(replace(FINE, figures=LocationFigures(LocationSizes(9, 0, 0)))), Need.FINE, "there are no deltas"),
        (of(DUE), Need.DUE, "Due, and queued soon: 11 deltas, more than 10."),
        (of(DUE, initiator=False), Need.DUE, "by hand, because no initiator runs: 11 deltas, more than 10."),
        (of(DUE, disabled="database"), Need.DUE, "because no_auto_compaction is set on the database: 11"),
        (of(replace(FINE, state="working")), Need.RUNNING, "A compaction runs."),
        (of(replace(FINE, state="initiated")), Need.RUNNING, "A compaction is queued."),
        (of(replace(FINE, state="succeeded")), Need.FINE, "3 deltas"),
        (of(replace(DUE, state="failed", error="disk full")), Need.FAILING, "compaction failed: disk full"),
        (of(replace(FINE, state="failed", error="x" * 999)), Need.FAILING, "x" * 160),
        (of(replace(FINE, state="did not initiate", error="two failed")), Need.FAILING, "Not compacted: two failed."),
        (of(kind=TableKind.PLAIN), Need.NONE, "not transactional"),
        (of(), Need.FINE, "there are no deltas"),
    ],
)  # fmt: skip
def test_the_advice(advice: Advice, need: Need, text: str) -> None:
    assert advice.need is need
    assert text in advice.text
    assert advice.text.count("\n") == 0


def test_partitions_are_named_or_counted() -> None:
    partitions = [replace(DUE, partition=f"p={number}") for number in range(3)]
    fine = replace(FINE, partition="p=9")
    assert of(partitions[0], fine).text.startswith("Due of p=0, and queued soon")
    assert of(*partitions, fine).text.startswith("Due of 3 of 4 partitions, and queued soon")


def test_a_fifth_of_deleted_rows_is_worth_a_compaction() -> None:
    def share(deletes: int | None) -> Advice:
        return of(replace(FINE, figures=replace(FIGURES, deletes=deletes)))

    assert share(19).need is Need.FINE
    assert share(20) == Advice(
        Need.WORTHWHILE, "20% of the rows are deleted and still read: a major compaction removes them."
    )
    assert share(None).need is Need.FINE


def test_a_hundred_small_files_of_deltas_are_worth_one() -> None:
    assert of(replace(FINE, figures=replace(FIGURES, small_delta_files=99))).need is Need.FINE
    assert of(replace(FINE, figures=replace(FIGURES, small_delta_files=100))).need is Need.WORTHWHILE


def test_needs_are_ranked_from_failing_to_none() -> None:
    assert min(Need, key=lambda need: need.rank) is Need.FAILING
    assert Need.DUE.rank < Need.WORTHWHILE.rank < Need.FINE.rank < Need.NONE.rank


def test_files_are_counted_by_size_and_by_what_a_compaction_merges() -> None:
    sizes = {
        "base_0000003/bucket_00000": SMALL_FILE,
        "base_0000003/bucket_00001": SMALL_FILE - 1,
        "delta_0000004_0000004/bucket_00000": 7,
        "delete_delta_0000005_0000005/bucket_00000": 8,
    }
    entries = [FileEntry(path, False, size, 0) for path, size in sizes.items()]
    state = select(entries, parse_write_id_list("d.t:5:9223372036854775807::"), None)
    found = file_figures(state, measure_location(state))
    assert (found.files, found.small_files, found.small_delta_files) == (4, 3, 2)
    assert found.bytes == sum(sizes.values())
    assert found.rows is None
    assert (found.sizes.deltas, found.delete_deltas) == (2, 1)


def test_sums_know_rows_only_if_all_locations_do() -> None:
    both = sum_figures([FIGURES, replace(FIGURES, delete_deltas=3)])
    assert (both.bytes, both.deltas, both.files, both.rows, both.deletes) == (2200, 6, 8, 200, 10)
    assert both.deleted_share == 0.05
    assert both.delete_deltas == 3
    assert sum_figures([FIGURES, replace(FIGURES, rows=None)]).deleted_share is None
    assert sum_figures([]).deleted_share == 0.0


def test_the_size_in_the_past_goes_back_from_now() -> None:
    changes = [SizeChange(10, 100), SizeChange(20, 50), SizeChange(30, -120)]
    assert size_history(changes, 30, 40, 0) == [
        (0, 0), (10, 0), (10, 100), (20, 100), (20, 150), (30, 150), (30, 30), (40, 30),
    ]  # fmt: skip
    assert size_history(changes, 30, 40, 15) == [
        (15, 100),
        (20, 100),
        (20, 150),
        (30, 150),
        (30, 30),
        (40, 30),
    ]
    assert size_history([], 5, 40, 15) == [(15, 5), (40, 5)]


def test_the_past_ends_behind_a_change_by_an_unknown_size() -> None:
    assert size_history([SizeChange(10, 9), SizeChange(20, None)], 5, 40, 0) == [(20, 5), (40, 5)]

"""Which tables are recorded, and which records are kept."""

from __future__ import annotations

from dataclasses import replace

from hiveacid.core.compaction.advice import FigureRecord, superseded_records, tables_to_record
from hiveacid.core.compaction.queue_records import ChangedPartition, Compaction, CompactionRequest
from hiveacid.core.model import TableName

HOUR, DAY = 3_600_000, 86_400_000
A, B, C, D = (TableName("shop", name) for name in "abcd")


def test_two_days_stay_and_the_last_record_of_each_day_before() -> None:
    noon = 100 * DAY + 12 * HOUR
    hours = [noon - number * HOUR for number in range(1, 100)]
    gone = superseded_records(hours, noon)
    left = sorted(set(hours) - set(gone))
    assert [time for time in left if time >= noon - 2 * DAY] == sorted(hours[:48])
    # of the day in which the two days begin, the last record is a later one, which stays
    assert [time for time in left if time < noon - 2 * DAY] == [day * DAY - HOUR for day in (97, 98)]
    assert superseded_records(left, noon) == []


def test_a_record_of_the_same_moment_is_replaced_and_late_ones_are_thinned_too() -> None:
    assert superseded_records([5, 6, 7], 6) == [6]
    assert superseded_records([], 6) == []
    assert superseded_records([1, 2, DAY + 1, DAY + 2], 10 * DAY) == [1, DAY + 1]


def test_only_what_changed_is_due_the_longest_unseen_first() -> None:
    latest = {name: FigureRecord(name, time, {}) for name, time in ((A, 9 * HOUR), (B, 7 * HOUR), (C, HOUR))}
    job = Compaction(1, CompactionRequest(B, None, "major"), "succeeded", commit_time=8 * HOUR)
    changed = [
        ChangedPartition(A, "p=1", 9 * HOUR + 1),
        ChangedPartition(A, "p=2", HOUR),
        ChangedPartition(B, None, HOUR),
        ChangedPartition(C, None, None, (9 * HOUR,)),
    ]
    names = [A, B, C, D]
    assert tables_to_record(names, latest, changed, [job]) == [D, B, A]
    assert tables_to_record(names, latest, changed, [replace(job, commit_time=None)]) == [D, A]
    assert tables_to_record([A], latest, [ChangedPartition(A, None, 9 * HOUR - 1)], []) == [A], (
        "seen a little later"
    )
    assert tables_to_record([A], latest, [ChangedPartition(A, None, 8 * HOUR)], []) == []

"""Plans of compactions: what is read, what the result is called, when there is nothing to do."""

from __future__ import annotations

import pytest

from hiveacid.core.compaction.plan import (
    NOT_ENOUGH,
    CompactionKind,
    CompactionPlan,
    CompactionRefusal,
    KeyedFile,
    files_in_key_order,
    plan_compaction,
)
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import parse_txn_list, parse_write_id_list
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select
from support.corpus.acid_files import bucket_property

MINOR, MAJOR = CompactionKind.MINOR, CompactionKind.MAJOR
ALL_9 = "9:9223372036854775807::"


def plan(
    kind: CompactionKind,
    *paths: str,
    write_ids: str = ALL_9,
    level: LayoutLevel = LayoutLevel.HIVE4,
    metadata: dict[str, str] | None = None,
) -> CompactionPlan | CompactionRefusal:
    entries = [
        FileEntry(path if "/" in path else f"{path}/bucket_00000", is_dir=False, size=1) for path in paths
    ]
    view = parse_write_id_list(f"db.t:{write_ids}").compactor()
    state = select(entries, view, parse_txn_list("40:40:40:30"), metadata)
    return plan_compaction(state, view, kind, level, TxnId(40))


def made(*args: object, **options: object) -> CompactionPlan:
    found = plan(*args, **options)  # type: ignore[arg-type]
    assert isinstance(found, CompactionPlan)
    return found


def refused(*args: object, **options: object) -> CompactionRefusal:
    found = plan(*args, **options)  # type: ignore[arg-type]
    assert isinstance(found, CompactionRefusal)
    return found


def paths_of(found: CompactionPlan) -> list[str]:
    base = [] if found.base is None else [found.base.path]
    return base + [one.path for one in (*found.deltas, *found.delete_deltas)]


def test_minor_joins_deltas_and_delete_deltas_up_to_the_high_watermark() -> None:
    """C1."""
    found = made(MINOR, "base_2", "delta_3_3_0", "delete_delta_4_4_0", "delta_5_5_0")
    assert paths_of(found) == ["delta_3_3_0", "delta_5_5_0", "delete_delta_4_4_0"]
    assert (found.output, found.delete_output, found.metadata) == (
        "delta_0000003_0000009_v0000040",
        "delete_delta_0000003_0000009_v0000040",
        None,
    )
    assert found.high_watermark == 9


def test_minor_without_inserts_or_without_deletes_writes_one_directory() -> None:
    inserts = made(MINOR, "delta_3_3_0", "delta_5_5_0")
    assert (inserts.output, inserts.delete_output) == ("delta_0000003_0000009_v0000040", None)
    deletes = made(MINOR, "base_2", "delete_delta_3_3_0", "delete_delta_5_5_0")
    assert (deletes.output, deletes.delete_output) == (None, "delete_delta_0000003_0000009_v0000040")


def test_minor_range_begins_with_the_first_directory_even_a_delete_delta() -> None:
    found = made(MINOR, "base_2", "delete_delta_3_3_0", "delta_5_5_0", "delta_6_6_0")
    assert found.output == "delta_0000003_0000009_v0000040"


def test_minor_leaves_base_and_originals_alone() -> None:
    found = made(MINOR, "HIVE_UNION_SUBDIR_1/000000_0", "delta_1_1_0", "delta_2_2_0")
    assert found.originals == ()


def test_major_reads_everything_into_a_base_of_the_high_watermark() -> None:
    """C2."""
    found = made(MAJOR, "base_2", "delta_3_3_0", "delete_delta_4_4_0", "delta_5_5_0")
    assert paths_of(found) == ["base_2", "delta_3_3_0", "delta_5_5_0", "delete_delta_4_4_0"]
    assert (found.output, found.delete_output, found.metadata) == ("base_0000009_v0000040", None, None)


def test_major_reads_originals() -> None:
    """C4."""
    found = made(MAJOR, "HIVE_UNION_SUBDIR_1/000000_0", write_ids="10000000:9223372036854775807::")
    assert [file.path for file in found.originals] == ["HIVE_UNION_SUBDIR_1/000000_0"]
    assert found.output == "base_10000000_v0000040"


def test_hive3_results_have_no_suffix_and_a_base_carries_metadata() -> None:
    """C20."""
    major = made(MAJOR, "base_2", "delta_3_3_0", level=LayoutLevel.HIVE3)
    assert major.output == "base_0000009"
    assert major.metadata == '{"thisFileVersion":"0","dataFormat":"compacted"}'
    minor = made(MINOR, "delta_1_1_0", "delta_3_3_0", "delete_delta_2_2_0", level=LayoutLevel.HIVE3)
    assert (minor.output, minor.delete_output) == ("delta_0000001_0000009", "delete_delta_0000001_0000009")
    assert minor.metadata is None


def test_a_compaction_stops_below_the_lowest_open_write_id() -> None:
    """C3."""
    found = made(MINOR, "delta_1_1_0", "delta_2_2_0", "delta_5_5_0", write_ids="6:4:4:3")
    assert paths_of(found) == ["delta_1_1_0", "delta_2_2_0"]
    assert found.output == "delta_0000001_0000003_v0000040"


def test_a_compaction_stops_below_a_streamed_delta_with_an_open_part() -> None:
    # hwm would be 5, but ids 4 and 5 lie in the open batch's file: Hive would lose them below a base_5
    for kind in CompactionKind:
        found = made(kind, "delta_1_1_0", "delta_2_2_0", "delta_4_7", write_ids="7:6:6,7:")
        assert found.high_watermark == 3
        assert paths_of(found) == ["delta_1_1_0", "delta_2_2_0"]


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        (MINOR, ("delta_1_1_0",)),
        (MINOR, ("delta_1_1_0", "delete_delta_2_2_0")),
        (MINOR, ("delta_3_3_1", "delete_delta_3_3_0")),
        (MINOR, ("base_2", "delta_3_3_0")),
        (MINOR, ()),
        (MAJOR, ()),
        (MAJOR, ("base_5",)),
        (MAJOR, ("delta_1_1_0",)),
        (MAJOR, ("delete_delta_1_1_0",)),
    ],
)
def test_not_enough_to_compact(kind: CompactionKind, paths: tuple[str, ...]) -> None:
    """C11: a delta and a delete delta of the same range are one of each, too."""
    assert refused(kind, *paths) == CompactionRefusal(NOT_ENOUGH, cleaning_needed=False)


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        (MINOR, ("delta_1_1_0", "delta_2_2_0")),
        (MINOR, ("delta_1_1_0", "delta_2_2_0", "delete_delta_2_2_1")),
        (MINOR, ("delta_3_3_0", "delta_3_3_1")),
        (MAJOR, ("base_5", "delete_delta_6_6_0")),
        (MAJOR, ("delta_1_1_0", "delete_delta_2_2_0")),
        (MAJOR, ("HIVE_UNION_SUBDIR_1/000000_0",)),
    ],
)
def test_enough_to_compact(kind: CompactionKind, paths: tuple[str, ...]) -> None:
    made(kind, *paths)


def test_refused_with_something_to_clean() -> None:
    """C11: the cleaner gets its share all the same."""
    assert refused(MAJOR, "base_5", "delta_4_4_0").cleaning_needed
    assert refused(MINOR, "delta_4_4_0", "delta_5_5_0", write_ids="9:9223372036854775807::5").cleaning_needed
    assert refused(MAJOR, "base_5", "base_7_v30").cleaning_needed


def test_a_lone_streamed_delta_with_aborted_rows_is_worth_a_major_compaction() -> None:
    """C13, HIVE-24481: its aborted rows are on disk until then."""
    found = made(MAJOR, "delta_2_5", write_ids="9:9223372036854775807::4")
    assert not found.write_ids.is_valid(4)
    refused(MINOR, "delta_2_5", write_ids="9:9223372036854775807::4")


def test_a_hive3_result_does_not_fall_into_an_aborted_writers_directory() -> None:
    aborted = "9:9223372036854775807::8,9"
    found = made(
        MAJOR, "delta_1_1_0", "delta_2_2_0", "base_0000009", write_ids=aborted, level=LayoutLevel.HIVE3
    )
    assert found.output == "base_0000008"
    assert found.high_watermark == 8
    highest = refused(
        MAJOR,
        *("delta_9_9_0", "delete_delta_9_9_1", "base_0000009/_metadata_acid"),
        write_ids="9:9223372036854775807::",
        level=LayoutLevel.HIVE3,
        metadata={"base_0000009": '{"thisFileVersion":"0","dataFormat":"compacted"}'},
    )
    assert highest.cleaning_needed


B0, B1 = bucket_property(0), bucket_property(1)
LARGE, SMALL = 100, 1


def file(name: str, size: int, low: int, high: int, bucket: int = B0) -> KeyedFile:
    return KeyedFile(name, size, (low, bucket, 0), (high, bucket, 9))


def test_a_base_below_small_deltas_is_not_sorted_and_they_are() -> None:
    files = [file("delta_7", SMALL, 7, 7), file("base_5", LARGE, 1, 5), file("delta_6", SMALL, 6, 6)]
    assert files_in_key_order(files, LARGE) == {"base_5"}
    assert files_in_key_order([*files, file("delta_8", LARGE, 8, 8)], LARGE) == {
        one.path for one in files
    } | {"delta_8"}


def test_a_base_that_is_most_of_its_bucket_counts_as_large_much_earlier() -> None:
    deltas = [file("delta_6", SMALL, 6, 6), file("delta_7", 3, 7, 7)]
    assert files_in_key_order([file("base_5", 13, 1, 5), *deltas], LARGE) == {"base_5"}
    assert files_in_key_order([file("base_5", 12, 1, 5), *deltas], LARGE) == set()
    assert files_in_key_order([file("base_5", 90, 1, 5), file("delta_8", 40, 8, 8)], LARGE) == set()


def test_many_small_files_below_a_large_one_are_sorted_with_it() -> None:
    small = [file(f"delta_{n}", SMALL, n, n) for n in range(2, 20)]
    first, last = file("base_1", LARGE, 1, 1), file("delta_20", LARGE, 20, 20)
    assert files_in_key_order([first, *small, last], LARGE) == {"base_1"}


def test_files_that_overlap_are_sorted_and_so_is_what_lies_above_them() -> None:
    base = file("base_1", LARGE, 1, 1)
    streams = [file("delta_2_5", LARGE, 2, 5), file("delta_4_7", LARGE, 4, 7)]
    assert files_in_key_order([base, *streams, file("delta_8", LARGE, 8, 8)], LARGE) == {"base_1"}
    assert files_in_key_order(streams, LARGE) == set()
    assert files_in_key_order([base, file("again", LARGE, 1, 1)], LARGE) == set()


def test_buckets_and_statements_are_told_apart() -> None:
    buckets = [file("b0", LARGE, 1, 9), file("b1", LARGE, 1, 9, B1)]
    assert files_in_key_order(buckets, LARGE) == {"b0", "b1"}
    statements = [
        file("s0", LARGE, 3, 3, bucket_property(0, 0)),
        file("s1", LARGE, 3, 3, bucket_property(0, 1)),
    ]
    assert files_in_key_order(statements, LARGE) == {"s0", "s1"}


def test_nothing_is_passed_on_where_files_hold_several_buckets_or_old_bucket_numbers() -> None:
    mixed = KeyedFile("mixed", LARGE, (1, B0, 0), (1, B1, 9))
    assert files_in_key_order([mixed, file("b5", LARGE, 9, 9, bucket_property(5))], LARGE) == set()
    assert files_in_key_order([KeyedFile("v0", LARGE, (1, 0, 0), (1, 0, 9))], LARGE) == set()
    assert files_in_key_order([KeyedFile("v7", LARGE, (1, -1, 0), (1, -1, 9))], LARGE) == set()

"""What the cleaner may delete, in which order, and what it must still remember."""

from hiveacid.core.compaction.cleaning_plan import (
    CleaningPlan,
    DeletionReason,
    held_back_cleanings,
    plan_cleaning,
)
from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.write_id_lists import parse_txn_list, parse_write_id_list
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry

COMMITTED = "50:9223372036854775807::"


def plan(
    *paths: str,
    write_ids: str = "9:9223372036854775807::",
    txns: str = COMMITTED,
    top: int = 9,
    min_open: int = 51,
    possibly_unseen_txns: tuple[int, ...] = (),
    aborted_only: bool = False,
) -> CleaningPlan:
    entries = [
        FileEntry(path if "/" in path else f"{path}/bucket_00000", is_dir=False, size=1) for path in paths
    ]
    return plan_cleaning(
        entries,
        parse_write_id_list(f"db.t:{write_ids}"),
        parse_txn_list(txns),
        {"base_5": '{"thisFileVersion":"0","dataFormat":"compacted"}'},
        high_watermark=WriteId(top),
        min_open_txn_id=TxnId(min_open),
        possibly_unseen_txns=frozenset(map(TxnId, possibly_unseen_txns)),
        aborted_only=aborted_only,
    )


def deleted(found: CleaningPlan) -> list[str]:
    return [deletion.path for deletion in found.deletions]


def test_after_a_major_compaction_everything_below_goes_bases_first() -> None:
    found = plan(
        "base_2",
        "base_1_v3",
        "delta_4_4_0",
        "delta_3_3_0",
        "delete_delta_4_4_1",
        "base_9_v20",
        "delta_10_10_0",
    )
    assert deleted(found) == ["base_1_v3", "base_2", "delta_3_3_0", "delete_delta_4_4_1", "delta_4_4_0"]
    assert {deletion.reason for deletion in found.deletions} == {DeletionReason.OBSOLETE}
    assert (found.postponed, found.history_from, found.abort_records_removable_up_to) == ((), 9, 9)


def test_after_a_minor_compaction_history_is_kept() -> None:
    found = plan("delta_1_1_0", "delta_2_2_0", "delta_1_9_v20")
    assert deleted(found) == ["delta_1_1_0", "delta_2_2_0"]
    assert found.history_from is None


def test_nothing_goes_while_a_reader_does_not_see_the_compaction() -> None:
    found = plan("delta_1_1_0", "delta_2_2_0", "base_9_v20", min_open=20)
    assert deleted(found) == []
    assert found.postponed == ("delta_1_1_0", "delta_2_2_0")
    assert deleted(plan("delta_1_1_0", "delta_2_2_0", "base_9_v20", min_open=21)) == [
        "delta_1_1_0",
        "delta_2_2_0",
    ]


def test_a_later_compaction_that_a_reader_may_not_see_does_not_count_yet() -> None:
    paths = ("delta_1_1_0", "delta_2_2_0", "delta_1_5_v20", "base_5_v30")
    found = plan(*paths, top=5, possibly_unseen_txns=(30,))
    assert deleted(found) == ["delta_1_1_0", "delta_2_2_0"]
    assert found.postponed == ("delta_1_5_v20",)
    assert deleted(plan(*paths, top=5)) == ["delta_1_1_0", "delta_1_5_v20", "delta_2_2_0"]


def test_nothing_above_the_compactions_watermark_is_looked_at() -> None:
    found = plan("delta_1_1_0", "delta_2_2_0", "delta_1_5_v20", "delta_6_6_0", "base_8_v30", top=5)
    assert deleted(found) == ["delta_1_1_0", "delta_2_2_0"]


def test_a_later_minor_compaction_above_the_watermark_hides_nothing_yet() -> None:
    assert deleted(plan("delta_1_1_0", "delta_2_2_0", "delta_1_9_v30", top=5)) == []


def test_directories_of_aborted_writers_and_compactions_go() -> None:
    found = plan(
        *("delta_3_3_0", "base_4", "delta_1_2_v30", "delta_5_5_0"),
        write_ids="9:9223372036854775807::3,4",
        txns="50:9223372036854775807::30",
    )
    assert deleted(found) == ["base_4", "delta_1_2_v30", "delta_3_3_0"]
    assert {deletion.reason for deletion in found.deletions} == {DeletionReason.ABORTED}
    assert found.abort_records_removable_up_to == 9


def test_aborted_rows_in_a_streamed_delta_are_remembered() -> None:
    """C13, HIVE-24481: an id is not forgotten while its rows are on disk."""
    found = plan("delta_2_5", "delta_7_7_0", write_ids="9:9223372036854775807::4,7")
    assert deleted(found) == ["delta_7_7_0"]
    assert found.abort_records_removable_up_to == 3
    compacted = plan("delta_2_5", "delta_2_9_v20", write_ids="9:9223372036854775807::4,7")
    assert deleted(compacted) == ["delta_2_5"]
    assert compacted.abort_records_removable_up_to == 9


def test_rows_of_an_open_writer_are_remembered() -> None:
    """It may be aborted before the records of the aborted are dropped."""
    found = plan("delta_2_2_0", "delta_3_3_0", write_ids="9:3:3:2", aborted_only=True)
    assert deleted(found) == ["delta_2_2_0"]
    assert found.abort_records_removable_up_to == 2


def test_aborted_rows_in_a_streamed_delta_that_ends_above_the_watermark_are_remembered() -> None:
    found = plan("delta_4_7", "delta_1_1_0", write_ids="7:6:6,7:4", top=5)
    assert deleted(found) == []
    assert found.abort_records_removable_up_to == 3


def test_open_writers_are_left_alone() -> None:
    found = plan("base_9", "delta_8_8_0", "delta_3_4", write_ids="9:4:4:", top=9)
    assert deleted(found) == ["delta_8_8_0"]


def test_aborted_only_leaves_obsolete_directories_alone() -> None:
    """C13, HIVE-25502."""
    found = plan(
        "delta_1_1_0",
        "base_5/_metadata_acid",
        "delta_6_6_0",
        write_ids="9:9223372036854775807::6",
        aborted_only=True,
    )
    assert deleted(found) == ["delta_6_6_0"]
    assert found.history_from is None


def test_originals_go_with_the_first_base() -> None:
    found = plan("HIVE_UNION_SUBDIR_1/000000_0", "base_5/_metadata_acid")
    assert deleted(found) == ["HIVE_UNION_SUBDIR_1"]


def test_foreign_and_hidden_entries_stay() -> None:
    assert deleted(plan("base_9_v20", "p=1/delta_1_1_0/bucket_00000", "_tmp/x", ".hive-staging/x")) == []


def test_open_transactions_hold_back_cleanings_of_later_compactions() -> None:
    def job(number: int, next_txn_id: int | None, state: str = "ready for cleaning") -> Compaction:
        request = CompactionRequest(TableName("d", "t"), None, "major")
        return Compaction(
            number, request, state, next_txn_id=None if next_txn_id is None else TxnId(next_txn_id)
        )

    jobs = [job(1, 10), job(2, 20), job(3, None), job(4, 99, "succeeded")]
    assert held_back_cleanings([5, 10, 19, 20], jobs) == {5: (1, 2), 10: (2,), 19: (2,)}
